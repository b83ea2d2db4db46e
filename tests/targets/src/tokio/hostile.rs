//! Programs that attack whoever records them, one way each; on its own nothing here does harm.
//!
//! Of the rings that both map:
//!     noise      garbage anywhere; heads, events: at each ring's start, behind it
//!     threads    rings full of events that name new threads, at old times
//!     crowd      the same, with hundreds of threads that live
//!     truncate   the file below them is cut
//!     fork       a child without rights writes over all that it has inherited of them; the parent
//!                is innocent and checks its own memory
//! Of the rest:
//!     state      garbage over the agent's private state (the program may die of it)
//!     forged     memory full of words that point where vtables are
//!     names      of threads: escapes, overrides of direction, no UTF-8
//!     storm      threads that begin and end all the time
//!     exit, exec as soon as somebody traces it

use crate::multi;
use crate::stage::{say, Stage};
use std::ffi::CString;
use std::fs::read_to_string;
use std::hint::black_box;
use std::time::Duration;
use tokio::task::yield_now;

/// A small generator: the same garbage in each run.
struct Garbage(u64);

impl Garbage {
    fn new() -> Garbage {
        Garbage(88172645463325252)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// (address, length, rights, path) of a line of /proc/PID/maps.
fn mapping(line: &str) -> Option<(usize, usize, String, String)> {
    let mut fields = line.split_whitespace();
    let (range, rights) = (fields.next()?, fields.next()?);
    let (from, to) = range.split_once('-')?;
    let from = usize::from_str_radix(from, 16).ok()?;
    let to = usize::from_str_radix(to, 16).ok()?;
    let path = fields.nth(3).unwrap_or("").to_owned();
    Some((from, to - from, rights.to_owned(), path))
}

fn mappings() -> Vec<(usize, usize, String, String)> {
    let maps = read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(mapping).collect()
}

/// The recorder's shared memory as mapped in this process.
fn rings() -> Option<(usize, usize)> {
    let found = mappings().into_iter().find(|m| m.2 == "rw-s" && m.3.contains("pollux"))?;
    Some((found.0, found.1))
}

/// The agent's private memory: the writable neighbours of its code.
fn private() -> Vec<(usize, usize)> {
    const MAGIC: u64 = 0x0031_786c_6c6f_70; // begins the agent's state (agent/ring.h)
    let state = mappings().into_iter().find(|m| {
        // SAFETY: a mapping of this process that can be read and is not taken away.
        m.2 == "rw-p" && m.3.is_empty() && unsafe { (m.0 as *const u64).read_volatile() } == MAGIC
    });
    state.map(|m| (m.0, m.1)).into_iter().collect()
}

fn is_traced() -> bool {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    !status.contains("TracerPid:\t0")
}

pub fn hostile(stage: &Stage) {
    let how = stage.args.first().map_or("noise", |s| s.as_str()).to_owned();
    let rt = multi();
    match how.as_str() {
        "names" => names(),
        "storm" => storm(),
        "forged" => forge(),
        "crowd" => {
            for _ in 0..300 {
                let sleep = || std::thread::sleep(Duration::from_secs(600));
                std::thread::Builder::new().stack_size(65536).spawn(sleep).unwrap();
            }
        }
        _ => {}
    }
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
    let attacked = match how.as_str() {
        "names" | "storm" | "forged" => {
            std::thread::sleep(Duration::from_micros(500 * n));
            true
        }
        "exit" | "exec" => leave(&how, n),
        "fork" => fork(n),
        "state" => scribble_state(n),
        "threads" | "crowd" => fill_with_threads(n),
        _ => scribble(&how, n),
    };
    rt.shutdown_background();
    say(if attacked { "attacked" } else { "nothing to attack" });
    stage.done();
}

// --- over the rings -----------------------------------------------------------------------------

fn scribble(how: &str, n: u64) -> bool {
    let mut garbage = Garbage::new();
    let mut area = None;
    for _ in 0..n {
        if area.is_none() {
            area = rings();
        }
        if let Some((from, bytes)) = area {
            attack(how, from, bytes, &mut garbage);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    area.is_some()
}

/// As many rings as the recorder makes, behind a page.
const N_RINGS: usize = 1024;

/// From one ring to the next, and from there to its events, which are a power of two of bytes.
fn layout_of(bytes: usize) -> (usize, usize) {
    let stride = ((bytes - 4096) / N_RINGS / 8 * 8).max(4096 + 128);
    (stride, stride - (1 << (usize::BITS - 1 - stride.leading_zeros())))
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
    let (stride, head) = layout_of(bytes);
    for _ in 0..64 {
        let ring = garbage.next() as usize % 8;
        let at = match how {
            "heads" => 4096 + ring * stride + garbage.next() as usize % 16 * 8,
            "events" => 4096 + ring * stride + head + garbage.next() as usize % 512 * 8,
            _ => garbage.next() as usize % (bytes / 8) * 8,
        };
        if at + 8 <= bytes {
            // SAFETY: inside the mapping, aligned.
            unsafe { ((from + at) as *mut u64).write_volatile(garbage.next()) };
        }
    }
}

/// Each ring full of AE_THREAD events, with the time at which that began and ever new ids; each head
/// a ring's length before its tail.
fn fill_with_threads(n: u64) -> bool {
    const AE_THREAD: u64 = 17;
    // SAFETY: any processor that this runs on has it.
    let ticks = unsafe { std::arch::x86_64::_rdtsc() };
    let (mut found, mut id) = (None, 100_000_u64);
    for _ in 0..n / 4 {
        found = found.or_else(rings);
        if let Some((from, bytes)) = found {
            let (stride, head) = layout_of(bytes);
            let n_used = if head == 128 { 0 } else { 32 }; // where the number of those in use stands
            // SAFETY: all inside the mapping, aligned.
            unsafe {
                ((from + n_used) as *mut u32).write_volatile(N_RINGS as u32);
                for i in 0..16 {
                    let ring = from + 4096 + i * stride;
                    for event in (ring + head..ring + stride).step_by(16) {
                        (event as *mut u64).write_volatile(ticks << 8 | AE_THREAD);
                        ((event + 8) as *mut u64).write_volatile(id);
                        id = 100_000 + (id + 1) % 1_000_000_000;
                    }
                    let tail = ((ring + 64) as *const u64).read_volatile();
                    let full = tail.wrapping_add((stride - head) as u64);
                    (ring as *mut u64).write_volatile(full);
                }
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    found.is_some()
}

/// A child gives up its rights and writes over what it has inherited. The parent goes on and looks
/// after what is its own.
fn fork(n: u64) -> bool {
    let own: Vec<u64> = (0..1 << 17).map(|i| i * 0x9e37_79b9_7f4a_7c15).collect();
    let own = black_box(own);
    let mut children = 0;
    for _ in 0..n / 20 {
        if let Some((from, bytes)) = rings() {
            std::thread::sleep(Duration::from_millis(100)); // until the rings are in use
            let victim = own.as_ptr() as usize;
            // SAFETY: the child does nothing but system calls and stores, and ends by _exit.
            let child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child == 0 {
                // SAFETY: as above.
                unsafe { ruin(from, bytes, victim, children) };
            }
            let mut status = 0;
            // SAFETY: its own child.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            if libc::WIFEXITED(status) {
                say("a child had the rings");
            }
            children += 1;
            if children == 4 {
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(500)); // the tasks poll on
    let right = own.iter().enumerate();
    let right = right.filter(|(i, x)| **x == (*i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    say(if right.count() == own.len() { "own memory is right" } else { "own memory is wrong" });
    children > 0
}

/// Words in the rings' heads become garbage, huge, or the distance to memory of the parent's. If the
/// rings were not inherited it dies of a fault, which is its own affair.
unsafe fn ruin(from: usize, bytes: usize, victim: usize, round: usize) -> ! {
    libc::signal(libc::SIGSEGV, libc::SIG_DFL);
    libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
    libc::setgroups(0, std::ptr::null());
    libc::setresgid(65534, 65534, 65534);
    libc::setresuid(65534, 65534, 65534);
    let (stride, head) = layout_of(bytes);
    let mut garbage = Garbage::new();
    for i in 0..16 {
        let ring = from + 4096 + i * stride;
        for word in (ring..ring + head).step_by(8) {
            let value = match round % 4 {
                0 => garbage.next(),
                1 => 0x4141_4141_0000,
                2 => u64::MAX,
                _ => (victim + i * 4096).wrapping_sub(ring + 1024) as u64,
            };
            (word as *mut u64).write_volatile(value);
        }
    }
    libc::_exit(0)
}

// --- over the rest ------------------------------------------------------------------------------

fn scribble_state(n: u64) -> bool {
    let mut garbage = Garbage::new();
    let mut found = false;
    for _ in 0..n / 20 {
        if rings().is_some() {
            std::thread::sleep(Duration::from_millis(300));
            for (from, bytes) in private() {
                found = true;
                for at in (from + 4096..from + bytes).step_by(8) {
                    // SAFETY: none: what becomes of this program is its own affair.
                    unsafe { (at as *mut u64).write_volatile(garbage.next() >> 17) };
                }
            }
        }
        if found {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(500));
    found
}

/// Words that look like headers of tasks: each address of the program's constants, where the vtables
/// stand, again and again, with garbage in between.
fn forge() {
    let exe = std::env::current_exe().unwrap().to_string_lossy().into_owned();
    let mut words: Vec<u64> = Vec::with_capacity(1 << 21);
    let mut garbage = Garbage::new();
    for (from, bytes, rights, path) in mappings() {
        if path == exe && rights == "r--p" {
            for at in (from..from + bytes).step_by(8) {
                words.extend([garbage.next() % 256, garbage.next() >> 17, at as u64, 3 * 64]);
            }
        }
        if words.len() > 1 << 20 {
            break;
        }
    }
    let n = words.len();
    // pointers among them that lead back into them
    let start = words.as_ptr() as u64;
    for at in (1..n).step_by(4) {
        words[at] = start + garbage.next() % n as u64 * 8;
    }
    std::mem::forget(black_box(words));
}

fn set_name(name: &[u8]) {
    let name = CString::new(name).unwrap();
    // SAFETY: a string that ends.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

fn names() {
    const NAMES: [&[u8]; 6] = [
        b"\x1b]0;x\x07\x1b[2J<b>",
        b"\x1b[31m\"</s>\xc2\x9b",
        "\u{202e}evil\u{2066}".as_bytes(),
        b"\xff\xfe\x80{}\\\"'",
        b"a\nb\rc\td",
        b"",
    ];
    for name in NAMES {
        std::thread::spawn(move || {
            set_name(name);
            loop {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
    set_name(NAMES[0]);
}

fn storm() {
    for _ in 0..2 {
        std::thread::spawn(|| loop {
            let nap = || std::thread::sleep(Duration::from_millis(5));
            let threads: Vec<_> = (0..50).map(|_| std::thread::spawn(nap)).collect();
            for thread in threads {
                let _ = thread.join();
            }
        });
    }
}

fn leave(how: &str, n: u64) -> bool {
    use std::os::unix::process::CommandExt;
    for _ in 0..n * 50 {
        if is_traced() || rings().is_some() {
            if how == "exit" {
                std::process::exit(3);
            }
            let error = std::process::Command::new("/bin/sleep").arg("1").exec();
            panic!("{error}");
        }
    }
    false
}
