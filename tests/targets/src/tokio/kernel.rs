//! What only the kernel sees: system calls, and threads without a CPU. Both count for themselves.

use crate::multi;
use crate::stage::{say, Stage};
use std::time::{Duration, Instant};

family!(reads);
family!(sleeps_on_futex);
family!(asks);
family!(spins);

/// Each read has this length, which nothing else in here has.
const LENGTH: usize = 7;

fn pipe() -> (i32, i32) {
    let mut ends = [0; 2];
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    (ends[0], ends[1])
}

/// System calls in polls: reads that wait for another thread, futexes that time out, and getppid.
pub fn system_calls(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(40);
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let (from, to) = pipe();
        let writer = std::thread::spawn(move || {
            for _ in 0..n {
                std::thread::sleep(Duration::from_millis(1));
                assert_eq!(unsafe { libc::write(to, [0u8; LENGTH].as_ptr().cast(), LENGTH) }, 7);
            }
        });
        tasks.push(rt.spawn(reads(async move {
            let mut read = 0;
            for _ in 0..n {
                let mut data = [0u8; 2 * LENGTH];
                let got = unsafe { libc::read(from, data.as_mut_ptr().cast(), LENGTH) };
                read += (got == LENGTH as isize) as u64;
                tokio::task::yield_now().await;
            }
            writer.join().unwrap();
            assert_eq!(read, n);
        })));
        tasks.push(rt.spawn(sleeps_on_futex(async move {
            let word = 0u32;
            let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            for _ in 0..n {
                let private = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
                let got = unsafe { libc::syscall(libc::SYS_futex, &word, private, 0, &time) };
                assert_eq!(got, -1); // it timed out
                tokio::task::yield_now().await;
            }
        })));
        tasks.push(rt.spawn(asks(async move {
            for i in 0..50 * n {
                assert!(unsafe { libc::syscall(libc::SYS_getppid) } >= 0);
                if i % 50 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        })));
    }
    for task in tasks {
        rt.block_on(task).unwrap();
    }
    drop(rt);
    say(&format!("read {} futex {} getppid {}", 2 * n, 2 * n, 100 * n));
    stage.done();
}

fn cpu_time() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Two polls that compute, as long as each had a CPU for so many ms. On one CPU each waits as long
/// for the other.
pub fn spinning(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let work = Duration::from_millis(stage.scaled(300));
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            rt.spawn(spins(async move {
                let (began, cpu) = (Instant::now(), cpu_time());
                while cpu_time() - cpu < work {
                    std::hint::spin_loop();
                }
                began.elapsed() - (cpu_time() - cpu)
            }))
        })
        .collect();
    let n = tasks.len();
    let waited: Vec<_> = tasks.into_iter().map(|task| rt.block_on(task).unwrap()).collect();
    drop(rt);
    let total: Duration = waited.iter().sum();
    say(&format!("spun {n}"));
    eprintln!("without a CPU for {} us", total.as_micros());
    stage.done();
}
