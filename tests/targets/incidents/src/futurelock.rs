// A pinned future waits for a lock in a select!; the other branch wins, and its body wants the same lock.
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;
async fn save(db: Arc<Mutex<u32>>, who: u32) {
    let mut g = db.lock().await;
    *g += who;
    tokio::time::sleep(Duration::from_millis(5)).await;
}
async fn warm_up(db: Arc<Mutex<u32>>) {
    let _g = db.lock().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
}
async fn saga(db: Arc<Mutex<u32>>) {
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut first = Box::pin(save(db.clone(), 1));
    tokio::select! {
        _ = &mut first => {}
        _ = tokio::time::sleep(Duration::from_millis(300)) => { save(db, 2).await; }
    }
}
async fn request(db: Arc<Mutex<u32>>, n: u32) {
    save(db, n).await;
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let db = Arc::new(Mutex::new(0));
    tokio::spawn(warm_up(db.clone()));
    tokio::spawn(saga(db.clone()));
    for n in 0.. {
        tokio::spawn(request(db.clone(), n));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
