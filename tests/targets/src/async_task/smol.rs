//! The programs on smol, and some on async-task alone: `suite PROGRAM [--wait] [--scale PERCENT]`;
//! `suite list` names them.

#[macro_use]
#[path = "../truth.rs"]
mod truth;
#[path = "own.rs"]
mod own;
#[path = "pick.rs"]
mod pick;
#[path = "programs.rs"]
mod programs;
#[path = "../stage.rs"]
mod stage;

/// How smol does it.
mod rt {
    pub use smol::channel;
    pub use smol::future::yield_now;
    pub use smol::net;
    pub use smol::{block_on, spawn, unblock, Task};
    use std::time::Duration;

    pub mod io {
        pub use smol::io::{AsyncReadExt as ReadExt, AsyncWriteExt as WriteExt};
    }

    pub async fn sleep(time: Duration) {
        smol::Timer::after(time).await;
    }

    pub fn detach<T>(task: Task<T>) {
        task.detach();
    }

    pub async fn cancel<T>(task: Task<T>) {
        task.cancel().await;
    }
}

pub fn main() {
    pick::run(own::PROGRAMS);
}
