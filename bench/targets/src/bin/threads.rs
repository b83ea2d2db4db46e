//! Many threads: `threads N`. N workers and as many tasks that sleep a millisecond without end; prints
//! "ready PID" when all of them run, ends with a line on its stdin.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

async fn busy(all: Arc<Barrier>) {
    all.wait().await;
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn main() {
    let n: usize = std::env::args().nth(1).map_or(100, |arg| arg.parse().expect("N"));
    let rt = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(n)
        .enable_all()
        .build()
        .expect("runtime");
    let all = Arc::new(Barrier::new(n + 1));
    for _ in 0..n {
        rt.spawn(busy(all.clone()));
    }
    rt.block_on(all.wait());
    println!("ready {}", std::process::id());
    std::io::stdout().flush().expect("stdout");
    std::io::stdin().read_line(&mut String::new()).expect("stdin");
    rt.shutdown_background();
}
