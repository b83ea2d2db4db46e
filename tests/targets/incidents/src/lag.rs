// Broadcast lag: a slow subscriber loses messages (RecvError::Lagged).
use std::time::Duration;
use tokio::sync::broadcast;
async fn publish(tx: broadcast::Sender<u64>) {
    for n in 0.. {
        let _ = tx.send(n);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
async fn slow_subscriber(mut rx: broadcast::Receiver<u64>) {
    let mut lost = 0;
    loop {
        match rx.recv().await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(15)).await,
            Err(broadcast::error::RecvError::Lagged(n)) => {
                lost += n;
                if lost % 7 == 0 {
                    eprintln!("lost {lost}");
                }
            }
            Err(_) => return,
        }
    }
}
async fn quick_subscriber(mut rx: broadcast::Receiver<u64>) {
    while rx.recv().await.is_ok() {}
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let (tx, rx) = broadcast::channel(64);
    tokio::spawn(slow_subscriber(rx));
    for _ in 0..3 {
        tokio::spawn(quick_subscriber(tx.subscribe()));
    }
    tokio::spawn(publish(tx)).await.unwrap();
}
