// An actor asks itself over its own mailbox, and waits for the answer.
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
type Mail = (u32, oneshot::Sender<u32>);
async fn ask(tx: &mpsc::Sender<Mail>, n: u32) -> u32 {
    let (a, b) = oneshot::channel();
    tx.send((n, a)).await.unwrap();
    b.await.unwrap()
}
async fn actor(mut rx: mpsc::Receiver<Mail>, me: mpsc::Sender<Mail>) {
    while let Some((n, reply)) = rx.recv().await {
        let x = if n == 5 { ask(&me, 1).await } else { n };
        let _ = reply.send(x);
    }
}
async fn client(tx: mpsc::Sender<Mail>) {
    for n in 0..100 {
        ask(&tx, n % 10).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let (tx, rx) = mpsc::channel(8);
    tokio::spawn(actor(rx, tx.clone()));
    for _ in 0..5 {
        tokio::spawn(client(tx.clone()));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
