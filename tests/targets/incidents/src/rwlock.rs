// A reader takes the RwLock a second time while a writer queues between: all stand.
use std::{sync::Arc, time::Duration};
use tokio::sync::RwLock;
async fn lookup(cfg: Arc<RwLock<u32>>) -> u32 {
    *cfg.read().await
}
async fn report(cfg: Arc<RwLock<u32>>) {
    let g = cfg.read().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    std::hint::black_box(*g + lookup(cfg.clone()).await);
}
async fn reload(cfg: Arc<RwLock<u32>>) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    *cfg.write().await += 1;
}
async fn get(cfg: Arc<RwLock<u32>>) {
    lookup(cfg).await;
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let c = Arc::new(RwLock::new(0));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    tokio::spawn(report(c.clone()));
    tokio::spawn(reload(c.clone()));
    loop {
        tokio::spawn(get(c.clone()));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
