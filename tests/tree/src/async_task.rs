//! Tasks of smol and async-std that stand still at known places: see tokio.rs. The two differ in
//! what is imported as `rt`.
use crate::rt::{self, channel, mutex, sleep, spawn, timeout, Arc, Mutex, Receiver, TcpListener};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub const DAYS: u64 = 3 * 86400;

// PART leaf
//   leaf @leaf
//     *nap
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
//     recurse @recurse ^4
//       recurse @recurse0
//         *leaf
async fn recursion() {
    recurse(4).await; // @recursion
}

// TREE joined
//   joined @joined
//     *leaf
async fn joined() {
    leaf(DAYS).await; // @joined
}

// TREE join_task
//   join_task @join_task
//     task of joined
async fn join_task() {
    spawn(joined()).await; // @join_task
}

// TREE join
//   join @join
//     join!
//       *mid
//       join [done]
//       *leaf
async fn join() {
    let r = futures::join!(mid(DAYS), async { 7u8 }, leaf(DAYS)); // @join
    println!("{r:?}");
}

// TREE select
//   select @select
//     Select<..>
//       *mid
//       *leaf
async fn select() {
    futures::future::select(Box::pin(mid(DAYS)), Box::pin(leaf(DAYS))).await; // @select
}

// TREE late
//   late @late
//     *late_rt
async fn late() {
    timeout(Duration::from_secs(DAYS), mid(DAYS)).await; // @late
}

// TREE receive
//   receive @receive
//     channel receive
async fn receive(r: Receiver<u64>) {
    let _ = r.recv().await; // @receive
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

// TREE accept
//   accept @accept
//     socket readable
async fn accept(l: TcpListener) {
    let _ = l.accept().await; // @accept
}

pub fn main() {
    let (s, r) = channel(1);
    let m = mutex(0);
    rt::detach(chain());
    rt::detach(recursion());
    rt::detach(join_task());
    rt::detach(join());
    rt::detach(select());
    rt::detach(late());
    rt::detach(receive(r));
    rt::detach(lock_holder(m.clone()));
    std::thread::sleep(Duration::from_millis(50));
    rt::detach(lock_waiter(m));
    rt::detach(accept(rt::listen()));
    std::thread::sleep(Duration::from_millis(300));
    println!("ready {}", std::process::id());
    // Ends with its standard input, so that no test can leave one behind.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    drop(s);
    std::process::exit(0);
}
