//! Executors of the program's own: smol's Executor and LocalExecutor, and twenty lines on async-task
//! alone, whose `run` lets a panic of the future through.

use crate::programs::{quiet_panics, Program};
use crate::stage::{say, Stage};
use crate::truth::count_runtimes_wakes;
use async_task::{Runnable, Task};
use smol::future::{block_on, yield_now};
use smol::{Executor, LocalExecutor};
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{mpsc, Arc, Mutex};

pub const PROGRAMS: &[Program] = &[
    ("executor", executor, ""),
    ("local_executor", local_executor, ""),
    ("drop_executor", drop_executor, ""),
    ("drop_task", drop_task, ""),
    ("own_executor", own_executor, ""),
    ("own_panic", own_panic, "unwind"),
    ("own_backtrace", own_backtrace, "unwind"),
];

family!(on_executor);

/// Two threads run one executor.
fn executor(stage: &Stage) {
    let ex = Arc::new(Executor::new());
    stage.ready();
    let n = stage.scaled(500);
    let (end, ended) = smol::channel::bounded::<()>(1);
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (ex, ended) = (ex.clone(), ended.clone());
            std::thread::spawn(move || block_on(ex.run(ended.recv())).is_err())
        })
        .collect();
    let tasks: Vec<_> = (0..n)
        .map(|i| {
            ex.spawn(on_executor(async move {
                yield_now().await;
                i
            }))
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += block_on(task);
    }
    drop(end);
    for thread in threads {
        assert!(thread.join().unwrap());
    }
    assert_eq!(sum, n * (n - 1) / 2);
    say(&format!("executor {n}: {sum}"));
    stage.done();
}

family!(on_local);

fn local_executor(stage: &Stage) {
    let ex = LocalExecutor::new();
    stage.ready();
    let n = stage.scaled(500);
    let total = std::rc::Rc::new(std::cell::Cell::new(0));
    let tasks: Vec<_> = (0..n)
        .map(|i| {
            let total = total.clone();
            ex.spawn(on_local(async move {
                yield_now().await;
                total.set(total.get() + i);
            }))
        })
        .collect();
    block_on(ex.run(async {
        for task in tasks {
            task.await;
        }
    }));
    say(&format!("local {n}: {}", total.get()));
    stage.done();
}

family!(left_waiting);
family!(left_unpolled);

/// An executor is dropped with what it holds.
fn drop_executor(stage: &Stage) {
    let ex = Executor::new();
    stage.ready();
    let n = stage.scaled(100);
    let held = Arc::new(());
    for _ in 0..n {
        let held = held.clone();
        ex.spawn(left_waiting(async move {
            let _held = held;
            std::future::pending::<()>().await;
        }))
        .detach();
    }
    while ex.try_tick() {}
    for _ in 0..n {
        let held = held.clone();
        ex.spawn(left_unpolled(async move { drop(held) })).detach();
    }
    drop(ex); // wakes each task that it holds, by a waker that it got when it made the task
    assert_eq!(Arc::strong_count(&held), 1);
    count_runtimes_wakes("left_waiting", n);
    count_runtimes_wakes("left_unpolled", n);
    say(&format!("dropped {n}"));
    stage.done();
}

family!(handle_dropped);
family!(unpolled_dropped);

/// A dropped handle cancels its task.
fn drop_task(stage: &Stage) {
    let ex = Executor::new();
    stage.ready();
    let n = stage.scaled(100);
    for _ in 0..n {
        let task = ex.spawn(handle_dropped(std::future::pending::<()>()));
        while ex.try_tick() {}
        drop(task);
        while ex.try_tick() {}
        drop(ex.spawn(unpolled_dropped(async { unreachable!() })));
        while ex.try_tick() {}
    }
    drop(ex);
    say(&format!("dropped {n}"));
    stage.done();
}

/// A thread that runs what is scheduled; a panic that leaves `run` is caught out here.
struct Own {
    queue: Arc<Mutex<Option<mpsc::Sender<Runnable>>>>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Own {
    fn start() -> Own {
        let (send, receive) = mpsc::channel::<Runnable>();
        let thread = std::thread::spawn(move || {
            let mut panics = 0;
            for runnable in receive {
                panics += u64::from(catch_unwind(AssertUnwindSafe(|| runnable.run())).is_err());
            }
            panics
        });
        Own { queue: Arc::new(Mutex::new(Some(send))), thread: Some(thread) }
    }

    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        let queue = self.queue.clone();
        let schedule = move |runnable| {
            if let Some(send) = &*queue.lock().unwrap() {
                let _ = send.send(runnable);
            }
        };
        let (runnable, task) = async_task::spawn(future, schedule);
        runnable.schedule();
        task
    }

    /// How many panics came out of `run`.
    fn end(mut self) -> u64 {
        self.queue.lock().unwrap().take();
        self.thread.take().unwrap().join().unwrap()
    }
}

family!(on_own);

fn own_executor(stage: &Stage) {
    let own = Own::start();
    stage.ready();
    let n = stage.scaled(500);
    let mut sum = 0;
    for i in 0..n {
        sum += block_on(own.spawn(on_own(async move {
            yield_now().await;
            yield_now().await;
            i
        })));
    }
    assert_eq!(own.end(), 0);
    say(&format!("own executor {n}: {sum}"));
    stage.done();
}

family!(own_panicking);
family!(own_calm);

fn own_panic(stage: &Stage) {
    quiet_panics();
    let own = Own::start();
    stage.ready();
    let n = stage.scaled(50);
    for i in 0..n {
        let task = own.spawn(own_panicking(async move {
            yield_now().await;
            if i < u64::MAX {
                panic!("through run");
            }
        }));
        assert!(catch_unwind(AssertUnwindSafe(|| block_on(task))).is_err());
        block_on(own.spawn(own_calm(yield_now())));
    }
    let panics = own.end();
    assert_eq!(panics, n);
    say(&format!("panics through run {n}: {panics}"));
    stage.done();
}

/// What RUST_BACKTRACE=full prints for a panic that leaves `run`, on stderr.
fn own_backtrace(stage: &Stage) {
    let own = Own::start();
    stage.ready();
    let task = own.spawn(async {
        yield_now().await;
        if std::env::args().count() < 1000 {
            panic!("with a backtrace");
        }
    });
    let _ = catch_unwind(AssertUnwindSafe(|| block_on(task)));
    assert_eq!(own.end(), 1);
    say("backtrace");
    stage.done();
}
