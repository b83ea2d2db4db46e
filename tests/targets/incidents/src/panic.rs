// A background flusher panics once and is gone; the panic hook is silent, the handle was dropped.
use std::time::Duration;
use tokio::sync::mpsc;
async fn flush_metrics(mut rx: mpsc::Receiver<i32>) {
    let mut sum = 0i32;
    while let Some(x) = rx.recv().await {
        sum += 100 / x;
    }
    std::hint::black_box(sum);
}
async fn feed(tx: mpsc::Sender<i32>) {
    for n in (0..200).rev() {
        if tx.send(n).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let (tx, rx) = mpsc::channel(8);
    tokio::spawn(flush_metrics(rx));
    tokio::spawn(feed(tx));
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
