//! `causes` prints "ready PID", waits for a line or the end of its input, and runs one scenario after the other. Each
//! has families of its own; what a task waits for lasts WAIT at least, by a clock or a call that takes so long.
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot, Mutex, Notify};
use tokio::time::sleep;

const WAIT: Duration = Duration::from_millis(60);

fn workers(n: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(n).max_blocking_threads(1).enable_all().build().unwrap()
}

fn run(runtime: &Runtime, main: impl Future<Output = ()> + Send + 'static) {
    runtime.block_on(async { tokio::spawn(main).await.unwrap() });
}

/// Two keep a lock in turn, each over a sleep; a third waits for both.
mod lock {
    use super::*;

    async fn first_holder(lock: Arc<Mutex<()>>, has_it: oneshot::Sender<()>) {
        let guard = lock.lock().await;
        has_it.send(()).unwrap();
        sleep(WAIT).await;
        drop(guard);
    }

    async fn second_holder(lock: Arc<Mutex<()>>) {
        let guard = lock.lock().await;
        sleep(WAIT).await;
        drop(guard);
    }

    async fn lock_client(lock: Arc<Mutex<()>>) {
        drop(lock.lock().await);
    }

    pub async fn main() {
        let lock = Arc::new(Mutex::new(()));
        let (has_it, known) = oneshot::channel();
        let first = tokio::spawn(first_holder(lock.clone(), has_it));
        known.await.unwrap();
        let second = tokio::spawn(second_holder(lock.clone()));
        sleep(WAIT / 4).await;
        let client = tokio::spawn(lock_client(lock));
        for task in [first, second, client] {
            task.await.unwrap();
        }
    }
}

/// The only worker is kept by a blocking call while another task is ready.
mod busy {
    use super::*;

    async fn ready_task() {}

    async fn keeps_worker() {
        let ready = tokio::spawn(ready_task());
        std::thread::sleep(WAIT);
        ready.await.unwrap();
    }

    pub async fn main() {
        tokio::spawn(keeps_worker()).await.unwrap();
    }
}

/// The blocking pool has one thread; two closures want it.
mod pool {
    use super::*;

    fn long_closure() {
        std::thread::sleep(WAIT);
    }

    fn queued_closure() {
        std::thread::sleep(WAIT / 2);
    }

    async fn waits_for_pool() {
        tokio::task::spawn_blocking(queued_closure).await.unwrap();
    }

    pub async fn main() {
        let first = tokio::task::spawn_blocking(long_closure);
        tokio::spawn(waits_for_pool()).await.unwrap();
        first.await.unwrap();
    }
}

/// A message goes through three tasks.
mod channel {
    use super::*;

    async fn message_source(to: mpsc::Sender<u32>) {
        sleep(WAIT).await;
        to.send(1).await.unwrap();
    }

    async fn message_relay(mut from: mpsc::Receiver<u32>, to: mpsc::Sender<u32>) {
        to.send(from.recv().await.unwrap()).await.unwrap();
    }

    async fn message_sink(mut from: mpsc::Receiver<u32>) {
        from.recv().await.unwrap();
    }

    pub async fn main() {
        let (first, second) = (mpsc::channel(1), mpsc::channel(1));
        let sink = tokio::spawn(message_sink(second.1));
        let relay = tokio::spawn(message_relay(first.1, second.0));
        let source = tokio::spawn(message_source(first.0));
        for task in [sink, relay, source] {
            task.await.unwrap();
        }
    }
}

/// A task waits for the end of another.
mod join {
    use super::*;

    async fn joined_task() {
        sleep(WAIT).await;
    }

    async fn joins() {
        tokio::spawn(joined_task()).await.unwrap();
    }

    pub async fn main() {
        tokio::spawn(joins()).await.unwrap();
    }
}

/// A timeout, and the loser of a select!.
mod select {
    use super::*;

    async fn times_out() {
        let never = Notify::new();
        tokio::time::timeout(WAIT, never.notified()).await.unwrap_err();
    }

    async fn selects(told: Arc<Notify>) {
        tokio::select! {
            _ = told.notified() => {}
            _ = sleep(WAIT * 100) => unreachable!(),
        }
    }

    async fn tells(told: Arc<Notify>) {
        sleep(WAIT).await;
        told.notify_one();
    }

    pub async fn main() {
        let told = Arc::new(Notify::new());
        let selects = tokio::spawn(selects(told.clone()));
        let tells = tokio::spawn(tells(told));
        let times_out = tokio::spawn(times_out());
        for task in [selects, tells, times_out] {
            task.await.unwrap();
        }
    }
}

/// A task of one runtime waits for one of another, and for a thread of none.
mod runtimes {
    use super::*;

    async fn other_runtime(to: oneshot::Sender<()>) {
        std::thread::sleep(WAIT);
        to.send(()).unwrap();
    }

    async fn asks_other(other: tokio::runtime::Handle) {
        let (to, from) = oneshot::channel();
        other.spawn(other_runtime(to));
        from.await.unwrap();
    }

    async fn asks_thread() {
        let (to, from) = oneshot::channel();
        std::thread::Builder::new()
            .name("outsider".into())
            .spawn(move || {
                std::thread::sleep(WAIT);
                to.send(()).unwrap();
            })
            .unwrap();
        from.await.unwrap();
    }

    pub async fn main(other: tokio::runtime::Handle) {
        tokio::spawn(asks_other(other)).await.unwrap();
        tokio::spawn(asks_thread()).await.unwrap();
    }
}

/// Two tasks compute on two workers. On one processor each has it for half of the time.
mod computing {
    use super::*;
    use std::time::Instant;

    async fn computes() {
        let end = Instant::now() + WAIT;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }

    pub async fn main() {
        let other = tokio::spawn(computes());
        // A worker that has work and wakes another one leaves it the rest.
        tokio::spawn(computes()).await.unwrap();
        other.await.unwrap();
    }
}

/// A server of one connection: a round is a request, of which every third waits for a timer.
mod rounds {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    async fn serves_rounds(mut stream: TcpStream) {
        let mut request = [0];
        for number in 1.. {
            if stream.read_exact(&mut request).await.is_err() {
                return;
            }
            if number % 3 == 0 {
                sleep(WAIT / 3).await;
            }
            stream.write_all(&request).await.unwrap();
        }
    }

    pub async fn main() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { serves_rounds(listener.accept().await.unwrap().0).await });
        let mut client = TcpStream::connect(address).await.unwrap();
        sleep(WAIT).await;
        for _ in 0..30 {
            client.write_all(&[1]).await.unwrap();
            client.read_exact(&mut [0]).await.unwrap();
            sleep(Duration::from_millis(3)).await;
        }
        drop(client);
        server.await.unwrap();
    }
}

fn main() {
    let (two, one) = (workers(2), workers(1));
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    run(&two, lock::main());
    run(&one, busy::main());
    run(&two, pool::main());
    run(&two, channel::main());
    run(&two, join::main());
    run(&two, select::main());
    run(&two, runtimes::main(one.handle().clone()));
    run(&two, computing::main());
    run(&two, rounds::main());
}
