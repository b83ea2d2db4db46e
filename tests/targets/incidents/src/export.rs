// A report reads the table while it sends to a slow client; a writer is next, and behind it all that read.
use std::{sync::Arc, time::Duration};
use tokio::{sync::RwLock, time::sleep};
async fn export(table: Arc<RwLock<u64>>) {
    loop {
        let rows = table.read().await;
        sleep(Duration::from_millis(400)).await;
        drop(rows);
        sleep(Duration::from_millis(50)).await;
    }
}
async fn refresh(table: Arc<RwLock<u64>>) {
    loop {
        sleep(Duration::from_millis(20)).await;
        *table.write().await += 1;
    }
}
async fn lookup(table: Arc<RwLock<u64>>) {
    loop {
        std::hint::black_box(*table.read().await);
        sleep(Duration::from_millis(10)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let table = Arc::new(RwLock::new(0));
    tokio::spawn(export(table.clone()));
    tokio::spawn(refresh(table.clone()));
    for _ in 0..8 {
        tokio::spawn(lookup(table.clone()));
    }
    std::future::pending::<()>().await
}
