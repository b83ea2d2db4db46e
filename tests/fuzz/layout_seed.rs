//! Futures of many shapes, for the debug information that they give: a seed of fuzz_layout. See make_layout.sh.
#![no_std]
extern crate alloc;
use alloc::boxed::Box;
use core::future::{poll_fn, Future};
use core::pin::Pin;
use core::task::{Context, Poll};

pub struct Leaf(pub u64);
impl Future for Leaf {
    type Output = u64;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        if self.0 > 3 { Poll::Ready(1) } else { Poll::Pending }
    }
}
pub enum MaybeDone<F: Future> { Future(F), Done(F::Output), Gone }
async fn leaf(n: u64) -> u64 { Leaf(n).await }
async fn two(n: u64) -> u64 { leaf(n).await + leaf(n + 1).await }
fn boxed(n: u64) -> Pin<Box<dyn Future<Output = u64>>> {
    Box::pin(async move { if n == 0 { two(n).await } else { boxed(n - 1).await } })
}
async fn branches(n: u64) -> u64 {
    let mut disabled = 0u8;
    let mut futures = (leaf(n), boxed(n), Some(two(n)));
    poll_fn(|cx| {
        let (a, b, _) = &mut futures;
        disabled |= 1;
        let _ = unsafe { Pin::new_unchecked(a) }.poll(cx);
        b.as_mut().poll(cx)
    }).await
}
async fn list(all: Box<[MaybeDone<Leaf>]>, more: [Leaf; 3]) -> u64 {
    struct All { all: Box<[MaybeDone<Leaf>]>, more: [Leaf; 3] }
    impl Future for All {
        type Output = u64;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
            if self.all.len() + self.more.len() > 3 { Poll::Pending } else { Poll::Ready(0) }
        }
    }
    All { all, more }.await
}
#[no_mangle]
pub extern "C" fn root_poll(n: u64, cx: &mut Context<'_>) -> bool {
    let mut root = core::pin::pin!(async move {
        let a = branches(n).await;
        let b = list(Box::new([MaybeDone::Future(Leaf(n)), MaybeDone::Gone]), [Leaf(1), Leaf(2), Leaf(n)]).await;
        a + b
    });
    root.as_mut().poll(cx).is_ready()
}
