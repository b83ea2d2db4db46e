//! The worst cases for a recorder: `storm yield|spawn current|multi [N] [--wait]`. Prints one JSON line
//! with the cost of a yield or a spawn. With --wait it prints "ready PID" and begins when a line comes.
//!
//! yield: one task that yields N times (multi: one on each of two workers).
//! spawn: N tasks of one poll each, joined one after another.

use std::io::Write;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

async fn yielding(n: u64) {
    for _ in 0..n {
        yield_now().await;
    }
}

async fn spawned(value: u64) -> u64 {
    value
}

async fn spawning(n: u64) {
    let mut sum = 0;
    for value in 0..n {
        sum += tokio::spawn(spawned(value)).await.expect("task");
    }
    assert_eq!(sum, n * (n - 1) / 2);
}

fn cpu_time() -> Duration {
    // SAFETY: plain data, filled by the call.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        assert_eq!(libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time), 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

/// All of it, on the runtime that `build` makes: ../../../../bench/targets builds it with recorders inside.
pub fn run(build: impl Fn(Builder) -> Runtime) {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let wait = args.iter().any(|arg| arg == "--wait");
    args.retain(|arg| arg != "--wait");
    let usage = "usage: storm yield|spawn current|multi [N] [--wait]";
    let (what, on) = (args.first().expect(usage).clone(), args.get(1).expect(usage).clone());
    let n: u64 = args.get(2).map_or(1_000_000, |arg| arg.parse().expect(usage));
    let (rt, tasks): (Runtime, u64) = match on.as_str() {
        "current" => (build(Builder::new_current_thread()), 1),
        "multi" => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(2);
            (build(builder), 2)
        }
        _ => panic!("{}", usage),
    };
    if wait {
        println!("ready {}", std::process::id());
        std::io::stdout().flush().expect("stdout");
        std::io::stdin().read_line(&mut String::new()).expect("stdin");
    }
    let (begin, cpu_begin) = (Instant::now(), cpu_time());
    let running: Vec<_> = (0..tasks)
        .map(|_| match what.as_str() {
            "yield" => rt.spawn(yielding(n / tasks)),
            "spawn" => rt.spawn(spawning(n / tasks)),
            _ => panic!("{}", usage),
        })
        .collect();
    for task in running {
        rt.block_on(task).expect("task");
    }
    let (elapsed, cpu) = (begin.elapsed(), cpu_time() - cpu_begin);
    drop(rt);
    println!(
        "{{\"storm\":\"{what}\",\"on\":\"{on}\",\"n\":{n},\"wall_ns_each\":{:.2},\"cpu_ns_each\":{:.2},\
         \"cpu_s\":{:.4}}}",
        elapsed.as_nanos() as f64 / n as f64,
        cpu.as_nanos() as f64 / n as f64,
        cpu.as_secs_f64(),
    );
    if wait {
        std::io::stdin().read_line(&mut String::new()).expect("stdin");
    }
}

fn main() {
    run(|mut builder| builder.build().expect("runtime"));
}
