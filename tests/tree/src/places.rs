// Tasks that wait at known lines, so many times: `// waits N FUNCTION in FAMILY` says what a recording
// must tell of the line. The first second belongs to the recorder, which reads debug information.
use futures::stream::{FuturesUnordered, StreamExt};
use std::future::pending;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

const MS: Duration = Duration::from_millis(20);

async fn leaf(n: usize) -> usize {
    for _ in 0..n {
        sleep(MS).await; // waits 20 places::leaf in places::outer
    }
    n
}

async fn middle(n: usize) -> usize {
    let before = [n; 8];
    leaf(n).await + before.len()
}

async fn outer() {
    std::hint::black_box(middle(20).await);
}

async fn produce(tx: mpsc::Sender<usize>) {
    for i in 0..10 {
        sleep(3 * MS).await; // waits 10 places::produce in places::produce
        tx.send(i).await.unwrap();
    }
    sleep(3 * MS).await; // waits 1 places::produce in places::produce
}

async fn consume(mut rx: mpsc::Receiver<usize>) {
    while let Some(i) = rx.recv().await { // waits 11 places::consume in places::consume
        std::hint::black_box(i);
    }
}

async fn slow(n: usize) {
    for _ in 0..n {
        sleep(MS).await; // waits 5 places::slow in places::limited
    }
}

async fn limited() {
    timeout(Duration::from_secs(30), slow(5)).await.unwrap();
}

async fn choose() {
    for _ in 0..7 {
        tokio::select! { // waits 7 places::choose in places::choose
            _ = sleep(MS) => {}
            _ = pending::<()>() => {}
        }
    }
}

async fn element(n: usize) {
    for _ in 0..n {
        sleep(MS).await;
    }
    if n == 0 {
        pending().await
    }
}

// Its futures lie in allocations of their own, which belong to no task.
async fn unordered() {
    let mut all: FuturesUnordered<_> = [0, 9].into_iter().map(element).collect();
    all.next().await; // waits 9 places::unordered in places::unordered
}

async fn boxed() {
    let inner = Box::pin(async {
        for _ in 0..6 {
            sleep(MS).await;
        }
    });
    inner.await // waits 6 places::boxed in places::boxed
}

fn main() {
    std::thread::sleep(Duration::from_secs(1));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (tx, rx) = mpsc::channel(16);
        let tasks = [
            tokio::spawn(outer()),
            tokio::spawn(produce(tx)),
            tokio::spawn(consume(rx)),
            tokio::spawn(limited()),
            tokio::spawn(choose()),
            tokio::spawn(unordered()),
            tokio::spawn(boxed()),
        ];
        for task in tasks {
            task.await.unwrap();
        }
    });
}
