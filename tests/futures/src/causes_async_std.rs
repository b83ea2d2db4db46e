#[path = "causes.rs"]
mod causes;

/// How async-std does it.
mod rt {
    pub use async_std::channel;
    pub use async_std::sync::Mutex;
    pub use async_std::task::{JoinHandle as Task, block_on, sleep, spawn, spawn_blocking as unblock};
    pub use futures_lite::future::or;
}

fn main() {
    causes::main();
}
