//! Customers of the shop: `customers ADDRESS CONNECTIONS SECONDS`. Each connection sends a
//! request, waits for the answer, rests a little, and comes back on a new connection after a while.
//! Prints how many requests were answered and how long that took.

use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

async fn customer(address: String, number: u64, end: Instant) -> std::io::Result<Vec<Duration>> {
    let mut times = Vec::new();
    let mut step = number;
    while Instant::now() < end {
        let stream = TcpStream::connect(&address).await?;
        stream.set_nodelay(true)?;
        let (reader, mut writer) = stream.into_split();
        let mut answers = BufReader::new(reader).lines();
        for _ in 0..50 {
            step = step
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let verb = match step >> 60 {
                0..=10 => "price",
                11..=13 => "buy",
                _ => "receipt",
            };
            let start = Instant::now();
            writer
                .write_all(format!("{verb} item-{}\n", (step >> 40) % 50).as_bytes())
                .await?;
            if answers.next_line().await?.is_none() {
                break;
            }
            times.push(start.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
            if Instant::now() >= end {
                break;
            }
        }
    }
    Ok(times)
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if args.len() != 4 {
        eprintln!("usage: customers ADDRESS CONNECTIONS SECONDS");
        std::process::exit(2);
    }
    let connections: u64 = args[2].parse().expect("a number of connections");
    let end = Instant::now() + Duration::from_secs(args[3].parse().expect("a number of seconds"));

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut times = runtime.block_on(async {
        let customers: Vec<_> = (1..=connections)
            .map(|number| tokio::spawn(customer(args[1].clone(), number, end)))
            .collect();
        let mut all = Vec::new();
        for customer in customers {
            all.extend(customer.await.expect("a customer panicked")?);
        }
        Ok::<_, std::io::Error>(all)
    })?;
    times.sort();
    if times.is_empty() {
        eprintln!("no request was answered");
        std::process::exit(1);
    }
    let at = |q: f64| times[((times.len() - 1) as f64 * q) as usize];
    println!(
        "{} requests: median {:.1?}, 99 % within {:.1?}, longest {:.1?}",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    Ok(())
}
