//! What a program itself knows of its tasks, counted without any help of the runtime.
//!
//! `family!(name)` makes a function `name(future)` that gives the root future of a task of that
//! family: an async block whose only await is a `Counted`, so a poll of the task is a poll of
//! the `Counted`, exactly once, and so is its end. The children see a counting waker, so each wake
//! of the task through its waker is counted too; what wakes otherwise (a spawn, an abort) is not.
//!
//! Three rules keep the counts honest. A cloned waker clones the task's own waker, so the reference
//! count of the task is what it would be. Nothing of the counting outlives the future. The
//! family's static is named in the family's own code, so no two families fold into one function.
#![allow(dead_code)]

use std::cell::Cell;
use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::Mutex;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

/// Indices of the counters, in the order of `NAMES`.
pub const SPAWNED: usize = 0;
pub const POLLS: usize = 1;
pub const COMPLETED: usize = 2;
pub const CANCELLED: usize = 3;
pub const PANICKED: usize = 4;
pub const WAKES: usize = 5;
pub const SELF_WAKES: usize = 6;
const N: usize = 7;
const NAMES: [&str; N] =
    ["spawned", "polls", "completed", "cancelled", "panicked", "wakes", "self_wakes"];

static FAMILIES: Mutex<Vec<&'static Family>> = Mutex::new(Vec::new());
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// Serial of the task whose poll is the innermost open one on this thread; 0: none.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

pub struct Family {
    name: &'static str,
    role: &'static str,
    now: [AtomicU64; N],
    before: [AtomicU64; N], // what `now` was when the counted work began
}

impl Family {
    pub const fn new(name: &'static str, role: &'static str) -> Family {
        #[allow(clippy::declare_interior_mutable_const)]
        const ZERO: AtomicU64 = AtomicU64::new(0);
        Family { name, role, now: [ZERO; N], before: [ZERO; N] }
    }

    pub fn add(&'static self, what: usize) {
        if self.now[what].fetch_add(1, SeqCst) == 0 && what == SPAWNED {
            FAMILIES.lock().unwrap().push(self);
        }
    }

    fn since(&self, what: usize) -> u64 {
        self.now[what].load(SeqCst) - self.before[what].load(SeqCst)
    }

    fn alive(counts: &[AtomicU64; N]) -> u64 {
        counts[SPAWNED].load(SeqCst)
            - counts[COMPLETED].load(SeqCst)
            - counts[CANCELLED].load(SeqCst)
            - counts[PANICKED].load(SeqCst)
    }
}

/// From here on it counts: called when nothing runs, before the work that is recorded.
pub fn begin() {
    for family in FAMILIES.lock().unwrap().iter() {
        for (before, now) in family.before.iter().zip(&family.now) {
            before.store(now.load(SeqCst), SeqCst);
        }
    }
}

/// The truth since `begin`, one line of JSON. Totals are those of tasks and blocking tasks.
pub fn json(program: &str) -> String {
    let mut out = format!("{{\"truth\":\"{program}\",\"families\":[");
    let mut totals = [0; N];
    let (mut alive_before, mut alive) = (0, 0);
    for (i, family) in FAMILIES.lock().unwrap().iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let (name, role) = (family.name, family.role);
        write!(out, "{comma}{{\"name\":\"{name}\",\"role\":\"{role}\"").unwrap();
        for (what, total) in totals.iter_mut().enumerate() {
            write!(out, ",\"{}\":{}", NAMES[what], family.since(what)).unwrap();
            if role != "root" {
                *total += family.since(what);
            }
        }
        let (b, a) = (Family::alive(&family.before), Family::alive(&family.now));
        write!(out, ",\"alive_before\":{b},\"alive\":{a}}}").unwrap();
        if role != "root" {
            alive_before += b;
            alive += a;
        }
    }
    out.push_str("],\"totals\":{");
    for (what, total) in totals.iter().enumerate() {
        write!(out, "\"{}\":{total},", NAMES[what]).unwrap();
    }
    write!(out, "\"alive_before\":{alive_before},\"alive\":{alive}}}}}").unwrap();
    out
}

/// A future that counts what happens to it.
pub struct Counted<F> {
    future: F,
    family: &'static Family,
    serial: u64,
    ended: bool,
    raw_waker: bool,
}

impl<F: Future> Counted<F> {
    pub fn new(family: &'static Family, future: F) -> Counted<F> {
        family.add(SPAWNED);
        let serial = NEXT_SERIAL.fetch_add(1, Relaxed);
        Counted { future, family, serial, ended: false, raw_waker: false }
    }

    /// Hands the task's own waker down: the leaves count their wakes with `count_self_wake`.
    pub fn with_raw_waker(mut self) -> Counted<F> {
        self.raw_waker = true;
        self
    }

    pub fn belongs_to(&self, family: &'static Family) {
        assert!(std::ptr::eq(self.family, family), "{} in {}", self.family.name, family.name);
    }
}

/// Runs when a poll is left, by return or by a panic.
struct OpenPoll<'a> {
    outer: u64,
    ended: &'a mut bool,
    family: &'static Family,
    returned: bool,
}

impl Drop for OpenPoll<'_> {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.outer));
        if !self.returned {
            *self.ended = true;
            self.family.add(PANICKED);
        }
    }
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is never moved out of a pinned Counted; the other fields may move.
        let this = unsafe { self.get_unchecked_mut() };
        let family = this.family;
        family.add(POLLS);
        let mut open = OpenPoll {
            outer: CURRENT.with(|current| current.replace(this.serial)),
            ended: &mut this.ended,
            family,
            returned: false,
        };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let result = if this.raw_waker {
            future.poll(cx)
        } else {
            let waker = counting_waker(cx.waker().clone(), family, this.serial);
            future.poll(&mut Context::from_waker(&waker))
        };
        open.returned = true;
        if result.is_ready() {
            *open.ended = true;
            family.add(COMPLETED);
        }
        result
    }
}

impl<F> Drop for Counted<F> {
    fn drop(&mut self) {
        if !self.ended {
            self.family.add(CANCELLED);
        }
    }
}

/// A closure for a blocking pool that counts as a task of one poll.
pub struct CountedCall {
    family: &'static Family,
    ended: bool,
}

impl CountedCall {
    pub fn new(family: &'static Family) -> CountedCall {
        family.add(SPAWNED);
        CountedCall { family, ended: false }
    }

    pub fn run<R>(mut self, call: impl FnOnce() -> R) -> R {
        self.family.add(POLLS);
        let mut open =
            OpenPoll { outer: 0, ended: &mut self.ended, family: self.family, returned: false };
        let result = call();
        open.returned = true;
        *open.ended = true;
        self.family.add(COMPLETED);
        result
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        if !self.ended {
            self.family.add(CANCELLED);
        }
    }
}

/// A task's waker with a counter in front.
struct CountingWaker {
    inner: Waker,
    family: &'static Family,
    serial: u64,
}

static COUNTING: RawWakerVTable =
    RawWakerVTable::new(clone_counting, wake_counting, wake_counting_by_ref, drop_counting);

fn counting_waker(inner: Waker, family: &'static Family, serial: u64) -> Waker {
    // SAFETY: the four functions treat the pointer as the Box that it is.
    unsafe { Waker::from_raw(raw_waker(CountingWaker { inner, family, serial })) }
}

fn raw_waker(waker: CountingWaker) -> RawWaker {
    RawWaker::new(Box::into_raw(Box::new(waker)) as *const (), &COUNTING)
}

impl CountingWaker {
    fn count(&self) {
        count_wake(self.family, self.serial);
    }
}

fn count_wake(family: &'static Family, serial: u64) {
    family.add(WAKES);
    if CURRENT.with(|current| current.get()) == serial {
        family.add(SELF_WAKES);
    }
}

/// Wakes by a waker that the runtime made for itself, known from its source.
pub fn count_runtimes_wakes(name: &str, n: u64) {
    let families = FAMILIES.lock().unwrap();
    let family = families.iter().find(|family| family.name == name).expect("a family");
    family.now[WAKES].fetch_add(n, SeqCst);
}

/// For leaves below `with_raw_waker`: the task that is being polled here is about to wake itself.
pub fn count_self_wake(family: &'static Family) {
    count_wake(family, CURRENT.with(|current| current.get()));
}

unsafe fn clone_counting(data: *const ()) -> RawWaker {
    let waker = &*(data as *const CountingWaker);
    let (family, serial) = (waker.family, waker.serial);
    raw_waker(CountingWaker { inner: waker.inner.clone(), family, serial })
}

unsafe fn wake_counting(data: *const ()) {
    let waker = Box::from_raw(data as *mut CountingWaker);
    waker.count();
    waker.inner.wake();
}

unsafe fn wake_counting_by_ref(data: *const ()) {
    let waker = &*(data as *const CountingWaker);
    waker.count();
    waker.inner.wake_by_ref();
}

unsafe fn drop_counting(data: *const ()) {
    drop(Box::from_raw(data as *mut CountingWaker));
}

/// `family!(name)`: a function that makes a future the root future of a task of that family.
/// `family!(name, root)`: the same for the future of a block_on.
/// `family!(name, blocking)`: a function that makes a closure a closure of that family.
macro_rules! family {
    ($name:ident, blocking) => {
        fn $name<R>(call: impl FnOnce() -> R) -> impl FnOnce() -> R {
            static FAMILY: $crate::truth::Family =
                $crate::truth::Family::new(stringify!($name), "blocking");
            let counted = $crate::truth::CountedCall::new(&FAMILY);
            move || counted.run(call)
        }
    };
    ($name:ident) => {
        family!($name, task);
    };
    ($name:ident, $role:ident) => {
        fn $name<F: std::future::Future>(
            future: F,
        ) -> impl std::future::Future<Output = F::Output> {
            static FAMILY: $crate::truth::Family =
                $crate::truth::Family::new(stringify!($name), stringify!($role));
            let counted = $crate::truth::Counted::new(&FAMILY, future);
            async move {
                counted.belongs_to(&FAMILY);
                counted.await
            }
        }
    };
}

/// std's poll_fn, which Debian 12's compiler does not have yet.
pub fn poll_fn<T, F: FnMut(&mut Context<'_>) -> Poll<T>>(poll: F) -> PollFn<F> {
    PollFn(poll)
}

pub struct PollFn<F>(F);

impl<F> Unpin for PollFn<F> {}

impl<T, F: FnMut(&mut Context<'_>) -> Poll<T>> Future for PollFn<F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        (self.0)(cx)
    }
}
