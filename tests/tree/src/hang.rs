//! Programs that hang, or keep what they should not, one way per argument: a recording that begins
//! when all has come to rest sees hardly an event, and its moments show why.
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Notify, RwLock};
use tokio::task::{spawn_blocking, JoinSet};
use tokio::time::sleep;

fn ready() {
    println!("ready {}", std::process::id());
}

fn workers(n: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(n).max_blocking_threads(4).enable_all().build().unwrap()
}

// A std Mutex is held over Handle::block_on of a timer, and the only worker locks it: it has the
// timer driver, so the timer never fires. (tokio#6819)
async fn flusher(state: Arc<Mutex<u64>>, locked: Arc<Notify>) {
    locked.notified().await;
    *state.lock().unwrap() += 1; // @flusher
}

fn compactor(state: Arc<Mutex<u64>>, locked: Arc<Notify>) {
    let mut guard = state.lock().unwrap();
    locked.notify_one();
    Handle::current().block_on(sleep(Duration::from_millis(50)));
    *guard += 1;
}

fn lock_over_block_on() {
    let runtime = workers(1);
    let (state, locked) = (Arc::new(Mutex::new(0)), Arc::new(Notify::new()));
    runtime.spawn(flusher(state.clone(), locked.clone()));
    runtime.spawn_blocking(move || compactor(state, locked));
    std::mem::forget(runtime);
}

// The blocking pool waits for itself: each closure waits for another one, which finds no thread.
// (delta-kernel-rs#3202)
fn scan_file(handle: Handle) -> u32 {
    let (to, from) = mpsc::channel();
    handle.spawn(async move {
        let _ = spawn_blocking(move || to.send(1)).await; // @scan_file
    });
    from.recv().unwrap() // @recv
}

async fn plan() {
    let handle = Handle::current();
    spawn_blocking(move || scan_file(handle)).await.unwrap(); // @plan
}

fn pool() {
    let runtime = workers(2);
    for _ in 0..6 {
        runtime.spawn(plan());
    }
    std::mem::forget(runtime);
}

// The runtime's only thread waits for what a task in its own queue should send. (reqwest#1697)
async fn scheduler() {
    sleep(Duration::from_millis(20)).await;
    let (to, from) = mpsc::channel();
    tokio::spawn(async move { to.send(3).unwrap() });
    from.recv().unwrap(); // @scheduler
}

fn own_queue() {
    std::thread::spawn(|| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { tokio::spawn(scheduler()).await.unwrap() });
    });
}

// A reader takes an RwLock twice while a writer queues in between; those after it wait, too.
// (tokio#2849)
async fn lookup(config: Arc<RwLock<u32>>) -> u32 {
    *config.read().await // @lookup
}

async fn report(config: Arc<RwLock<u32>>) -> u32 {
    let guard = config.read().await;
    sleep(Duration::from_millis(100)).await;
    *guard + lookup(config.clone()).await
}

async fn reload(config: Arc<RwLock<u32>>) {
    sleep(Duration::from_millis(20)).await;
    *config.write().await += 1; // @reload
}

fn read_twice() {
    let runtime = workers(2);
    let config = Arc::new(RwLock::new(0));
    runtime.spawn(report(config.clone()));
    runtime.spawn(reload(config.clone()));
    std::thread::sleep(Duration::from_millis(200));
    for _ in 0..5 {
        runtime.spawn(lookup(config.clone()));
    }
    std::mem::forget(runtime);
}

// Tasks that never end: each waits for what nobody sends. (forest#2336)
async fn watch_session(stop: Arc<Notify>, buffer: Vec<u8>) {
    stop.notified().await; // @watch_session
    drop(buffer);
}

fn leak() {
    let runtime = workers(2);
    let stop = Arc::new(Notify::new());
    for _ in 0..40 {
        runtime.spawn(watch_session(stop.clone(), vec![1; 4096]));
    }
    std::mem::forget((runtime, stop));
}

// Tasks that have ended are kept by a JoinSet that nobody asks. (irpc#40)
async fn serve_rpc(n: u8) -> Vec<u8> {
    vec![n; 1024]
}

async fn listen() {
    let mut set = JoinSet::new();
    for n in 0..30 {
        set.spawn(serve_rpc(n));
    }
    sleep(Duration::from_secs(86400)).await; // @listen
    drop(set);
}

fn kept() {
    let runtime = workers(2);
    runtime.spawn(listen());
    std::mem::forget(runtime);
}

// A thread outside of the runtime keeps a std Mutex that a task locks. (tokio#7775)
async fn request(state: Arc<Mutex<u64>>) {
    *state.lock().unwrap() += 1; // @request
}

fn outside_lock() {
    let runtime = workers(2);
    let state = Arc::new(Mutex::new(0));
    let held = state.clone();
    std::thread::spawn(move || {
        let _guard = held.lock().unwrap();
        std::thread::sleep(Duration::from_secs(86400)); // @exporter
    });
    std::thread::sleep(Duration::from_millis(50));
    runtime.spawn(request(state));
    std::mem::forget(runtime);
}

// Some tasks end and some begin while it is recorded: each line of the input is one of each.
async fn visitor() {
    sleep(Duration::from_secs(86400)).await; // @visitor
}

fn come_and_go() {
    let runtime = workers(2);
    let mut first = runtime.spawn(visitor());
    runtime.spawn(visitor());
    std::thread::sleep(Duration::from_millis(100));
    ready();
    for _ in std::io::stdin().lines() {
        first.abort();
        first = runtime.spawn(visitor());
        std::thread::sleep(Duration::from_millis(100));
        println!("done");
    }
    std::process::exit(0);
}

// Until all other threads have slept whenever they were looked at for half a second: a busy machine takes its time.
fn come_to_rest() {
    let me = std::fs::read_link("/proc/thread-self").unwrap();
    let mut looks = 0;
    while looks < 10 {
        std::thread::sleep(Duration::from_millis(50));
        let busy = std::fs::read_dir("/proc/self/task").unwrap().flatten().any(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            task.file_name() != me.file_name().unwrap() && !stat.rsplit(')').next().unwrap().starts_with(" S")
        });
        looks = if busy { 0 } else { looks + 1 };
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("lock_over_block_on") => lock_over_block_on(),
        Some("pool") => pool(),
        Some("own_queue") => own_queue(),
        Some("read_twice") => read_twice(),
        Some("leak") => leak(),
        Some("kept") => kept(),
        Some("outside_lock") => outside_lock(),
        Some("come_and_go") => come_and_go(),
        other => panic!("no such way to hang: {other:?}"),
    }
    come_to_rest();
    ready();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    std::process::exit(0);
}
