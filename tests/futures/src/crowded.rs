// More await points than the numbers of chains: 32 kinds of tasks, each of which awaits a function of
// 1,024 await points, each once, and then once in a box. It says `ready PID` and begins when a line comes in; `done` when it has worked.
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::task::JoinHandle;

/// Pending once. It has no state of a coroutine's, so programs are small.
struct Turn(bool);

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

macro_rules! four_times {
    ($($once:tt)*) => { $($once)* $($once)* $($once)* $($once)* };
}

async fn shared() {
    four_times! { four_times! { four_times! { four_times! { four_times! { Turn(false).await; } } } } }
}

fn kind<const N: usize>() -> JoinHandle<()> {
    tokio::spawn(async {
        shared().await;
        let boxed: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async {
            black_box(N);
            Turn(false).await
        });
        boxed.await
    })
}

macro_rules! kinds {
    ($($n:literal)*) => { [$(kind::<$n>, kind::<{ $n + 8 }>, kind::<{ $n + 16 }>, kind::<{ $n + 24 }>),*] };
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    for spawn in kinds!(0 1 2 3 4 5 6 7) {
        spawn().await.unwrap();
    }
    println!("done");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
