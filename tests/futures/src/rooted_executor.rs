mod counted;
mod rooted;

mod rt {
    pub use smol::future::zip;

    pub fn block_on<T>(future: impl Future<Output = T>) -> T {
        smol::block_on(smol::LocalExecutor::new().run(future))
    }

    pub async fn sleep(time: std::time::Duration) {
        smol::Timer::after(time).await;
    }
}

fn main() {
    rooted::main();
}
