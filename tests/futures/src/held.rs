// Futures that whoever awaits them may drop, or holds behind a pointer: `held ROUNDS TASKS [MORE]`, as
// `nested`. What becomes of each is counted by the future itself, so that nothing stands between it and
// its awaiter: `truth NAME begun pending ready dropped`, all of which were pending at least once.
mod counted;

use counted::{FOREVER, counted};
use std::future::Future;
use std::hint::black_box;
use std::pin::{pin, Pin};
use std::task::{Context, Poll};
use std::time::Duration;

counted! {
    select_a select_b select_c in_timeout in_wrapper try_a try_b join_a join_b in_own
    in_box in_pinned in_mut loop_a loop_b behind_select behind_a root_a root_b covered remade
}

type Boxed = Pin<Box<dyn Future<Output = u64> + Send>>;

/// Of which nobody knows what it does with its future.
struct Own<F> {
    future: F,
}

impl<F: Future> Future for Own<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        unsafe { self.map_unchecked_mut(|me| &mut me.future) }.poll(cx)
    }
}

async fn selects(n: u32) -> u64 {
    tokio::select! {
        x = select_a(n) => x,
        x = select_b(n + 1) => x,
    }
}

/// A branch that is ready and isn't taken stays there, while the other is awaited on.
async fn refuses(n: u32) -> u64 {
    tokio::select! {
        0 = select_c(n) => 0,
        x = behind_select(n + 2) => x,
    }
}

async fn times_out(n: u32) -> u64 {
    let (left, time) = if n % 2 == 0 { (n, 1_000_000) } else { (FOREVER, 1) };
    tokio::time::timeout(Duration::from_millis(time), in_timeout(left)).await.unwrap_or(7)
}

async fn wraps(n: u32) -> u64 {
    let x = tokio::task::unconstrained(in_wrapper(n)).await;
    x + Own { future: in_own(n) }.await
}

async fn large(n: u32) -> u64 {
    let all = black_box([u64::from(n); 64]);
    tokio::task::yield_now().await;
    all[n as usize % 64]
}

/// What is awaited second lies where the first one did.
async fn covers(n: u32) -> u64 {
    let x = Own { future: covered(n) }.await;
    x + Own { future: large(n) }.await
}

async fn tries(n: u32) -> u64 {
    let fails = async {
        match try_a(n).await {
            x if x % 2 == 0 => Ok(x),
            x => Err(x),
        }
    };
    let (Ok(x) | Err(x)) = tokio::try_join!(fails, async { Ok(try_b(n + 1).await) }).map(|x| x.0);
    x
}

async fn joins(n: u32) -> u64 {
    let (a, b) = tokio::join!(join_a(n), join_b(n + 2));
    a + b
}

async fn boxes(n: u32) -> u64 {
    let x = Box::pin(in_box(n)).await;
    let pinned = pin!(in_pinned(n));
    let y = pinned.await;
    let mut owned = Box::pin(in_mut(n));
    x + y + (&mut owned).await
}

/// The first one goes on until it is ready, among others that are dropped.
async fn goes_on(n: u32) -> u64 {
    let mut all = pin!(loop_a(3 * n));
    let mut sum = 0;
    loop {
        tokio::select! {
            x = &mut all => return sum + x,
            x = loop_b(n) => sum += x,
        }
        sum += behind_a(2).await;
    }
}

/// Each is made in the memory of the one that was dropped before, as in a loop around a select!.
async fn remakes(n: u32) -> u64 {
    for _ in 0..3 {
        let dropped: Boxed = black_box(Box::pin(remade(FOREVER)));
        tokio::select! {
            biased;
            _ = dropped => unreachable!(),
            () = tokio::task::yield_now() => {}
        }
    }
    let last: Boxed = black_box(Box::pin(remade(n)));
    last.await
}

async fn everything(round: u32) -> u64 {
    let n = round % 5 + 1;
    // each with a poll function of its own
    let all: [Boxed; 10] = [
        Box::pin(selects(n)),
        Box::pin(refuses(n)),
        Box::pin(times_out(n)),
        Box::pin(wraps(n)),
        Box::pin(covers(n)),
        Box::pin(tries(n)),
        Box::pin(joins(n)),
        Box::pin(boxes(n)),
        Box::pin(goes_on(n)),
        Box::pin(remakes(n)),
    ];
    let mut sum = 0;
    for one in black_box(all) {
        sum += one.await;
    }
    sum
}

async fn rounds(n: u32) -> u64 {
    let mut sum = 0;
    for round in 0..n {
        sum += everything(round).await;
    }
    sum
}

fn main() {
    let args: Vec<u32> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    // As in `nested`: the recorder's frames are registered at the first poll.
    runtime.block_on(async {
        tokio::spawn(async {}).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await
    });
    let more = *args.get(2).unwrap_or(&0);
    let sum: u64 = runtime.block_on(async move {
        let tasks: Vec<_> = (0..args[1]).map(|_| tokio::spawn(rounds(args[0]))).collect();
        let mut sum = 0;
        for round in 0..more {
            sum += root_a(round % 3 + 1).await;
            sum += tokio::join!(root_a(2), root_b(round % 2 + 1)).1;
        }
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    counted::say();
    println!("sum {sum}\ndone");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
