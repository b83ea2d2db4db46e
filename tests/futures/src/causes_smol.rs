#[path = "causes.rs"]
mod causes;

/// How smol does it.
mod rt {
    pub use smol::future::or;
    pub use smol::lock::Mutex;
    pub use smol::{Task, block_on, channel, spawn, unblock};

    pub async fn sleep(time: std::time::Duration) {
        smol::Timer::after(time).await;
    }
}

fn main() {
    causes::main();
}
