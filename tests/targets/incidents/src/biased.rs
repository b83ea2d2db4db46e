// A biased select! whose first branch is always ready starves the second one.
use std::time::Duration;
use tokio::sync::mpsc;
async fn feed(tx: mpsc::Sender<u64>) {
    for n in 0.. {
        if tx.send(n).await.is_err() {
            return;
        }
    }
}
async fn control(tx: mpsc::Sender<&'static str>) {
    loop {
        if tx.send("reload").await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
async fn actor(mut work: mpsc::Receiver<u64>, mut orders: mpsc::Receiver<&'static str>) {
    let mut sum = 0u64;
    loop {
        tokio::select! {
            biased;
            Some(n) = work.recv() => { for i in 0..20_000u64 { sum = std::hint::black_box(sum.wrapping_mul(31) + n * i); } }
            Some(o) = orders.recv() => { eprintln!("{o}"); }
        }
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let (tx, rx) = mpsc::channel(1024);
    let (ctx, crx) = mpsc::channel(8);
    for _ in 0..2 {
        tokio::spawn(feed(tx.clone()));
    }
    for _ in 0..6 {
        tokio::spawn(control(ctx.clone()));
    }
    tokio::spawn(actor(rx, crx)).await.unwrap();
}
