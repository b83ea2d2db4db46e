//! The programs on Tokio: `suite PROGRAM [--wait] [--scale PERCENT]`; `suite list` names them.

#[macro_use]
#[path = "../truth.rs"]
mod truth;
#[path = "../stage.rs"]
mod stage;

mod ends;
mod hostile;
mod kernel;
mod life;
mod rest;
mod run;
mod stacks;
mod threads;
mod wakes;

use stage::Stage;
use tokio::runtime::{Builder, Runtime};

/// Name, function, and what a build must be able to do for it ("unwind": not with panic=abort).
type Program = (&'static str, fn(&Stage), &'static str);

const PROGRAMS: &[Program] = &[
    ("multi_thread", run::multi_thread, ""),
    ("current_thread", run::current_thread, ""),
    ("local_set", run::local_set, ""),
    ("join_set", run::join_set, ""),
    ("spawn_blocking", run::spawn_blocking, ""),
    ("block_in_place", run::block_in_place, ""),
    ("timers", run::timers, ""),
    ("channels", run::channels, ""),
    ("net", run::net, ""),
    ("abort", ends::abort, ""),
    ("drop_runtime", ends::drop_runtime, ""),
    ("drop_running", ends::drop_running, ""),
    ("drop_local", ends::drop_local, ""),
    ("panic", ends::panic, "unwind"),
    ("panic_blocking", ends::panic_blocking, "unwind"),
    ("panic_caught", ends::panic_caught, "unwind"),
    ("backtrace", ends::backtrace, ""),
    ("self_wakes", wakes::self_wakes, ""),
    ("raw_self_wakes", wakes::raw_self_wakes, ""),
    ("yields", wakes::yields, ""),
    ("budget", wakes::budget, ""),
    ("foreign_wakes", wakes::foreign_wakes, ""),
    ("late_wakes", wakes::late_wakes, ""),
    ("two_runtimes", threads::two_runtimes, ""),
    ("short_tasks", threads::short_tasks, ""),
    ("thread_churn", threads::thread_churn, ""),
    ("foreign_spawns", threads::foreign_spawns, ""),
    ("nested_block_on", threads::nested_block_on, ""),
    ("sleep_in_poll", threads::sleep_in_poll, ""),
    ("alive_before", life::alive_before, ""),
    ("alive_before_current", life::alive_before_current, ""),
    ("root_before", life::root_before, ""),
    ("root_before_current", life::root_before_current, ""),
    ("fork_exec", life::fork_exec, ""),
    ("fork_run", life::fork_run, ""),
    ("signals", life::signals, ""),
    ("system_calls", kernel::system_calls, ""),
    ("spinning", kernel::spinning, ""),
    ("stacks", stacks::stacks, ""),
    ("hostile", hostile::hostile, "hostile"),
    ("steady", rest::steady, "endless"),
    ("stuck", rest::stuck, "endless"),
    ("short_roots", rest::short_roots, ""),
];

pub fn main() {
    let stage = match Stage::from_args() {
        Some(stage) => stage,
        None => {
            eprintln!("usage: suite PROGRAM [--wait] [--scale PERCENT] | suite list");
            std::process::exit(2);
        }
    };
    if stage.program == "list" {
        for (name, _, needs) in PROGRAMS {
            println!("{name} {needs}");
        }
        return;
    }
    match PROGRAMS.iter().find(|(name, _, _)| *name == stage.program) {
        Some((_, run, _)) => run(&stage),
        None => {
            eprintln!("suite: no program {}", stage.program);
            std::process::exit(2);
        }
    }
}

fn multi() -> Runtime {
    hooked(Builder::new_multi_thread().worker_threads(2).enable_all()).build().unwrap()
}

fn current() -> Runtime {
    hooked(Builder::new_current_thread().enable_all()).build().unwrap()
}

/// With the probes of a package that has some by Tokio's hooks.
#[allow(unknown_lints, unexpected_cfgs)]
fn hooked(builder: &mut Builder) -> &mut Builder {
    #[cfg(feature = "probes")]
    pollux_probes::register_hooks(builder).unwrap();
    builder
}

/// Pending once, without a wake of its own: somebody else must have the waker.
async fn pending_forever() {
    std::future::pending::<()>().await
}
