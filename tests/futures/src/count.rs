//! What a program itself knows of the polls of its futures: `counted!(f(x))` is the future `f(x)` in
//! a wrapper that counts its polls and how they end, under the name of the function `f`.
#![allow(dead_code)]

use std::future::Future;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Mutex;
use std::task::{Context, Poll};

pub struct Count {
    name: &'static str,
    begun: AtomicU64, // futures that were polled at least once
    polls: AtomicU64,
    ready: AtomicU64,
    panicked: AtomicU64,
}

static COUNTS: Mutex<Vec<&'static Count>> = Mutex::new(Vec::new());

impl Count {
    pub const fn new(name: &'static str) -> Count {
        Count {
            name,
            begun: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            ready: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
        }
    }
}

pub struct Counted<F> {
    count: &'static Count,
    begun: bool,
    inner: F,
}

pub fn counted<F: Future>(count: &'static Count, inner: F) -> Counted<F> {
    Counted { count, begun: false, inner }
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let me = unsafe { self.get_unchecked_mut() };
        if !me.begun {
            me.begun = true;
            me.count.begun.fetch_add(1, SeqCst);
        }
        if me.count.polls.fetch_add(1, SeqCst) == 0 {
            COUNTS.lock().unwrap().push(me.count);
        }
        let inner = unsafe { Pin::new_unchecked(&mut me.inner) };
        match catch_unwind(AssertUnwindSafe(|| inner.poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(ready) => {
                me.count.ready.fetch_add(1, SeqCst);
                ready
            }
            Err(panic) => {
                me.count.panicked.fetch_add(1, SeqCst);
                resume_unwind(panic)
            }
        }
    }
}

#[macro_export]
macro_rules! counted {
    ($f:ident($($arg:expr),*)) => {{
        static COUNT: $crate::count::Count = $crate::count::Count::new(stringify!($f));
        $crate::count::counted(&COUNT, $f($($arg),*))
    }};
}

/// `truth NAME begun polls ready panicked`, a line each; a name that was counted at several places is
/// told once.
pub fn tell() {
    let counts = COUNTS.lock().unwrap();
    let mut names: Vec<_> = counts.iter().map(|c| c.name).collect();
    names.sort();
    names.dedup();
    for name in names {
        let mut sums = [0; 4];
        for c in counts.iter().filter(|c| c.name == name) {
            for (sum, n) in sums.iter_mut().zip([&c.begun, &c.polls, &c.ready, &c.panicked]) {
                *sum += n.load(SeqCst);
            }
        }
        println!("truth {name} {} {} {} {}", sums[0], sums[1], sums[2], sums[3]);
    }
}
