use std::collections::{BTreeMap, BinaryHeap};
use std::cmp::Reverse;

trait Area { fn area(&self) -> f64; }
struct Square(f64);
struct Circle { radius: f64 }
impl Area for Square { fn area(&self) -> f64 { self.0 * self.0 } }
impl Area for Circle { fn area(&self) -> f64 { std::f64::consts::PI * self.radius.powi(2) } }

fn dijkstra(graph: &BTreeMap<&str, Vec<(&'static str, u32)>>, start: &'static str) -> BTreeMap<&'static str, u32> {
    let mut distance = BTreeMap::from([(start, 0)]);
    let mut queue = BinaryHeap::from([Reverse((0, start))]);
    while let Some(Reverse((cost, node))) = queue.pop() {
        for &(next, weight) in &graph[node] {
            if distance.get(next).map_or(true, |&d| cost + weight < d) {
                distance.insert(next, cost + weight);
                queue.push(Reverse((cost + weight, next)));
            }
        }
    }
    distance
}

fn main() {
    let graph = BTreeMap::from([("a", vec![("b", 7), ("c", 3)]), ("b", vec![("d", 2)]), ("c", vec![("b", 1), ("d", 8)]), ("d", vec![])]);
    println!("{:?}", dijkstra(&graph, "a"));
    let shapes: Vec<Box<dyn Area>> = vec![Box::new(Square(2.0)), Box::new(Circle { radius: 1.0 })];
    println!("{:.3}", shapes.iter().map(|s| s.area()).sum::<f64>());
    let primes: Vec<u32> = (2..60).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
    println!("{primes:?} {}", 2u128.pow(120));
}
