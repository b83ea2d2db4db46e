//! The ways to run tasks, and what tasks usually wait for.

use crate::stage::{say, Stage};
use crate::{current, multi};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{broadcast, mpsc, oneshot, watch, Mutex, Notify, Semaphore};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{interval, sleep, timeout};

family!(producer);
family!(consumer);
family!(asker);
family!(answerer);

/// Producers into one channel, questions with answers: `n` messages each way.
async fn exchange(n: u64) -> u64 {
    let (tx, mut rx) = mpsc::channel::<u64>(4);
    let sum = tokio::spawn(consumer(async move {
        let mut sum = 0;
        while let Some(value) = rx.recv().await {
            sum += value;
        }
        sum
    }));
    let mut senders = Vec::new();
    for part in 0..4 {
        let tx = tx.clone();
        senders.push(tokio::spawn(producer(async move {
            for value in 0..n {
                tx.send(value * (part + 1)).await.unwrap();
            }
        })));
    }
    drop(tx);
    for sender in senders {
        sender.await.unwrap();
    }
    let (ask, mut asked) = mpsc::unbounded_channel::<(u64, oneshot::Sender<u64>)>();
    let answers = tokio::spawn(answerer(async move {
        while let Some((question, reply)) = asked.recv().await {
            reply.send(question + 1).unwrap();
        }
    }));
    let answered = tokio::spawn(asker(async move {
        let mut sum = 0;
        for question in 0..n {
            let (reply, answer) = oneshot::channel();
            ask.send((question, reply)).unwrap();
            sum += answer.await.unwrap();
        }
        sum
    }));
    let result = sum.await.unwrap() + answered.await.unwrap();
    answers.await.unwrap();
    result
}

family!(root, root);

fn run_exchange(stage: &Stage, rt: Runtime) {
    stage.ready();
    let n = stage.scaled(500);
    let sum = rt.block_on(root(exchange(n)));
    drop(rt);
    assert_eq!(sum, n * (n - 1) / 2 * 10 + n * (n + 1) / 2);
    say(&format!("exchange {n}: {sum}"));
    stage.done();
}

pub fn multi_thread(stage: &Stage) {
    run_exchange(stage, multi());
}

pub fn current_thread(stage: &Stage) {
    run_exchange(stage, current());
}

family!(local_worker);
family!(local_leader);
family!(beside_local);

pub fn local_set(stage: &Stage) {
    let rt = current();
    let set = LocalSet::new();
    stage.ready();
    let n = stage.scaled(200);
    let sum = set.block_on(&rt, async move {
        let beside = tokio::spawn(beside_local(async move {
            for _ in 0..n {
                tokio::task::yield_now().await;
            }
            n
        }));
        let leader = tokio::task::spawn_local(local_leader(async move {
            let total = std::rc::Rc::new(std::cell::Cell::new(0));
            let mut workers = Vec::new();
            for value in 0..n {
                let total = total.clone();
                workers.push(tokio::task::spawn_local(local_worker(async move {
                    tokio::task::yield_now().await;
                    total.set(total.get() + value);
                })));
            }
            for worker in workers {
                worker.await.unwrap();
            }
            total.get()
        }));
        leader.await.unwrap() + beside.await.unwrap()
    });
    drop(set);
    drop(rt);
    assert_eq!(sum, n * (n - 1) / 2 + n);
    say(&format!("local {n}: {sum}"));
    stage.done();
}

family!(joined);
family!(never_joined);
family!(set_owner);

pub fn join_set(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(300);
    let owner = rt.spawn(set_owner(async move {
        let mut set = JoinSet::new();
        for value in 0..n {
            set.spawn(joined(async move {
                if value % 3 == 0 {
                    tokio::task::yield_now().await;
                }
                value
            }));
        }
        let mut sum = 0;
        while let Some(value) = set.join_next().await {
            sum += value.unwrap();
        }
        let mut set = JoinSet::new();
        for _ in 0..n {
            set.spawn(never_joined(crate::pending_forever()));
        }
        let half = (n / 2) as usize;
        set.shutdown().await;
        for _ in 0..half {
            set.spawn(never_joined(crate::pending_forever()));
        }
        drop(set); // aborts what it holds
        sum
    }));
    let sum = rt.block_on(owner).unwrap();
    drop(rt);
    assert_eq!(sum, n * (n - 1) / 2);
    say(&format!("joined {n}: {sum}"));
    stage.done();
}

family!(computation, blocking);
family!(slow_computation, blocking);
family!(blocking_caller);

pub fn spawn_blocking(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(200);
    let mut callers = Vec::new();
    for part in 0..4 {
        callers.push(rt.spawn(blocking_caller(async move {
            let mut sum = 0;
            for value in 0..n / 4 {
                let result = tokio::task::spawn_blocking(computation(move || value * part)).await;
                sum += result.unwrap();
            }
            let slow = tokio::task::spawn_blocking(slow_computation(|| {
                std::thread::sleep(Duration::from_millis(2));
                1
            }));
            sum + slow.await.unwrap()
        })));
    }
    let sum: u64 = rt.block_on(async move {
        let mut sum = 0;
        for caller in callers {
            sum += caller.await.unwrap();
        }
        sum
    });
    drop(rt);
    say(&format!("blocking {n}: {sum}"));
    stage.done();
}

family!(in_place);
family!(in_between);

pub fn block_in_place(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(40);
    let mut tasks = Vec::new();
    for _ in 0..n {
        tasks.push(rt.spawn(in_place(async {
            tokio::task::yield_now().await;
            tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(1)));
            tokio::task::yield_now().await;
            1
        })));
        tasks.push(rt.spawn(in_between(async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            1
        })));
    }
    let sum: u64 = rt.block_on(async move {
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    drop(rt);
    say(&format!("in place {n}: {sum}"));
    stage.done();
}

family!(ticker);
family!(sleeper);
family!(impatient);

pub fn timers(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(50);
    let ticks = rt.spawn(ticker(async move {
        let mut interval = interval(Duration::from_millis(1));
        for _ in 0..n {
            interval.tick().await;
        }
        n
    }));
    let mut tasks = Vec::new();
    for i in 0..n {
        tasks.push(rt.spawn(sleeper(async move {
            sleep(Duration::from_millis(i % 10)).await;
            1
        })));
        tasks.push(rt.spawn(impatient(async move {
            let late = sleep(Duration::from_secs(3600));
            u64::from(timeout(Duration::from_millis(i % 7), late).await.is_err())
        })));
    }
    let sum = rt.block_on(async move {
        let mut sum = ticks.await.unwrap();
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    drop(rt);
    assert_eq!(sum, 3 * n);
    say(&format!("timers {n}: {sum}"));
    stage.done();
}

family!(listener);
family!(speaker);
family!(watcher);
family!(locker);
family!(notified);

pub fn channels(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(200);
    let sum = rt.block_on(async move {
        let mut tasks = Vec::new();
        let (tx, _) = broadcast::channel::<u64>(n as usize);
        for _ in 0..3 {
            let mut rx = tx.subscribe();
            tasks.push(tokio::spawn(listener(async move {
                let mut sum = 0;
                while let Ok(value) = rx.recv().await {
                    sum += value;
                }
                sum
            })));
        }
        let (last, seen) = watch::channel(0);
        for _ in 0..2 {
            let mut seen = seen.clone();
            tasks.push(tokio::spawn(watcher(async move {
                while *seen.borrow() < n {
                    seen.changed().await.unwrap();
                }
                n
            })));
        }
        drop(seen);
        let notify = std::sync::Arc::new(Notify::new());
        let waiting = notify.clone();
        tasks.push(tokio::spawn(notified(async move {
            waiting.notified().await;
            1
        })));
        tasks.push(tokio::spawn(speaker(async move {
            for value in 0..n {
                tx.send(value).unwrap();
                last.send(value + 1).unwrap();
                if value % 16 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            notify.notify_one();
            0
        })));
        let room = std::sync::Arc::new((Mutex::new(0), Semaphore::new(2)));
        for _ in 0..8 {
            let room = room.clone();
            tasks.push(tokio::spawn(locker(async move {
                for _ in 0..n / 8 {
                    let _permit = room.1.acquire().await.unwrap();
                    let mut value = room.0.lock().await;
                    tokio::task::yield_now().await;
                    *value += 1;
                }
                0
            })));
        }
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        let locked = *room.0.lock().await;
        sum + locked
    });
    drop(rt);
    say(&format!("channels {n}: {sum}"));
    stage.done();
}

family!(acceptor);
family!(connection);
family!(client);

pub fn net(stage: &Stage) {
    let rt = multi();
    let listener = rt.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    stage.ready();
    let n = stage.scaled(50);
    let accepting = rt.spawn(acceptor(async move {
        let mut connections = Vec::new();
        for _ in 0..4 {
            let (mut stream, _) = listener.accept().await.unwrap();
            connections.push(tokio::spawn(connection(async move {
                let mut bytes = [0; 64];
                loop {
                    let n = stream.read(&mut bytes).await.unwrap();
                    if n == 0 {
                        break;
                    }
                    stream.write_all(&bytes[..n]).await.unwrap();
                }
            })));
        }
        for connection in connections {
            connection.await.unwrap();
        }
    }));
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(rt.spawn(client(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let mut bytes = [0; 64];
            for value in 0..n {
                bytes[0] = value as u8;
                stream.write_all(&bytes).await.unwrap();
                stream.read_exact(&mut bytes).await.unwrap();
                assert_eq!(bytes[0], value as u8);
            }
            n
        })));
    }
    let sum = rt.block_on(async move {
        accepting.await.unwrap();
        let mut sum = 0;
        for client in clients {
            sum += client.await.unwrap();
        }
        sum
    });
    drop(rt);
    say(&format!("net {n}: {sum}"));
    stage.done();
}
