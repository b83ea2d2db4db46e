// One of three calls never gets its answer: its sender stays in the map.
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::oneshot;
type Open = Arc<Mutex<HashMap<u64, oneshot::Sender<u32>>>>;
async fn rpc_call(open: Open, n: u64) -> u32 {
    let (tx, rx) = oneshot::channel();
    open.lock().unwrap().insert(n, tx);
    rx.await.unwrap_or(0)
}
async fn answer(open: Open) {
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let mut open = open.lock().unwrap();
        let known: Vec<u64> = open.keys().copied().filter(|n| n % 3 != 0).collect();
        for n in known {
            let _ = open.remove(&n).unwrap().send(1);
        }
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let open = Open::default();
    tokio::spawn(answer(open.clone()));
    for n in 0.. {
        tokio::spawn(rpc_call(open.clone(), n));
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}
