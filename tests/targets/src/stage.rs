//! How a target talks to the one who runs it.
//!
//!     PROGRAM                        result lines, then the truth, then it ends
//!     PROGRAM --wait                 "ready PID", waits for a line on stdin, works, prints
//!                                    results and truth, waits for a second line (or the end of stdin)
//!     PROGRAM ... --scale PERCENT    less or more work
//!
//! Result lines are the same in each run. The truth is the last line: one JSON object.
#![allow(dead_code)]

use std::io::{BufRead, Write};

pub struct Stage {
    pub program: String,
    pub args: Vec<String>, // what follows the program's name
    wait: bool,
    scale: u64,
}

impl Stage {
    /// From the command line. None: no program was named.
    pub fn from_args() -> Option<Stage> {
        let mut args: Vec<String> = std::env::args().skip(1).collect();
        let wait = args.iter().any(|arg| arg == "--wait");
        args.retain(|arg| arg != "--wait");
        let mut scale = 100;
        if let Some(at) = args.iter().position(|arg| arg == "--scale") {
            scale = args.get(at + 1).and_then(|n| n.parse().ok()).expect("--scale PERCENT");
            args.drain(at..at + 2);
        }
        if args.is_empty() {
            return None;
        }
        let program = args.remove(0);
        Some(Stage { program, args, wait, scale })
    }

    /// `n` at 100 percent.
    pub fn scaled(&self, n: u64) -> u64 {
        (n * self.scale / 100).max(1)
    }

    /// The runtimes are up and idle: whoever wants to attach does it now. Then counting begins; it
    /// began with the program if nobody waits.
    pub fn ready(&self) {
        if self.wait {
            say(&format!("ready {}", std::process::id()));
            read_line();
            crate::truth::begin();
        }
    }

    /// All is done. What a task did is known before its last poll has returned, and an executor that
    /// nobody can drop may still be in it: a moment for that, before the truth is told.
    pub fn done(&self) {
        self.done_with("");
    }

    /// With one member more in the truth.
    pub fn done_with(&self, member: &str) {
        std::thread::sleep(std::time::Duration::from_millis(30));
        let truth = crate::truth::json(&self.program);
        let comma = if member.is_empty() { "" } else { "," };
        say(&format!("{}{comma}{member}}}", &truth[..truth.len() - 1]));
        if self.wait {
            read_line();
        }
    }
}

/// One line of output, at once.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("stdout");
}

fn read_line() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).expect("stdin");
}
