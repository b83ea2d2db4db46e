//! Polls that are in a blocking call until stdin has a second line, one call each: what is open when a
//! recording ends.
use std::ffi::c_void;
use std::os::fd::IntoRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{channel, Sender};

fn line() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn pipe() -> (i32, i32) {
    let mut ends = [0; 2];
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    (ends[0], ends[1])
}

fn write(fd: i32, n: usize) -> isize {
    let data = vec![0u8; n];
    unsafe { libc::write(fd, data.as_ptr() as *const c_void, n) }
}

fn read(fd: i32, n: usize) -> isize {
    let mut data = vec![0u8; n];
    unsafe { libc::read(fd, data.as_mut_ptr() as *mut c_void, n) }
}

/// The file, opened anew.
fn open(path: &str) -> i32 {
    std::fs::File::create(path).unwrap().into_raw_fd()
}

macro_rules! held {
    ($name:ident) => {
        async fn $name(begun: Sender<()>, call: Box<dyn FnOnce() -> bool + Send>) {
            begun.send(()).unwrap();
            assert!(call());
        }
    };
}
held!(held_read);
held!(held_write);
held!(held_recv);
held!(held_accept);
held!(held_connect);
held!(held_flock);
held!(held_lock);
held!(held_poll);

struct Lock(*mut libc::pthread_mutex_t);
unsafe impl Send for Lock {}

impl Lock {
    fn lock(&self) -> bool {
        unsafe { libc::pthread_mutex_lock(self.0) == 0 }
    }
}

fn main() {
    let folder = std::env::args().nth(1).unwrap();
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(9).build().unwrap();
    println!("ready {}", std::process::id());
    line();

    let (from_read, to_read) = pipe();
    let (from_write, to_write) = pipe();
    let (from_poll, to_poll) = pipe();
    let full = unsafe { libc::fcntl(to_write, libc::F_SETPIPE_SZ, 4096) } as usize;
    assert_eq!(write(to_write, full), full as isize);
    let (receiver, mut sender) = UnixStream::pair().unwrap();
    let receiver = receiver.into_raw_fd();
    let accepting = UnixListener::bind(format!("{folder}/accepting")).unwrap();
    let busy = UnixListener::bind(format!("{folder}/busy")).unwrap();
    let (accept_path, busy_path) = (format!("{folder}/accepting"), format!("{folder}/busy"));
    let busy = busy.into_raw_fd();
    assert_eq!(unsafe { libc::listen(busy, 0) }, 0);
    let _first = UnixStream::connect(&busy_path).unwrap();
    let held_file = open(&format!("{folder}/file"));
    let wanted_file = open(&format!("{folder}/file"));
    assert_eq!(unsafe { libc::flock(held_file, libc::LOCK_EX) }, 0);
    let lock = Box::leak(Box::new(libc::PTHREAD_MUTEX_INITIALIZER)) as *mut _;
    let (ours, theirs) = (Lock(lock), Lock(lock));
    assert!(ours.lock());

    let (begun, begins) = channel();
    let tasks = [
        rt.spawn(held_read(begun.clone(), Box::new(move || read(from_read, 1) == 1))),
        rt.spawn(held_write(begun.clone(), Box::new(move || write(to_write, 1) == 1))),
        rt.spawn(held_recv(
            begun.clone(),
            Box::new(move || unsafe { libc::recv(receiver, [0u8; 1].as_mut_ptr().cast(), 1, 0) == 1 }),
        )),
        rt.spawn(held_accept(begun.clone(), Box::new(move || accepting.accept().is_ok()))),
        rt.spawn(held_connect(
            begun.clone(),
            Box::new(move || UnixStream::connect(busy_path).is_ok()),
        )),
        rt.spawn(held_flock(
            begun.clone(),
            Box::new(move || unsafe { libc::flock(wanted_file, libc::LOCK_EX) == 0 }),
        )),
        rt.spawn(held_lock(begun.clone(), Box::new(move || theirs.lock()))),
        rt.spawn(held_poll(
            begun.clone(),
            Box::new(move || {
                let mut one = libc::pollfd { fd: from_poll, events: libc::POLLIN, revents: 0 };
                unsafe { libc::poll(&mut one, 1, -1) == 1 }
            }),
        )),
    ];
    for _ in &tasks {
        begins.recv().unwrap();
    }
    println!("held");
    line();

    write(to_read, 1);
    read(from_write, 4096);
    write(to_poll, 1);
    std::io::Write::write_all(&mut sender, &[0]).unwrap();
    let _client = UnixStream::connect(accept_path).unwrap();
    unsafe {
        libc::accept(busy, std::ptr::null_mut(), std::ptr::null_mut());
        libc::flock(held_file, libc::LOCK_UN);
        libc::pthread_mutex_unlock(ours.0);
    }
    for task in tasks {
        rt.block_on(task).unwrap();
    }
    println!("free");
    line();
}
