// Arithmetic that overflows is found out, as in a debug build.
fn main() {
    let n: i32 = std::env::args().count() as i32;
    println!("{}", (i32::MAX - 1) + n);
    println!("{}", i32::MAX + n);
}
