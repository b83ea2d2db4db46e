//! The same on async-std, smol and async-executor: see tokio.rs.

mod gate;

use gate::{open, open_blocking, Gate};
use std::sync::Arc;

macro_rules! tasks {
    ($($name:ident)*) => { $(async fn $name() { open().await; std::hint::black_box(stringify!($name)); })* };
}

macro_rules! closures {
    ($($name:ident)*) => { $(fn $name() { open_blocking(); std::hint::black_box(stringify!($name)); })* };
}

tasks! {
    by_async_std by_async_std_local by_async_std_builder by_smol by_own_executor by_local_executor by_helper
    root_of_smol root_of_async_std root_of_lite root_of_executor
}

closures! { by_async_std_blocking by_unblock }

fn helper(f: impl std::future::Future<Output = ()> + Send + 'static) {
    smol::spawn(f).detach(); // in helper
}

#[async_std::main]
async fn main() {
    let gate = Gate::from_args();
    gate.expect(6);
    async_std::task::spawn(by_async_std());
    let blocking = async_std::task::spawn_blocking(by_async_std_blocking);
    async_std::task::Builder::new().name("b".into()).spawn(by_async_std_builder()).unwrap();
    smol::spawn(by_smol()).detach();
    let unblock = smol::unblock(by_unblock);
    helper(by_helper());
    gate.expect(6);
    std::thread::spawn(|| smol::block_on(root_of_smol()));
    std::thread::spawn(|| smol::future::block_on(root_of_lite()));
    std::thread::spawn(|| async_std::task::block_on(async {
        async_std::task::spawn_local(by_async_std_local());
        root_of_async_std().await
    }));
    let executor = Arc::new(smol::Executor::new());
    executor.spawn(by_own_executor()).detach();
    std::thread::spawn(move || smol::block_on(executor.run(root_of_executor())));
    gate.expect(1);
    std::thread::spawn(|| {
        let local = smol::LocalExecutor::new();
        let task = local.spawn(by_local_executor());
        smol::block_on(local.run(task));
    });
    gate.pass().await;
    drop((blocking, unblock));
    std::process::exit(0);
}
