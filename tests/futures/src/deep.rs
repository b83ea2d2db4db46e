// What a future's poll costs: `deep DEPTH YIELDS` polls futures in futures, so many deep, each behind a
// dyn Future, and says the CPU time of one of their polls. It says `ready PID` and begins when a line
// comes in.
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

fn nest(depth: u32, yields: u32) -> Pin<Box<dyn Future<Output = u32>>> {
    Box::pin(async move {
        if depth > 1 {
            return nest(depth - 1, yields).await + 1;
        }
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        1
    })
}

fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn main() {
    let args: Vec<u32> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    runtime.block_on(nest(2, 1000));
    let before = cpu_time();
    let depth = runtime.block_on(nest(args[0], args[1]));
    let polls = u64::from(depth) * u64::from(args[1] + 1);
    let ns = (cpu_time() - before).as_nanos() as f64 / polls as f64;
    println!("{ns:.1} ns a poll, {polls} polls");
}
