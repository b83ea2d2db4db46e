//! Futures that a task has polled and then moved away or dropped: what it has left of them in its
//! memory is none of its futures any more. One task a way; what is said after a mark is true of it.
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::sleep;

const DAYS: Duration = Duration::from_secs(3 * 86400);

async fn work(n: u64) -> u64 {
    sleep(DAYS).await; // @work
    n
}

/// Polls it once.
async fn begin<F: Future + Unpin>(future: &mut F) {
    poll_fn(|cx| {
        assert!(Pin::new(&mut *future).poll(cx).is_pending());
        Poll::Ready(())
    })
    .await
}

async fn spawns_it() {
    let mut future = Box::pin(work(1));
    begin(&mut future).await;
    let handle = tokio::spawn(future);
    sleep(DAYS).await; // @spawns_it
    drop(handle);
}

async fn spawns_it_in_a_set() {
    let mut set = JoinSet::new();
    let mut future = Box::pin(work(2));
    begin(&mut future).await;
    set.spawn(future);
    set.join_next().await; // @spawns_it_in_a_set
}

type Boxed = Pin<Box<dyn Future<Output = u64> + Send>>;

async fn sends_it(to: UnboundedSender<Boxed>) {
    let mut future: Boxed = Box::pin(work(3));
    begin(&mut future).await;
    to.send(future).ok().unwrap();
    sleep(DAYS).await; // @sends_it
}

async fn passes_it_on() {
    let mut future = Box::pin(work(4));
    begin(&mut future).await;
    awaits(future).await; // @passes_it_on
}

async fn awaits(future: Pin<Box<impl Future<Output = u64>>>) {
    future.await; // @awaits
}

async fn drops_it() {
    let mut future = Box::pin(work(5));
    begin(&mut future).await;
    drop(future);
    sleep(DAYS).await; // @drops_it
}

async fn drops_a_dyn() {
    let mut future: Boxed = Box::pin(work(6));
    begin(&mut future).await;
    drop(future);
    sleep(DAYS).await; // @drops_a_dyn
}

/// Too large for the lists of a thread.
async fn large(n: u64) -> u64 {
    let held = std::hint::black_box([n; 1000]);
    sleep(DAYS).await; // @large
    held[7]
}

async fn drops_a_large_one() {
    let mut future = Box::pin(large(7));
    let behind = Box::new([1u8; 100]);
    begin(&mut future).await;
    drop(future);
    sleep(DAYS).await; // @drops_a_large_one
    drop(behind);
}

async fn keeps_it() {
    let mut future = Box::pin(work(8));
    begin(&mut future).await;
    sleep(DAYS).await; // @keeps_it
    future.await;
}

fn main() {
    let rt =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (to, mut from) = unbounded_channel();
    rt.spawn(async move { from.recv().await.unwrap().await });
    rt.spawn(keeps_it());
    rt.spawn(spawns_it());
    rt.spawn(spawns_it_in_a_set());
    rt.spawn(sends_it(to));
    rt.spawn(passes_it_on());
    std::thread::sleep(Duration::from_millis(200));
    // What they free is not used again.
    for task in [rt.spawn(drops_it()), rt.spawn(drops_a_dyn()), rt.spawn(drops_a_large_one())] {
        std::mem::forget(task);
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    std::process::exit(0);
}
