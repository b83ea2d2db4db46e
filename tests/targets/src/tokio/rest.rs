//! Programs for tests that break things: one that attacks its recorder, one that just goes on.

use crate::multi;
use crate::stage::{say, Stage};
use std::time::Duration;
use tokio::task::yield_now;

/// A small generator: the same garbage in each run.
struct Garbage(u64);

impl Garbage {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The recorder's shared memory as mapped in this process: (address, length).
fn rings() -> Option<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    for line in maps.lines() {
        let mut fields = line.split_whitespace();
        let (range, rights) = (fields.next()?, fields.next()?);
        if line.contains("pollux") && rights == "rw-s" {
            let (from, to) = range.split_once('-')?;
            let from = usize::from_str_radix(from, 16).ok()?;
            return Some((from, usize::from_str_radix(to, 16).ok()? - from));
        }
    }
    None
}

/// Writes over the rings while it is recorded: `noise` everywhere, `heads` only the counters at
/// each ring's start, `events` only behind them, `truncate` cuts the file below them; `fork` does it
/// in a child, which must not have them.
pub fn hostile(stage: &Stage) {
    let how = stage.args.first().map_or("noise", |s| s.as_str()).to_owned();
    let rt = multi();
    stage.ready();
    let n = stage.scaled(2000);
    for _ in 0..2 {
        rt.spawn(async move {
            loop {
                yield_now().await;
                tokio::time::sleep(Duration::from_micros(50)).await;
            }
        });
    }
    let mut garbage = Garbage(88172645463325252);
    let (mut found, mut area) = (false, None);
    for _ in 0..n {
        if area.is_none() {
            area = rings();
        }
        if let Some((from, bytes)) = area {
            found = true;
            attack(&how, from, bytes, &mut garbage);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    rt.shutdown_background();
    say(if found { "attacked" } else { "nothing to attack" });
    stage.done();
}

/// As many rings as the recorder makes, and what stands before each one's events.
const N_RINGS: usize = 1024;
const RING_HEADER: usize = 128;

/// A child that finds the rings writes over their headers, and says so by its status.
fn attack_in_child(from: usize, bytes: usize, garbage: &mut Garbage) {
    let mut status = 0;
    // SAFETY: the child makes system calls only.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            // the kernel looks: EFAULT, or a byte is written
            let mut pipe = [0; 2];
            libc::pipe(pipe.as_mut_ptr());
            let mapped = libc::write(pipe[1], from as *const libc::c_void, 1) == 1;
            for _ in 0..if mapped { 1000 } else { 0 } {
                attack("heads", from, bytes, garbage);
            }
            libc::_exit(mapped as i32);
        }
        libc::waitpid(child, &mut status, 0);
    }
    if status != 0 {
        say("the child has the rings");
    }
}

fn attack(how: &str, from: usize, bytes: usize, garbage: &mut Garbage) {
    if how == "fork" {
        return attack_in_child(from, bytes, garbage);
    }
    if how == "truncate" {
        let path = std::fs::read_dir("/proc/self/map_files").ok().and_then(|files| {
            files
                .flatten()
                .map(|file| file.path())
                .find(|path| path.to_string_lossy().contains(&format!("{from:x}-")))
        });
        if let Some(file) = path.and_then(|p| std::fs::OpenOptions::new().write(true).open(p).ok())
        {
            let _ = file.set_len(0);
        }
        return;
    }
    // struct ring_area is a page; then the rings
    let words = from as *mut u64;
    let stride = (bytes - 4096) / N_RINGS / 8 * 8;
    for _ in 0..64 {
        let at = match how {
            "heads" => {
                let ring = garbage.next() as usize % (bytes / stride).clamp(1, 8);
                4096 + ring * stride + garbage.next() as usize % 16 * 8
            }
            "events" => {
                let ring = garbage.next() as usize % (bytes / stride).clamp(1, 8);
                4096 + ring * stride + RING_HEADER + garbage.next() as usize % 512 * 8
            }
            _ => garbage.next() as usize % (bytes / 8) * 8,
        };
        if at + 8 <= bytes {
            // SAFETY: inside the mapping, aligned.
            unsafe { words.add(at / 8).write_volatile(garbage.next()) };
        }
    }
}

family!(steady_worker);

/// Works until its stdin ends, then says so: for recorders that are killed, and for long recordings.
pub fn steady(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let (end, mut ended) = tokio::sync::watch::channel(false);
    let mut tasks = Vec::new();
    for i in 0..4 {
        let mut ended = ended.clone();
        tasks.push(rt.spawn(steady_worker(async move {
            let mut rounds = 0_u64;
            loop {
                for _ in 0..16 {
                    yield_now().await;
                }
                tokio::time::sleep(Duration::from_micros(100 * (i + 1))).await;
                rounds += 1;
                if rounds % 16 == 0 {
                    tokio::spawn(async move { rounds }).await.unwrap();
                }
                if *ended.borrow_and_update() {
                    return rounds;
                }
            }
        })));
    }
    ended.borrow_and_update();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    end.send(true).unwrap();
    for task in tasks {
        assert!(rt.block_on(task).unwrap() > 0);
    }
    drop(rt);
    say("steady to the end");
    stage.done();
}
