use std::io::BufRead;

fn main() {
    println!("{:?} {:?}", std::env::args().skip(1).collect::<Vec<_>>(), std::env::var("GREETING"));
    let sum: i64 = std::io::stdin().lock().lines().filter_map(|l| l.unwrap().trim().parse::<i64>().ok()).sum();
    println!("{sum}");
    std::process::exit(4);
}
