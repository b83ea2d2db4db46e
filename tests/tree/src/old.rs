//! Tasks at known places in what rustc 1.63 compiles: async fns are GenFuture wrappers there, and an
//! await point is where the awaited expression begins.
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::spawn;
use tokio::sync::{mpsc, Mutex};
use tokio::time::{sleep, timeout};

const DAYS: u64 = 3 * 86400;

// PART leaf
//   leaf @leaf
//     sleep
async fn leaf(s: u64) {
    sleep(Duration::from_secs(s)).await; // @leaf
}

// PART mid
//   mid @mid
//     *leaf
async fn mid(s: u64) -> u64 {
    let held = vec![s; 3];
    leaf(s).await; // @mid
    held[1] + 1
}

// TREE chain
//   chain @chain
//     *mid
async fn chain() {
    mid(DAYS).await; // @chain
}

// TREE join
//   join @join
//     join!
//       *mid
//       join [done]
//       *leaf
async fn join() {
    let (a, b, c) = tokio::join!(mid(DAYS), async { 7u8 }, leaf(DAYS)); // @join
    println!("{} {} {:?}", a, b, c);
}

// TREE select
//   select @select
//     select!
//       *mid
//       *leaf
async fn select() {
    tokio::select! { // @select
        _ = mid(DAYS) => {}
        _ = leaf(DAYS) => {}
    }
}

// TREE late
//   late @late
//     Timeout<..>
//       *mid
//       sleep
async fn late() {
    let _ = timeout(Duration::from_secs(DAYS), mid(DAYS)).await; // @late
}

fn recurse(n: u32) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        if n == 0 {
            leaf(DAYS).await // @recurse0
        } else {
            recurse(n - 1).await // @recurse
        }
    })
}

// TREE recursion
//   recursion @recursion
//     recurse @recurse ^3
//       recurse @recurse0
//         *leaf
async fn recursion() {
    recurse(3).await; // @recursion
}

// TREE lock_holder
//   lock_holder @lock_holder
//     *mid
async fn lock_holder(m: Arc<Mutex<u64>>) {
    let guard = m.lock().await;
    mid(DAYS + *guard).await; // @lock_holder
    drop(guard);
}

// TREE lock_waiter
//   lock_waiter @lock_waiter
//     Mutex::lock of lock_holder
async fn lock_waiter(m: Arc<Mutex<u64>>) {
    *m.lock().await += 1; // @lock_waiter
}

// TREE join_handle
//   join_handle @join_handle
//     join handle of chain
async fn join_handle() {
    let _ = spawn(chain()).await; // @join_handle
}

// TREE receive
//   receive @receive
//     mpsc receive
async fn receive(mut r: mpsc::Receiver<u64>) {
    r.recv().await; // @receive
}

fn main() {
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let rt = rt.unwrap();
    let (s, r) = mpsc::channel(1);
    let m = Arc::new(Mutex::new(0));
    rt.spawn(join());
    rt.spawn(select());
    rt.spawn(late());
    rt.spawn(recursion());
    rt.spawn(lock_holder(m.clone()));
    std::thread::sleep(Duration::from_millis(50));
    rt.spawn(lock_waiter(m));
    rt.spawn(join_handle());
    rt.spawn(receive(r));
    let handle = rt.handle().clone();
    std::thread::spawn(move || handle.block_on(in_block_on()));
    std::thread::sleep(Duration::from_millis(300));
    println!("ready {}", std::process::id());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    drop(s);
    std::process::exit(0);
}

// TREE in_block_on
//   in_block_on @in_block_on
//     *leaf
async fn in_block_on() {
    leaf(DAYS).await; // @in_block_on
}
