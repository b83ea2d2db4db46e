//! The ways in which tasks are woken.

use crate::stage::{say, Stage};
use crate::{current, multi};
use crate::truth::poll_fn;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{mpsc, Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::task::yield_now;

family!(by_ref);
family!(by_value);
family!(twice);

/// Wakes itself and is pending, `n` times.
fn waking(n: u64, wake: impl Fn(&Waker) + Send) -> impl Future<Output = u64> + Send {
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

pub fn self_wakes(stage: &Stage) {
    let rts = [multi(), current()];
    stage.ready();
    let n = stage.scaled(1000);
    let mut sum = 0;
    for rt in &rts {
        let tasks = [
            rt.spawn(by_ref(waking(n, |waker| waker.wake_by_ref()))),
            rt.spawn(by_value(waking(n, |waker| waker.clone().wake()))),
            rt.spawn(twice(waking(n, |waker| {
                waker.wake_by_ref();
                waker.clone().wake();
            }))),
        ];
        for task in tasks {
            sum += rt.block_on(task).unwrap();
        }
    }
    drop(rts);
    assert_eq!(sum, 6 * n);
    say(&format!("self wakes {n}: {sum}"));
    stage.done();
}

/// The same, but nothing stands between the future and Tokio's waker, so that the compiler may
/// see which waker it is and call its functions directly, past any table.
pub fn raw_self_wakes(stage: &Stage) {
    use crate::truth::{count_self_wake, Counted, Family};
    static RAW: Family = Family::new("raw_waking", "task");

    async fn raw_waking(n: u64) -> u64 {
        let mut left = n;
        Counted::new(
            &RAW,
            poll_fn(move |cx| {
                if left == 0 {
                    return Poll::Ready(n);
                }
                left -= 1;
                count_self_wake(&RAW);
                cx.waker().wake_by_ref();
                Poll::Pending
            }),
        )
        .with_raw_waker()
        .await
    }

    let rts = [multi(), current()];
    stage.ready();
    let n = stage.scaled(1000);
    let mut sum = 0;
    for rt in &rts {
        sum += rt.block_on(rt.spawn(raw_waking(n))).unwrap();
    }
    drop(rts);
    say(&format!("raw self wakes {n}: {sum}"));
    stage.done();
}

family!(yielding);
family!(yielding_alone);

pub fn yields(stage: &Stage) {
    let rt = multi();
    let alone = current();
    stage.ready();
    let n = stage.scaled(2000);
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(rt.spawn(yielding(async move {
            for _ in 0..n {
                yield_now().await;
            }
        })));
    }
    for task in tasks {
        rt.block_on(task).unwrap();
    }
    let task = alone.spawn(yielding_alone(async move {
        for _ in 0..n {
            yield_now().await;
        }
    }));
    alone.block_on(task).unwrap();
    drop((rt, alone));
    say(&format!("yields {n}"));
    stage.done();
}

family!(greedy);

/// Uses up its cooperative budget again and again, so that Tokio makes it yield.
pub fn budget(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(2000);
    let task = rt.spawn(greedy(async move {
        let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
        for value in 0..n {
            tx.send(value).unwrap();
        }
        drop(tx);
        let mut sum = 0;
        while let Some(value) = rx.recv().await {
            sum += value;
        }
        sum
    }));
    let sum = rt.block_on(task).unwrap();
    drop(rt);
    say(&format!("budget {n}: {sum}"));
    stage.done();
}

family!(woken_from_outside);

/// Plain threads wake tasks.
pub fn foreign_wakes(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(500);
    let mut tasks = Vec::new();
    let mut threads = Vec::new();
    for _ in 0..4 {
        let (send, receive) = mpsc::channel::<Waker>();
        threads.push(std::thread::spawn(move || {
            for waker in receive {
                waker.wake();
            }
        }));
        let mut left = n;
        tasks.push(rt.spawn(woken_from_outside(poll_fn(move |cx| {
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
        sum += rt.block_on(task).unwrap();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    drop(rt);
    say(&format!("foreign wakes {n}: {sum}"));
    stage.done();
}

family!(leaves_its_waker);

/// Wakers that outlive their tasks, and that wake tasks already woken.
pub fn late_wakes(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(100);
    for _ in 0..n {
        let kept: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let finish = Arc::new(AtomicBool::new(false));
        let (keep, end) = (kept.clone(), finish.clone());
        let task = rt.spawn(leaves_its_waker(poll_fn(move |cx| {
            if end.load(SeqCst) {
                return Poll::Ready(());
            }
            keep.lock().unwrap().push(cx.waker().clone());
            Poll::Pending
        })));
        while kept.lock().unwrap().is_empty() {
            std::thread::sleep(Duration::from_micros(50));
        }
        finish.store(true, SeqCst);
        let wakers = std::mem::take(&mut *kept.lock().unwrap());
        for waker in &wakers {
            waker.wake_by_ref();
            waker.wake_by_ref();
        }
        rt.block_on(task).unwrap();
        for waker in wakers {
            waker.wake(); // it has ended
        }
    }
    drop(rt);
    say(&format!("late wakes {n}"));
    stage.done();
}
