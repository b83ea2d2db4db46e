//! Futures in a block_on, whose own poll the optimiser makes a part of it: `rooted ROUNDS`, some
//! block_ons one after the other. Between the rounds nothing is woken, so that the thread waits.
use crate::counted::{self, counted};
use crate::rt::{block_on, sleep, zip};
use std::time::Duration;

counted! { root_a root_b }

pub fn main() {
    let rounds: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    // The recorder's frames are registered at the first poll.
    block_on(async { sleep(Duration::from_millis(50)).await });
    let mut sum = 0;
    for _ in 0..2 {
        sum += block_on(async move {
            let mut sum = 0;
            for round in 0..rounds {
                sum += root_a(round % 3 + 1).await;
                sleep(Duration::from_millis(2)).await;
                sum += zip(root_a(2), root_b(round % 2 + 1)).await.1;
            }
            sleep(Duration::from_millis(2)).await;
            sum
        });
    }
    // The last poll of the last one isn't seen to end.
    block_on(async { sleep(Duration::from_millis(2)).await });
    counted::say();
    println!("sum {sum}\ndone");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
