// A future in a box that is given up in the poll in which it was polled. `given_up ROUNDS` says
// `ready PID`, begins when a line comes in, and says `done` when each task has waited so often:
//   moves_on   polls a box that stays pending, drops it and sleeps
//   in_a_box   the same in a box of its own, which the task awaits
//   keeps      polls a box that stays pending, and sleeps in another one
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn never() {
    std::future::pending::<()>().await // never
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(1)).await // pause
}

async fn give_up() {
    let mut given_up: Boxed = Box::pin(never());
    tokio::select! {
        biased;
        () = &mut given_up => unreachable!(),
        () = std::future::ready(()) => {}
    }
}

async fn moves_on(n: u32) {
    for _ in 0..n {
        give_up().await;
        tokio::time::sleep(Duration::from_millis(1)).await; // moves_on
    }
}

async fn in_a_box(n: u32) {
    let boxed: Boxed = Box::pin(moves_on(n));
    boxed.await // in_a_box
}

async fn keeps(n: u32) {
    for _ in 0..n {
        give_up().await;
        let boxed: Boxed = Box::pin(pause());
        boxed.await; // keeps
    }
}

fn main() {
    let n: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    println!("ready {}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    runtime.block_on(async move {
        let tasks = [tokio::spawn(moves_on(n)), tokio::spawn(in_a_box(n)), tokio::spawn(keeps(n))];
        for task in tasks {
            task.await.unwrap();
        }
    });
    println!("done");
}
