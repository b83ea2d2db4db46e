//! What happens to the process: attached late, forked, executed, interrupted by signals.

use crate::stage::{say, Stage};
use crate::{current, multi};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::sync::Semaphore;

family!(old_timer);
family!(newcomer);

/// Tasks that live when counting begins, on a runtime inside block_on.
fn alive(stage: &Stage, rt: Runtime) {
    let n = stage.scaled(30);
    let gate = std::sync::Arc::new(Semaphore::new(0));
    let (go, start) = oneshot::channel::<()>();
    let opened = gate.clone();
    let polled = std::sync::Arc::new(AtomicU64::new(0));
    let seen = polled.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while seen.load(SeqCst) < n {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            std::thread::sleep(std::time::Duration::from_millis(50)); // let all polls end
            stage.ready();
            go.send(()).unwrap();
        });
        rt.block_on(async move {
            let mut tasks = Vec::new();
            for _ in 0..n {
                let (gate, polled) = (gate.clone(), polled.clone());
                tasks.push(tokio::spawn(old_timer(async move {
                    polled.fetch_add(1, SeqCst);
                    let permit = gate.acquire().await.unwrap();
                    tokio::task::yield_now().await;
                    drop(permit);
                })));
            }
            start.await.unwrap();
            for _ in 0..n {
                tasks.push(tokio::spawn(newcomer(async {
                    tokio::task::yield_now().await;
                })));
            }
            opened.add_permits(2);
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
    drop(rt);
    say(&format!("alive before {n}"));
    stage.done();
}

pub fn alive_before(stage: &Stage) {
    alive(stage, multi());
}

pub fn alive_before_current(stage: &Stage) {
    alive(stage, current());
}

family!(ticking_root, root);

/// A block_on that is there when counting begins: its root waits, then is woken by a timer.
fn ticking(stage: &Stage, rt: Runtime) {
    let n = stage.scaled(40);
    let (go, start) = oneshot::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50)); // let it park
            stage.ready();
            go.send(()).unwrap();
        });
        rt.block_on(ticking_root(async move {
            start.await.unwrap();
            let mut tick = tokio::time::interval(std::time::Duration::from_millis(3));
            for _ in 0..n {
                tick.tick().await;
            }
        }));
    });
    drop(rt);
    say(&format!("ticked {n}"));
    stage.done();
}

pub fn root_before(stage: &Stage) {
    ticking(stage, multi());
}

pub fn root_before_current(stage: &Stage) {
    ticking(stage, current());
}

family!(executing);
family!(forking);

/// Tasks that run other programs.
pub fn fork_exec(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(20);
    let mut tasks = Vec::new();
    for i in 0..n {
        tasks.push(rt.spawn(executing(async move {
            tokio::task::yield_now().await;
            let output = Command::new("/bin/echo").arg(i.to_string()).output().unwrap();
            tokio::task::yield_now().await;
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap().trim().parse::<u64>().unwrap()
        })));
    }
    let mut sum = 0;
    for task in tasks {
        sum += rt.block_on(task).unwrap();
    }
    drop(rt);
    assert_eq!(sum, n * (n - 1) / 2);
    say(&format!("executed {n}: {sum}"));
    stage.done();
}

/// The child of a fork inside a poll: wakes the very task that it is in, then runs tasks of its own
/// in a thread of its own.
fn child_of_fork(waker: &std::task::Waker) -> i32 {
    waker.wake_by_ref();
    let thread = std::thread::spawn(|| {
        let rt = current();
        rt.block_on(async {
            let mut sum = 0;
            for value in 0..10 {
                let task = tokio::spawn(async move {
                    tokio::task::yield_now().await;
                    value
                });
                sum += task.await.unwrap();
            }
            sum
        })
    });
    thread.join().unwrap_or(99)
}

/// Tasks that fork without exec.
pub fn fork_run(stage: &Stage) {
    let rt = multi();
    stage.ready();
    let n = stage.scaled(20);
    let mut sum = 0;
    for _ in 0..n {
        let task = rt.spawn(forking(async move {
            tokio::task::yield_now().await;
            let status = crate::truth::poll_fn(|cx| {
                // SAFETY: the child calls what glibc keeps usable after fork (malloc) and ends by _exit.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    let code = child_of_fork(cx.waker());
                    unsafe { libc::_exit(code) };
                }
                let mut status = 0;
                // SAFETY: `status` is a valid place for it.
                let waited = unsafe { libc::waitpid(child, &mut status, 0) };
                assert_eq!(waited, child);
                std::task::Poll::Ready(status)
            })
            .await;
            tokio::task::yield_now().await;
            assert!(libc::WIFEXITED(status), "child's status {status:#x}");
            libc::WEXITSTATUS(status) as u64
        }));
        sum += rt.block_on(task).unwrap();
    }
    drop(rt);
    assert_eq!(sum, 45 * n);
    say(&format!("forked {n}: {sum}"));
    stage.done();
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, SeqCst);
}

family!(interrupted);

/// A timer's signals at 1 kHz and one's own, with handlers, while tasks run. Handlers see and leave
/// the thread as it is, wherever it is.
pub fn signals(stage: &Stage) {
    let rt = multi();
    stage.ready();
    // SAFETY: the handler only adds to an atomic; the structs are plain data.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), 0);
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
        let every = libc::timeval { tv_sec: 0, tv_usec: 1000 };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()), 0);
    }
    let n = stage.scaled(2000);
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(rt.spawn(interrupted(async move {
            let mut sum = 0;
            for value in 0..n {
                if value % 100 == 0 {
                    // SAFETY: there is a handler.
                    assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
                }
                sum += value;
                tokio::task::yield_now().await;
            }
            sum
        })));
    }
    let mut sum = 0;
    for task in tasks {
        sum += rt.block_on(task).unwrap();
    }
    while SIGNALS.load(SeqCst) < 4 * (n / 100) + 20 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // SAFETY: stops the timer.
    unsafe {
        let timer: libc::itimerval = std::mem::zeroed();
        libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
    }
    drop(rt);
    assert_eq!(sum, 4 * (n * (n - 1) / 2));
    say(&format!("signals {n}: {sum}"));
    stage.done();
}
