//! Polls that take long, each in a function that is known: to compute, to wait for a lock, and at
//! the bottom of a deep recursion. What the functions return is used, so that none of their calls
//! becomes a jump.

use crate::multi;
use crate::stage::{say, Stage};
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Duration;

family!(spins);
family!(locks);
family!(recurses);

fn cpu_time() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

#[inline(always)]
fn mixes(mut x: u64) -> u64 {
    for i in 0..200_000 {
        x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i);
    }
    x
}

/// On a CPU for so long.
#[inline(never)]
pub fn spins_here(ms: u64) -> u64 {
    let end = cpu_time() + Duration::from_millis(ms);
    let mut x = ms;
    while cpu_time() < end {
        x = mixes(x);
    }
    black_box(x)
}

#[inline(never)]
pub fn waits_for_lock(lock: &Mutex<u64>) -> u64 {
    let mut held = lock.lock().unwrap();
    *held += 1;
    black_box(*held)
}

/// `depth` frames of at least 256 bytes, then on a CPU for so long.
#[inline(never)]
pub fn recurses_down(depth: u64, ms: u64) -> u64 {
    let room = black_box([depth; 32]);
    let below = if depth == 0 { spins_here(ms) } else { recurses_down(depth - 1, ms) };
    black_box(room[depth as usize % 32]).wrapping_add(below)
}

/// Many times each: 60 ms in spins_here, about as long in waits_for_lock, 60 ms at a depth of 200.
pub fn stacks(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(10);
    let lock = Arc::new(Mutex::new(0));
    let mut sum = 0u64;
    for _ in 0..n {
        sum ^= rt.block_on(rt.spawn(spins(async { spins_here(60) }))).unwrap();
        let held = lock.clone();
        let wanted = lock.clone();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let holder = std::thread::spawn(move || {
            let _held = held.lock().unwrap();
            begun.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(60));
        });
        has_begun.recv().unwrap();
        sum ^= rt.block_on(rt.spawn(locks(async move { waits_for_lock(&wanted) }))).unwrap();
        holder.join().unwrap();
        sum ^= rt.block_on(rt.spawn(recurses(async { recurses_down(200, 60) }))).unwrap();
    }
    black_box(sum);
    drop(rt);
    say(&format!("long polls {n} {n} {n}"));
    stage.done();
}
