// Blocking closures wait for an answer that itself needs a thread of the same full pool.
use std::{sync::mpsc, time::Duration};
fn scan_file(h: tokio::runtime::Handle) -> u32 {
    let (tx, rx) = mpsc::channel();
    h.spawn(async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let _ = tokio::task::spawn_blocking(move || tx.send(1)).await;
    });
    rx.recv().unwrap()
}
async fn plan(n: u32) {
    let h = tokio::runtime::Handle::current();
    let _ = n;
    tokio::task::spawn_blocking(move || scan_file(h))
        .await
        .unwrap();
}
pub fn main() {
    let rt = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(8)
        .enable_all()
        .build()
        .unwrap();
    rt.block_on(async {
        for n in 0.. {
            tokio::spawn(plan(n));
            tokio::time::sleep(Duration::from_millis(if n < 40 { 30 } else { 1 })).await;
            if n == 60 {
                break;
            }
        }
        std::future::pending::<()>().await
    });
}
