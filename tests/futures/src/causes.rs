//! `causes`: small programs in which it is known what each task waits for, and for how long at least (WAIT),
//! on smol and on async-std (tests/e2e/test_causes.py).
use crate::rt::{Mutex, Task, block_on, channel, or, sleep, spawn, unblock};
use std::sync::Arc;
use std::time::Duration;

const WAIT: Duration = Duration::from_millis(60);

async fn first_holder(lock: Arc<Mutex<()>>, has_it: channel::Sender<()>) {
    let guard = lock.lock().await;
    has_it.send(()).await.unwrap();
    sleep(WAIT).await;
    drop(guard);
}

async fn lock_client(lock: Arc<Mutex<()>>) {
    drop(lock.lock().await);
}

async fn locks() {
    let lock = Arc::new(Mutex::new(()));
    let (has_it, known) = channel::bounded(1);
    let first = spawn(first_holder(lock.clone(), has_it));
    known.recv().await.unwrap();
    spawn(lock_client(lock)).await;
    first.await;
}

async fn message_source(to: channel::Sender<u32>) {
    sleep(WAIT).await;
    to.send(1).await.unwrap();
}

async fn message_relay(from: channel::Receiver<u32>, to: channel::Sender<u32>) {
    to.send(from.recv().await.unwrap()).await.unwrap();
}

async fn message_sink(from: channel::Receiver<u32>) {
    from.recv().await.unwrap();
}

async fn messages() {
    let (first, second) = (channel::bounded(1), channel::bounded(1));
    let tasks: [Task<()>; 3] = [
        spawn(message_sink(second.1)),
        spawn(message_relay(first.1, second.0)),
        spawn(message_source(first.0)),
    ];
    for task in tasks {
        task.await;
    }
}

async fn joined_task() {
    std::thread::sleep(WAIT);
}

async fn joins() {
    spawn(joined_task()).await;
}

async fn asks_pool() {
    unblock(|| std::thread::sleep(WAIT)).await;
}

async fn times_out() {
    let (_open, never) = channel::bounded::<()>(1);
    or(sleep(WAIT), async { never.recv().await.unwrap() }).await;
}

pub fn main() {
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    block_on(async {
        spawn(locks()).await;
        spawn(messages()).await;
        spawn(joins()).await;
        spawn(asks_pool()).await;
        spawn(times_out()).await;
    });
    println!("done");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
