//! An echo server: `echo_server [PORT]`. Prints "listening ADDRESS"; answers each message (up to a
//! newline) with itself; when its stdin ends it stops and prints how many it answered. With
//! ECHO_WORK_NS each answer takes so much more of the processor.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

static REQUESTS: AtomicU64 = AtomicU64::new(0);

fn work(turns: u64) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

/// Turns of work() that take `ECHO_WORK_NS`.
fn turns() -> u64 {
    const TRIAL: u64 = 20_000_000;
    let Ok(ns) = std::env::var("ECHO_WORK_NS") else { return 0 };
    let begin = std::time::Instant::now();
    work(TRIAL);
    ns.parse::<u64>().expect("ECHO_WORK_NS") * TRIAL / begin.elapsed().as_nanos() as u64
}

async fn serve(stream: TcpStream, turns: u64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut message = Vec::new();
    loop {
        message.clear();
        if read.read_until(b'\n', &mut message).await? == 0 {
            return Ok(());
        }
        work(turns);
        write.write_all(&message).await?;
        REQUESTS.fetch_add(1, Relaxed);
    }
}

async fn accept(listener: TcpListener) {
    let turns = turns();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, turns));
            }
            // out of descriptors, or a connection that went away before it was taken
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// All of it, on the runtime that `build` makes: ../../../../bench/targets builds it with recorders inside.
pub fn run(build: impl Fn(Builder) -> Runtime) {
    let port: u16 = std::env::args().nth(1).map_or(0, |arg| arg.parse().expect("PORT"));
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    let rt = build(builder);
    let listener = rt.block_on(TcpListener::bind(("127.0.0.1", port))).expect("bind");
    println!("listening {}", listener.local_addr().expect("address"));
    std::io::stdout().flush().expect("stdout");
    rt.spawn(accept(listener));
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).expect("stdin") > 0 {
        line.clear();
    }
    drop(rt);
    println!("answered {}", REQUESTS.load(Relaxed));
}

fn main() {
    run(|mut builder| builder.build().expect("runtime"));
}
