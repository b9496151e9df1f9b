fn main() {
    let s = "Straße 日本 👩";
    println!("{} {} {}", s.len(), s.chars().count(), s.to_uppercase());
    println!("{:?}", s.char_indices().filter(|(_, c)| !c.is_ascii()).collect::<Vec<_>>());
    println!("{}", s.chars().rev().collect::<String>());
    println!("{:?}", String::from_utf8(vec![0xff, 0x41]).is_err());
    println!("{:>8}|{:<8}|{:^8}|{:+.2e}", "日", "ä", "x", 12345.678);
}
