//! Futures whose types lead to 2^44 empty values: three tasks, and a tree that ends all the same.
use std::future::Future;
use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Named as futures' own, so that they are looked through.
mod maybe_done {
    pub struct Empty<F>(pub [F; 0]);

    pub trait New {
        fn new() -> Self;
    }

    impl<F> New for Empty<F> {
        fn new() -> Self {
            Empty([])
        }
    }

    macro_rules! doubled {
        ($($name:ident of $half:ident,)*) => {$(
            pub struct $name<F>(pub $half<F>, pub $half<F>);

            impl<F> New for $name<F> {
                fn new() -> Self {
                    $name($half::new(), $half::new())
                }
            }
        )*};
    }

    doubled! {
        T1 of Empty, T2 of T1, T3 of T2, T4 of T3, T5 of T4, T6 of T5, T7 of T6, T8 of T7, T9 of T8,
        T10 of T9, T11 of T10, T12 of T11, T13 of T12, T14 of T13, T15 of T14, T16 of T15,
        T17 of T16, T18 of T17, T19 of T18, T20 of T19, T21 of T20, T22 of T21, T23 of T22,
        T24 of T23, T25 of T24, T26 of T25, T27 of T26, T28 of T27, T29 of T28, T30 of T29,
        T31 of T30, T32 of T31, T33 of T32, T34 of T33, T35 of T34, T36 of T35, T37 of T36,
        T38 of T37, T39 of T38, T40 of T39, T41 of T40, T42 of T41, T43 of T42, T44 of T43,
    }
}

use maybe_done::New;

struct Tangled<F> {
    _empty: maybe_done::T44<F>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Tangled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.future.as_mut().poll(cx)
    }
}

impl<F> Unpin for Tangled<F> {}

async fn leaf() {
    loop {
        tokio::time::sleep(Duration::from_secs(3600)).await; // @tangled_leaf
    }
}

async fn top() {
    let tangled = Tangled { _empty: maybe_done::T44::new(), future: Box::pin(leaf()) };
    tangled.await; // @tangled_top
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    for _ in 0..3 {
        runtime.spawn(top());
    }
    std::thread::sleep(Duration::from_millis(200));
    println!("ready {}", std::process::id());
    let _ = std::io::stdin().read(&mut [0]);
    runtime.shutdown_background();
}
