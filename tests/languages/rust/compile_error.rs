fn main() {
    let moved = String::from("text");
    let other = moved;
    println!("{moved} {other}");
}
