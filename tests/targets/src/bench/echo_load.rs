//! Load for echo_server: `echo_load ADDRESS [CONNECTIONS] [SECONDS] [BYTES]`. Each connection sends a
//! message, waits for its echo, compares it, and goes on. Prints one JSON line; exits with 1 if
//! any answer was lost or wrong.

use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Outcome {
    latencies_ns: Vec<u64>,
    errors: u64,
}

async fn talk(address: String, number: u64, bytes: usize, until: Instant) -> Outcome {
    let mut outcome = Outcome { latencies_ns: Vec::new(), errors: 0 };
    if let Err(error) = exchange(address, number, bytes, until, &mut outcome).await {
        eprintln!("connection {number}: {error}");
        outcome.errors += 1;
    }
    outcome
}

async fn exchange(
    address: String,
    number: u64,
    bytes: usize,
    until: Instant,
    outcome: &mut Outcome,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut answer = vec![0; bytes];
    for i in 0_u64.. {
        if Instant::now() >= until {
            break;
        }
        let mut message = format!("{number}:{i}:").into_bytes();
        message.resize(bytes - 1, b'x');
        message.push(b'\n');
        let begin = Instant::now();
        stream.write_all(&message).await?;
        stream.read_exact(&mut answer).await?;
        outcome.latencies_ns.push(begin.elapsed().as_nanos() as u64);
        outcome.errors += u64::from(answer != message);
    }
    Ok(())
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let address = args.get(1).expect("usage: echo_load ADDRESS [CONNECTIONS] [SECONDS] [BYTES]");
    let number = |i: usize, default: f64| args.get(i).map_or(default, |arg| arg.parse().unwrap());
    let (connections, bytes) = (number(2, 8.0) as u64, (number(4, 64.0) as usize).max(48));
    let seconds = Duration::from_secs_f64(number(3, 2.0));
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let begin = Instant::now();
    let tasks: Vec<_> = (0..connections)
        .map(|i| rt.spawn(talk(address.clone(), i, bytes, begin + seconds)))
        .collect();
    let (mut latencies_ns, mut errors) = (Vec::new(), 0);
    for task in tasks {
        let outcome = rt.block_on(task).expect("connection");
        latencies_ns.extend(outcome.latencies_ns);
        errors += outcome.errors;
    }
    let elapsed = begin.elapsed();
    latencies_ns.sort_unstable();
    let at = |part: f64| match latencies_ns.len() {
        0 => 0,
        n => latencies_ns[((n - 1) as f64 * part) as usize],
    };
    println!(
        "{{\"requests\":{},\"errors\":{errors},\"seconds\":{:.3},\"per_second\":{:.0},\
         \"p50_ns\":{},\"p99_ns\":{},\"max_ns\":{}}}",
        latencies_ns.len(),
        elapsed.as_secs_f64(),
        latencies_ns.len() as f64 / elapsed.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(1.0),
    );
    std::process::exit(i32::from(errors > 0 || latencies_ns.is_empty()));
}
