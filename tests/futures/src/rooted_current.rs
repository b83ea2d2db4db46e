mod counted;
mod rooted;

mod rt {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::time::Duration;
    use tokio::runtime::{Builder, Runtime};

    pub use tokio::time::sleep;

    /// Polls a task between the polls of a block_on's future.
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.spawn(async {
            loop {
                sleep(Duration::from_millis(1)).await;
                tokio::task::yield_now().await;
            }
        });
        runtime
    });

    /// Every other one in a Box, as Tokio puts those that are large.
    pub fn block_on<T>(future: impl Future<Output = T>) -> T {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        if CALLS.fetch_add(1, SeqCst) % 2 == 0 {
            RUNTIME.block_on(future)
        } else {
            RUNTIME.block_on(Box::pin(future))
        }
    }

    pub async fn zip<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
        tokio::join!(a, b)
    }
}

fn main() {
    rooted::main();
}
