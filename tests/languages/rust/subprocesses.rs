use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

fn main() {
    let mut sort = Command::new("sort").arg("-rn").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    sort.stdin.take().unwrap().write_all(b"3\n10\n2\n").unwrap();
    println!("{:?}", String::from_utf8(sort.wait_with_output().unwrap().stdout).unwrap());
    println!("{:?}", Command::new("sh").args(["-c", "exit 7"]).status().unwrap().code());
    let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
    sleep.kill().unwrap();
    println!("{:?}", sleep.wait().unwrap().signal());
}
