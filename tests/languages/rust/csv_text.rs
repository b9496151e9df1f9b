use std::collections::HashMap;

fn parse(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (vec![], String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => { cell.push('"'); chars.next(); }
            ('"', _) => quoted = !quoted,
            (',', false) => cells.push(std::mem::take(&mut cell)),
            _ => cell.push(c),
        }
    }
    cells.push(cell);
    cells
}

fn main() {
    let mut totals: HashMap<String, i64> = HashMap::new();
    for line in "\"Smith, J.\",3\n\"says \"\"hi\"\"\",4\n\"Smith, J.\",5".lines() {
        let cells = parse(line);
        *totals.entry(cells[0].clone()).or_default() += cells[1].parse::<i64>().unwrap();
    }
    let mut sorted: Vec<_> = totals.into_iter().collect();
    sorted.sort();
    println!("{sorted:?}");
    println!("{:?}", "12x".parse::<i32>().map_err(|e| e.to_string()));
}
