//! Tasks that can never go on, one way per argument; the tests know who and why.
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{oneshot, Mutex};
use tokio::task::JoinHandle;
use tokio::time::sleep;

// Two tasks take two locks in different orders.
async fn a_then_b(a: Arc<Mutex<u8>>, b: Arc<Mutex<u8>>) {
    let first = a.lock().await;
    sleep(Duration::from_millis(50)).await;
    let second = b.lock().await; // @a_then_b
    drop((first, second));
}

async fn b_then_a(a: Arc<Mutex<u8>>, b: Arc<Mutex<u8>>) {
    let first = b.lock().await;
    sleep(Duration::from_millis(50)).await;
    let second = a.lock().await; // @b_then_a
    drop((first, second));
}

fn mutexes() {
    let (a, b) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    tokio::spawn(a_then_b(a.clone(), b.clone()));
    tokio::spawn(b_then_a(a, b));
}

// Two tasks wait for each other's end.
async fn waits_for(other: oneshot::Receiver<JoinHandle<()>>) {
    let handle = other.await.unwrap();
    handle.await.unwrap(); // @waits_for
}

fn joins() {
    let (to_first, first) = oneshot::channel();
    let (to_second, second) = oneshot::channel();
    let (a, b) = (tokio::spawn(waits_for(first)), tokio::spawn(waits_for(second)));
    to_first.send(b).unwrap();
    to_second.send(a).unwrap();
}

// Oxide's RFD 609: the lock is granted to a future that its own task no longer polls.
async fn use_lock(lock: Arc<Mutex<u8>>) {
    *lock.lock().await += 1; // @use_lock
}

async fn futurelocked(lock: Arc<Mutex<u8>>) {
    let mut first = Box::pin(use_lock(lock.clone()));
    tokio::select! {
        _ = &mut first => {}
        _ = sleep(Duration::from_millis(20)) => {
            use_lock(lock.clone()).await; // @futurelocked
        }
    }
}

async fn background(lock: Arc<Mutex<u8>>) {
    let guard = lock.lock().await;
    sleep(Duration::from_millis(100)).await;
    drop(guard);
}

fn futurelock() {
    let lock = Arc::new(Mutex::new(0));
    tokio::spawn(background(lock.clone()));
    std::thread::sleep(Duration::from_millis(10));
    tokio::spawn(futurelocked(lock.clone()));
    std::thread::sleep(Duration::from_millis(150));
    tokio::spawn(use_lock(lock)); // a bystander
}

// The same with the guard already taken by the future that is left alone.
async fn hold_lock(lock: Arc<Mutex<u8>>) {
    let guard = lock.lock().await;
    sleep(Duration::from_millis(50)).await; // @hold_lock
    drop(guard);
}

async fn left_holding(lock: Arc<Mutex<u8>>) {
    let holder = hold_lock(lock.clone());
    tokio::pin!(holder);
    tokio::select! {
        _ = &mut holder => {}
        _ = sleep(Duration::from_millis(10)) => {
            use_lock(lock.clone()).await; // @left_holding
        }
    }
}

fn futurelock_held() {
    tokio::spawn(left_holding(Arc::new(Mutex::new(0))));
}

// Returns pending and tells nobody how to wake it.
struct Forgets;
impl Future for Forgets {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

// Takes the waker and loses it when the other side goes away.
struct Loses(Option<std::task::Waker>);
impl Future for Loses {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0 = Some(cx.waker().clone());
        self.0 = None;
        Poll::Pending
    }
}

async fn forgotten() {
    Forgets.await; // @forgotten
}

async fn lost() {
    Loses(None).await; // @lost
}

async fn fine() {
    sleep(Duration::from_secs(86400)).await;
}

fn lost_wakes() {
    tokio::spawn(forgotten());
    let kept = tokio::spawn(lost());
    tokio::spawn(async move { kept.await.unwrap() });
    tokio::spawn(fine());
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("mutexes") => mutexes(),
        Some("joins") => joins(),
        Some("futurelock") => futurelock(),
        Some("futurelock_held") => futurelock_held(),
        Some("lost_wakes") => lost_wakes(),
        other => panic!("no such way to be stuck: {other:?}"),
    }
    sleep(Duration::from_millis(300)).await;
    println!("ready {}", std::process::id());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    std::process::exit(0);
}
