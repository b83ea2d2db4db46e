// Requests on 4 workers; each tenth one does something synchronous that takes 120 ms.
use std::{thread, time::Duration};
async fn render_page(n: u64) {
    tokio::time::sleep(Duration::from_millis(2)).await;
    if n % 10 == 0 {
        read_template();
    }
}
#[inline(never)]
fn read_template() {
    thread::sleep(Duration::from_millis(120));
}
async fn heartbeat() {
    let mut t = tokio::time::interval(Duration::from_millis(10));
    loop {
        t.tick().await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    tokio::spawn(heartbeat());
    for n in 0.. {
        tokio::spawn(render_page(n));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
