//! What tasks keep in their locals while they are suspended: guards of locks that block their thread,
//! receivers of channels with messages in them; and tasks that block in place.
use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::{broadcast, mpsc, oneshot, watch, Semaphore};
use tokio::task::LocalSet;
use tokio::time::sleep;

async fn std_mutex(lock: Arc<Mutex<u64>>) {
    let guard = lock.lock().unwrap();
    pending::<()>().await; // @std_mutex
    drop(guard);
}

async fn std_read(lock: Arc<RwLock<u64>>) {
    let guard = lock.read().unwrap();
    pending::<()>().await;
    drop(guard);
}

async fn std_write(lock: Arc<RwLock<u64>>) {
    let guard = lock.write().unwrap();
    pending::<()>().await;
    drop(guard);
}

async fn parking_mutex(lock: Arc<parking_lot::Mutex<u64>>) {
    let guard = lock.lock();
    pending::<()>().await;
    drop(guard);
}

async fn parking_write(lock: Arc<parking_lot::RwLock<u64>>) {
    let guard = lock.write();
    pending::<()>().await;
    drop(guard);
}

async fn dash_ref(map: Arc<dashmap::DashMap<u64, u64>>) {
    let guard = map.get(&1).unwrap();
    pending::<()>().await;
    drop(guard);
}

async fn dash_mut(map: Arc<dashmap::DashMap<u64, u64>>) {
    let guard = map.get_mut(&1).unwrap();
    pending::<()>().await;
    drop(guard);
}

async fn watch_ref(mut from: watch::Receiver<u64>) {
    let guard = from.borrow_and_update();
    pending::<()>().await;
    drop(guard);
}

async fn cell(value: Rc<RefCell<u64>>) {
    let guard = value.borrow_mut();
    pending::<()>().await;
    drop(guard);
}

/// It has had a guard, and let it go before it waits.
async fn let_go(lock: Arc<Mutex<u64>>) {
    {
        let mut guard = lock.lock().unwrap();
        *guard += 1;
    }
    pending::<()>().await;
}

async fn blocked(lock: Arc<Mutex<u64>>) {
    *lock.lock().unwrap() += 1; // @blocked
}

fn guards() {
    let (held, free) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let wanted = held.clone();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let local = LocalSet::new();
        local.spawn_local(std_mutex(held));
        local.spawn_local(std_read(Arc::new(RwLock::new(0))));
        local.spawn_local(std_write(Arc::new(RwLock::new(0))));
        local.spawn_local(parking_mutex(Arc::new(parking_lot::Mutex::new(0))));
        local.spawn_local(parking_write(Arc::new(parking_lot::RwLock::new(0))));
        for write in [false, true] {
            let map = Arc::new(dashmap::DashMap::from_iter([(1, 2)]));
            if write {
                local.spawn_local(dash_mut(map));
            } else {
                local.spawn_local(dash_ref(map));
            }
        }
        local.spawn_local(watch_ref(watch::channel(0).1));
        local.spawn_local(cell(Rc::new(RefCell::new(0))));
        local.spawn_local(let_go(free));
        local.block_on(&runtime, pending::<()>());
    });
    std::thread::sleep(Duration::from_millis(100));
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.spawn(blocked(wanted));
    std::mem::forget(runtime);
}

async fn slow_bounded(mut from: mpsc::Receiver<u64>) {
    while from.recv().await.is_some() {
        pending::<()>().await; // @slow_bounded
    }
}

async fn slow_unbounded(mut from: mpsc::UnboundedReceiver<u64>) {
    while from.recv().await.is_some() {
        pending::<()>().await;
    }
}

async fn slow_closed(mut from: mpsc::Receiver<u64>) {
    while from.recv().await.is_some() {
        pending::<()>().await;
    }
}

async fn slow_broadcast(mut from: broadcast::Receiver<u64>) {
    while from.recv().await.is_ok() {
        pending::<()>().await;
    }
}

async fn slow_watch(mut from: watch::Receiver<u64>) {
    while from.changed().await.is_ok() {
        pending::<()>().await;
    }
}

async fn slow_async_channel(from: async_channel::Receiver<u64>) {
    while from.recv().await.is_ok() {
        pending::<()>().await;
    }
}

async fn slow_futures(mut from: futures::channel::mpsc::Receiver<u64>) {
    while futures::StreamExt::next(&mut from).await.is_some() {
        pending::<()>().await;
    }
}

async fn waits_bounded(mut from: mpsc::Receiver<u64>) {
    from.recv().await;
}

async fn waits_unbounded(mut from: mpsc::UnboundedReceiver<u64>) {
    from.recv().await;
}

async fn waits_broadcast(mut from: broadcast::Receiver<u64>) {
    let _ = from.recv().await;
}

async fn waits_watch(mut from: watch::Receiver<u64>) {
    let _ = from.changed().await;
}

async fn waits_oneshot(from: oneshot::Receiver<u64>) {
    let _ = from.await;
}

async fn waits_async_channel(from: async_channel::Receiver<u64>) {
    let _ = from.recv().await;
}

async fn waits_futures(mut from: futures::channel::mpsc::UnboundedReceiver<u64>) {
    futures::StreamExt::next(&mut from).await;
}

async fn sends(to: mpsc::Sender<u64>) {
    for n in 0.. {
        let _ = to.send(n).await;
    }
}

fn channels() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut kept: Vec<Box<dyn std::any::Any>> = Vec::new();

    // The first message is taken, then the consumer does something else.
    let (to, from) = mpsc::channel(8);
    (0..6).for_each(|n| to.try_send(n).unwrap());
    kept.push(Box::new((to.clone(), to)));
    runtime.spawn(slow_bounded(from));
    let (to, from) = mpsc::unbounded_channel();
    (0..1235).for_each(|n| to.send(n).unwrap());
    kept.push(Box::new(to));
    runtime.spawn(slow_unbounded(from));
    let (to, from) = mpsc::channel(4);
    (0..3).for_each(|n| to.try_send(n).unwrap());
    drop(to);
    runtime.spawn(slow_closed(from));
    let (to, from) = broadcast::channel(16);
    (0..10).for_each(|n| drop(to.send(n).unwrap()));
    kept.push(Box::new(to));
    runtime.spawn(slow_broadcast(from));
    let (to, from) = watch::channel(0);
    to.send(1).unwrap();
    runtime.spawn(slow_watch(from));
    std::thread::sleep(Duration::from_millis(200));
    to.send(2).unwrap();
    kept.push(Box::new(to));
    let (to, from) = async_channel::bounded(5);
    (0..4).for_each(|n| to.try_send(n).unwrap());
    kept.push(Box::new(to));
    runtime.spawn(slow_async_channel(from));
    let (mut to, from) = futures::channel::mpsc::channel(3);
    (0..3).for_each(|n| to.try_send(n).unwrap());
    kept.push(Box::new(to));
    runtime.spawn(slow_futures(from));

    let (to, from) = mpsc::channel(2);
    kept.push(Box::new((to.clone(), to.clone(), to)));
    runtime.spawn(waits_bounded(from));
    let (to, from) = mpsc::unbounded_channel();
    kept.push(Box::new(to));
    runtime.spawn(waits_unbounded(from));
    let (to, from) = broadcast::channel(2);
    kept.push(Box::new(to));
    runtime.spawn(waits_broadcast(from));
    let (to, from) = watch::channel(0);
    kept.push(Box::new(to));
    runtime.spawn(waits_watch(from));
    let (to, from) = oneshot::channel();
    kept.push(Box::new(to));
    runtime.spawn(waits_oneshot(from));
    let (to, from) = async_channel::unbounded();
    kept.push(Box::new((to.clone(), to)));
    runtime.spawn(waits_async_channel(from));
    let (to, from) = futures::channel::mpsc::unbounded();
    kept.push(Box::new(to));
    runtime.spawn(waits_futures(from));

    let (to, from) = mpsc::channel(3);
    runtime.spawn(sends(to));
    kept.push(Box::new(from));
    std::mem::forget((runtime, kept));
}

// Each has one of four permits and waits for a second one.
async fn place_order(permits: Arc<Semaphore>) {
    let _one = permits.acquire().await; // @place_order
    sleep(Duration::from_millis(50)).await;
    let _two = permits.acquire().await; // @audit
}

fn permits() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let permits = Arc::new(Semaphore::new(4));
    for _ in 0..6 {
        runtime.spawn(place_order(permits.clone()));
    }
    std::mem::forget(runtime);
}

async fn work() {
    sleep(Duration::from_millis(60)).await; // @work
}

/// Polls work once, then waits for something else, with work still there.
async fn looks_away() {
    let work = work();
    tokio::pin!(work);
    tokio::select! {
        _ = &mut work => {}
        _ = sleep(Duration::from_millis(10)) => pending::<()>().await, // @looks_away
    }
    work.await;
}

fn away() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.spawn(looks_away());
    std::mem::forget(runtime);
}

fn drops() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.spawn_blocking(|| std::thread::sleep(Duration::from_secs(86400)));
    std::thread::sleep(Duration::from_millis(50));
    std::thread::spawn(move || {
        drop(runtime); // @drops
    });
}

async fn in_place() {
    tokio::task::block_in_place(|| std::thread::sleep(Duration::from_secs(86400))); // @in_place
}

fn blocks() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.spawn(in_place());
    std::mem::forget(runtime);
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("guards") => guards(),
        Some("channels") => channels(),
        Some("blocks") => blocks(),
        Some("permits") => permits(),
        Some("away") => away(),
        Some("drops") => drops(),
        other => panic!("no such way to hold: {other:?}"),
    }
    std::thread::sleep(Duration::from_millis(500));
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    std::process::exit(0);
}
