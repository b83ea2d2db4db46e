// A thread outside of the runtime keeps a std Mutex for 60 ms at a time; tasks on both workers lock it.
use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
fn exporter(m: Arc<Mutex<u64>>) {
    loop {
        {
            let mut g = m.lock().unwrap();
            *g += 1;
            thread::sleep(Duration::from_millis(60));
        }
        thread::sleep(Duration::from_millis(60));
    }
}
fn count_hit(m: &Mutex<u64>) {
    *m.lock().unwrap() += 1;
}
async fn request(m: Arc<Mutex<u64>>) {
    tokio::time::sleep(Duration::from_millis(1)).await;
    count_hit(&m);
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let m = Arc::new(Mutex::new(0));
    let m2 = m.clone();
    thread::spawn(move || exporter(m2));
    loop {
        tokio::spawn(request(m.clone()));
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
}
