//! Writes the lists of instances: 120 kinds of tasks, and as much other code as makes 200 MB.

use std::{env, fs, path::Path};

const TASKS: usize = 120;
const FILLERS: usize = 320;

fn main() {
    let list = |function: &str, n: usize| -> String {
        (1..=n).map(|i| format!("{function}::<{i}>, ")).collect()
    };
    let out = env::var("OUT_DIR").expect("OUT_DIR");
    fs::write(Path::new(&out).join("tasks.rs"), format!("[{}]", list("start", TASKS))).expect("tasks.rs");
    fs::write(Path::new(&out).join("fillers.rs"), format!("[{}]", list("fill", FILLERS)))
        .expect("fillers.rs");
    println!("cargo:rerun-if-changed=build.rs");
}
