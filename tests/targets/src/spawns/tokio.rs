//! Each way to make a task on Tokio, and to block on a future. A task or root has a function of its own, which
//! one line only names: that is where it is made. All are alive together:
//!
//!     spawns_tokio            makes them, ends
//!     spawns_tokio --wait     "ready PID" when all are there; ends after a line on stdin

mod gate;

use futures::FutureExt;
use gate::{open, open_blocking, Gate};
use hyper::rt::Executor;
use std::future::Future;
use std::pin::Pin;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinSet, LocalSet};
use tracing::Instrument;

macro_rules! tasks {
    ($($name:ident)*) => { $(async fn $name() { open().await; std::hint::black_box(stringify!($name)); })* };
}

macro_rules! closures {
    ($($name:ident)*) => { $(fn $name() { open_blocking(); std::hint::black_box(stringify!($name)); })* };
}

tasks! {
    by_spawn by_handle by_runtime by_spawn_local by_local_set by_box by_instrument by_instrument_futures
    by_join_set by_join_set_on by_join_set_local by_join_set_local_on
    by_tracker by_tracker_on by_tracker_local by_pool
    by_actix by_arbiter by_executor by_helper by_catch by_nested by_select by_large_box
    by_builder by_builder_on by_builder_local by_join_set_builder
    root_of_runtime root_of_current root_of_handle root_of_local_set root_of_futures root_of_actix
    root_of_test root_in_task
}

closures! {
    by_spawn_blocking by_handle_blocking by_runtime_blocking by_join_set_blocking by_join_set_blocking_on
    by_tracker_blocking by_actix_blocking by_builder_blocking
}

fn by_map(_: u32) { std::hint::black_box("by_map"); }

async fn by_async_fn_large() { let big = [1u8; 20000]; open().await; std::hint::black_box(big); }

/// Of the program's own, and generic: the place in it is the same for all that it spawns.
fn helper<F: Future<Output = ()> + Send + 'static>(f: F) {
    tokio::spawn(f); // in helper
}

fn on_runtime(gate: &Gate) {
    let runtime: &'static Runtime = Box::leak(Box::new(Runtime::new().unwrap()));
    let handle: Handle = runtime.handle().clone();
    gate.expect(8);
    runtime.spawn(by_runtime());
    runtime.spawn_blocking(by_runtime_blocking);
    handle.spawn(by_handle());
    handle.spawn_blocking(by_handle_blocking);
    gate.expect(1);
    std::thread::spawn(|| runtime.block_on(root_of_runtime()));
    gate.expect(1);
    let other = handle.clone();
    std::thread::spawn(move || other.block_on(root_of_handle()));
    set_of(&handle);
}

fn set_of(handle: &Handle) {
    let mut set = Box::new(JoinSet::new());
    set.spawn_on(by_join_set_on(), handle);
    set.spawn_blocking_on(by_join_set_blocking_on, handle);
    let tracker = tokio_util::task::TaskTracker::new();
    tracker.spawn_on(by_tracker_on(), handle);
    tracker.spawn_blocking_on(by_tracker_blocking, handle);
    Box::leak(set);
}

fn on_current(gate: &Gate) {
    gate.expect(1);
    std::thread::spawn(|| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(root_of_current());
    });
    gate.expect(1);
    std::thread::spawn(|| futures::executor::block_on(root_of_futures()));
    gate.expect(1);
    std::thread::spawn(as_a_test);
}

/// What #[tokio::test] makes of an async fn.
fn as_a_test() {
    let body = async { root_of_test().await };
    let mut body = std::pin::pin!(body);
    let body: Pin<&mut dyn Future<Output = ()>> = body.as_mut();
    Builder::new_current_thread().enable_all().build().unwrap().block_on(body);
}

fn on_local_set(gate: &Gate) {
    gate.expect(6);
    std::thread::spawn(|| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let local = LocalSet::new();
        let mut set = Box::new(JoinSet::new());
        local.spawn_local(by_local_set());
        set.spawn_local_on(by_join_set_local_on(), &local);
        local.block_on(&runtime, async move {
            tokio::task::spawn_local(by_spawn_local());
            set.spawn_local(by_join_set_local());
            tokio_util::task::TaskTracker::new().spawn_local(by_tracker_local());
            root_of_local_set().await
        });
    });
}

fn on_actix(gate: &Gate) {
    gate.expect(4);
    std::thread::spawn(|| {
        let system = actix_rt::System::new();
        let arbiter = actix_rt::Arbiter::new();
        arbiter.spawn(by_arbiter());
        system.block_on(async move {
            actix_rt::spawn(by_actix());
            actix_rt::task::spawn_blocking(by_actix_blocking);
            root_of_actix().await
        });
    });
}

#[cfg(tokio_unstable)]
fn on_builder(gate: &Gate) {
    use tokio::task::Builder;
    gate.expect(5);
    Builder::new().name("a").spawn(by_builder()).unwrap();
    Builder::new().name("b").spawn_on(by_builder_on(), &Handle::current()).unwrap();
    Builder::new().name("c").spawn_blocking(by_builder_blocking).unwrap();
    let mut set = Box::new(JoinSet::new());
    set.build_task().name("e").spawn(by_join_set_builder()).unwrap();
    Box::leak(set);
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            Builder::new().name("d").spawn_local(by_builder_local()).unwrap().await.unwrap();
        });
    });
}

#[cfg(not(tokio_unstable))]
fn on_builder(_: &Gate) {
    std::hint::black_box((by_builder, by_builder_on, by_builder_local, by_builder_blocking, by_join_set_builder));
}

#[tokio::main]
async fn main() {
    let gate = Gate::from_args();
    gate.expect(10);
    tokio::spawn(by_spawn());
    tokio::task::spawn_blocking(by_spawn_blocking);
    tokio::task::spawn_blocking(|| { open_blocking(); std::hint::black_box("in a closure"); });
    tokio::spawn(Box::pin(by_box()));
    tokio::spawn(by_async_fn_large());
    tokio::spawn(by_instrument().instrument(tracing::info_span!("span")));
    tokio::spawn(tracing_futures::Instrument::instrument(by_instrument_futures(), tracing::info_span!("span")));
    tokio::spawn(std::panic::AssertUnwindSafe(by_catch()).catch_unwind());
    hyper_util::rt::TokioExecutor::new().execute(by_executor());
    helper(by_helper());
    gate.expect(6);
    let mut set = Box::new(JoinSet::new());
    set.spawn(by_join_set());
    set.spawn_blocking(by_join_set_blocking);
    let tracker = tokio_util::task::TaskTracker::new();
    tracker.spawn(by_tracker());
    let pool = tokio_util::task::LocalPoolHandle::new(1);
    let pinned = pool.spawn_pinned(|| by_pool());
    tokio::spawn(async { tokio::join!(by_nested(), by_select()); });
    gate.expect(1);
    tokio::spawn(async { open().await; 1 }.map(by_map));
    gate.expect(1);
    tokio::task::spawn_blocking(|| Handle::current().block_on(root_in_task()));
    on_runtime(&gate);
    on_current(&gate);
    on_local_set(&gate);
    on_actix(&gate);
    on_builder(&gate);
    gate.pass().await;
    std::mem::forget((set, pinned));
    std::process::exit(0);
}
