// What the await point of a task costs: `links three|twelve YIELDS` yields in a task, three async
// functions deep, or twelve, with two boxes of `dyn Future` in between. `links waits|boxes YIELDS` waits
// as deep for a Notify, by turns in two tasks. It says the CPU time of one poll. It says `ready PID` and begins when a line comes in.
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn yields(n: u32) {
    for _ in 0..n {
        tokio::task::yield_now().await;
    }
}

async fn three(n: u32) {
    two(n).await
}

async fn two(n: u32) {
    yields(n).await
}

async fn four(then: Boxed) {
    inner(then).await
}

async fn inner(then: Boxed) {
    innermost(then).await
}

async fn innermost(then: Boxed) {
    then.await
}

// Twelve coroutines, of which four lie in each box.
async fn twelve(n: u32) {
    let last: Boxed = Box::pin(async move { three(n).await });
    let middle: Boxed = Box::pin(async move { four(last).await });
    four(middle).await
}

async fn waits(n: u32, mine: &Notify, other: &Notify) {
    for _ in 0..n {
        other.notify_one();
        mine.notified().await;
    }
    other.notify_one();
}

async fn three_waits(n: u32, mine: Arc<Notify>, other: Arc<Notify>) {
    async { waits(n, &mine, &other).await }.await
}

async fn twelve_waits(n: u32, mine: Arc<Notify>, other: Arc<Notify>) {
    let last: Boxed = Box::pin(async move { three_waits(n, mine, other).await });
    let middle: Boxed = Box::pin(async move { four(last).await });
    four(middle).await
}

// A task that is notified before it waits does not: each waits every second time.
async fn by_turns(n: u32, boxed: bool) {
    let [a, b] = [(); 2].map(|()| Arc::new(Notify::new()));
    let tasks = [(a.clone(), b.clone()), (b, a)].map(|(mine, other)| match boxed {
        true => tokio::spawn(twelve_waits(n, mine, other)),
        false => tokio::spawn(three_waits(n, mine, other)),
    });
    for task in tasks {
        task.await.unwrap();
    }
}

fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let n: u32 = args[1].parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let run = |n| match args[0].as_str() {
        "three" => runtime.block_on(async move { tokio::spawn(three(n)).await.unwrap() }),
        "waits" => runtime.block_on(by_turns(n, false)),
        "boxes" => runtime.block_on(by_turns(n, true)),
        _ => runtime.block_on(async move { tokio::spawn(twelve(n)).await.unwrap() }),
    };
    run(1000);
    let before = cpu_time();
    run(n);
    let ns = (cpu_time() - before).as_nanos() as f64 / f64::from(n);
    println!("{ns:.1} ns a poll");
}
