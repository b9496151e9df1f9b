#[inline(never)]
fn depth(n: u64) -> u64 { if n == 0 { 0 } else { 1 + std::hint::black_box(depth(n - 1)) } }
fn main() {
    println!("{}", depth(10000));
    println!("{}", std::thread::Builder::new().stack_size(64 << 20).spawn(|| depth(200000)).unwrap().join().unwrap());
}
