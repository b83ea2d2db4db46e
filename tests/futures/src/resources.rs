// What tasks wait for. `resources ROUNDS` says `ready PID`, then for each resource
// `resource NAME BEGIN END WAITS`, the addresses between which it lies, in hexadecimal, and how often tasks
// will wait for it; begins when a line comes in, and says `done`. All waits for locks are at one line.
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::sync::{Mutex, RwLock, Semaphore};
use tokio::task::yield_now;

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn lock(mutex: Arc<Mutex<u32>>) {
    *mutex.lock().await += 1; // lock
}

async fn boxed(mutex: Arc<Mutex<u32>>) {
    let boxed: Boxed = Box::pin(lock(mutex));
    boxed.await
}

async fn read(lock: Arc<RwLock<u32>>) {
    let _ = *lock.read().await; // read
}

async fn acquire(permits: Arc<Semaphore>) {
    let _ = permits.acquire().await; // acquire
}

async fn send(to: mpsc::Sender<u32>) {
    to.send(1).await.unwrap(); // send
}

// The receiver lies in the task.
async fn receive(mut from: mpsc::Receiver<u32>) {
    while from.recv().await.is_some() {} // receive
}

// It lies around the box that borrows it.
async fn receive_in_a_box(mut from: mpsc::Receiver<u32>) {
    loop {
        let received: Pin<Box<dyn Future<Output = Option<u32>> + Send>> =
            Box::pin(async { from.recv().await }); // receive_in_a_box
        if received.await.is_none() {
            return;
        }
    }
}

struct All {
    a: Arc<Mutex<u32>>,
    b: Arc<Mutex<u32>>,
    rw: Arc<RwLock<u32>>,
    permits: Arc<Semaphore>,
    full: mpsc::Sender<u32>,
    empty: mpsc::Receiver<u32>,
}

async fn rounds(n: u32, mut all: All, one: mpsc::Sender<u32>, other: mpsc::Sender<u32>) {
    for _ in 0..n {
        let held = (all.a.lock().await, all.b.lock().await, all.rw.write().await);
        let permit = all.permits.acquire().await.unwrap();
        all.full.send(0).await.unwrap();
        let waiting = [
            tokio::spawn(lock(all.a.clone())),
            tokio::spawn(boxed(all.a.clone())),
            tokio::spawn(lock(all.b.clone())),
            tokio::spawn(read(all.rw.clone())),
            tokio::spawn(acquire(all.permits.clone())),
            tokio::spawn(send(all.full.clone())),
        ];
        yield_now().await; // they wait
        drop((held, permit));
        all.empty.recv().await;
        all.empty.recv().await;
        for task in waiting {
            task.await.unwrap(); // join
        }
        one.send(1).await.unwrap();
        other.send(1).await.unwrap();
        yield_now().await; // they have received
    }
}

fn say<T>(name: &str, at: *const T, bytes: usize, waits: u32) {
    println!("resource {name} {:x} {:x} {waits}", at as usize, at as usize + bytes);
}

// Both ends of a channel are one pointer.
fn channel_of<T>(end: &T) -> *const u8 {
    assert_eq!(size_of::<T>(), 8);
    unsafe { *(end as *const T as *const *const u8) }
}

fn main() {
    let n: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (full, empty) = mpsc::channel(1);
    let all = All {
        a: Default::default(),
        b: Default::default(),
        rw: Default::default(),
        permits: Arc::new(Semaphore::new(1)),
        full,
        empty,
    };
    let (one, first) = mpsc::channel(1);
    let (other, second) = mpsc::channel(1);
    println!("ready {}", std::process::id());
    say("a", &*all.a, size_of::<Mutex<u32>>(), 2 * n);
    say("b", &*all.b, size_of::<Mutex<u32>>(), n);
    say("rw", &*all.rw, size_of::<RwLock<u32>>(), n);
    say("permits", &*all.permits, size_of::<Semaphore>(), n);
    say("full", channel_of(&all.full), 1024, n);
    say("first", channel_of(&first), 1, n + 1);
    say("second", channel_of(&second), 1, n + 1);
    std::io::stdin().read_line(&mut String::new()).unwrap();
    runtime.block_on(async move {
        let receivers = [tokio::spawn(receive(first)), tokio::spawn(receive_in_a_box(second))];
        tokio::spawn(rounds(n, all, one, other)).await.unwrap();
        for task in receivers {
            task.await.unwrap();
        }
    });
    println!("done");
}
