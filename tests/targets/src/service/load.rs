//! The load of a service, and what the service counts: requests and latencies by route.
//!
//!     service                  works, prints the truth, ends
//!     service --wait           "ready PID", a line on stdin, works, prints the truth, another line
//!     service --rounds N       N requests to each route by each client (default 20)
//!
//! The clients are plain threads, so that all tasks of the process are the service's. The truth is the
//! last line: {"truth":"axum","routes":[{"name":"order","requests":80,"p50_us":…,"max_us":…}, …]};
//! latencies are those of the handlers, from their first line to their last.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub const CLIENTS: usize = 4;
pub const ROUTES: [&str; 6] = ["blocks", "item", "order", "file", "pool", "hello"];

static SEEN: Mutex<BTreeMap<&str, Vec<Duration>>> = Mutex::new(BTreeMap::new());

/// A request to `route` is handled as long as this lives.
pub struct Request(&'static str, Instant);

impl Request {
    pub fn to(route: &'static str) -> Request {
        Request(route, Instant::now())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        SEEN.lock().unwrap().entry(self.0).or_default().push(self.1.elapsed());
    }
}

fn argument(name: &str) -> Option<usize> {
    let args: Vec<String> = std::env::args().collect();
    let at = args.iter().position(|arg| arg == name)?;
    Some(args.get(at + 1).and_then(|n| n.parse().ok()).expect(name))
}

pub fn rounds() -> usize {
    argument("--rounds").unwrap_or(20)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("stdout");
}

fn wait() {
    if std::env::args().any(|arg| arg == "--wait") {
        std::io::stdin().lock().read_line(&mut String::new()).expect("stdin");
    }
}

/// The service listens: waits until it is to work.
pub fn ready() {
    if std::env::args().any(|arg| arg == "--wait") {
        say(&format!("ready {}", std::process::id()));
    }
    wait();
}

/// Tells what was counted, and waits until the process is to end.
pub fn done(name: &str) {
    let mut routes = Vec::new();
    for (route, all) in SEEN.lock().unwrap().iter_mut() {
        all.sort();
        let at = |part: usize| all[(all.len() * part / 100).min(all.len() - 1)].as_micros();
        let (p50, p99, max) = (at(50), at(99), at(100));
        routes.push(format!(
            "{{\"name\":\"{route}\",\"requests\":{},\"p50_us\":{p50},\"p99_us\":{p99},\"max_us\":{max}}}",
            all.len()
        ));
    }
    say(&format!("{{\"truth\":\"{name}\",\"routes\":[{}]}}", routes.join(",")));
    wait();
}

fn get(stream: &mut BufReader<TcpStream>, route: &str) {
    write!(stream.get_mut(), "GET /{route} HTTP/1.1\r\nhost: here\r\n\r\n").expect("request");
    let (mut length, mut line) = (0, String::new());
    stream.read_line(&mut line).expect("status");
    assert!(line.starts_with("HTTP/1.1 200"), "{route}: {line}");
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).expect("header");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("content-length");
        }
    }
    stream.read_exact(&mut vec![0; length]).expect("body");
}

/// Each client has a connection, and asks for each route in turn. Returns when all are answered.
pub fn run(to: SocketAddr) {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            std::thread::spawn(move || {
                let mut stream = BufReader::new(TcpStream::connect(to).expect("connect"));
                stream.get_ref().set_nodelay(true).expect("nodelay");
                for _ in 0..rounds() {
                    for route in ROUTES {
                        get(&mut stream, route);
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("client");
    }
}
