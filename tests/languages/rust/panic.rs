fn inner(values: &[i32], i: usize) -> i32 {
    values[i]
}

fn main() {
    println!("before");
    println!("{}", inner(&[1, 2, 3], std::env::args().count() + 2));
}
