// The same loss of data by select!, with futures that have poll functions of their own: a message is taken, then its handling is dropped.
use std::{future::Future, pin::Pin, time::Duration};
use tokio::sync::mpsc;
type Fut<'a> = Pin<Box<dyn Future<Output = u32> + Send + 'a>>;
fn next_order<'a>(rx: &'a mut mpsc::Receiver<u32>) -> Fut<'a> {
    Box::pin(take_and_enrich(rx))
}
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
static MADE: AtomicU32 = AtomicU32::new(0);
static TAKEN: AtomicU32 = AtomicU32::new(0);
static DROPPED: AtomicU32 = AtomicU32::new(0);
struct D(bool);
impl Drop for D {
    fn drop(&mut self) {
        if !self.0 {
            DROPPED.fetch_add(1, Relaxed);
        }
    }
}
async fn take_and_enrich(rx: &mut mpsc::Receiver<u32>) -> u32 {
    MADE.fetch_add(1, Relaxed);
    let mut d = D(false);
    let x = rx.recv().await.unwrap();
    TAKEN.fetch_add(1, Relaxed);
    tokio::time::sleep(Duration::from_millis(20)).await;
    d.0 = true;
    x
}
async fn desk(mut rx: mpsc::Receiver<u32>) {
    let mut tick = tokio::time::interval(Duration::from_millis(30));
    let mut done = 0u32;
    loop {
        tokio::select! { x = next_order(&mut rx) => { done += 1; if done % 20 == 0 { eprintln!("handled {done}, last {x}; made {} taken {} dropped unfinished {}", MADE.load(Relaxed), TAKEN.load(Relaxed), DROPPED.load(Relaxed)); } } _ = tick.tick() => {} }
    }
}
async fn sales(tx: mpsc::Sender<u32>) {
    for n in 0.. {
        tx.send(n).await.unwrap();
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let (tx, rx) = mpsc::channel(64);
    tokio::spawn(sales(tx));
    let d = tokio::spawn(desk(rx));
    let _ = tokio::time::timeout(Duration::from_secs(4), d).await;
    eprintln!(
        "END made {} taken {} dropped unfinished {}",
        MADE.load(Relaxed),
        TAKEN.load(Relaxed),
        DROPPED.load(Relaxed)
    );
    std::process::exit(0)
}
