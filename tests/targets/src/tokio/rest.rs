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
/// each ring's start, `events` only behind them, `truncate` cuts the file below them.
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

fn attack(how: &str, from: usize, bytes: usize, garbage: &mut Garbage) {
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
    // struct ring_area is a page; then rings, whose stride stands in its words 3 and 4
    let words = from as *mut u64;
    // SAFETY: the mapping is writable and never goes away; that it is shared is the point.
    let n_rings = unsafe { (words as *const u32).add(3).read_volatile() } as usize;
    let stride = match n_rings {
        0 => 4096,
        n if (bytes - 4096) / n >= 1024 => (bytes - 4096) / n,
        _ => 4096,
    };
    for _ in 0..64 {
        let at = match how {
            "heads" => {
                let ring = garbage.next() as usize % (bytes / stride).clamp(1, 8);
                4096 + ring * stride + garbage.next() as usize % 16 * 8
            }
            "events" => {
                let ring = garbage.next() as usize % (bytes / stride).clamp(1, 8);
                4096 + ring * stride + 1024 + garbage.next() as usize % 512 * 8
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
