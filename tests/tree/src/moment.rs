//! What only a moment tells: who waits in block_on, which thread polls which task, and where a
//! scheduled task stands. One way per argument; the program says what is true.
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

const DAYS: u64 = 3 * 86400;

fn tid() -> String {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().to_string()
}

fn multi_thread(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn leaf(s: u64) {
    sleep(Duration::from_secs(s)).await; // @leaf
}

async fn waits_in_multi_thread(held: [u64; 40]) -> u64 {
    leaf(DAYS).await; // @in_multi_thread
    held[7]
}

async fn waits_in_current_thread() {
    let (a, b) = tokio::join!(leaf(DAYS), async { 7u8 }); // @in_current_thread
    println!("{a:?} {b}");
}

async fn waits_beside() {
    leaf(DAYS).await; // @beside
}

async fn waits_in_local_set() {
    leaf(DAYS).await; // @in_local_set
}

async fn waits_in_handle() {
    leaf(DAYS).await; // @in_handle
}

async fn big() -> usize {
    let held = [1u8; 40000];
    leaf(DAYS).await; // @big
    held.len()
}

async fn waits_in_futures() {
    let (_keep, r) = futures::channel::oneshot::channel::<u8>();
    let _ = r.await; // @in_futures
}

struct Plain(u64);
impl Future for Plain {
    type Output = u64;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        self.0 += 1;
        Poll::Pending
    }
}

/// All ways to be in a block_on, each in a thread of its own.
fn roots() {
    type Way = fn();
    let ways: [(&str, Way); 8] = [
        ("waits_in_multi_thread", || {
            println!("{}", multi_thread(1).block_on(waits_in_multi_thread([3; 40])));
        }),
        ("waits_in_current_thread", || current_thread().block_on(waits_in_current_thread())),
        // two threads in one current_thread runtime: only one of them has its core
        ("waits_beside", || {
            let rt = Arc::new(current_thread());
            let other = rt.clone();
            std::thread::spawn(move || other.block_on(waits_in_current_thread()));
            std::thread::sleep(Duration::from_millis(100));
            rt.block_on(waits_beside());
        }),
        ("waits_in_local_set", || {
            tokio::task::LocalSet::new().block_on(&current_thread(), waits_in_local_set());
        }),
        ("waits_in_handle", || {
            let rt = multi_thread(1);
            rt.handle().block_on(waits_in_handle());
        }),
        ("big", || println!("{}", multi_thread(1).block_on(big()))),
        ("waits_in_futures", || futures::executor::block_on(waits_in_futures())),
        ("Plain", || println!("{}", futures::executor::block_on(Plain(0)))),
    ];
    for (name, way) in ways {
        std::thread::spawn(move || {
            println!("root {name} {}", tid());
            way();
        });
    }
    std::thread::sleep(Duration::from_millis(400));
}

static STOP: AtomicBool = AtomicBool::new(false);

/// Keeps its thread busy.
fn spin(name: &str) {
    println!("running {name} {}", tid());
    while !STOP.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_micros(50));
        std::hint::black_box(STOP.as_ptr());
    }
}

async fn spinner(n: u32) {
    tokio::task::yield_now().await;
    spin(if n == 0 { "spinner0" } else { "spinner1" });
}

async fn local_spinner() {
    spin("local_spinner");
}

async fn idle() {
    leaf(DAYS).await; // @idle
}

fn running() {
    let rt = multi_thread(3);
    for n in 0..2 {
        rt.spawn(spinner(n));
    }
    rt.spawn(idle());
    std::mem::forget(rt);
    std::thread::spawn(|| {
        let local = tokio::task::LocalSet::new();
        local.spawn_local(local_spinner());
        local.block_on(&current_thread(), leaf(DAYS));
    });
    std::thread::sleep(Duration::from_millis(300));
}

async fn waiting_turn() {
    idle().await;
}

async fn pushes_two() {
    tokio::spawn(waiting_turn()); // goes to the LIFO slot, and from there, when
    tokio::spawn(waiting_turn()); // this one comes, to the queue
    spin("pushes_two");
}

async fn in_lone_set() {
    idle().await;
}

/// Tasks that wait for their turn in every kind of queue.
fn queues() {
    let rt = multi_thread(1);
    rt.spawn(pushes_two());
    std::thread::sleep(Duration::from_millis(100));
    for _ in 0..3 {
        rt.spawn(waiting_turn());
    }
    println!("queued waiting_turn LIFO slot of worker 0 1");
    println!("queued waiting_turn run queue of worker 0 1");
    println!("queued waiting_turn injection queue 3");
    std::mem::forget(rt);
    std::thread::spawn(|| {
        let set = tokio::task::LocalSet::new();
        set.spawn_local(in_lone_set());
        println!("queued in_lone_set LocalSet's run queue 1");
        std::thread::sleep(Duration::from_secs(DAYS));
    });
    std::thread::spawn(|| {
        current_thread().block_on(async {
            tokio::spawn(waiting_turn_alone());
            println!("queued waiting_turn_alone run queue 1");
            spin("current_thread");
        });
    });
    std::thread::sleep(Duration::from_millis(200));
}

async fn waiting_turn_alone() {
    idle().await;
}

/// Gives its waker away.
struct Gives(Arc<std::sync::Mutex<Option<Waker>>>);
impl Future for Gives {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        *self.0.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    }
}

async fn marked(to: Arc<std::sync::Mutex<Option<Waker>>>) {
    Gives(to).await; // @marked
}

/// A task that is marked as scheduled and referenced, but that no queue has: as when a scheduler
/// has lost it. Nobody could do so but with the header itself, to which its waker leads.
fn lost(rt: &Runtime) {
    let waker = Arc::new(std::sync::Mutex::new(None));
    rt.spawn(marked(waker.clone()));
    std::thread::sleep(Duration::from_millis(100));
    let waker = Box::leak(Box::new(waker.lock().unwrap().take().unwrap()));
    let state = waker.data() as *const AtomicUsize;
    unsafe { (*state).fetch_or(4, Ordering::SeqCst) };
    std::thread::sleep(Duration::from_millis(50));
}

/// Where the task's cell is: its waker has the address.
async fn cell() -> usize {
    std::future::poll_fn(|cx| Poll::Ready(cx.waker().data() as usize)).await
}

/// The task's id, of which the vtable's last word says where it is in the cell.
unsafe fn id(cell: usize) -> *mut u64 {
    let vtable = *(cell as *const *const usize).add(2);
    (cell + *vtable.add(9)) as *mut u64
}

async fn ends() -> u64 {
    unsafe { *id(cell().await) }
}

async fn left_behind(send: std::sync::mpsc::Sender<usize>) {
    send.send(cell().await).unwrap();
    leaf(DAYS).await; // @left_behind
}

/// Cells as glibc leaves them in freed memory where the heap is at a low address: it writes two words of its
/// lists there, and what is no state any more looks like one with many references.
fn freed() {
    const LINE: usize = 128;
    let rt = multi_thread(1);
    let (send, receive) = std::sync::mpsc::channel();
    rt.spawn(left_behind(send));
    let task = receive.recv().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    for (state, next) in [(0x2e214, 0x9e37_79b9_7f4a_7c15), (0x2e1e_8040, 0x2e1e_8010)] {
        let given = rt.block_on(rt.spawn(ends())).unwrap();
        let layout = std::alloc::Layout::from_size_align(4 * LINE, LINE).unwrap();
        unsafe {
            let copy = std::alloc::alloc(layout) as *mut u64;
            copy.copy_from(task as *const u64, 4 * LINE / 8);
            *copy = state;
            *copy.add(1) = next;
            *id(copy as usize) = given;
        }
    }
    std::mem::forget(rt);
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("roots") => roots(),
        Some("running") => running(),
        Some("queues") => queues(),
        Some("lost") => {
            let rt = multi_thread(2);
            lost(&rt);
            std::mem::forget(rt);
        }
        Some("lost_current") => {
            let rt = Arc::new(current_thread());
            let other = rt.clone();
            std::thread::spawn(move || other.block_on(leaf(DAYS)));
            std::thread::sleep(Duration::from_millis(100));
            lost(&rt);
            std::mem::forget(rt);
        }
        Some("freed") => freed(),
        other => panic!("no such moment: {other:?}"),
    }
    println!("ready {}", std::process::id());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    std::process::exit(0);
}
