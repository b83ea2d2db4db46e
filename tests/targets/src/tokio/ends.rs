//! The ways in which tasks end: aborted, dropped with their runtime, panicked.

use crate::stage::{say, Stage};
use crate::{current, multi, pending_forever};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::task::{yield_now, JoinHandle, LocalSet};

/// Waits in a plain thread until the program's own flag says so.
fn wait_until(flag: impl Fn() -> bool) {
    while !flag() {
        std::thread::sleep(Duration::from_micros(200));
    }
}

family!(aborted_idle);
family!(aborted_scheduled);
family!(aborted_running);
family!(aborted_finished);
family!(aborted_unpolled);
family!(aborting_itself);
family!(hogging);

pub fn abort(stage: &Stage) {
    let rt = multi();
    let mut alone = Builder::new_multi_thread();
    let alone = crate::hooked(alone.worker_threads(1).enable_all()).build().unwrap();
    stage.ready();
    let n = stage.scaled(20);
    let mut cancelled = 0;
    let is_cancelled = |task: JoinHandle<()>, rt: &tokio::runtime::Runtime| {
        u64::from(rt.block_on(task).map_err(|e| e.is_cancelled()) == Err(true))
    };
    for _ in 0..n {
        // idle: it was polled, nobody woke it
        let polled = Arc::new(AtomicBool::new(false));
        let flag = polled.clone();
        let task = rt.spawn(aborted_idle(async move {
            flag.store(true, SeqCst);
            pending_forever().await;
        }));
        wait_until(|| polled.load(SeqCst));
        std::thread::sleep(Duration::from_micros(300)); // let the poll end
        task.abort();
        cancelled += is_cancelled(task, &rt);

        // running: in the middle of a poll that ends pending
        let (began, aborted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let flags = (began.clone(), aborted.clone());
        let task = rt.spawn(aborted_running(async move {
            flags.0.store(true, SeqCst);
            wait_until(|| flags.1.load(SeqCst));
            pending_forever().await;
        }));
        wait_until(|| began.load(SeqCst));
        task.abort();
        aborted.store(true, SeqCst);
        cancelled += is_cancelled(task, &rt);

        // finished: too late, it keeps its result
        let task = rt.spawn(aborted_finished(async {}));
        wait_until(|| task.is_finished());
        task.abort();
        assert_eq!(is_cancelled(task, &rt), 0);

        // never polled and scheduled: the only worker is kept busy meanwhile
        let (began, release) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let notify = Arc::new(tokio::sync::Notify::new());
        let waiting = notify.clone();
        let first = Arc::new(AtomicBool::new(false));
        let flag = first.clone();
        let scheduled = alone.spawn(aborted_scheduled(async move {
            flag.store(true, SeqCst);
            waiting.notified().await;
            unreachable!();
        }));
        wait_until(|| first.load(SeqCst));
        let flags = (began.clone(), release.clone());
        let hog = alone.spawn(hogging(async move {
            flags.0.store(true, SeqCst);
            wait_until(|| flags.1.load(SeqCst));
        }));
        wait_until(|| began.load(SeqCst));
        let unpolled = alone.spawn(aborted_unpolled(async { unreachable!() }));
        notify.notify_one(); // now it is in the queue
        scheduled.abort();
        unpolled.abort();
        release.store(true, SeqCst);
        cancelled += is_cancelled(scheduled, &alone);
        cancelled += is_cancelled(unpolled, &alone);
        assert_eq!(is_cancelled(hog, &alone), 0);

        // by itself, while it runs; its next await ends it
        let (give, take) = tokio::sync::oneshot::channel::<JoinHandle<()>>();
        let (done, ended) = tokio::sync::oneshot::channel::<JoinHandle<()>>();
        let task = rt.spawn(aborting_itself(async move {
            let me = take.await.unwrap();
            me.abort();
            done.send(me).unwrap();
            pending_forever().await;
        }));
        give.send(task).unwrap();
        let task = rt.block_on(ended).unwrap();
        cancelled += is_cancelled(task, &rt);
    }
    drop((rt, alone));
    assert_eq!(cancelled, 5 * n);
    say(&format!("aborted {n}: {cancelled}"));
    stage.done();
}

family!(dropped_waiting);
family!(dropped_unpolled);
family!(dropped_blocking, blocking);
family!(running_blocking, blocking);
family!(done_before);

pub fn drop_runtime(stage: &Stage) {
    let rts = [multi(), current(), multi(), multi()];
    let mut one_thread = Builder::new_multi_thread();
    one_thread.worker_threads(1).max_blocking_threads(1).enable_all();
    let one_thread = crate::hooked(&mut one_thread).build().unwrap();
    stage.ready();
    let n = stage.scaled(50);
    for (way, rt) in rts.into_iter().enumerate() {
        let polled = Arc::new(AtomicU64::new(0));
        for _ in 0..n {
            let polled = polled.clone();
            rt.spawn(dropped_waiting(async move {
                polled.fetch_add(1, SeqCst);
                pending_forever().await;
            }));
        }
        if way == 1 {
            rt.block_on(async {
                while polled.load(SeqCst) < n {
                    yield_now().await;
                }
            });
            // nobody runs a current-thread runtime now: these stay in its queue
            for _ in 0..n {
                rt.spawn(dropped_unpolled(async { unreachable!() }));
            }
        } else {
            wait_until(|| polled.load(SeqCst) == n);
        }
        let task = rt.spawn(done_before(async {}));
        if way != 1 {
            rt.block_on(task).unwrap();
        }
        match way {
            2 => rt.shutdown_timeout(Duration::from_secs(5)),
            3 => {
                rt.shutdown_background();
                // it goes on without us: wait for the end of what it held
                wait_until(|| Arc::strong_count(&polled) == 1);
            }
            _ => drop(rt),
        }
    }
    // a blocking closure that never got its turn
    let (began, release) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let flags = (began.clone(), release.clone());
    let handle = one_thread.handle().clone();
    let running = one_thread.spawn_blocking(running_blocking(move || {
        flags.0.store(true, SeqCst);
        wait_until(|| flags.1.load(SeqCst));
    }));
    // worker 0 needs a thread of the pool, and the pool has one more: it is ours now
    wait_until(|| began.load(SeqCst));
    let never = handle.spawn_blocking(dropped_blocking(|| unreachable!()));
    never.abort();
    release.store(true, SeqCst);
    one_thread.block_on(running).unwrap();
    drop(one_thread);
    say(&format!("dropped {n}"));
    stage.done();
}

family!(dropped_running);
family!(finishing_meanwhile);

/// In the middle of a poll when the runtime is dropped; that poll is the last, for two reasons. Nobody
/// holds the handle, so how it ended leaves no trace: "unknown" is a right answer, "completed" and
/// "cancelled" are only where they are true.
pub fn drop_running(stage: &Stage) {
    let n = stage.scaled(10);
    let rts: Vec<_> = (0..n).map(|_| multi()).collect();
    stage.ready();
    for rt in rts {
        let began = Arc::new(AtomicU64::new(0));
        let (first, second) = (began.clone(), began.clone());
        rt.spawn(dropped_running(async move {
            first.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(2));
            pending_forever().await;
        }));
        rt.spawn(finishing_meanwhile(async move {
            second.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(2));
        }));
        wait_until(|| began.load(SeqCst) == 2);
        drop(rt);
    }
    say(&format!("dropped {n}"));
    stage.done();
}

family!(local_waiting);
family!(local_unpolled);

pub fn drop_local(stage: &Stage) {
    let rt = current();
    let set = LocalSet::new();
    stage.ready();
    let n = stage.scaled(50);
    for _ in 0..n {
        set.spawn_local(local_waiting(pending_forever()));
    }
    set.block_on(&rt, async {
        for _ in 0..4 {
            yield_now().await;
        }
    });
    for _ in 0..n {
        set.spawn_local(local_unpolled(async { unreachable!() }));
    }
    drop(set);
    drop(rt);
    say(&format!("dropped {n}"));
    stage.done();
}

/// The default hook writes thread ids, which differ from run to run.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

family!(panicking_at_once);
family!(panicking_later);
family!(not_panicking);

pub fn panic(stage: &Stage) {
    quiet_panics();
    let rt = multi();
    let other = current();
    stage.ready();
    let n = stage.scaled(50);
    let mut panics = 0;
    for rt in [&rt, &other] {
        for i in 0..n {
            let tasks = [
                rt.spawn(panicking_at_once(async move {
                    if i < u64::MAX {
                        panic!("at once");
                    }
                })),
                rt.spawn(panicking_later(async move {
                    yield_now().await;
                    if i < u64::MAX {
                        panic!("later");
                    }
                })),
                rt.spawn(not_panicking(async move {
                    yield_now().await;
                })),
            ];
            for task in tasks {
                panics += u64::from(rt.block_on(task).map_err(|e| e.is_panic()) == Err(true));
            }
        }
    }
    drop((rt, other));
    assert_eq!(panics, 4 * n);
    say(&format!("panics {n}: {panics}"));
    stage.done();
}

family!(panicking_call, blocking);
family!(calm_call, blocking);

pub fn panic_blocking(stage: &Stage) {
    quiet_panics();
    let rt = multi();
    stage.ready();
    let n = stage.scaled(50);
    let mut panics = 0;
    for i in 0..n {
        let task = rt.spawn_blocking(panicking_call(move || {
            if i < u64::MAX {
                panic!("blocking");
            }
        }));
        panics += u64::from(rt.block_on(task).map_err(|e| e.is_panic()) == Err(true));
        rt.block_on(rt.spawn_blocking(calm_call(|| ()))).unwrap();
    }
    drop(rt);
    assert_eq!(panics, n);
    say(&format!("panics {n}: {panics}"));
    stage.done();
}

family!(catching);
family!(catching_and_waiting);

pub fn panic_caught(stage: &Stage) {
    quiet_panics();
    let rt = multi();
    stage.ready();
    let n = stage.scaled(50);
    let catch = |i: u64| {
        std::panic::catch_unwind(move || {
            if i < u64::MAX {
                panic!("caught inside");
            }
        })
        .is_err()
    };
    let mut tasks = Vec::new();
    for i in 0..n {
        tasks.push(rt.spawn(catching(async move { u64::from(catch(i)) })));
        tasks.push(rt.spawn(catching_and_waiting(async move {
            let first = u64::from(catch(i));
            yield_now().await;
            first + u64::from(catch(i))
        })));
    }
    let sum: u64 = rt.block_on(async move {
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    drop(rt);
    assert_eq!(sum, 3 * n);
    say(&format!("caught {n}: {sum}"));
    stage.done();
}

/// The frames of a backtrace taken inside a task, from the leaf to the thread's start: what
/// RUST_BACKTRACE=full prints for a panic there. On stderr.
pub fn backtrace(stage: &Stage) {
    let rt = multi();
    stage.ready();
    rt.block_on(rt.spawn(async {
        yield_now().await;
        leaf().await;
    }))
    .ok();
    drop(rt);
    say("backtrace");
    stage.done();
}

#[inline(never)]
fn leaf() -> impl Future<Output = ()> {
    async {
        if std::env::args().count() < 1000 {
            panic!("with a backtrace");
        }
    }
}
