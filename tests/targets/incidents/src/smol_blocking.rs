// smol with its one executor thread: one connection does synchronous work of 80 ms per message.
use smol::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use std::{thread, time::Duration};
fn compress() {
    thread::sleep(Duration::from_millis(80));
}
async fn conn(mut s: TcpStream, heavy: bool) {
    let mut b = [0u8; 8];
    while s.read_exact(&mut b).await.is_ok() {
        if heavy {
            compress();
        }
        if s.write_all(&b).await.is_err() {
            return;
        }
    }
}
async fn client(a: std::net::SocketAddr) {
    let mut s = TcpStream::connect(a).await.unwrap();
    let mut b = [1u8; 8];
    loop {
        s.write_all(&b).await.unwrap();
        s.read_exact(&mut b).await.unwrap();
        smol::Timer::after(Duration::from_millis(5)).await;
    }
}
pub fn main() {
    smol::block_on(async {
        let l = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let a = l.local_addr().unwrap();
        for _ in 0..4 {
            thread::spawn(move || smol::block_on(client(a)));
        }
        let mut n = 0;
        loop {
            let (s, _) = l.accept().await.unwrap();
            n += 1;
            smol::spawn(conn(s, n == 1)).detach();
        }
    })
}
