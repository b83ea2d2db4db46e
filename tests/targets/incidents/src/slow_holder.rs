// One of many holders keeps the tokio Mutex during a remote call.
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;
async fn remote_call() {
    tokio::time::sleep(Duration::from_millis(700)).await;
}
async fn sync_org(m: Arc<Mutex<u32>>) {
    loop {
        {
            let mut g = m.lock().await;
            remote_call().await;
            *g += 1;
        }
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
}
async fn share_doc(m: Arc<Mutex<u32>>) {
    *m.lock().await += 1;
}
async fn api(m: Arc<Mutex<u32>>) {
    loop {
        tokio::spawn(share_doc(m.clone()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let m = Arc::new(Mutex::new(0));
    tokio::spawn(sync_org(m.clone()));
    tokio::spawn(api(m)).await.unwrap();
}
