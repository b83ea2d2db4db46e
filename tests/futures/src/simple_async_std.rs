mod simple;

mod rt {
    pub use async_std::task::sleep;
    pub use futures_lite::future::zip;

    pub async fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
        async_std::task::spawn(future).await
    }

    pub async fn select<T>(a: impl Future<Output = T>, b: impl Future<Output = T>) -> T {
        futures_lite::future::or(a, b).await
    }
}

#[async_std::main]
async fn main() {
    simple::main().await
}
