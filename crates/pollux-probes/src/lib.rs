//! USDT probes of Tokio's tasks and workers for Linux, to be read by bpftrace, perf, SystemTap and
//! pollux. The probes are those of `tokio-dtrace`, with the same names and arguments:
//!
//! | probe of provider `tokio` | arguments |
//! |---|---|
//! | `task-spawn`, `task-poll-start`, `task-poll-end`, `task-terminate` | task id (u64); file (0-terminated), line, column of its spawn |
//! | `worker-thread-start`, `-stop`, `-park`, `-unpark` | none |
//!
//! ```no_run
//! let mut builder = tokio::runtime::Builder::new_multi_thread();
//! pollux_probes::register_hooks(&mut builder).expect("probes");
//! let runtime = builder.build().unwrap();
//! ```
//!
//! Tasks' hooks are an unstable feature of Tokio: build with `RUSTFLAGS="--cfg tokio_unstable"`. Without
//! it [`register_hooks`] says so, and [`register_thread_hooks`] gives the four probes of threads.
//!
//! A probe that nobody listens to costs the load of a counter and a branch that isn't taken. On
//! other systems and processors than Linux on x86-64 and aarch64 the probes are nothing.
#![warn(missing_docs)]

use std::fmt;
use std::mem::{align_of, size_of};
use std::num::NonZeroU64;
use tokio::runtime::Builder;
use tokio::task::Id;

pub mod hooks;
#[allow(missing_docs)]
mod probes;

/// Why the probes can't be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum RegistrationError {
    /// Tokio was built without its unstable features, among which the tasks' hooks are.
    UnstableFeaturesRequired,
    /// This Tokio's task ids are not the numbers that the probes would tell.
    InvalidCasts(InvalidCasts),
}

impl fmt::Display for RegistrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnstableFeaturesRequired => {
                f.write_str("probes of tasks need `RUSTFLAGS=\"--cfg tokio_unstable\"`")
            }
            Self::InvalidCasts(reason) => reason.fmt(f),
        }
    }
}

impl std::error::Error for RegistrationError {}

impl From<InvalidCasts> for RegistrationError {
    fn from(reason: InvalidCasts) -> Self {
        Self::InvalidCasts(reason)
    }
}

/// `tokio::task::Id` is not laid out as the number that it holds.
#[derive(Debug)]
pub struct InvalidCasts {
    size: usize,
    align: usize,
}

impl fmt::Display for InvalidCasts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, align } = self;
        write!(f, "tokio::task::Id has {size} bytes and alignment {align}: not a u64")
    }
}

impl std::error::Error for InvalidCasts {}

/// Whether a task's id can be read as the number that it holds.
pub fn check_casts() -> Result<(), InvalidCasts> {
    let (size, align) = (size_of::<Id>(), align_of::<Id>());
    if size == size_of::<NonZeroU64>() && align == align_of::<NonZeroU64>() {
        Ok(())
    } else {
        Err(InvalidCasts { size, align })
    }
}

/// The number in a task's id, which Tokio itself gives as text only.
#[cfg(tokio_unstable)]
fn id_number(id: Id) -> u64 {
    if size_of::<Id>() != size_of::<u64>() {
        return 0;
    }
    // SAFETY: as large as a u64, and every u64 is valid.
    unsafe { std::mem::transmute_copy(&id) }
}

/// Sets the runtime's hooks, all eight, so that the probes fire. Tokio keeps one function per hook:
/// one that was set before is replaced; see [`hooks`] for how to have one's own too.
///
/// # Errors
///
/// Without `--cfg tokio_unstable`, or if [`check_casts`] fails; then nothing is set.
pub fn register_hooks(builder: &mut Builder) -> Result<&mut Builder, RegistrationError> {
    #[cfg(not(tokio_unstable))]
    {
        let _ = builder;
        Err(RegistrationError::UnstableFeaturesRequired)
    }
    #[cfg(tokio_unstable)]
    {
        check_casts()?;
        builder
            .on_task_spawn(hooks::on_task_spawn)
            .on_before_task_poll(hooks::on_before_task_poll)
            .on_after_task_poll(hooks::on_after_task_poll)
            .on_task_terminate(hooks::on_task_terminate);
        Ok(register_thread_hooks(builder))
    }
}

/// Sets the hooks of threads alone, which need no unstable features.
pub fn register_thread_hooks(builder: &mut Builder) -> &mut Builder {
    builder
        .on_thread_start(hooks::on_thread_start)
        .on_thread_stop(hooks::on_thread_stop)
        .on_thread_park(hooks::on_thread_park)
        .on_thread_unpark(hooks::on_thread_unpark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers() {
        check_casts().unwrap();
    }

    #[test]
    #[cfg(tokio_unstable)]
    fn id_is_what_tokio_prints() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let task = runtime.spawn(async {});
        assert_eq!(id_number(task.id()).to_string(), task.id().to_string());
    }

    #[test]
    fn hooks_need_unstable_features() {
        let mut builder = Builder::new_current_thread();
        let result = register_hooks(&mut builder);
        assert_eq!(result.is_ok(), cfg!(tokio_unstable));
        if let Err(error) = result {
            assert!(error.to_string().contains("tokio_unstable"), "{error}");
        }
    }
}
