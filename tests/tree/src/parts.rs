//! What all tasks are made of.
use std::time::Duration;
use tokio::time::sleep;

pub const DAYS: u64 = 3 * 86400;

// PART leaf
//   leaf @leaf
//     sleep
pub async fn leaf(s: u64) {
    sleep(Duration::from_secs(s)).await; // @leaf
}

// PART mid
//   mid @mid
//     *leaf
pub async fn mid(s: u64) -> u64 {
    let held = vec![s; 3];
    leaf(s).await; // @mid
    held[1] + 1
}
