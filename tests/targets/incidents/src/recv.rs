// In a current_thread runtime a task waits in std's recv() for what another task of that thread should send.
use std::{sync::mpsc, time::Duration};
async fn ticker() {
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
fn add_job_sync() -> u32 {
    let (tx, rx) = mpsc::channel();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        tx.send(3).unwrap();
    });
    rx.recv().unwrap()
}
async fn scheduler() {
    tokio::time::sleep(Duration::from_millis(1500)).await;
    std::hint::black_box(add_job_sync());
}
#[tokio::main(flavor = "current_thread")]
pub async fn main() {
    tokio::spawn(ticker());
    tokio::spawn(scheduler()).await.unwrap();
}
