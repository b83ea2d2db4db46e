// Readers that keep an RwLock for long: the one who writes it waits for all of them.
use std::{sync::Arc, time::Duration};
use tokio::{sync::RwLock, time::sleep};
async fn scan_table(table: Arc<RwLock<u32>>) {
    loop {
        let rows = table.read().await;
        sleep(Duration::from_millis(400)).await;
        std::hint::black_box(*rows);
        drop(rows);
        sleep(Duration::from_millis(1)).await;
    }
}
async fn apply_update(table: Arc<RwLock<u32>>) {
    loop {
        *table.write().await += 1;
        sleep(Duration::from_millis(20)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let table = Arc::new(RwLock::new(0));
    for _ in 0..8 {
        tokio::spawn(scan_table(table.clone()));
        sleep(Duration::from_millis(40)).await;
    }
    tokio::spawn(apply_update(table)).await.unwrap();
}
