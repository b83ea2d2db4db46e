// Futures beside numbers that look like addresses, for debug information that says that there a
// future is. `stamped ROUNDS` says `ready PID`, begins when a line comes in, and says what it has
// summed up. Each has a poll function of its own (a dyn Future), and holds another in a box, in itself,
// far behind itself, or borrowed.
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;

const STAMP: u64 = 0x1a2_25f5_a560; // a time in ms
const ODD: u64 = 0x7fff_1234_5671; // an address of a stack, but for its last bit

async fn inner(rounds: u32) -> u64 {
    for _ in 0..rounds {
        tokio::task::yield_now().await;
    }
    1
}

async fn boxed(stamp: u64, odd: u64, rounds: u32) -> u64 {
    let future = Box::pin(inner(rounds));
    let sum = future.await;
    sum + black_box(stamp) % 2 + black_box(odd) % 2
}

async fn borrowed(stamp: u64, odd: u64, rounds: u32) -> u64 {
    let mut future = Box::pin(inner(rounds));
    let sum = (&mut future).await;
    sum + black_box(stamp) % 2 + black_box(odd) % 2
}

async fn plain(stamp: u64, odd: u64, rounds: u32) -> u64 {
    let sum = inner(rounds).await;
    sum + black_box(stamp) % 2 + black_box(odd) % 2
}

async fn far(stamp: u64, odd: u64, rounds: u32) -> u64 {
    let numbers = black_box([stamp; 9000]);
    let sum = inner(rounds).await;
    sum + black_box(&numbers)[rounds as usize % 9000] % 2 + black_box(odd) % 2
}

type Boxed = Pin<Box<dyn Future<Output = u64> + Send>>;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let rounds = std::env::args().nth(1).unwrap().parse().unwrap();
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let mut sum = 0;
    for _ in 0..rounds {
        let futures: [Boxed; 4] = [
            Box::pin(boxed(STAMP, ODD, 20)),
            Box::pin(borrowed(STAMP, ODD, 20)),
            Box::pin(plain(STAMP, ODD, 20)),
            Box::pin(far(STAMP, ODD, 20)),
        ];
        let tasks = futures.map(|future| tokio::spawn(async move { future.await }));
        for task in tasks {
            sum += task.await.unwrap();
        }
    }
    println!("sum {sum}");
    println!("done");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
