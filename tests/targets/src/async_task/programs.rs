//! The programs that async-std and smol have in common: both run tasks of the async-task crate on a
//! global executor. `super::rt` says how each does it.

use super::rt;
use crate::stage::{say, Stage};
use crate::truth::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{mpsc, Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

pub type Program = (&'static str, fn(&Stage), &'static str);

pub const PROGRAMS: &[Program] = &[
    ("exchange", exchange, ""),
    ("detach", detach, ""),
    ("cancel", cancel, ""),
    ("panic", panic, "unwind"),
    ("panic_caught", panic_caught, "unwind"),
    ("backtrace", backtrace, ""),
    ("unblock", unblock, ""),
    ("timers", timers, ""),
    ("net", net, ""),
    ("self_wakes", self_wakes, ""),
    ("yields", yields, ""),
    ("foreign_wakes", foreign_wakes, ""),
    ("thread_churn", thread_churn, ""),
    ("short_tasks", short_tasks, ""),
    ("sleep_in_poll", sleep_in_poll, ""),
    ("alive_before", alive_before, ""),
];

family!(warming_up);

/// The global executor's threads and the reactor start with the first task that needs them.
fn warm_up() {
    rt::block_on(async {
        let tasks: Vec<_> = (0..8)
            .map(|_| rt::spawn(warming_up(rt::sleep(Duration::from_millis(1)))))
            .collect();
        for task in tasks {
            task.await;
        }
    });
    std::thread::sleep(Duration::from_millis(20));
}

fn wait_until(flag: impl Fn() -> bool) {
    while !flag() {
        std::thread::sleep(Duration::from_micros(200));
    }
}

family!(producer);
family!(consumer);
family!(root, root);

fn exchange(stage: &Stage) {
    warm_up();
    stage.ready();
    let n = stage.scaled(500);
    let sum = rt::block_on(root(async move {
        let (tx, rx) = rt::channel::bounded::<u64>(4);
        let sum = rt::spawn(consumer(async move {
            let mut sum = 0;
            while let Ok(value) = rx.recv().await {
                sum += value;
            }
            sum
        }));
        let mut senders = Vec::new();
        for part in 0..4 {
            let tx = tx.clone();
            senders.push(rt::spawn(producer(async move {
                for value in 0..n {
                    tx.send(value * (part + 1)).await.unwrap();
                }
            })));
        }
        drop(tx);
        for sender in senders {
            sender.await;
        }
        sum.await
    }));
    assert_eq!(sum, n * (n - 1) / 2 * 10);
    say(&format!("exchange {n}: {sum}"));
    stage.done();
}

family!(detached);

fn detach(stage: &Stage) {
    warm_up();
    stage.ready();
    let n = stage.scaled(500);
    let done = Arc::new(AtomicU64::new(0));
    for _ in 0..n {
        let done = done.clone();
        rt::detach(rt::spawn(detached(async move {
            rt::yield_now().await;
            done.fetch_add(1, SeqCst);
        })));
    }
    wait_until(|| Arc::strong_count(&done) == 1);
    assert_eq!(done.load(SeqCst), n);
    say(&format!("detached {n}"));
    stage.done();
}

family!(cancelled_idle);
family!(cancelled_late);

fn cancel(stage: &Stage) {
    warm_up();
    stage.ready();
    let n = stage.scaled(100);
    for _ in 0..n {
        let polled = Arc::new(AtomicU64::new(0));
        let flag = polled.clone();
        let task = rt::spawn(cancelled_idle(async move {
            flag.store(1, SeqCst);
            std::future::pending::<()>().await;
        }));
        wait_until(|| polled.load(SeqCst) == 1);
        std::thread::sleep(Duration::from_micros(200)); // let the poll end
        rt::block_on(rt::cancel(task));
        wait_until(|| Arc::strong_count(&polled) == 1);

        let done = Arc::new(());
        let holds = done.clone();
        let task = rt::spawn(cancelled_late(async move { drop(holds) }));
        wait_until(|| Arc::strong_count(&done) == 1);
        std::thread::sleep(Duration::from_micros(200));
        rt::block_on(rt::cancel(task));
    }
    say(&format!("cancelled {n}"));
    stage.done();
}

/// The default hook writes thread ids, which differ from run to run.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

family!(panicking);
family!(calm);

fn panic(stage: &Stage) {
    quiet_panics();
    warm_up();
    stage.ready();
    let n = stage.scaled(50);
    let mut panics = 0;
    for i in 0..n {
        let task = rt::spawn(panicking(async move {
            rt::yield_now().await;
            if i < u64::MAX {
                panic!("in a task");
            }
        }));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rt::block_on(task)));
        panics += u64::from(result.is_err());
        rt::block_on(rt::spawn(calm(rt::yield_now())));
    }
    assert_eq!(panics, n);
    say(&format!("panics {n}: {panics}"));
    stage.done();
}

family!(catching);

fn panic_caught(stage: &Stage) {
    quiet_panics();
    warm_up();
    stage.ready();
    let n = stage.scaled(50);
    let catch = |i: u64| {
        std::panic::catch_unwind(move || {
            if i < u64::MAX {
                panic!("caught inside");
            }
        })
        .is_err()
    };
    let mut sum = 0;
    for i in 0..n {
        sum += rt::block_on(rt::spawn(catching(async move {
            let first = u64::from(catch(i));
            rt::yield_now().await;
            first + u64::from(catch(i))
        })));
    }
    assert_eq!(sum, 2 * n);
    say(&format!("caught {n}: {sum}"));
    stage.done();
}

/// What RUST_BACKTRACE=full prints for a panic inside a task, on stderr.
fn backtrace(stage: &Stage) {
    warm_up();
    stage.ready();
    let task = rt::spawn(async {
        rt::yield_now().await;
        if std::env::args().count() < 1000 {
            panic!("with a backtrace");
        }
    });
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rt::block_on(task)));
    say("backtrace");
    stage.done();
}

family!(computation, blocking);
family!(caller);

fn unblock(stage: &Stage) {
    warm_up();
    stage.ready();
    let n = stage.scaled(100);
    let mut tasks = Vec::new();
    for part in 0..4 {
        tasks.push(rt::spawn(caller(async move {
            let mut sum = 0;
            for value in 0..n {
                sum += rt::unblock(computation(move || value * part)).await;
            }
            sum
        })));
    }
    let mut sum = 0;
    for task in tasks {
        sum += rt::block_on(task);
    }
    assert_eq!(sum, n * (n - 1) / 2 * 6);
    say(&format!("unblocked {n}: {sum}"));
    stage.done();
}

family!(sleeper);

fn timers(stage: &Stage) {
    warm_up();
    stage.ready();
    let n = stage.scaled(50);
    let tasks: Vec<_> = (0..n)
        .map(|i| {
            rt::spawn(sleeper(async move {
                for _ in 0..5 {
                    rt::sleep(Duration::from_millis(i % 10)).await;
                }
            }))
        })
        .collect();
    for task in tasks {
        rt::block_on(task);
    }
    say(&format!("timers {n}"));
    stage.done();
}

family!(acceptor);
family!(connection);
family!(client);

fn net(stage: &Stage) {
    use rt::io::{ReadExt, WriteExt};
    warm_up();
    let listener = rt::block_on(rt::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    stage.ready();
    let n = stage.scaled(50);
    let accepting = rt::spawn(acceptor(async move {
        let mut connections = Vec::new();
        for _ in 0..4 {
            let (mut stream, _) = listener.accept().await.unwrap();
            connections.push(rt::spawn(connection(async move {
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
            connection.await;
        }
    }));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            rt::spawn(client(async move {
                let mut stream = rt::net::TcpStream::connect(address).await.unwrap();
                let mut bytes = [0; 64];
                for value in 0..n {
                    bytes[0] = value as u8;
                    stream.write_all(&bytes).await.unwrap();
                    stream.read_exact(&mut bytes).await.unwrap();
                    assert_eq!(bytes[0], value as u8);
                }
                n
            }))
        })
        .collect();
    let mut sum = 0;
    for client in clients {
        sum += rt::block_on(client);
    }
    rt::block_on(accepting);
    say(&format!("net {n}: {sum}"));
    stage.done();
}

family!(by_ref);
family!(by_value);
family!(twice);

fn waking(
    n: u64,
    wake: impl Fn(&Waker) + Send,
) -> impl std::future::Future<Output = u64> + Send {
    let mut left = n;
    poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(n);
        }
        left -= 1;
        wake(cx.waker());
        Poll::Pending
    })
}

fn self_wakes(stage: &Stage) {
    warm_up();
    stage.ready();
    let n = stage.scaled(1000);
    let tasks = [
        rt::spawn(by_ref(waking(n, |waker| waker.wake_by_ref()))),
        rt::spawn(by_value(waking(n, |waker| waker.clone().wake()))),
        rt::spawn(twice(waking(n, |waker| {
            waker.wake_by_ref();
            waker.clone().wake();
        }))),
    ];
    let mut sum = 0;
    for task in tasks {
        sum += rt::block_on(task);
    }
    assert_eq!(sum, 3 * n);
    say(&format!("self wakes {n}: {sum}"));
    stage.done();
}

family!(yielding);

fn yields(stage: &Stage) {
    warm_up();
    stage.ready();
    let n = stage.scaled(2000);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            rt::spawn(yielding(async move {
                for _ in 0..n {
                    rt::yield_now().await;
                }
            }))
        })
        .collect();
    for task in tasks {
        rt::block_on(task);
    }
    say(&format!("yields {n}"));
    stage.done();
}

family!(woken_from_outside);

fn foreign_wakes(stage: &Stage) {
    warm_up();
    stage.ready();
    let n = stage.scaled(500);
    let (mut tasks, mut threads) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let (send, receive) = mpsc::channel::<Waker>();
        threads.push(std::thread::spawn(move || {
            for waker in receive {
                waker.wake();
            }
        }));
        let mut left = n;
        tasks.push(rt::spawn(woken_from_outside(poll_fn(move |cx| {
            if left == 0 {
                return Poll::Ready(n);
            }
            left -= 1;
            send.send(cx.waker().clone()).unwrap();
            Poll::Pending
        }))));
    }
    let mut sum = 0;
    for task in tasks {
        sum += rt::block_on(task);
    }
    for thread in threads {
        thread.join().unwrap();
    }
    say(&format!("foreign wakes {n}: {sum}"));
    stage.done();
}

family!(waits_for_threads);

fn thread_churn(stage: &Stage) {
    warm_up();
    stage.ready();
    let n = stage.scaled(1000);
    let shared: Arc<Mutex<Option<Waker>>> = Arc::default();
    let awaits = shared.clone();
    let mut left = n;
    let task = rt::spawn(waits_for_threads(poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(n);
        }
        left -= 1;
        *awaits.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    })));
    let mut sum = 0;
    while sum < n {
        let shared = shared.clone();
        let thread = std::thread::spawn(move || match shared.lock().unwrap().take() {
            Some(waker) => {
                waker.wake();
                1
            }
            None => 0,
        });
        sum += thread.join().unwrap();
    }
    assert_eq!(rt::block_on(task), n);
    say(&format!("threads {n}"));
    stage.done();
}

family!(short);

fn short_tasks(stage: &Stage) {
    warm_up();
    stage.ready();
    let n = stage.scaled(1000);
    for _ in 0..n {
        let tasks: Vec<_> = (0..10).map(|i| rt::spawn(short(async move { i }))).collect();
        let mut sum = 0;
        for task in tasks {
            sum += rt::block_on(task);
        }
        assert_eq!(sum, 45);
    }
    say(&format!("short tasks {}", 10 * n));
    stage.done();
}

family!(blocks_its_thread);

fn sleep_in_poll(stage: &Stage) {
    warm_up();
    stage.ready();
    let n = stage.scaled(10);
    let tasks: Vec<_> = (0..n)
        .map(|_| {
            rt::spawn(blocks_its_thread(async {
                std::thread::sleep(Duration::from_millis(5));
                rt::yield_now().await;
                std::thread::sleep(Duration::from_millis(1));
            }))
        })
        .collect();
    for task in tasks {
        rt::block_on(task);
    }
    say(&format!("sleeps {n}"));
    stage.done();
}

family!(old_timer);
family!(newcomer);

fn alive_before(stage: &Stage) {
    warm_up();
    let n = stage.scaled(30);
    let (open, gate) = rt::channel::bounded::<()>(1);
    let polled = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for _ in 0..n {
        let (gate, polled) = (gate.clone(), polled.clone());
        tasks.push(rt::spawn(old_timer(async move {
            polled.fetch_add(1, SeqCst);
            assert!(gate.recv().await.is_err());
            rt::yield_now().await;
        })));
    }
    wait_until(|| polled.load(SeqCst) == n);
    std::thread::sleep(Duration::from_millis(50)); // let all polls end
    stage.ready();
    for _ in 0..n {
        tasks.push(rt::spawn(newcomer(rt::yield_now())));
    }
    drop(open);
    for task in tasks {
        rt::block_on(task);
    }
    say(&format!("alive before {n}"));
    stage.done();
}
