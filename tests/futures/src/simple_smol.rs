mod simple;

mod rt {
    pub use smol::future::zip;
    use std::time::Duration;

    pub async fn sleep(time: Duration) {
        smol::Timer::after(time).await;
    }

    pub async fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
        smol::spawn(future).await
    }

    pub async fn select<T>(a: impl Future<Output = T>, b: impl Future<Output = T>) -> T {
        smol::future::or(a, b).await
    }
}

fn main() {
    smol::block_on(simple::main())
}
