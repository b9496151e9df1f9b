#[inline(never)]
fn depth(n: u64, above: &mut [u64; 8]) -> u64 {
    let mut here = [n; 8];
    if n == 0 { above[0] } else { above[n as usize % 8] = n; 1 + depth(n - 1, &mut here) - here[0].min(0) }
}
fn main() {
    println!("{}", depth(10000, &mut [0; 8]));
    println!("{}", std::thread::Builder::new().stack_size(128 << 20).spawn(|| depth(200000, &mut [0; 8])).unwrap().join().unwrap());
}
