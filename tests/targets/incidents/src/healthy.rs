// Nothing wrong: an echo server; 4 busy clients, 200 that connect one by one and stay idle; a ticker, a bounded pipeline, short file reads, a lock held briefly.
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, Mutex},
};
async fn conn(mut s: TcpStream, m: Arc<Mutex<u64>>, tx: mpsc::Sender<u64>) {
    let mut b = [0u8; 64];
    while let Ok(n) = s.read(&mut b).await {
        if n == 0 {
            return;
        }
        *m.lock().await += n as u64;
        let _ = tx.send(n as u64).await;
        if s.write_all(&b[..n]).await.is_err() {
            return;
        }
    }
}
async fn busy(a: std::net::SocketAddr) {
    let mut s = TcpStream::connect(a).await.unwrap();
    let mut b = [1u8; 16];
    loop {
        s.write_all(&b).await.unwrap();
        s.read_exact(&mut b).await.unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}
async fn visitors(a: std::net::SocketAddr) {
    let mut v = vec![];
    for _ in 0..200 {
        v.push(TcpStream::connect(a).await.unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
}
async fn stats(mut rx: mpsc::Receiver<u64>) {
    let mut n = 0;
    while let Some(x) = rx.recv().await {
        n += x;
    }
    std::hint::black_box(n);
}
async fn config() {
    loop {
        let _ = tokio::fs::read("/etc/hostname").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let m = Arc::new(Mutex::new(0));
    let (tx, rx) = mpsc::channel(16);
    tokio::spawn(stats(rx));
    tokio::spawn(config());
    let l = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let a = l.local_addr().unwrap();
    for _ in 0..4 {
        tokio::spawn(busy(a));
    }
    tokio::spawn(visitors(a));
    loop {
        let (s, _) = l.accept().await.unwrap();
        s.set_nodelay(true).unwrap();
        tokio::spawn(conn(s, m.clone(), tx.clone()));
    }
}
