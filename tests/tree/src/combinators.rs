//! Tokio's and futures' combinators.
use crate::parts::*;
use futures::future::{self, Either, FutureExt, TryFutureExt};
use futures::stream::{self, FuturesOrdered, FuturesUnordered, StreamExt};
use std::time::Duration;
use tokio::spawn;
use tracing::Instrument;

// TREE join
//   join @join
//     join!
//       *mid
//       join [done]
//       *leaf
async fn join() {
    let (a, b, c) = tokio::join!(mid(DAYS), async { 7u8 }, leaf(DAYS)); // @join
    println!("{a} {b} {c:?}");
}

// TREE try_join
//   try_join @try_join
//     try_join!
//       try_join @tj1
//         *mid
//       try_join [done]
async fn try_join() {
    let r: Result<(u64, u8), ()> = tokio::try_join!( // @try_join
        async { Ok(mid(DAYS).await) }, // @tj1
        async { Ok(3u8) },
    );
    println!("{r:?}");
}

// TREE select
//   select @select
//     select!
//       *mid
//       leaf [disabled]
//       select [done]
//       *leaf
async fn select(on: bool) {
    tokio::select! { // @select
        _ = mid(DAYS) => {}
        _ = leaf(DAYS), if on => {}
        Some(_) = async { None::<u8> } => {}
        _ = leaf(DAYS) => {}
    }
}

// TREE select_refs
//   select_refs @select_refs
//     select!
//       *mid
//       *leaf
async fn select_refs() {
    let a = mid(DAYS);
    let mut b = Box::pin(leaf(DAYS));
    tokio::pin!(a);
    loop {
        tokio::select! { // @select_refs
            biased;
            _ = &mut a => {}
            _ = &mut b => {}
        }
    }
}

// TREE nested
//   nested @nested
//     join!
//       nested @nested_in
//         select!
//           *mid
//           *leaf
//       *leaf
async fn nested() {
    tokio::join!( // @nested
        async {
            tokio::select! { // @nested_in
                _ = mid(DAYS) => {}
                _ = leaf(DAYS) => {}
            }
        },
        leaf(DAYS)
    );
}

// TREE futures_join
//   futures_join @futures_join
//     join!
//       *mid
//       *leaf
async fn futures_join() {
    let (a, b) = futures::join!(mid(DAYS), leaf(DAYS)); // @futures_join
    println!("{a} {b:?}");
}

// TREE futures_try_join
//   futures_try_join @futures_try_join
//     try_join!
//       futures_try_join @ftj
//         *mid
//       futures_try_join [done]
async fn futures_try_join() {
    let a = async {
        mid(DAYS).await; // @ftj
        Ok::<u8, u8>(1)
    };
    let r = futures::try_join!(a, async { Ok::<u8, u8>(2) }); // @futures_try_join
    println!("{r:?}");
}

// TREE futures_select
//   futures_select @futures_select
//     select!
//       *mid
//       *leaf
async fn futures_select() {
    let a = mid(DAYS).fuse();
    let b = leaf(DAYS).fuse();
    futures::pin_mut!(a, b);
    futures::select! { // @futures_select
        _ = a => {}
        _ = b => {}
    }
}

// TREE futures_select_done
//   futures_select_done @futures_select_done
//     select!
//       futures_select_done [done]
//       *leaf
async fn futures_select_done() {
    let a = async {}.fuse();
    let b = leaf(DAYS).fuse();
    futures::pin_mut!(a, b);
    loop {
        futures::select! { // @futures_select_done
            _ = a => {}
            _ = b => {}
        }
    }
}

// TREE select_fn
//   select_fn @select_fn
//     Select<..>
//       *mid
//       *leaf
async fn select_fn() {
    future::select(Box::pin(mid(DAYS)), Box::pin(leaf(DAYS))).await; // @select_fn
}

// TREE join_fn
//   join_fn @join_fn
//     Join<..>
//       *mid
//       *leaf
async fn join_fn() {
    future::join(mid(DAYS), leaf(DAYS)).await; // @join_fn
}

// TREE join_all
//   join_all @join_all
//     JoinAll<..>
//       *mid x5
async fn join_all() {
    future::join_all((0..5).map(|i| mid(DAYS + i))).await; // @join_all
}

// TREE join_1000
//   join_1000 @join_1000
//     JoinAll<..>
//       Collect<..>
//         FuturesUnordered
//           *mid x1000
async fn join_1000() {
    future::join_all((0..1000).map(|i| mid(DAYS + i))).await; // @join_1000
}

// TREE select_all
//   select_all @select_all
//     SelectAll<..>
//       *mid x3
async fn select_all() {
    future::select_all((0..3).map(|i| Box::pin(mid(DAYS + i)))).await; // @select_all
}

// TREE unordered
//   unordered @unordered
//     Next<..>
//       FuturesUnordered
//         *mid x4
async fn unordered() {
    let mut all: FuturesUnordered<_> = (0..4).map(|i| mid(DAYS + i)).collect();
    while let Some(n) = all.next().await { // @unordered
        println!("{n}");
    }
}

// TREE ordered
//   ordered @ordered
//     Next<..>
//       FuturesUnordered
//         *mid x3
async fn ordered() {
    let mut all: FuturesOrdered<_> = (0..3).map(|i| mid(DAYS + i)).collect();
    while let Some(n) = all.next().await { // @ordered
        println!("{n}");
    }
}

// TREE buffered
//   buffered @buffered
//     Collect<..>
//       Buffered<..>
//         FuturesUnordered
//           *mid x2
async fn buffered() {
    let all: Vec<u64> = stream::iter(0..9).map(|i| mid(DAYS + i)).buffered(2).collect().await; // @buffered
    println!("{all:?}");
}

// TREE buffer_unordered
//   buffer_unordered @buffer_unordered
//     Next<..>
//       BufferUnordered<..>
//         FuturesUnordered
//           *mid x2
async fn buffer_unordered() {
    let mut all = Box::pin(stream::iter(0..9).map(|i| mid(DAYS + i)).buffer_unordered(2));
    while let Some(n) = all.next().await { // @buffer_unordered
        println!("{n}");
    }
}

// TREE for_each
//   for_each @for_each
//     ForEach<..>
//       for_each @for_each_in
//         *mid
async fn for_each() {
    stream::iter(0..9)
        .for_each(|i| async move {
            mid(DAYS + i).await; // @for_each_in
        })
        .await; // @for_each
}

// TREE for_each_concurrent
//   for_each_concurrent @for_each_concurrent
//     ForEachConcurrent<..>
//       FuturesUnordered
//         for_each_concurrent @fec x2
//           *mid
async fn for_each_concurrent() {
    stream::iter(0..9)
        .for_each_concurrent(2, |i| async move {
            mid(DAYS + i).await; // @fec
        })
        .await; // @for_each_concurrent
}

// TREE unfold
//   unfold @unfold
//     Next<..>
//       Unfold<..>
//         unfold @unfold_in
//           *mid
async fn unfold() {
    let mut s = Box::pin(stream::unfold(1u64, |n| async move {
        mid(DAYS + n).await; // @unfold_in
        Some((n, n + 1))
    }));
    s.next().await; // @unfold
}

// TREE map
//   map @map
//     Map<..>
//       *mid
async fn map() {
    mid(DAYS).map(|n| n + 1).await; // @map
}

// TREE then_first
//   then_first @then_first
//     Then<..>
//       *mid
async fn then_first() {
    mid(DAYS).then(|_| leaf(DAYS)).await; // @then_first
}

// TREE then_second
//   then_second @then_second
//     Then<..>
//       *leaf
async fn then_second() {
    future::ready(1).then(|_| leaf(DAYS)).await; // @then_second
}

// TREE and_then
//   and_then @and_then
//     AndThen<..>
//       and_then @and_then_in
//         *mid
async fn and_then() {
    let first = async {
        mid(DAYS).await; // @and_then_in
        Ok::<u8, u8>(1)
    };
    let r = first.and_then(|n| async move { Ok::<u8, u8>(n + 1) }).await; // @and_then
    println!("{r:?}");
}

// TREE either
//   either @either
//     *leaf
async fn either(left: bool) {
    let e = if left { Either::Left(mid(DAYS).map(|_| ())) } else { Either::Right(leaf(DAYS)) };
    e.await; // @either
}

// TREE fuse
//   fuse @fuse
//     *mid
async fn fuse() {
    mid(DAYS).fuse().await; // @fuse
}

// TREE shared
//   shared @shared
//     Shared<..>
//       *mid
async fn shared() {
    let s = mid(DAYS).shared();
    let other = s.clone();
    s.await; // @shared
    drop(other);
}

// TREE abortable
//   abortable @abortable
//     Abortable<..>
//       *mid
async fn abortable() {
    let (f, handle) = future::abortable(mid(DAYS));
    let r = f.await; // @abortable
    println!("{r:?} {handle:?}");
}

// TREE catch_unwind
//   catch_unwind @catch_unwind
//     CatchUnwind<..>
//       *mid
async fn catch_unwind() {
    let r = std::panic::AssertUnwindSafe(mid(DAYS)).catch_unwind().await; // @catch_unwind
    println!("{}", r.is_ok());
}

// TREE boxed_dyn
//   boxed_dyn @boxed_dyn
//     *mid
async fn boxed_dyn() {
    mid(DAYS).boxed().await; // @boxed_dyn
}

// TREE instrumented
//   instrumented @instrumented
//     Instrumented<..>
//       *mid
async fn instrumented() {
    mid(DAYS).instrument(tracing::info_span!("work")).await; // @instrumented
}

// TREE timeout
//   timeout @timeout
//     Timeout<..>
//       *mid
//       sleep
async fn timeout() {
    let _ = tokio::time::timeout(Duration::from_secs(DAYS), mid(DAYS)).await; // @timeout
}

// TREE unconstrained
//   unconstrained @unconstrained
//     *mid
async fn unconstrained() {
    tokio::task::unconstrained(mid(DAYS)).await; // @unconstrained
}

// TREE scope
//   scope @scope
//     TaskLocalFuture<..>
//       *mid
async fn scope() {
    LOCAL.scope(7, mid(DAYS)).await; // @scope
}
tokio::task_local! {
    static LOCAL: u32;
}

#[rustfmt::skip]
pub fn spawn_all() {
    let off = std::env::args().count() > 5;
    spawn(join());
    spawn(try_join());
    spawn(select(off));
    spawn(select_refs());
    spawn(nested());
    spawn(futures_join());
    spawn(futures_try_join());
    spawn(futures_select());
    spawn(futures_select_done());
    spawn(select_fn());
    spawn(join_fn());
    spawn(join_all());
    spawn(join_1000());
    spawn(select_all());
    spawn(unordered());
    spawn(ordered());
    spawn(buffered());
    spawn(buffer_unordered());
    spawn(for_each());
    spawn(for_each_concurrent());
    spawn(unfold());
    spawn(map());
    spawn(then_first());
    spawn(then_second());
    spawn(and_then());
    spawn(either(off));
    spawn(fuse());
    spawn(shared());
    spawn(abortable());
    spawn(catch_unwind());
    spawn(boxed_dyn());
    spawn(instrumented());
    spawn(timeout());
    spawn(unconstrained());
    spawn(scope());
}
