fn main() {
    let unused = 1;
    println!("runs all the same");
}
