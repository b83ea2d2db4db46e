// A std mutex is held in spawn_blocking during a Handle::block_on of a timer; a task locks it now and then.
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
async fn flusher(state: Arc<Mutex<u64>>) {
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        *state.lock().unwrap() += 1;
    }
}
fn compactor(state: Arc<Mutex<u64>>) {
    loop {
        let mut g = state.lock().unwrap();
        tokio::runtime::Handle::current().block_on(tokio::time::sleep(Duration::from_millis(20)));
        *g += 1;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let s = Arc::new(Mutex::new(0));
    let a = tokio::spawn(flusher(s.clone()));
    let b = tokio::task::spawn_blocking(move || compactor(s));
    a.await.unwrap();
    b.await.unwrap();
}
