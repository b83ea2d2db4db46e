// One worker of four computes for 2 s; it is the one that last looked at timers. The others sleep: timers stand still.
use std::time::{Duration, Instant};
#[inline(never)]
fn crunch(for_: Duration) {
    let t = Instant::now();
    let mut x = 1u64;
    while t.elapsed() < for_ {
        for i in 0..10_000u64 {
            x = x.wrapping_mul(i | 1).rotate_left(7);
        }
        std::hint::black_box(x);
    }
}
async fn reindex() {
    loop {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        crunch(Duration::from_secs(2));
    }
}
async fn lease_keeper() {
    let mut last = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let late = last.elapsed();
        if late > Duration::from_millis(150) {
            eprintln!("lease renewed after {late:?}");
        }
        last = Instant::now();
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn main() {
    tokio::spawn(reindex());
    tokio::spawn(lease_keeper()).await.unwrap();
}
