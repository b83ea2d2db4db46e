//! The example of Rust-Async-Context-Tracer's README, and the same in a task of its own; then two of
//! one async function at once, one of which is dropped by the end of the other's sleep.
use crate::rt::{select, sleep, spawn, zip};
use std::time::Duration;

async fn my_test() {
    sleep(Duration::from_millis(100)).await;
}

async fn example() {
    my_test().await;
    sleep(Duration::from_millis(150)).await;
}

async fn nap(ms: u64) -> u64 {
    sleep(Duration::from_millis(ms)).await;
    ms
}

async fn at_once() -> u64 {
    let (a, b) = zip(nap(30), nap(60)).await;
    a + b + select(nap(20), nap(500)).await
}

pub async fn main() {
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    example().await;
    spawn(example()).await;
    println!("{}", spawn(at_once()).await);
}
