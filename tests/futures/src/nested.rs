// Futures in futures, of every sort, each of whose polls is counted; `nested ROUNDS TASKS [MORE]`:
// so many rounds in each of so many tasks, and MORE in the block_on itself. It says `ready PID` and
// begins when a line comes in; `done` when it has worked, and ends with the next line.
mod count;

use std::future::{pending, Future};
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Pending so many times, waking itself, then ready with a value.
struct Turns<T> {
    left: u32,
    value: Option<T>,
}

impl<T: Unpin> Future for Turns<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if self.left == 0 {
            return Poll::Ready(self.value.take().unwrap());
        }
        self.left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[inline(never)]
fn turns<T: Unpin>(left: u32, value: T) -> Turns<T> {
    Turns { left: black_box(left), value: Some(value) }
}

// Outputs of every size: nothing, one register, two, memory.
async fn unit(n: u32) {
    turns(n, ()).await
}

async fn number(n: u32) -> u64 {
    turns(n, 7).await + 1
}

async fn pair(n: u32) -> (u64, u64) {
    let a = turns(n, 1).await;
    (a, turns(1, 2).await)
}

async fn large(n: u32) -> [u64; 9] {
    let mut sum = [0; 9];
    for i in 0..n {
        sum[i as usize % 9] += turns(i, 1).await;
    }
    sum
}

async fn fallible(n: u32) -> Result<String, std::io::Error> {
    turns(n, ()).await;
    if n % 2 == 0 {
        Ok("even".to_string())
    } else {
        Err(std::io::Error::other("odd"))
    }
}

async fn float(n: u32) -> f64 {
    turns(n, 0.5).await * 3.0
}

async fn no_await(n: u32) -> u32 {
    black_box(n) + 1
}

async fn middle(n: u32) -> u64 {
    let a = counted!(number(n)).await;
    let (b, c) = counted!(pair(n)).await;
    a + b + c
}

fn recursive(depth: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    async fn recurse(depth: u32) -> u32 {
        turns(1, ()).await;
        if depth == 0 {
            0
        } else {
            recursive(depth - 1).await + 1
        }
    }
    Box::pin(counted!(recurse(depth)))
}

async fn panics(n: u32) {
    turns(n, ()).await;
    panic!("on purpose");
}

async fn dropped(n: u32) {
    turns(n, ()).await;
    pending::<()>().await
}

async fn joins(n: u32) -> u64 {
    let (a, b, c) = tokio::join!(counted!(number(n)), counted!(number(n + 3)), counted!(middle(2)));
    a + b + c
}

async fn selects(n: u32) -> u64 {
    tokio::select! {
        a = counted!(number(n)) => a,
        _ = counted!(dropped(n + 2)) => 0,
    }
}

async fn closure(n: u32) -> u64 {
    let twice = async |x: u64| turns(2, x).await * 2;
    twice(n as u64).await + twice(n as u64 + 1).await
}

async fn boxed(n: u32) -> u64 {
    let futures: Vec<Pin<Box<dyn Future<Output = u64> + Send>>> =
        vec![Box::pin(counted!(number(n))), Box::pin(counted!(middle(n)))];
    let mut sum = 0;
    for future in futures {
        sum += future.await;
    }
    sum
}

async fn slept(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await
}

async fn everything(round: u32) -> u64 {
    let n = round % 5;
    let mut sum = 0;
    counted!(unit(n)).await;
    sum += counted!(number(n)).await;
    sum += counted!(pair(n)).await.0;
    sum += counted!(large(n)).await[0];
    sum += counted!(fallible(n)).await.is_ok() as u64;
    sum += counted!(float(n)).await as u64;
    sum += counted!(no_await(n)).await as u64;
    sum += counted!(middle(n)).await;
    sum += recursive(n).await as u64;
    sum += counted!(joins(n)).await;
    sum += counted!(selects(n)).await;
    sum += counted!(closure(n)).await;
    sum += counted!(boxed(n)).await;
    if round % 16 == 0 {
        counted!(slept(1)).await;
        let failed = tokio::spawn(counted!(panics(n))).await;
        sum += failed.is_err() as u64;
    }
    sum
}

async fn rounds(n: u32) -> u64 {
    let mut sum = 0;
    for round in 0..n {
        sum += counted!(everything(round)).await;
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
    std::panic::set_hook(Box::new(|_| {}));
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    // The recorder's frames are registered at the first poll; what other threads poll meanwhile is
    // not recorded.
    runtime.block_on(async {
        tokio::spawn(async {}).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await
    });
    let sum: u64 = runtime.block_on(async {
        let tasks: Vec<_> = (0..args[1]).map(|_| tokio::spawn(counted!(rounds(args[0])))).collect();
        let mut sum = counted!(rounds(*args.get(2).unwrap_or(&0))).await;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    count::tell();
    println!("sum {sum}\ndone");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
