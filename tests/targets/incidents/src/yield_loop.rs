// A task that yields in a loop (yield_now), beside one that ticks.
use std::time::Duration;
async fn reconcile() {
    loop {
        tokio::task::yield_now().await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    tokio::spawn(reconcile());
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
