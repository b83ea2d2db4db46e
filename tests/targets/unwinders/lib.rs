//! Functions for C that let n tasks panic, or unwind in another way, each at a place where a tracer's
//! frame could be, and give how often that was seen.

use async_task::Runnable;
use std::ffi::c_void;
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{mpsc, OnceLock};
use std::task::{Context, Poll};
use tokio::runtime::{Builder, Runtime};

/// Without the messages of the panics that are meant, unless somebody wants them.
fn quiet() {
    if std::env::var_os("PANIC_MESSAGES").is_none() {
        std::panic::set_hook(Box::new(|info| {
            let message = info.payload_as_str().unwrap_or_default();
            if !MEANT.iter().any(|meant| message.starts_with(meant)) {
                eprintln!("{info}");
            }
        }));
    }
}

/// One for all, whose threads never end. In a namespace of dlmopen() glibc (2.36) gives the TLS of an
/// ended thread, when its stack is used again, to the wrong libc's free(): the heap is broken then.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(2).build().unwrap())
}

const MEANT: [&str; 2] = ["even", "JoinHandle polled after completion"];

/// Half of the tasks panic.
fn odd_only(i: u64) -> u64 {
    assert!(i % 2 == 1, "even");
    i
}

/// The panic leaves async-task's `run`.
#[no_mangle]
pub extern "C" fn panics_run(n: u64) -> u64 {
    quiet();
    let (tx, rx) = mpsc::channel::<Runnable>();
    let mut caught = 0;
    for i in 0..n {
        let tx = tx.clone();
        let (runnable, task) = async_task::spawn(
            async move { odd_only(i) },
            move |runnable| tx.send(runnable).unwrap(),
        );
        runnable.schedule();
        task.detach();
        while let Ok(runnable) = rx.try_recv() {
            caught += u64::from(catch_unwind(AssertUnwindSafe(|| runnable.run())).is_err());
        }
    }
    caught
}

/// It leaves a task's future.
#[no_mangle]
pub extern "C" fn panics_task(n: u64) -> u64 {
    quiet();
    runtime().block_on(async move {
        let mut caught = 0;
        for i in 0..n {
            let task = tokio::spawn(async move {
                tokio::task::yield_now().await;
                odd_only(i);
            });
            caught += u64::from(task.await.is_err());
        }
        caught
    })
}

#[inline(never)]
async fn inner(i: u64) -> u64 {
    tokio::task::yield_now().await;
    odd_only(i)
}

/// It leaves a boxed future below a task's.
#[no_mangle]
pub extern "C" fn panics_boxed(n: u64) -> u64 {
    quiet();
    runtime().block_on(async move {
        let mut caught = 0;
        for i in 0..n {
            let future: Pin<Box<dyn Future<Output = u64> + Send>> = Box::pin(inner(i));
            let task = tokio::spawn(async move {
                tokio::task::yield_now().await;
                future.await + 1
            });
            caught += u64::from(task.await.is_err());
        }
        caught
    })
}

/// A handle that is polled after it was ready: the panic leaves the task's table.
#[no_mangle]
pub extern "C" fn panics_read(n: u64) -> u64 {
    quiet();
    runtime().block_on(async move {
        let mut caught = 0;
        for _ in 0..n {
            let mut task = tokio::spawn(async {});
            (&mut task).await.unwrap();
            let again = |cx: &mut Context| {
                let poll = AssertUnwindSafe(|| Pin::new(&mut task).poll(cx));
                Poll::Ready(catch_unwind(poll).is_err())
            };
            caught += u64::from(std::future::poll_fn(again).await);
        }
        caught
    })
}

type Routine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

extern "C-unwind" {
    fn read(fd: i32, to: *mut u8, n: usize) -> isize;
    fn poll(fds: *mut c_void, n: u64, timeout: i32) -> i32;
}

extern "C" {
    fn pipe(fds: *mut i32) -> i32;
    fn close(fd: i32) -> i32;
    fn pthread_create(id: *mut usize, attr: *const c_void, f: Routine, arg: *mut c_void) -> i32;
    fn pthread_cancel(id: usize) -> i32;
    fn pthread_join(id: usize, result: *mut *mut c_void) -> i32;
}

static BEGUN: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicU64 = AtomicU64::new(0);

struct CountLeft;

impl Drop for CountLeft {
    fn drop(&mut self) {
        LEFT.fetch_add(1, SeqCst);
    }
}

/// Waits until it is cancelled, in one call or the other.
extern "C-unwind" fn wait_forever(fd: *mut c_void) -> *mut c_void {
    let _count = CountLeft;
    BEGUN.fetch_add(1, SeqCst);
    let mut byte = 0;
    // SAFETY: the byte is there; nothing is polled.
    unsafe {
        if fd.is_null() {
            poll(std::ptr::null_mut(), 0, -1);
        } else {
            read(fd as usize as i32, &mut byte, 1);
        }
    }
    fd
}

/// A thread is cancelled in a call: what it holds is dropped by a forced unwinding.
#[no_mangle]
pub extern "C" fn panics_cancel(n: u64) -> u64 {
    panics_task(1);
    LEFT.store(0, SeqCst);
    let mut fds = [0; 2];
    // SAFETY: as pipe(2), pthread_create(3) and the others say.
    unsafe {
        assert_eq!(pipe(fds.as_mut_ptr()), 0);
        for i in 0..n {
            let fd = if i % 2 == 0 { fds[0] as usize } else { 0 };
            let (mut id, mut result) = (0, std::ptr::null_mut());
            let begun = BEGUN.load(SeqCst);
            let none = std::ptr::null();
            assert_eq!(pthread_create(&mut id, none, wait_forever, fd as *mut c_void), 0);
            while BEGUN.load(SeqCst) == begun {
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
            assert_eq!(pthread_cancel(id), 0);
            assert_eq!(pthread_join(id, &mut result), 0);
            assert_eq!(result as isize, -1);
        }
        close(fds[0]);
        close(fds[1]);
    }
    LEFT.load(SeqCst)
}
