//! Where all tasks wait until the program is to end.

use std::io::BufRead;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

static INSIDE: AtomicUsize = AtomicUsize::new(0);
static STATE: Mutex<(bool, Vec<Waker>)> = Mutex::new((false, Vec::new()));
static OPENED: Condvar = Condvar::new();

/// A task waits here.
pub async fn open() {
    let mut counted = false;
    std::future::poll_fn(|cx| {
        let mut state = STATE.lock().unwrap();
        if !counted {
            counted = true;
            INSIDE.fetch_add(1, Ordering::Relaxed);
        }
        if state.0 {
            return Poll::Ready(());
        }
        state.1.push(cx.waker().clone());
        Poll::Pending
    })
    .await
}

/// A blocking task.
pub fn open_blocking() {
    INSIDE.fetch_add(1, Ordering::Relaxed);
    let mut state = STATE.lock().unwrap();
    while !state.0 {
        state = OPENED.wait(state).unwrap();
    }
}

pub struct Gate {
    wait: bool,
    expected: AtomicUsize,
}

impl Gate {
    pub fn from_args() -> Gate {
        Gate { wait: std::env::args().any(|a| a == "--wait"), expected: AtomicUsize::new(0) }
    }

    /// So many more will wait at the gate.
    pub fn expect(&self, n: usize) {
        self.expected.fetch_add(n, Ordering::Relaxed);
    }

    /// Waits until all are there and, with --wait, for a line on stdin; then lets all go on.
    pub async fn pass(&self) {
        let expected = self.expected.load(Ordering::Relaxed);
        let (waker, done) = (Mutex::new(None::<Waker>), AtomicUsize::new(0));
        let (waker, done) = (&*Box::leak(Box::new(waker)), &*Box::leak(Box::new(done)));
        let wait = self.wait;
        std::thread::spawn(move || {
            for _ in 0..20_000 {
                if INSIDE.load(Ordering::Relaxed) >= expected {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            if INSIDE.load(Ordering::Relaxed) != expected {
                eprintln!("{INSIDE:?} are at the gate, not {expected}");
                std::process::exit(1);
            }
            if wait {
                println!("ready {}", std::process::id());
                std::io::stdin().lock().read_line(&mut String::new()).unwrap();
            }
            let mut state = STATE.lock().unwrap();
            state.0 = true;
            state.1.drain(..).for_each(Waker::wake);
            OPENED.notify_all();
            drop(state);
            std::thread::sleep(Duration::from_millis(20));
            done.store(1, Ordering::Release);
            waker.lock().unwrap().take().map(Waker::wake);
        });
        std::future::poll_fn(|cx| {
            let mut at = waker.lock().unwrap();
            if done.load(Ordering::Acquire) == 1 {
                return Poll::Ready(());
            }
            *at = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}
