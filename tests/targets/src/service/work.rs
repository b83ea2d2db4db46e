//! What the handlers of all services do, each another thing that keeps a request.
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, Mutex, Semaphore};

pub const ORDERS: usize = 2; // wait in the channel at most

#[derive(Clone)]
pub struct Shop {
    pub stock: Arc<Mutex<u64>>,
    pub orders: mpsc::Sender<u64>,
    pub pool: Arc<Semaphore>,
}

impl Shop {
    /// With the task that takes orders, slowly.
    pub fn open() -> (Shop, impl std::future::Future<Output = ()>) {
        let (orders, taken) = mpsc::channel(ORDERS);
        let shop = Shop { stock: Arc::default(), orders, pool: Arc::new(Semaphore::new(2)) };
        (shop, mailer(taken))
    }
}

async fn mailer(mut orders: mpsc::Receiver<u64>) {
    while orders.recv().await.is_some() {
        pause(2).await;
    }
}

pub async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Keeps the worker.
pub fn block() -> String {
    std::thread::sleep(Duration::from_millis(2));
    "blocked".into()
}

/// Holds the lock over an await.
pub async fn take_item(stock: &Mutex<u64>) -> String {
    let mut stock = stock.lock().await;
    *stock += 1;
    pause(1).await;
    stock.to_string()
}

pub async fn read_file() -> String {
    let text = tokio::fs::read("/proc/self/cmdline").await.expect("a file");
    text.len().to_string()
}

/// Waits for one of two permits.
pub async fn query(pool: &Semaphore) -> String {
    let _permit = pool.acquire().await.expect("a permit");
    pause(2).await;
    "queried".into()
}
