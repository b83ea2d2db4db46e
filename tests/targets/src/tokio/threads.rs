//! Several runtimes, many threads, many tasks.

use crate::stage::{say, Stage};
use crate::{current, multi};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

family!(ping);
family!(pong);

pub fn two_runtimes(stage: &Stage) {
    let first = multi();
    let second = current();
    stage.ready();
    let n = stage.scaled(500);
    let (to_pong, mut from_ping) = mpsc::channel::<u64>(1);
    let (to_ping, mut from_pong) = mpsc::channel::<u64>(1);
    let pinging = first.spawn(ping(async move {
        let mut value = 0;
        for _ in 0..n {
            to_pong.send(value).await.unwrap();
            value = from_pong.recv().await.unwrap();
        }
        value
    }));
    let other = std::thread::spawn(move || {
        let ponging = second.spawn(pong(async move {
            while let Some(value) = from_ping.recv().await {
                if to_ping.send(value + 1).await.is_err() {
                    break;
                }
            }
        }));
        second.block_on(ponging).unwrap();
        drop(second);
    });
    let value = first.block_on(pinging).unwrap();
    other.join().unwrap();
    drop(first);
    assert_eq!(value, n);
    say(&format!("two runtimes {n}: {value}"));
    stage.done();
}

family!(short);
family!(spawner);

/// Ten thousand tasks a second.
pub fn short_tasks(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(1000);
    let task = rt.spawn(spawner(async move {
        let mut interval = tokio::time::interval(Duration::from_millis(1));
        let mut tasks = Vec::new();
        for _ in 0..n {
            interval.tick().await;
            for _ in 0..10 {
                tasks.push(tokio::spawn(short(tokio::task::yield_now())));
            }
        }
        let mut done = 0;
        for task in tasks {
            task.await.unwrap();
            done += 1;
        }
        done
    }));
    let done = rt.block_on(task).unwrap();
    drop(rt);
    say(&format!("short tasks {done}"));
    stage.done();
}

family!(waits_for_threads);

/// A thousand threads come and go; each wakes a task, most of them after one another on the stack
/// of the one before.
pub fn thread_churn(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(1000);
    let mut sum = 0;
    let shared: Arc<Mutex<Option<Waker>>> = Arc::default();
    let awaits = shared.clone();
    let mut left = n;
    let task = rt.spawn(waits_for_threads(crate::truth::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(n);
        }
        left -= 1;
        *awaits.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    })));
    while sum < n {
        let batch = if sum % 100 == 0 { 8 } else { 1 };
        let threads: Vec<_> = (0..batch)
            .map(|_| {
                let shared = shared.clone();
                std::thread::spawn(move || match shared.lock().unwrap().take() {
                    Some(waker) => {
                        waker.wake();
                        1
                    }
                    None => 0,
                })
            })
            .collect();
        for thread in threads {
            sum += thread.join().unwrap();
        }
    }
    let result = rt.block_on(task).unwrap();
    drop(rt);
    assert_eq!(result, n);
    say(&format!("threads {n}"));
    stage.done();
}

family!(spawned_outside);

/// Plain threads spawn onto a runtime.
pub fn foreign_spawns(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(100);
    let mut threads = Vec::new();
    for part in 0..4 {
        let handle = rt.handle().clone();
        threads.push(std::thread::spawn(move || {
            let mut sum = 0;
            let mut tasks = Vec::new();
            for value in 0..n {
                let (tx, rx) = oneshot::channel();
                tasks.push(handle.spawn(spawned_outside(async move {
                    tokio::task::yield_now().await;
                    tx.send(value * part).unwrap();
                })));
                sum += rx.blocking_recv().unwrap();
            }
            (sum, tasks)
        }));
    }
    let mut sum = 0;
    for thread in threads {
        let (part, tasks) = thread.join().unwrap();
        sum += part;
        for task in tasks {
            rt.block_on(task).unwrap();
        }
    }
    drop(rt);
    assert_eq!(sum, n * (n - 1) / 2 * 6);
    say(&format!("foreign spawns {n}: {sum}"));
    stage.done();
}

family!(outer);
family!(inner);
family!(inner_root, root);

/// A task that runs another runtime's tasks inside its own poll.
pub fn nested_block_on(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(20);
    let mut tasks = Vec::new();
    for _ in 0..n {
        tasks.push(rt.spawn(outer(async move {
            let sum = tokio::task::block_in_place(|| {
                let rt = current();
                rt.block_on(inner_root(async {
                    let mut sum = 0;
                    for value in 0..10 {
                        let task = tokio::spawn(inner(async move {
                            tokio::task::yield_now().await;
                            value
                        }));
                        sum += task.await.unwrap();
                    }
                    sum
                }))
            });
            tokio::task::yield_now().await;
            sum
        })));
    }
    let mut sum = 0;
    for task in tasks {
        sum += rt.block_on(task).unwrap();
    }
    drop(rt);
    assert_eq!(sum, 45 * n);
    say(&format!("nested {n}: {sum}"));
    stage.done();
}

family!(blocks_its_worker);
family!(waits_behind);

/// What should never be done: a poll that sleeps.
pub fn sleep_in_poll(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(10);
    let mut tasks = Vec::new();
    for _ in 0..n {
        tasks.push(rt.spawn(blocks_its_worker(async {
            std::thread::sleep(Duration::from_millis(10));
            tokio::task::yield_now().await;
            std::thread::sleep(Duration::from_millis(1));
        })));
        tasks.push(rt.spawn(waits_behind(async {
            tokio::task::yield_now().await;
        })));
    }
    for task in tasks {
        rt.block_on(task).unwrap();
    }
    drop(rt);
    say(&format!("sleeps {n}"));
    stage.done();
}
