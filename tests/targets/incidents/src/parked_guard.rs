// parking_lot's guard over an await, in tasks of one thread: the thread waits for itself.
use parking_lot::Mutex;
use std::{rc::Rc, time::Duration};
async fn refresh(m: Rc<Mutex<u32>>) {
    #[allow(clippy::await_holding_lock)]
    {
        let mut g = m.lock();
        tokio::time::sleep(Duration::from_millis(30)).await;
        *g += 1;
    }
}
async fn get(m: Rc<Mutex<u32>>) -> u32 {
    tokio::time::sleep(Duration::from_millis(1510)).await;
    *m.lock()
}
#[tokio::main(flavor = "current_thread")]
pub async fn main() {
    let set = tokio::task::LocalSet::new();
    set.run_until(async {
        let m = Rc::new(Mutex::new(0));
        let r = tokio::task::spawn_local({
            let m = m.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(1500)).await;
                refresh(m).await
            }
        });
        tokio::task::spawn_local({
            let m = m.clone();
            async move { get(m).await }
        });
        r.await.unwrap();
    })
    .await
}
