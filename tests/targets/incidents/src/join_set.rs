// Finished tasks stay in a JoinSet that nobody asks for results.
use std::time::Duration;
use tokio::task::JoinSet;
async fn serve_rpc(n: u32) -> Vec<u8> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    vec![n as u8; 16 * 1024]
}
async fn listen() {
    let mut set = JoinSet::new();
    for n in 0.. {
        set.spawn(serve_rpc(n));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    tokio::spawn(listen()).await.unwrap();
}
