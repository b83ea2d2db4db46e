//! The tasks of async_task.rs on smol.
#[path = "async_task.rs"]
mod tasks;

mod rt {
    use smol::future::FutureExt;
    use std::future::Future;
    use std::time::Duration;

    pub use smol::channel::{bounded as channel, Receiver};
    pub use smol::lock::Mutex;
    pub use smol::net::TcpListener;
    pub use smol::spawn;
    pub use std::sync::Arc;

    // PART nap
    //   timer
    pub fn sleep(d: Duration) -> smol::Timer {
        smol::Timer::after(d)
    }
    pub fn mutex(n: u64) -> Arc<Mutex<u64>> {
        Arc::new(Mutex::new(n))
    }
    pub fn detach(f: impl Future<Output = ()> + Send + 'static) {
        spawn(f).detach();
    }
    pub fn listen() -> TcpListener {
        smol::block_on(TcpListener::bind("127.0.0.1:0")).unwrap()
    }

    // PART late_rt
    //   timeout @timeout
    //     Or<..>
    //       timeout @timeout_work
    //         *mid
    //       timeout @timeout_timer
    //         timer
    pub async fn timeout<F: Future>(d: Duration, f: F) {
        let work = async {
            f.await; // @timeout_work
        };
        let timer = async {
            sleep(d).await; // @timeout_timer
        };
        work.or(timer).await; // @timeout
    }
}

fn main() {
    tasks::main();
}
