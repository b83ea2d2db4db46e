// An agent connects again at once when it is refused.
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
async fn dial(peer: SocketAddr) -> bool {
    TcpStream::connect(peer).await.is_ok()
}
async fn agent(peer: SocketAddr) {
    while !dial(peer).await {}
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn main() {
    let peer = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for _ in 0..2 {
        tokio::spawn(agent(peer));
    }
    std::future::pending::<()>().await
}
