//! For tests that break things around it: a program that just goes on.

use crate::multi;
use crate::stage::{say, Stage};
use std::time::Duration;
use tokio::task::yield_now;

family!(steady_worker);

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
