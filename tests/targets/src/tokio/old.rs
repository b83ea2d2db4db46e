//! A program on a Tokio that is too old to be recorded: `suite plain [--wait]`.

#[macro_use]
#[path = "../truth.rs"]
mod truth;
#[path = "../stage.rs"]
mod stage;

family!(plain);

fn main() {
    let stage = stage::Stage::from_args().expect("usage: suite plain [--wait]");
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    stage.ready();
    let task = rt.spawn(plain(async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }));
    rt.block_on(task).unwrap();
    drop(rt);
    stage::say("plain 100");
    stage.done();
}
