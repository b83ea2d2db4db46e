//! The ends of trees: locks, channels, sockets, tasks.
use crate::parts::*;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use tokio::spawn;
use tokio::sync::{
    broadcast, mpsc, oneshot, watch, Barrier, Mutex, Notify, OnceCell, RwLock, Semaphore,
};

// TREE lock_holder
//   lock_holder @lock_holder
//     *mid
async fn lock_holder(m: Arc<Mutex<u64>>) {
    let mut guard = m.lock().await;
    *guard += 1;
    mid(DAYS).await; // @lock_holder
    *guard += 1;
}

// TREE lock_waiter
//   lock_waiter @lock_waiter
//     Mutex::lock of lock_holder
async fn lock_waiter(m: Arc<Mutex<u64>>) {
    let mut guard = m.lock().await; // @lock_waiter
    *guard += 1;
}

// TREE owned_holder
//   owned_holder @owned_holder
//     *mid
async fn owned_holder(m: Arc<Mutex<u64>>) {
    let guard = m.lock_owned().await;
    mid(DAYS + *guard).await; // @owned_holder
    drop(guard);
}

// TREE owned_waiter
//   owned_waiter @owned_waiter
//     Mutex::lock of owned_holder
async fn owned_waiter(m: Arc<Mutex<u64>>) {
    let guard = m.lock_owned().await; // @owned_waiter
    drop(guard);
}

// TREE reader
//   reader @reader
//     *mid
async fn reader(l: Arc<RwLock<u64>>) {
    let guard = l.read().await;
    mid(DAYS + *guard).await; // @reader
    drop(guard);
}

// TREE writer
//   writer @writer
//     RwLock::write of reader
async fn writer(l: Arc<RwLock<u64>>) {
    *l.write().await += 1; // @writer
}

// TREE permit_holder
//   permit_holder @permit_holder
//     *mid
async fn permit_holder(s: Arc<Semaphore>) {
    let permit = s.acquire().await;
    mid(DAYS).await; // @permit_holder
    drop(permit);
}

// TREE permit_waiter
//   permit_waiter @permit_waiter
//     Semaphore::acquire of permit_holder
async fn permit_waiter(s: Arc<Semaphore>) {
    let _permit = s.acquire().await; // @permit_waiter
}

// TREE mpsc_receive
//   mpsc_receive @mpsc_receive
//     mpsc receive
async fn mpsc_receive(mut r: mpsc::Receiver<u64>) {
    while let Some(n) = r.recv().await { // @mpsc_receive
        println!("{n}");
    }
}

// TREE mpsc_unbounded
//   mpsc_unbounded @mpsc_unbounded
//     mpsc receive
async fn mpsc_unbounded(mut r: mpsc::UnboundedReceiver<String>) {
    while let Some(n) = r.recv().await { // @mpsc_unbounded
        println!("{n}");
    }
}

// TREE mpsc_send
//   mpsc_send @mpsc_send
//     mpsc send (channel full)
async fn mpsc_send(s: mpsc::Sender<u64>) {
    s.send(1).await.unwrap();
    s.send(2).await.unwrap(); // @mpsc_send
}

// TREE one_shot
//   one_shot @one_shot
//     oneshot receive
async fn one_shot(r: oneshot::Receiver<u64>) {
    let _ = r.await; // @one_shot
}

// TREE watch_changed
//   watch_changed @watch_changed
//     watch changed
async fn watch_changed(mut r: watch::Receiver<u64>) {
    while r.changed().await.is_ok() {} // @watch_changed
}

// TREE broadcast_receive
//   broadcast_receive @broadcast_receive
//     broadcast receive
async fn broadcast_receive(mut r: broadcast::Receiver<u64>) {
    let _ = r.recv().await; // @broadcast_receive
}

// TREE notified
//   notified @notified
//     notified
async fn notified(n: Arc<Notify>) {
    n.notified().await; // @notified
}

// TREE at_barrier
//   at_barrier @at_barrier
//     Barrier::wait
async fn at_barrier(b: Arc<Barrier>) {
    b.wait().await; // @at_barrier
}

// TREE once_cell
//   once_cell @once_cell
//     once_cell @once_cell_in
//       *mid
async fn once_cell(c: Arc<OnceCell<u64>>) {
    let n = c
        .get_or_init(|| async {
            mid(DAYS).await // @once_cell_in
        })
        .await; // @once_cell
    println!("{n}");
}

// TREE join_handle
//   join_handle @join_handle
//     join handle of joined
async fn join_handle() {
    let _ = spawn(joined()).await; // @join_handle
}

// TREE joined
//   joined @joined
//     *leaf
async fn joined() {
    leaf(DAYS).await; // @joined
}

// TREE join_set
//   join_set @join_set
//     JoinSet
//       join handle of in_join_set x3
async fn join_set() {
    let mut set = tokio::task::JoinSet::new();
    for _ in 0..3 {
        set.spawn(in_join_set());
    }
    while let Some(r) = set.join_next().await { // @join_set
        println!("{r:?}");
    }
}

// TREE in_join_set
//   in_join_set @in_join_set
//     *mid
async fn in_join_set() {
    mid(DAYS).await; // @in_join_set
}

// TREE blocking
//   blocking @blocking
//     join handle of blocking
async fn blocking() {
    let nap = || std::thread::sleep(Duration::from_secs(DAYS));
    let _ = tokio::task::spawn_blocking(nap).await; // @blocking
}

// TREE interval
//   interval @interval
//     interval
async fn interval() {
    let mut every = tokio::time::interval(Duration::from_secs(DAYS));
    loop {
        every.tick().await; // @interval
    }
}

// TREE accept
//   accept @accept
//     socket readable
async fn accept(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await { // @accept
        spawn(connection(stream));
    }
}

// TREE connection
//   connection @connection
//     Read<..>
//       TcpStream
async fn connection(mut stream: TcpStream) {
    let mut buf = [0u8; 64];
    let _ = stream.read(&mut buf).await; // @connection
}

// TREE client
//   client @client
//     ReadLine<..>
//       BufReader<..>
//         TcpStream
async fn client(stream: TcpStream) {
    let mut reader = tokio::io::BufReader::new(stream);
    let mut line = String::new();
    let _ = reader.read_line(&mut line).await; // @client
}

// TREE udp
//   udp @udp
//     socket readable
async fn udp(socket: UdpSocket) {
    let mut buf = [0u8; 64];
    let _ = socket.recv_from(&mut buf).await; // @udp
}

// TREE unix_exact
//   unix_exact @unix_exact
//     ReadExact<..>
//       UnixStream
async fn unix_exact(mut stream: UnixStream) {
    let mut buf = [0u8; 64];
    let _ = stream.read_exact(&mut buf).await; // @unix_exact
}

// TREE readable
//   readable @readable
//     socket readable
async fn readable(stream: UnixStream) {
    let _ = stream.readable().await; // @readable
}

// TREE copy_loop
//   copy_loop @copy_loop
//     Copy<..>
//       UnixStream read half
//       UnixStream write half
async fn copy_loop(stream: UnixStream) {
    let (mut r, mut w) = stream.into_split();
    let _ = tokio::io::copy(&mut r, &mut w).await; // @copy_loop
}

type Kept = Vec<Box<dyn Any + Send>>;

pub async fn spawn_all() -> Kept {
    let mut kept: Kept = Vec::new();
    let pause = || tokio::time::sleep(Duration::from_millis(30));

    let (a, b) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let (l, s) = (Arc::new(RwLock::new(0)), Arc::new(Semaphore::new(1)));
    spawn(lock_holder(a.clone()));
    spawn(owned_holder(b.clone()));
    spawn(reader(l.clone()));
    spawn(permit_holder(s.clone()));
    pause().await;
    spawn(lock_waiter(a));
    spawn(owned_waiter(b));
    spawn(writer(l));
    spawn(permit_waiter(s));

    let (t, r) = mpsc::channel(4);
    spawn(mpsc_receive(r));
    kept.push(Box::new(t));
    let (t, r) = mpsc::unbounded_channel();
    spawn(mpsc_unbounded(r));
    kept.push(Box::new(t));
    let (t, r) = mpsc::channel(1);
    spawn(mpsc_send(t));
    kept.push(Box::new(r));
    let (t, r) = oneshot::channel();
    spawn(one_shot(r));
    kept.push(Box::new(t));
    let (t, r) = watch::channel(0);
    spawn(watch_changed(r));
    kept.push(Box::new(t));
    let (t, r) = broadcast::channel(4);
    spawn(broadcast_receive(r));
    kept.push(Box::new(t));
    let n = Arc::new(Notify::new());
    spawn(notified(n.clone()));
    kept.push(Box::new(n));
    let barrier = Arc::new(Barrier::new(2));
    spawn(at_barrier(barrier));
    spawn(once_cell(Arc::new(OnceCell::new())));

    spawn(join_handle());
    spawn(join_set());
    spawn(blocking());
    spawn(interval());

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    spawn(accept(listener));
    spawn(client(TcpStream::connect(at).await.unwrap()));
    spawn(udp(UdpSocket::bind("127.0.0.1:0").await.unwrap()));
    for i in 0..3 {
        let (a, b) = UnixStream::pair().unwrap();
        match i {
            0 => drop(spawn(unix_exact(a))),
            1 => drop(spawn(readable(a))),
            _ => drop(spawn(copy_loop(a))),
        }
        kept.push(Box::new(b));
    }
    kept
}
