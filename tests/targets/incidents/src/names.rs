// Names are resolved by getaddrinfo in the blocking pool, which takes long: a file is read late.
use std::time::Duration;
fn getaddrinfo(_name: &str) {
    // As with a name server that does not answer.
    std::thread::sleep(Duration::from_millis(1000));
}
async fn fetch(n: u32) {
    tokio::task::spawn_blocking(move || getaddrinfo(&format!("svc{n}.internal.test"))).await.unwrap();
}
async fn read_config() {
    let _ = tokio::fs::read("/etc/hostname").await;
}
pub fn main() {
    let rt = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(32)
        .enable_all()
        .build()
        .unwrap();
    rt.block_on(async {
        for n in 0.. {
            for k in 0..4 {
                tokio::spawn(fetch(n * 4 + k));
            }
            if n % 10 == 0 {
                tokio::spawn(read_config());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}
