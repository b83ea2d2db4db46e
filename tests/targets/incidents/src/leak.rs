// Each request leaves a watcher behind that waits for a shutdown signal nobody sends.
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;
async fn watch_session(stop: Arc<Notify>, buf: Vec<u8>) {
    stop.notified().await;
    drop(buf);
}
async fn handle(stop: Arc<Notify>) {
    tokio::spawn(watch_session(stop, vec![1; 4096]));
    tokio::time::sleep(Duration::from_millis(5)).await;
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let stop = Arc::new(Notify::new());
    loop {
        tokio::spawn(handle(stop.clone()));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
