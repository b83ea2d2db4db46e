//! The tasks of async_task.rs on async-std.
#[path = "async_task.rs"]
mod tasks;

mod rt {
    use std::future::Future;
    use std::time::Duration;

    pub use async_std::channel::{bounded as channel, Receiver};
    pub use async_std::net::TcpListener;
    pub use async_std::sync::{Arc, Mutex};
    // Its sleep is a timeout of what never comes (async-std 1.13.2).
    // PART nap
    //   timeout timeout.rs:43
    //     Pending<..>
    //     timer
    pub use async_std::task::{sleep, spawn};

    pub fn mutex(n: u64) -> Arc<Mutex<u64>> {
        Arc::new(Mutex::new(n))
    }
    pub fn detach(f: impl Future<Output = ()> + Send + 'static) {
        drop(spawn(f));
    }
    pub fn listen() -> TcpListener {
        async_std::task::block_on(TcpListener::bind("127.0.0.1:0")).unwrap()
    }

    // PART late_rt
    //   timeout @timeout
    //     TimeoutFuture<..>
    //       *mid
    //       timer
    pub async fn timeout<F: Future>(d: Duration, f: F) {
        let _ = async_std::future::timeout(d, f).await; // @timeout
    }
}

fn main() {
    tasks::main();
}
