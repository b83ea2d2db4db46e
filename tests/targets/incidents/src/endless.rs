// A stream that has ended is asked again and again.
use futures::StreamExt;
use std::time::Duration;
async fn consume(mut rx: futures::channel::mpsc::Receiver<u32>) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! { m = rx.next() => { if let Some(m) = m { eprintln!("{m}"); } } _ = tick.tick() => {} }
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let (tx, rx) = futures::channel::mpsc::channel(1);
    drop(tx);
    tokio::spawn(consume(rx)).await.unwrap();
}
