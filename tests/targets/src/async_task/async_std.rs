//! The programs on async-std: `suite PROGRAM [--wait] [--scale PERCENT]`; `suite list` names them.

#[macro_use]
#[path = "../truth.rs"]
mod truth;
#[path = "pick.rs"]
mod pick;
#[path = "programs.rs"]
mod programs;
#[path = "../stage.rs"]
mod stage;

/// How async-std does it.
mod rt {
    pub use async_std::channel;
    pub use async_std::io;
    pub use async_std::net;
    pub use async_std::task::{block_on, sleep, spawn, JoinHandle};

    pub async fn yield_now() {
        async_std::task::yield_now().await;
    }

    /// A dropped handle detaches its task.
    pub fn detach<T>(task: JoinHandle<T>) {
        drop(task);
    }

    pub async fn cancel<T>(task: JoinHandle<T>) {
        task.cancel().await;
    }

    /// Not spawn_blocking, which spawns a task around this that nobody can count.
    pub async fn unblock<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
        blocking::unblock(call).await
    }
}

fn main() {
    pick::run(&[]);
}
