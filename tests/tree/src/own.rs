//! Chains, recursion, closures and futures written by hand.
use crate::parts::*;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::spawn;

// TREE chain
//   chain @chain
//     *mid
async fn chain() -> u64 {
    let before = mid as fn(u64) -> _;
    before(DAYS)
        .await // @chain
}

// TREE in_loop
//   in_loop @in_loop
//     *mid
async fn in_loop() {
    for i in 0..3 {
        if i == 1 {
            mid(DAYS).await; // @in_loop
        } else {
            tokio::task::yield_now().await;
        }
    }
}

// Sixty-four async functions, each waiting for the next.
trait Deep {
    async fn go();
}
struct Down<T>(std::marker::PhantomData<T>);
struct Bottom;
impl Deep for Bottom {
    async fn go() {
        leaf(DAYS).await; // @bottom
    }
}
impl<T: Deep> Deep for Down<T> {
    async fn go() {
        T::go().await; // @down
    }
}
type D4<T> = Down<Down<Down<Down<T>>>>;
type D16<T> = D4<D4<D4<D4<T>>>>;
type D64 = D16<D16<D16<D16<Bottom>>>>;

// TREE deep_chain
//   deep_chain @deep_chain
//     go @down ^64
//       go @bottom
//         *leaf
async fn deep_chain() {
    D64::go().await; // @deep_chain
}

fn recurse(n: u32) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        if n == 0 {
            leaf(DAYS).await // @recurse0
        } else {
            recurse(n - 1).await // @recurse
        }
    })
}

// TREE recursion
//   recursion @recursion
//     recurse @recurse ^5
//       recurse @recurse0
//         *leaf
async fn recursion() {
    recurse(5).await; // @recursion
}

// TREE closures
//   closures @closures
//     closures @inner
//       *mid
async fn closures() {
    let base = 7u64;
    let c = async |x: u64| {
        mid(DAYS + x + base).await; // @inner
    };
    c(1).await; // @closures
}

async fn call(f: impl AsyncFnOnce(u64)) {
    f(DAYS).await; // @call
}

// TREE passed_closure
//   passed_closure @passed
//     call @call
//       passed_closure @passed_inner
//         *mid
async fn passed_closure() {
    let name = String::from("x");
    call(async move |s| {
        mid(s + name.len() as u64).await; // @passed_inner
    })
    .await; // @passed
}

struct Counted<F> {
    polls: u32,
    inner: F,
}
impl<F: Future> Future for Counted<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = unsafe { self.get_unchecked_mut() };
        this.polls += 1;
        unsafe { Pin::new_unchecked(&mut this.inner) }.poll(cx)
    }
}

// TREE by_hand
//   by_hand @by_hand
//     Counted<..>
//       *mid
async fn by_hand() {
    Counted { polls: 0, inner: mid(DAYS) }.await; // @by_hand
}

struct Both<A, B> {
    a: Option<Pin<Box<A>>>,
    b: Option<Pin<Box<B>>>,
}
impl<A: Future, B: Future> Future for Both<A, B> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(a) = &mut self.a {
            if a.as_mut().poll(cx).is_ready() {
                self.a = None;
            }
        }
        if let Some(b) = &mut self.b {
            if b.as_mut().poll(cx).is_ready() {
                self.b = None;
            }
        }
        if self.a.is_none() && self.b.is_none() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

// TREE two_by_hand
//   two_by_hand @two_by_hand
//     Both<..>
//       *mid
//       *leaf
async fn two_by_hand() {
    Both { a: Some(Box::pin(mid(DAYS))), b: Some(Box::pin(leaf(DAYS))) }.await; // @two_by_hand
}

// TREE one_of_two_by_hand
//   one_of_two_by_hand @one_of_two_by_hand
//     Both<..>
//       *mid
async fn one_of_two_by_hand() {
    let both = Both { a: Some(Box::pin(mid(DAYS))), b: Some(Box::pin(async { 3u8 })) };
    both.await; // @one_of_two_by_hand
}

enum Machine<F> {
    Idle(u64),
    Works { step: u32, work: F },
}
impl<F: Future> Future for Machine<F> {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match unsafe { self.get_unchecked_mut() } {
            Machine::Idle(_) => Poll::Pending,
            Machine::Works { step, work } => {
                *step += 1;
                unsafe { Pin::new_unchecked(work) }.poll(cx).map(|_| ())
            }
        }
    }
}

// TREE enum_by_hand
//   enum_by_hand @enum_by_hand
//     Machine<..>
//       *mid
async fn enum_by_hand(idle: bool) {
    let m = if idle { Machine::Idle(1) } else { Machine::Works { step: 0, work: mid(DAYS) } };
    m.await; // @enum_by_hand
}

// TREE pinned_ref
//   pinned_ref @pinned_ref
//     *mid
async fn pinned_ref() {
    let f = mid(DAYS);
    tokio::pin!(f);
    (&mut f).await; // @pinned_ref
}

// TREE boxed
//   boxed @boxed
//     *mid
async fn boxed() {
    Box::pin(mid(DAYS)).await; // @boxed
}

// TREE dyn_root
//   dyn_root @dyn_root
//     *mid
fn dyn_root() -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async {
        mid(DAYS).await; // @dyn_root
    })
}

// A future that was moved away leaves a copy behind, which is no part of the tree.
// TREE moved
//   moved @moved
//     wrapped @wrapped
//       *mid
async fn moved() {
    let a = mid(DAYS);
    let unpolled = leaf(5);
    wrapped(a).await; // @moved
    unpolled.await;
}
async fn wrapped<F: Future>(f: F) {
    f.await; // @wrapped
}

// TREE poll_fn
//   poll_fn @poll_fn
//     *mid
async fn poll_fn() {
    let mut f = Box::pin(mid(DAYS));
    std::future::poll_fn(|cx| f.as_mut().poll(cx)).await; // @poll_fn
}

#[rustfmt::skip]
pub fn spawn_all() {
    spawn(chain());
    spawn(in_loop());
    spawn(deep_chain());
    spawn(recursion());
    spawn(closures());
    spawn(passed_closure());
    spawn(by_hand());
    spawn(two_by_hand());
    spawn(one_of_two_by_hand());
    spawn(enum_by_hand(std::env::args().count() > 5));
    spawn(pinned_ref());
    spawn(boxed());
    spawn(dyn_root());
    spawn(moved());
    spawn(poll_fn());
}
