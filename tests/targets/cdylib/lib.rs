//! Four functions for C: make a runtime, let it work in two ways, end it and get the truth.

#[macro_use]
#[path = "../src/truth.rs"]
mod truth;

use std::ffi::{c_char, CString};
use std::future::Future;
use std::pin::Pin;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

family!(library_worker);
family!(library_sender);

/// A runtime of two workers; give it back to `inside_end`.
#[no_mangle]
pub extern "C" fn inside_begin() -> *mut Runtime {
    let rt = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    Box::into_raw(Box::new(rt))
}

/// Works for a while, in tasks; gives the sum of 0 to n-1, eight times.
///
/// # Safety
/// `rt` comes from `inside_begin` and was not ended.
#[no_mangle]
pub unsafe extern "C" fn inside_work(rt: *const Runtime, n: u64) -> u64 {
    truth::begin();
    let rt = &*rt;
    let (tx, mut rx) = mpsc::channel::<u64>(4);
    let receiver = rt.spawn(library_worker(async move {
        let mut sum = 0;
        while let Some(value) = rx.recv().await {
            sum += value;
        }
        sum
    }));
    let sender = |tx: mpsc::Sender<u64>| {
        rt.spawn(library_sender(async move {
            for value in 0..n {
                tx.send(value).await.unwrap();
            }
        }))
    };
    let senders: Vec<_> = (0..8).map(|_| sender(tx.clone())).collect();
    drop(tx);
    // The channel is closed before the last sender's poll is over. It ends before the runtime does: how
    // a detached task ends during a shutdown can't be told.
    rt.block_on(async {
        for sender in senders {
            sender.await.unwrap();
        }
        receiver.await.unwrap()
    })
}

fn turns(n: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        for _ in 0..n {
            tokio::task::yield_now().await;
        }
        n
    })
}

/// The same in boxes: a future in one awaits another that is in one, in four tasks; gives what they
/// have in all, 4 n.
///
/// # Safety
/// `rt` comes from `inside_begin` and was not ended.
#[no_mangle]
pub unsafe extern "C" fn inside_boxes(rt: *const Runtime, n: u64) -> u64 {
    truth::begin();
    let rt = &*rt;
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let outer: Pin<Box<dyn Future<Output = u64> + Send>> =
                Box::pin(async move { turns(n).await });
            rt.spawn(library_worker(async move { outer.await }))
        })
        .collect();
    rt.block_on(async {
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    })
}

/// Ends the runtime; gives the truth, a string that is never freed.
///
/// # Safety
/// `rt` comes from `inside_begin` and was not ended.
#[no_mangle]
pub unsafe extern "C" fn inside_end(rt: *mut Runtime) -> *const c_char {
    drop(Box::from_raw(rt));
    CString::new(truth::json("cdylib")).unwrap().into_raw()
}
