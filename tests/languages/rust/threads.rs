use std::sync::{atomic::{AtomicU32, Ordering}, mpsc, Arc, Mutex};
use std::thread;

fn main() {
    let (total, atomic) = (Arc::new(Mutex::new(0)), Arc::new(AtomicU32::new(0)));
    let threads: Vec<_> = (0..16).map(|_| {
        let (total, atomic) = (total.clone(), atomic.clone());
        thread::spawn(move || for _ in 0..1000 { *total.lock().unwrap() += 1; atomic.fetch_add(1, Ordering::Relaxed); })
    }).collect();
    for t in threads { t.join().unwrap(); }
    println!("{} {}", total.lock().unwrap(), atomic.load(Ordering::SeqCst));
    let (send, receive) = mpsc::channel();
    for i in 0..4 { let send = send.clone(); thread::spawn(move || send.send(i * i).unwrap()); }
    drop(send);
    println!("{}", receive.iter().sum::<i32>());
    println!("{}", thread::spawn(|| { if std::env::args().count() > 0 { panic!("in a thread"); } }).join().is_err());
}
