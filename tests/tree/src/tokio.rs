//! Tasks that stand still at known places, for `pollux tree`.
//!
//! A comment `TREE name` above a function is the await tree of the task whose root future it is:
//! indented by what waits for what, `@mark` being the line that ends with the comment `@mark`,
//! `[done]` and the like the state, `*name` the fragment `PART name`. test_tree.py reads these
//! comments and compares node by node; lines may move freely.
#![recursion_limit = "512"]

mod combinators;
mod own;
mod parts;
mod sync;

use parts::*;
use std::time::Duration;
use tokio::time::sleep;

/// Everything on a current_thread runtime with a LocalSet, in a thread of its own.
fn current_thread() {
    std::thread::spawn(|| {
        let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local = tokio::task::LocalSet::new();
        local.spawn_local(in_local_set());
        rt.spawn(in_current_thread());
        rt.block_on(local.run_until(async {
            tokio::task::spawn_local(spawned_inside());
            leaf(DAYS).await;
        }));
    });
}

// TREE in_local_set
//   in_local_set @in_local_set
//     yielder @yielder
//       *mid
async fn in_local_set() {
    let not_send = std::rc::Rc::new(1);
    yielder().await; // @in_local_set
    drop(not_send);
}

async fn yielder() {
    tokio::task::yield_now().await;
    mid(DAYS).await; // @yielder
}

// TREE spawned_inside
//   spawned_inside @spawned_inside
//     sleep
async fn spawned_inside() {
    sleep(Duration::from_secs(DAYS)).await; // @spawned_inside
}

// TREE in_current_thread
//   in_current_thread @in_current_thread
//     *leaf
async fn in_current_thread() {
    leaf(DAYS).await; // @in_current_thread
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    current_thread();
    own::spawn_all();
    combinators::spawn_all();
    let kept = sync::spawn_all().await;
    sleep(Duration::from_millis(300)).await;
    println!("ready {}", std::process::id());
    // Ends with its standard input, so that no test can leave one behind.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    drop(kept);
    std::process::exit(0);
}
