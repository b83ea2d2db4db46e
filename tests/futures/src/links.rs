// What the await point of a task costs: `links three|twelve YIELDS` yields in a task, three async
// functions deep, or twelve, with two boxes of `dyn Future` in between. It says the CPU time of one poll
// of the task. It says `ready PID` and begins when a line comes in.
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

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
        _ => runtime.block_on(async move { tokio::spawn(twelve(n)).await.unwrap() }),
    };
    run(1000);
    let before = cpu_time();
    run(n);
    let ns = (cpu_time() - before).as_nanos() as f64 / f64::from(n);
    println!("{ns:.1} ns a poll");
}
