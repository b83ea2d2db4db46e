// Each query is aborted by a timeout that is shorter than what it takes: none is ever answered.
use std::time::Duration;
use tokio::time::{sleep, timeout};
async fn query() -> u64 {
    sleep(Duration::from_millis(200)).await;
    1
}
async fn client() {
    loop {
        let mut running = tokio::spawn(query());
        if timeout(Duration::from_millis(30), &mut running).await.is_err() {
            running.abort();
        }
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    for _ in 0..5 {
        tokio::spawn(client());
    }
    std::future::pending::<()>().await
}
