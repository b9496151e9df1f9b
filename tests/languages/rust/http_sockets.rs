use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;

fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut buffer = [0; 1024];
        let n = peer.read(&mut buffer).unwrap();
        let path = String::from_utf8_lossy(&buffer[..n]).split(' ').nth(1).unwrap().to_string();
        write!(peer, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{}", path.len(), path).unwrap();
    });
    let mut client = TcpStream::connect(address)?;
    write!(client, "GET /hello HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    server.join().unwrap();
    println!("{:?}", answer.lines().last());
    let (mut left, mut right) = UnixStream::pair()?;
    left.write_all("grüße".as_bytes())?;
    drop(left);
    let mut text = String::new();
    right.read_to_string(&mut text)?;
    println!("{text}");
    Ok(())
}
