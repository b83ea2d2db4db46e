// Futures that are awaited through pointers of a known type. `pointed ROUNDS` says `ready PID`, begins when a
// line comes in, and says `done` when each task has waited so often in `pause`:
//   borrows    through a `Pin<&mut F>`, and F lies in the task
//   selects    the same in a `select!`, next to a timer
//   times_out  the same in a timeout, in a box
//   owns       through a `Pin<Box<F>>`, in a box
//   owns_bare  the same, in the task: nobody looks there
//   boxed      in a box of a future that is written by hand: a timeout
//   large      the same of the program's own, whose output is returned in memory
//   small      the same, in memory or in registers, as the compiler has it
//   elapses    in a box of a timeout, which is over first; then in `pause` after that
//   serves     in a box that a `select!` polls in something written by hand, next to a function of a library
//   branches   in a branch by value of a `select!`, next to an async function of a library
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);

async fn pause() {
    tokio::time::sleep(Duration::from_millis(1)).await // pause
}

async fn borrows(n: u32) {
    for _ in 0..n {
        let mut future = pin!(pause());
        future.as_mut().await; // borrows
    }
}

async fn selects(n: u32) {
    for _ in 0..n {
        tokio::select! { // selects
            biased;
            () = pause() => {}
            () = tokio::time::sleep(LONG) => unreachable!(),
        }
    }
}

async fn times_out(n: u32) {
    for _ in 0..n {
        let mut future = pin!(pause());
        let _ = tokio::time::timeout(LONG, future.as_mut()).await; // times_out
    }
}

async fn owns(n: u32) {
    for _ in 0..n {
        let future: Pin<Box<_>> = Box::pin(pause());
        future.await; // owns
    }
}

async fn in_a_box(future: Pin<Box<dyn Future<Output = ()> + Send>>) {
    future.await // in_a_box
}

async fn owns_bare(n: u32) {
    for _ in 0..n {
        let future: Pin<Box<_>> = Box::pin(pause());
        future.await; // owns_bare
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

async fn pauses(n: u32) -> [u64; 8] {
    for _ in 0..n {
        pause().await; // pauses
    }
    [0; 8]
}

async fn boxed(n: u32) {
    let future: Boxed<Result<(), tokio::time::error::Elapsed>> =
        Box::pin(tokio::time::timeout(LONG, async move { let _ = pauses(n).await; })); // block
    let _ = future.await; // boxed
}

struct Passes<F>(F);

impl<F: Future> Future for Passes<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        unsafe { self.map_unchecked_mut(|all| &mut all.0) }.poll(cx)
    }
}

async fn large(n: u32) {
    let future: Boxed<[u64; 8]> = Box::pin(Passes(pauses(n)));
    future.await; // large
}

async fn counts(n: u32) -> Result<u64, u32> {
    for _ in 0..n {
        pause().await; // counts
    }
    Ok(1)
}

async fn small(n: u32) {
    let future: Boxed<Result<u64, u32>> = Box::pin(Passes(counts(n)));
    let _ = future.await; // small
}

async fn sleeps() {
    tokio::time::sleep(LONG).await // sleeps
}

async fn elapses(n: u32) {
    for _ in 0..n {
        let future: Boxed<Result<(), tokio::time::error::Elapsed>> =
            Box::pin(tokio::time::timeout(Duration::from_millis(1), sleeps()));
        let _ = future.await; // elapses
        pause().await; // elapsed
    }
}

struct Connection(Option<Boxed<[u64; 8]>>);

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().unwrap().as_mut().poll(cx).map(|_| ())
    }
}

async fn serves(n: u32) {
    let (sender, _receiver) = tokio::sync::watch::channel(());
    let mut connection = pin!(Connection(Some(Box::pin(pauses(n)))));
    let mut closed = pin!(sender.closed());
    tokio::select! { // serves
        _ = connection.as_mut() => {}
        () = &mut closed => unreachable!(),
    }
}

async fn branches(n: u32) {
    let (_sender, mut receiver) = tokio::sync::watch::channel(());
    for _ in 0..n {
        tokio::select! { // branches
            _ = receiver.changed() => unreachable!(),
            () = pause() => {}
        }
    }
}

fn main() {
    let n: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    runtime.block_on(async move {
        let tasks = [
            tokio::spawn(borrows(n)),
            tokio::spawn(selects(n)),
            tokio::spawn(in_a_box(Box::pin(times_out(n)))),
            tokio::spawn(in_a_box(Box::pin(owns(n)))),
            tokio::spawn(owns_bare(n)),
            tokio::spawn(boxed(n)),
            tokio::spawn(large(n)),
            tokio::spawn(small(n)),
            tokio::spawn(elapses(n)),
            tokio::spawn(branches(n)),
            tokio::spawn(serves(n)),
        ];
        for task in tasks {
            task.await.unwrap();
        }
    });
    println!("done");
}
