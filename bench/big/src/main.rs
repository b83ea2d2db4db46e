//! Much code, and a task of each of many kinds that sleeps a millisecond without end. Prints "ready
//! PID", ends with a line on its stdin.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item<const N: usize> {
    bytes: [u8; N],
    next: Option<Box<Item<N>>>,
}

async fn doze<const N: usize>(item: Item<N>) -> usize {
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if item.next.is_some() {
            return item.bytes.len();
        }
    }
}

fn start<const N: usize>() {
    tokio::spawn(doze(Item::<N> { bytes: [0; N], next: None }));
}

fn fill<const N: usize>() -> usize {
    let item = Item::<N> { bytes: [1; N], next: None };
    let mut tree = BTreeMap::new();
    let mut map = HashMap::new();
    for i in 0..2 {
        tree.insert(item.clone(), i);
        map.insert(i, item.clone());
    }
    let mut all: Vec<Item<N>> = map.into_values().chain(tree.into_keys()).collect();
    all.sort();
    all.dedup();
    format!("{all:?}").len()
}

static TASKS: &[fn()] = &include!(concat!(env!("OUT_DIR"), "/tasks.rs"));
static FILLERS: &[fn() -> usize] = &include!(concat!(env!("OUT_DIR"), "/fillers.rs"));

fn main() {
    let mut filled = 0;
    for fill in FILLERS {
        filled += fill();
    }
    assert!(filled > 0);
    let rt = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("runtime");
    rt.block_on(async {
        for start in TASKS {
            start();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    });
    println!("ready {}", std::process::id());
    std::io::stdout().flush().expect("stdout");
    std::io::stdin().read_line(&mut String::new()).expect("stdin");
    rt.shutdown_background();
}
