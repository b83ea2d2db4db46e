// A bounded channel is full all the time, since its consumer is slow: requests wait in send().
use std::time::Duration;
use tokio::sync::mpsc;
async fn store(_: u64) {
    tokio::time::sleep(Duration::from_millis(12)).await
}
async fn audit_writer(mut rx: mpsc::Receiver<u64>) {
    while let Some(n) = rx.recv().await {
        store(n).await;
    }
}
async fn handle(tx: mpsc::Sender<u64>, n: u64) {
    tokio::time::sleep(Duration::from_millis(2)).await;
    let _ = tx.send(n).await;
}
async fn client(tx: mpsc::Sender<u64>, n: u64) {
    loop {
        let _ = tokio::spawn(handle(tx.clone(), n)).await;
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let (tx, rx) = mpsc::channel(16);
    tokio::spawn(audit_writer(rx));
    for n in 0..40 {
        tokio::spawn(client(tx.clone(), n));
    }
    std::future::pending::<()>().await
}
