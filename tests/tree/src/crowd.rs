//! Many tasks, idle (`idle N`) or coming and going (`churn`); and what there is to know of them.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, Mutex, Notify};
use tokio::time::sleep;

async fn idle_sleeper() {
    sleep(Duration::from_secs(86400)).await; // @idle_sleeper
}

async fn idle_owner() {
    Notify::new().notified().await; // @idle_owner
}

async fn idle_receiver(n: Arc<Notify>) {
    let held = [0u64; 16];
    n.notified().await; // @idle_receiver
    println!("{held:?}");
}

async fn step(ms: u64) {
    sleep(Duration::from_micros(ms * 100)).await; // @step
}

async fn short_lived(n: u64, lock: Arc<Mutex<u64>>) {
    if n % 3 == 0 {
        let guard = lock.lock().await; // @churn_lock
        tokio::task::yield_now().await; // @churn_yield
        drop(guard);
    }
    tokio::join!(step(n % 7), async { // @churn_join
        tokio::task::yield_now().await; // @churn_yield_in
    });
    let mut rest = Box::pin(step(n % 5));
    tokio::select! { // @churn_select
        _ = &mut rest => {}
        _ = step(2) => rest.await, // @churn_rest
    }
}

async fn sender(to: mpsc::Sender<u64>) {
    for i in 0.. {
        if to.send(i).await.is_err() { // @churn_send
            return;
        }
    }
}

async fn receiver(mut from: mpsc::Receiver<u64>, stop: Arc<AtomicBool>) {
    while from.recv().await.is_some() { // @churn_receive
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn id_of(handle: &tokio::task::JoinHandle<()>) -> String {
    handle.id().to_string()
}

/// Spawns and ends tasks until `stop`; the id and the name of each, in order.
async fn churn(stop: Arc<AtomicBool>) -> Vec<String> {
    let lock = Arc::new(Mutex::new(0));
    let mut made = Vec::new();
    for _ in 0..4 {
        let (to, from) = mpsc::channel(2);
        made.push(format!("{} sender", id_of(&tokio::spawn(sender(to)))));
        made.push(format!("{} receiver", id_of(&tokio::spawn(receiver(from, stop.clone())))));
    }
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..20 {
            n += 1;
            let handle = tokio::spawn(short_lived(n, lock.clone()));
            made.push(format!("{} short_lived", id_of(&handle)));
        }
        sleep(Duration::from_millis(2)).await; // @churn
    }
    made
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let stop = Arc::new(AtomicBool::new(false));
    let churner = (args[1] == "churn").then(|| tokio::spawn(churn(stop.clone())));
    if args[1] == "idle" {
        let notify = Arc::new(Notify::new());
        for _ in 0..3 {
            tokio::spawn(idle_owner());
        }
        for i in 0..args[2].parse::<u64>().unwrap() {
            if i % 2 == 0 {
                tokio::spawn(idle_sleeper());
            } else {
                tokio::spawn(idle_receiver(notify.clone()));
            }
        }
        sleep(Duration::from_millis(500)).await;
    }
    println!("ready {}", std::process::id());
    tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
    })
    .await
    .unwrap();
    stop.store(true, Ordering::Relaxed);
    if let Some(churner) = churner {
        println!("made {} churn", churner.id());
        for line in churner.await.unwrap() {
            println!("made {line}");
        }
    }
    std::process::exit(0);
}
