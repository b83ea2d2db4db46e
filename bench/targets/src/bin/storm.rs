#[path = "../../../../tests/targets/src/bench/storm.rs"]
#[allow(dead_code)]
mod storm;
#[path = "../recorder.rs"]
mod recorder;

fn main() {
    recorder::around(|build| storm::run(build));
}
