mod counted;
mod rooted;

mod rt {
    pub use smol::block_on;
    pub use smol::future::zip;

    pub async fn sleep(time: std::time::Duration) {
        smol::Timer::after(time).await;
    }
}

fn main() {
    rooted::main();
}
