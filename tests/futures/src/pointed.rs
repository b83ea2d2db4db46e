// Futures that are awaited through pointers of a known type. `pointed ROUNDS` says `ready PID`, begins when a
// line comes in, and says `done` when each task has waited so often in `pause`:
//   borrows    through a `Pin<&mut F>`, and F lies in the task
//   selects    the same in a `select!`, next to a timer
//   times_out  the same in a timeout, in a box
//   owns       through a `Pin<Box<F>>`, in a box
//   owns_bare  the same, in the task: nobody looks there
use std::future::Future;
use std::pin::{Pin, pin};
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
        ];
        for task in tasks {
            task.await.unwrap();
        }
    });
    println!("done");
}
