//! What only a moment tells, on smol (one executor thread): see moment.rs.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DAYS: u64 = 3 * 86400;

fn tid() -> String {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().to_string()
}

async fn leaf(s: u64) {
    smol::Timer::after(Duration::from_secs(s)).await; // @leaf
}

async fn waits_in_smol() {
    leaf(DAYS).await; // @in_smol
}

async fn waits_in_lite() {
    leaf(DAYS).await; // @in_lite
}

fn roots() {
    let ways: [(&str, fn()); 2] = [
        ("waits_in_smol", || smol::block_on(waits_in_smol())),
        ("waits_in_lite", || smol::future::block_on(waits_in_lite())),
    ];
    for (name, way) in ways {
        std::thread::spawn(move || {
            println!("root {name} {}", tid());
            way();
        });
    }
}

static STOP: AtomicBool = AtomicBool::new(false);

async fn spinner() {
    println!("running spinner {}", tid());
    while !STOP.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_micros(50));
    }
}

async fn waiting_turn() {
    leaf(DAYS).await;
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("roots") {
        roots();
    } else {
        smol::spawn(spinner()).detach();
        std::thread::sleep(Duration::from_millis(100));
        for _ in 0..40 {
            smol::spawn(waiting_turn()).detach();
        }
        println!("queued waiting_turn executor's global queue 40");
    }
    std::thread::sleep(Duration::from_millis(300));
    println!("ready {}", std::process::id());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    std::process::exit(0);
}
