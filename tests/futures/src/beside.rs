//! An async function beside a future written by hand, which works, in one `select!`: `beside ROUNDS`.
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Works a millisecond each time that it is polled, and again what it holds is.
struct Busy {
    left: u32,
    inner: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Future for Busy {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let until = Instant::now() + Duration::from_millis(1);
        while Instant::now() < until {}
        if self.left == 0 {
            return self.inner.as_mut().poll(cx);
        }
        self.left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

async fn quiet(never: &Notify) {
    never.notified().await;
}

async fn both(rounds: u32) {
    let never = Notify::new();
    let mut busy = Busy { left: rounds, inner: Box::pin(std::future::ready(())) };
    tokio::select! {
        () = quiet(&never) => unreachable!(),
        () = &mut busy => {}
    }
}

#[tokio::main]
async fn main() {
    let rounds: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
    println!("ready {}", std::process::id());
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await.unwrap().unwrap();
    tokio::spawn(both(rounds)).await.unwrap();
    println!("sum {rounds}\ndone");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
