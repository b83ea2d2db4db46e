// Two busy loops: a writer that wakes itself whenever its sink is full; a select! on a channel whose senders are gone.
use std::{
    future::poll_fn,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    task::Poll,
    time::Duration,
};
use tokio::sync::mpsc;
async fn drain(ready: Arc<AtomicBool>) {
    loop {
        poll_fn(|cx| {
            if ready.swap(false, Ordering::SeqCst) {
                Poll::Ready(())
            } else {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }
}
async fn dispatcher(mut rx: mpsc::Receiver<u32>) {
    let mut t = tokio::time::interval(Duration::from_secs(1));
    let mut n = 0u64;
    loop {
        tokio::select! { m = rx.recv() => { if let Some(m) = m { n += m as u64; } } _ = t.tick() => { std::hint::black_box(n); } }
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let ready = Arc::new(AtomicBool::new(false));
    if std::env::args().nth(2).as_deref() != Some("closed") {
        tokio::spawn(drain(ready.clone()));
    } else {
        let (tx, rx) = mpsc::channel(4);
        drop(tx);
        tokio::spawn(dispatcher(rx));
    }
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ready.store(true, Ordering::SeqCst);
    }
}
