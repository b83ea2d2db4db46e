//! async-std's scheduler of December 2019 in small: machines that run tasks off a queue of their own
//! and a global one, a monitor that takes a machine for blocked if it made no progress, and the
//! calls of the five functions at the places where that scheduler has them.
//!
//!     suite PROGRAM [--wait] [--scale PERCENT] | suite list
//!
//! The truth has one member more, "probes": how often each function was called.

#[macro_use]
#[path = "../src/truth.rs"]
mod truth;
#[path = "../src/stage.rs"]
mod stage;
mod tracing;

use async_task::{Builder, Runnable, Task};
use stage::{say, Stage};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

const MACHINES: usize = 2;

type Job = Runnable<u64>; // with the task's id

struct Machine {
    queue: Mutex<VecDeque<Job>>,
    progress: AtomicBool,
    running: AtomicBool,
    replaced: AtomicBool, // it was blocked, another does its work
}

#[derive(Default)]
struct Runtime {
    injector: Mutex<VecDeque<Job>>,
    work: Condvar,
    machines: Mutex<Vec<Arc<Machine>>>,
}

thread_local! {
    static MACHINE: RefCell<Option<Arc<Machine>>> = const { RefCell::new(None) };
    static TASK: Cell<u64> = const { Cell::new(0) };
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(Runtime::default)
}

fn address(machine: &Arc<Machine>) -> u64 {
    Arc::as_ptr(machine) as u64
}

fn spawn<F>(name: Option<&'static str>, future: F) -> Task<F::Output, u64>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, SeqCst);
    tracing::task_spawn(id, TASK.get(), name);
    let whole = async move {
        let output = future.await;
        tracing::task_completed(id);
        output
    };
    let (job, task) = Builder::new().metadata(id).spawn(|_| whole, schedule);
    job.schedule();
    task
}

/// On the queue of the machine that runs this thread, else on the global one.
fn schedule(job: Job) {
    let id = *job.metadata();
    let machine = MACHINE.with_borrow(|machine| machine.clone());
    match machine.filter(|machine| !machine.replaced.load(SeqCst)) {
        Some(machine) => {
            tracing::machine_scheduled_task(address(&machine), id, true);
            machine.queue.lock().unwrap().push_back(job);
        }
        None => {
            tracing::machine_scheduled_task(0, id, false);
            runtime().injector.lock().unwrap().push_back(job);
        }
    }
    runtime().work.notify_one();
}

impl Machine {
    fn start() {
        let machine = Arc::new(Machine {
            queue: Mutex::default(),
            progress: AtomicBool::new(true),
            running: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
        });
        runtime().machines.lock().unwrap().push(machine.clone());
        tracing::machine_starting(address(&machine));
        let named = thread::Builder::new().name("async-std/machine".into());
        named.spawn(move || machine.run()).unwrap();
    }

    fn run(self: Arc<Machine>) {
        MACHINE.set(Some(self.clone()));
        while !self.replaced.load(SeqCst) {
            self.progress.store(true, SeqCst);
            let Some(job) = self.find() else { continue };
            let id = *job.metadata();
            tracing::machine_scheduled_task(address(&self), id, true);
            self.running.store(true, SeqCst);
            TASK.set(id);
            job.run();
            TASK.set(0);
            self.running.store(false, SeqCst);
        }
        MACHINE.set(None);
    }

    /// From the own queue, the global one, another's; else it sleeps for a while.
    fn find(self: &Arc<Machine>) -> Option<Job> {
        let own = self.queue.lock().unwrap().pop_front();
        if own.is_some() {
            return own;
        }
        let mut injector = runtime().injector.lock().unwrap();
        let stolen = injector.pop_front().or_else(|| {
            let machines = runtime().machines.lock().unwrap();
            machines.iter().find_map(|other| other.queue.try_lock().ok()?.pop_front())
        });
        match stolen {
            Some(job) => {
                tracing::machine_scheduled_task(address(self), *job.metadata(), true);
                Some(job)
            }
            None => {
                drop(runtime().work.wait_timeout(injector, Duration::from_millis(2)));
                None
            }
        }
    }
}

/// A machine that runs the same task at two ticks is blocked: another takes over its queue.
fn monitor() {
    loop {
        thread::sleep(Duration::from_millis(3));
        let machines: Vec<_> = runtime().machines.lock().unwrap().clone();
        for machine in machines.iter().filter(|machine| !machine.replaced.load(SeqCst)) {
            if !machine.progress.swap(false, SeqCst) && machine.running.load(SeqCst) {
                tracing::machine_blocked(address(machine));
                machine.replaced.store(true, SeqCst);
                let queue = std::mem::take(&mut *machine.queue.lock().unwrap());
                runtime().injector.lock().unwrap().extend(queue);
                Machine::start();
            }
        }
    }
}

fn start() {
    for _ in 0..MACHINES {
        Machine::start();
    }
    thread::spawn(monitor);
}

/// Polls on this thread, which is no machine's.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

family!(parent);
family!(child);
family!(sleeper);

/// Parents with children, some with a name.
fn machines(stage: &Stage) {
    stage.ready();
    let n = stage.scaled(40);
    start();
    let parents: Vec<_> = (0..4)
        .map(|_| {
            spawn(
                Some("parent"),
                parent(async move {
                    let children: Vec<_> = (0..n)
                        .map(|value| {
                            let name = (value % 2 == 0).then_some("even child");
                            spawn(
                                name,
                                child(async move {
                                    Yield(false).await;
                                    value
                                }),
                            )
                        })
                        .collect();
                    let mut sum = 0;
                    for child in children {
                        sum += child.await;
                    }
                    sum
                }),
            )
        })
        .collect();
    let mut sum = 0;
    for parent in parents {
        sum += block_on(parent);
    }
    say(&format!("machines {n}: {sum}"));
}

/// Tasks that block the thread under their machine.
fn blockade(stage: &Stage) {
    stage.ready();
    let n = stage.scaled(5);
    start();
    let tasks: Vec<_> = (0..n)
        .map(|_| {
            spawn(
                Some("sleeper"),
                sleeper(async {
                    Yield(false).await;
                    thread::sleep(Duration::from_millis(30));
                    1
                }),
            )
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += block_on(task);
    }
    say(&format!("blockade {n}: {sum}"));
}

fn main() {
    let programs: [(&str, fn(&Stage), &str); 2] =
        [("machines", machines, ""), ("blockade", blockade, "")];
    let Some(stage) = Stage::from_args() else {
        eprintln!("usage: suite PROGRAM [--wait] [--scale PERCENT] | suite list");
        std::process::exit(2);
    };
    match programs.iter().find(|(name, _, _)| *name == stage.program) {
        Some((_, run, _)) => {
            run(&stage);
            // the machines look for work no longer than this
            thread::sleep(Duration::from_millis(20));
            stage.done_with(&tracing::json());
        }
        None if stage.program == "list" => {
            programs.iter().for_each(|(name, _, needs)| println!("{name} {needs}"))
        }
        None => {
            eprintln!("suite: no program {}", stage.program);
            std::process::exit(2);
        }
    }
}
