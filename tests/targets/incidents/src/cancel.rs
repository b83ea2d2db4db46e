// A frame reader made of read_exact stands in a select! with a ticker: bytes of half frames get lost.
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
async fn read_frame(s: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut head = [0u8; 4];
    s.read_exact(&mut head).await?;
    let mut body = vec![0; u32::from_be_bytes(head).min(64) as usize];
    s.read_exact(&mut body).await?;
    Ok(body)
}
async fn session(mut s: TcpStream) {
    let mut tick = tokio::time::interval(Duration::from_millis(30));
    let (mut good, mut bad) = (0, 0);
    loop {
        tokio::select! {
            f = read_frame(&mut s) => match f { Ok(b) if b.len() == 8 && b == b"deadbeef" => good += 1, Ok(_) => bad += 1, Err(_) => return },
            _ = tick.tick() => { if (good + bad) % 100 == 1 { eprintln!("good {good} bad {bad}"); } }
        }
    }
}
async fn peer(mut s: TcpStream) {
    loop {
        for part in [&[0u8, 0, 0, 8][..], b"dead", b"beef"] {
            if s.write_all(part).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let l = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let a = l.local_addr().unwrap();
    tokio::spawn(async move { peer(TcpStream::connect(a).await.unwrap()).await });
    let (s, _) = l.accept().await.unwrap();
    s.set_nodelay(true).unwrap();
    tokio::spawn(session(s)).await.unwrap();
}
