#[path = "../../../../tests/targets/src/bench/echo_server.rs"]
#[allow(dead_code)]
mod echo_server;
#[path = "../recorder.rs"]
mod recorder;

fn main() {
    recorder::around(|build| echo_server::run(build));
}
