// A decoder hands its result to a peer through a channel, then goes on computing: the peer sits in the LIFO slot.
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
#[inline(never)]
fn checksum(ms: u64) {
    let t = Instant::now();
    while t.elapsed() < Duration::from_millis(ms) {
        std::hint::black_box(t);
    }
}
async fn decoder(tx: mpsc::Sender<Instant>) {
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        tx.send(Instant::now()).await.unwrap();
        checksum(150);
    }
}
async fn publisher(mut rx: mpsc::Receiver<Instant>) {
    while let Some(t) = rx.recv().await {
        std::hint::black_box(t.elapsed());
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn main() {
    let (tx, rx) = mpsc::channel(16);
    tokio::spawn(publisher(rx));
    tokio::spawn(decoder(tx)).await.unwrap();
}
