// Cancelled halfway: timeout drops a lock's queue place again and again; nobody ever gets the lock in time.
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;
async fn slow_owner(m: Arc<Mutex<u32>>) {
    loop {
        let _g = m.lock().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
async fn try_update(m: Arc<Mutex<u32>>) {
    loop {
        if let Ok(mut g) = tokio::time::timeout(Duration::from_millis(50), m.lock()).await {
            *g += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let m = Arc::new(Mutex::new(0));
    tokio::spawn(slow_owner(m.clone()));
    for _ in 0..10 {
        tokio::spawn(try_update(m.clone()));
    }
    std::future::pending::<()>().await
}
