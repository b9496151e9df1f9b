fn main() {
    let mut block = vec![1u8; 300 << 20];
    for i in (0..block.len()).step_by(4096) { block[i] = (i >> 12) as u8; }
    println!("{} {}", block.len() >> 20, block.iter().step_by(1 << 20).map(|&b| b as u64).sum::<u64>());
}
