//! The recorder that the features choose, around a program that knows nothing of it.

use tokio::runtime::{Builder, Runtime};

/// dial9 writes its trace into the folder DIAL9_TRACE_DIR, at most 4 GiB of it. It sees every task
/// through Tokio's hooks; wakes it would see for tasks of its own `spawn` only.
#[cfg(feature = "dial9")]
pub fn around(program: impl FnOnce(fn(Builder) -> Runtime)) {
    use dial9::{DiskBuffer, TokioAttachOptions};
    use std::sync::OnceLock;

    static HANDLE: OnceLock<dial9::Dial9Handle> = OnceLock::new();

    fn build(builder: Builder) -> Runtime {
        use dial9::Dial9HandleTokioExt;
        let options = TokioAttachOptions::builder().task_tracking_enabled(true).build();
        HANDLE.get().expect("recorder").attach_tokio_runtime(builder, options).expect("runtime")
    }

    let writer = DiskBuffer::builder()
        .base_path(std::env::var("DIAL9_TRACE_DIR").expect("DIAL9_TRACE_DIR"))
        .max_total_size(4 << 30)
        .build()
        .expect("trace folder");
    let recorder = dial9::recorder(writer).build();
    assert!(HANDLE.set(recorder.handle().clone()).is_ok());
    program(build);
    recorder.graceful_shutdown(std::time::Duration::from_secs(10));
}

/// console-subscriber gathers for a client that is not there, as in a service that waits for one.
#[cfg(all(feature = "console", not(feature = "dial9")))]
pub fn around(program: impl FnOnce(fn(Builder) -> Runtime)) {
    console_subscriber::ConsoleLayer::builder().server_addr(([127, 0, 0, 1], 0)).init();
    program(|mut builder| builder.build().expect("runtime"));
}

#[cfg(not(any(feature = "console", feature = "dial9")))]
pub fn around(program: impl FnOnce(fn(Builder) -> Runtime)) {
    program(|mut builder| builder.build().expect("runtime"));
}
