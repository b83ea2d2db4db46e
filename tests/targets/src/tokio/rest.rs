//! For tests that break things around it: a program that just goes on.

use crate::multi;
use crate::stage::{say, Stage};
use std::sync::mpsc;
use std::time::Duration;
use tokio::task::yield_now;

family!(steady_worker);
family!(keeps_worker);
family!(never_polled);
family!(keeps_pool, blocking);
family!(never_begun, blocking);

/// Works until its stdin ends, then says so: for recorders that are killed, and for long recordings.
pub fn steady(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let (end, mut ended) = tokio::sync::watch::channel(false);
    let mut tasks = Vec::new();
    for i in 0..4 {
        let mut ended = ended.clone();
        tasks.push(rt.spawn(steady_worker(async move {
            let mut rounds = 0_u64;
            loop {
                for _ in 0..16 {
                    yield_now().await;
                }
                tokio::time::sleep(Duration::from_micros(100 * (i + 1))).await;
                rounds += 1;
                if rounds % 16 == 0 {
                    tokio::spawn(async move { rounds }).await.unwrap();
                }
                if *ended.borrow_and_update() {
                    return rounds;
                }
            }
        })));
    }
    ended.borrow_and_update();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    end.send(true).unwrap();
    for task in tasks {
        assert!(rt.block_on(task).unwrap() > 0);
    }
    drop(rt);
    say("steady to the end");
    stage.done();
}

/// The only worker and the only thread of the blocking pool wait until stdin ends; behind each waits
/// another: what is open when a recording ends.
pub fn stuck(stage: &Stage) {
    let rt = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    stage.ready();
    let (begun, begins) = mpsc::channel();
    let (end_worker, worker_ends) = mpsc::channel::<()>();
    let (end_pool, pool_ends) = mpsc::channel::<()>();
    let pool_begun = begun.clone();
    let all = [
        rt.spawn(keeps_worker(async move {
            begun.send(()).unwrap();
            worker_ends.recv().unwrap()
        })),
        rt.spawn_blocking(keeps_pool(move || {
            pool_begun.send(()).unwrap();
            pool_ends.recv().unwrap()
        })),
    ];
    begins.recv().unwrap();
    begins.recv().unwrap();
    let late = [rt.spawn(never_polled(async {})), rt.spawn_blocking(never_begun(|| ()))];
    say("stuck");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    end_worker.send(()).unwrap();
    end_pool.send(()).unwrap();
    for task in all.into_iter().chain(late) {
        rt.block_on(task).unwrap();
    }
    drop(rt);
    say("stuck no more");
    stage.done();
}

/// Short block_ons, and other work between them.
pub fn short_roots(stage: &Stage) {
    let rt = multi();
    stage.ready();
    for _ in 0..3 {
        rt.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(400) {}
    }
    drop(rt);
    say("short");
    stage.done();
}
