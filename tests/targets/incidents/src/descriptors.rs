// An accept loop that goes on after EMFILE at once: it spins while all descriptors are taken.
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
extern "C" {
    fn setrlimit(resource: i32, limit: *const [u64; 2]) -> i32;
}
async fn serve(s: TcpStream) {
    tokio::time::sleep(Duration::from_secs(60)).await;
    drop(s);
}
async fn accept_loop(l: TcpListener) {
    loop {
        match l.accept().await {
            Ok((s, _)) => drop(tokio::spawn(serve(s))),
            Err(_) => continue,
        }
    }
}
async fn client(a: std::net::SocketAddr) {
    let mut open = vec![];
    loop {
        if let Ok(s) = TcpStream::connect(a).await {
            open.push(s);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    unsafe { setrlimit(7, &[60, 60]) };
    let l = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let a = l.local_addr().unwrap();
    tokio::spawn(accept_loop(l));
    tokio::spawn(client(a)).await.unwrap();
}
