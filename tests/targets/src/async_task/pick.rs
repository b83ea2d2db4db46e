//! Picks the program that was asked for.

use super::programs::{Program, PROGRAMS};
use super::stage::Stage;

pub fn run(more: &[Program]) {
    let stage = match Stage::from_args() {
        Some(stage) => stage,
        None => {
            eprintln!("usage: suite PROGRAM [--wait] [--scale PERCENT] | suite list");
            std::process::exit(2);
        }
    };
    let mut programs = PROGRAMS.iter().chain(more);
    if stage.program == "list" {
        for (name, _, needs) in programs {
            println!("{name} {needs}");
        }
        return;
    }
    match programs.find(|(name, _, _)| *name == stage.program) {
        Some((_, run, _)) => run(&stage),
        None => {
            eprintln!("suite: no program {}", stage.program);
            std::process::exit(2);
        }
    }
}
