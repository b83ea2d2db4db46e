// An always ready stream that knows no budget, stopped by a tokio timer: once the budget is used up the timer is never ready within this poll.
use futures::{stream, StreamExt};
use std::time::Duration;
async fn count_events() {
    let mut n = 0u64;
    let stop = Box::pin(tokio::time::sleep(Duration::from_secs(1)));
    let mut s = stream::repeat(1u64).take_until(stop);
    let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
    while let Some(x) = s.next().await {
        let _ = tx.send(x);
        if let Ok(y) = rx.try_recv() {
            n = n.wrapping_add(std::hint::black_box(y));
        }
    }
    std::hint::black_box(n);
}
async fn ping() {
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    tokio::spawn(ping());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    tokio::spawn(count_events()).await.unwrap();
    eprintln!("counted");
    std::future::pending::<()>().await
}
