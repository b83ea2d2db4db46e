//! Async functions that count themselves, so that nothing stands between them and their awaiter:
//! `truth NAME begun pending ready dropped`.
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll};

pub struct Count {
    pub name: &'static str,
    pub begun: AtomicU64,
    pub pending: AtomicU64,
    pub ready: AtomicU64,
    pub dropped: AtomicU64,
}

static COUNTS: Mutex<Vec<&'static Count>> = Mutex::new(Vec::new());

/// A future that is counted, from when it begins until it is ready or dropped.
pub struct Counted {
    count: &'static Count,
    pub ready: bool,
}

impl Counted {
    pub fn new(count: &'static Count) -> Counted {
        if count.begun.fetch_add(1, SeqCst) == 0 {
            COUNTS.lock().unwrap().push(count);
        }
        Counted { count, ready: false }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let end = if self.ready { &self.count.ready } else { &self.count.dropped };
        end.fetch_add(1, SeqCst);
    }
}

pub const FOREVER: u32 = u32::MAX;

/// Pending so many times, waking itself; or FOREVER, waking nobody.
pub struct Turns {
    pub left: u32,
    pub count: &'static Count,
}

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.left == 0 {
            return Poll::Ready(());
        }
        self.count.pending.fetch_add(1, SeqCst);
        if self.left != FOREVER {
            self.left -= 1;
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// Async functions of these names, which are pending so many times.
macro_rules! counted {
    ($($name:ident)*) => {$(
        async fn $name(left: u32) -> u64 {
            use std::sync::atomic::AtomicU64;
            static COUNT: crate::counted::Count = crate::counted::Count {
                name: stringify!($name),
                begun: AtomicU64::new(0),
                pending: AtomicU64::new(0),
                ready: AtomicU64::new(0),
                dropped: AtomicU64::new(0),
            };
            let mut counted = crate::counted::Counted::new(&COUNT);
            crate::counted::Turns { left: std::hint::black_box(left), count: &COUNT }.await;
            counted.ready = true;
            u64::from(left)
        }
    )*};
}
pub(crate) use counted;

pub fn say() {
    let mut counts = COUNTS.lock().unwrap();
    counts.sort_by_key(|count| count.name);
    for c in counts.iter() {
        let all = [&c.begun, &c.pending, &c.ready, &c.dropped].map(|n| n.load(SeqCst));
        println!("truth {} {} {} {} {}", c.name, all[0], all[1], all[2], all[3]);
    }
}
