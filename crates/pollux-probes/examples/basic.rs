//! A task that spawns tasks that sleep, for some seconds, to try tracers on:
//!
//!     RUSTFLAGS="--cfg tokio_unstable" cargo run --release --example basic [SECONDS]

use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::time::sleep;

async fn spawner(until: Instant) -> u64 {
    let mut spawned = 0;
    while Instant::now() < until {
        tokio::spawn(async { sleep(Duration::from_millis(20)).await });
        tokio::spawn(async {
            for _ in 0..3 {
                std::thread::sleep(Duration::from_micros(200));
                tokio::task::yield_now().await;
            }
        });
        spawned += 2;
        sleep(Duration::from_millis(10)).await;
    }
    spawned
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |n| n.parse())?;
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    pollux_probes::register_hooks(&mut builder)?;
    let runtime = builder.build()?;
    println!("process {}", std::process::id());
    let until = Instant::now() + Duration::from_secs(seconds);
    let spawned = runtime.block_on(async move { tokio::spawn(spawner(until)).await })?;
    println!("{spawned} tasks");
    Ok(())
}
