//! The functions that [`register_hooks`](crate::register_hooks) gives to the runtime. Tokio keeps one
//! function of each sort: whoever needs one for himself sets it after `register_hooks`, and calls
//! the one from here in it.
//!
//! ```ignore
//! pollux_probes::register_hooks(&mut builder)?;
//! builder.on_before_task_poll(|meta| {
//!     my_own_hook(meta);
//!     pollux_probes::hooks::on_before_task_poll(meta);
//! });
//! ```
//!
//! While nobody listens each is the load of a counter and a branch that isn't taken.

use crate::probes;

#[cfg(tokio_unstable)]
mod task {
    use crate::probes::{self, Semaphore};
    use std::ffi::c_char;
    use std::mem::MaybeUninit;
    use tokio::runtime::TaskMeta;

    /// Of a longer path the end is told.
    const MAX_FILE: usize = 1023;

    type Probe = fn(u64, *const c_char, u32, u32);

    #[cold]
    #[inline(never)]
    fn fire(probe: Probe, meta: &TaskMeta<'_>) {
        let place = meta.spawned_at();
        let file = place.file().as_bytes();
        let file = &file[file.len().saturating_sub(MAX_FILE)..];
        let mut text = [MaybeUninit::<u8>::uninit(); MAX_FILE + 1];
        for (to, from) in text.iter_mut().zip(file.iter().chain(&[0])) {
            to.write(*from);
        }
        probe(crate::id_number(meta.id()), text.as_ptr().cast(), place.line(), place.column());
    }

    #[inline(always)]
    fn hook(semaphore: &Semaphore, probe: Probe, meta: &TaskMeta<'_>) {
        if semaphore.is_raised() {
            fire(probe, meta);
        }
    }

    /// A task is spawned: `task-spawn`.
    pub fn on_task_spawn(meta: &TaskMeta<'_>) {
        hook(&probes::task::TASK_SPAWN, probes::task::spawn, meta);
    }

    /// A poll begins: `task-poll-start`.
    pub fn on_before_task_poll(meta: &TaskMeta<'_>) {
        hook(&probes::task::TASK_POLL_START, probes::task::poll_start, meta);
    }

    /// A poll ends: `task-poll-end`.
    pub fn on_after_task_poll(meta: &TaskMeta<'_>) {
        hook(&probes::task::TASK_POLL_END, probes::task::poll_end, meta);
    }

    /// A task has ended, in its last poll or without one: `task-terminate`.
    pub fn on_task_terminate(meta: &TaskMeta<'_>) {
        hook(&probes::task::TASK_TERMINATE, probes::task::terminate, meta);
    }
}

#[cfg(tokio_unstable)]
pub use task::{on_after_task_poll, on_before_task_poll, on_task_spawn, on_task_terminate};

macro_rules! thread_hook {
    ($function:ident, $semaphore:ident, $probe:ident, $doc:literal) => {
        #[doc = $doc]
        pub fn $function() {
            if probes::thread::$semaphore.is_raised() {
                probes::thread::$probe();
            }
        }
    };
}

thread_hook!(on_thread_start, THREAD_START, start, "A thread begins: `worker-thread-start`.");
thread_hook!(on_thread_stop, THREAD_STOP, stop, "A thread ends: `worker-thread-stop`.");
thread_hook!(on_thread_park, THREAD_PARK, park, "A worker parks: `worker-thread-park`.");
thread_hook!(on_thread_unpark, THREAD_UNPARK, unpark, "A worker goes on: `worker-thread-unpark`.");
