mod simple;

mod rt {
    pub use tokio::time::sleep;

    pub async fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
        tokio::spawn(future).await.unwrap()
    }

    pub async fn zip<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
        tokio::join!(a, b)
    }

    pub async fn select<T>(a: impl Future<Output = T>, b: impl Future<Output = T>) -> T {
        tokio::select! { x = a => x, x = b => x }
    }
}

#[tokio::main]
async fn main() {
    simple::main().await
}
