mod counted;
mod rooted;

mod rt {
    pub use async_std::task::{block_on, sleep};
    pub use futures_lite::future::zip;
}

fn main() {
    rooted::main();
}
