//! The probes themselves: a function each, so that each has one site, with a note in `.note.stapsdt`
//! that tells tracers of it, and a semaphore in `.probes`, which a tracer counts up while it
//! listens. The notes are of version 3: see the header of pollux for C, `include/pollux/probes.h`,
//! whose probes are the same.
#![cfg_attr(not(tokio_unstable), allow(unused_macros))]

use std::cell::UnsafeCell;

/// A counter that tracers write from outside.
#[repr(transparent)]
pub struct Semaphore(UnsafeCell<u16>);

// SAFETY: nobody writes it in here, and two bytes are read at once.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    #[inline(always)]
    pub fn is_raised(&self) -> bool {
        // SAFETY: it is valid, and read as what may change at any time.
        unsafe { self.0.get().read_volatile() != 0 }
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! note {
    ($name:literal, $args:literal, $semaphore:ident $(, $register:tt $value:ident)*) => {
        // SAFETY: a nop; the rest goes into sections of its own.
        unsafe {
            std::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", \"note\"",
                ".balign 4",
                ".4byte 992f - 991f, 994f - 993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b, _.stapsdt.base, {semaphore}",
                ".asciz \"tokio\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $args, "\""),
                "994: .balign 4",
                ".popsection",
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"aGR\", \"progbits\", .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                semaphore = sym $semaphore,
                $(in($register) $value,)*
                options(att_syntax, nostack, preserves_flags)
            )
        }
    };
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
macro_rules! task_note {
    ($name:literal, $semaphore:ident, $id:ident, $file:ident, $line:ident, $column:ident) => {
        note!($name, "8@%rdi 8@%rsi 4@%edx 4@%ecx", $semaphore,
            "rdi" $id, "rsi" $file, "edx" $line, "ecx" $column)
    };
}

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
macro_rules! task_note {
    ($name:literal, $semaphore:ident, $id:ident, $file:ident, $line:ident, $column:ident) => {
        note!($name, "8@x0 8@x1 4@w2 4@w3", $semaphore,
            "x0" $id, "x1" $file, "w2" $line, "w3" $column)
    };
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
macro_rules! note {
    ($($ignored:tt)*) => {};
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
macro_rules! task_note {
    ($name:literal, $semaphore:ident, $($value:ident),*) => {
        let _ = ($($value,)*);
    };
}

macro_rules! semaphore {
    ($semaphore:ident) => {
        #[cfg_attr(target_os = "linux", link_section = ".probes")]
        pub static $semaphore: Semaphore = Semaphore(UnsafeCell::new(0));
    };
}

/// A probe of a task: its id, and file (0-terminated), line, column of its spawn.
macro_rules! task_probe {
    ($function:ident, $semaphore:ident, $name:literal) => {
        semaphore!($semaphore);

        #[cold]
        #[inline(never)]
        pub fn $function(id: u64, file: *const std::ffi::c_char, line: u32, column: u32) {
            task_note!($name, $semaphore, id, file, line, column);
        }
    };
}

/// A probe of the calling thread.
macro_rules! thread_probe {
    ($function:ident, $semaphore:ident, $name:literal) => {
        semaphore!($semaphore);

        #[cold]
        #[inline(never)]
        pub fn $function() {
            note!($name, "", $semaphore);
        }
    };
}

#[cfg(tokio_unstable)]
pub mod task {
    use super::*;

    task_probe!(spawn, TASK_SPAWN, "task-spawn");
    task_probe!(poll_start, TASK_POLL_START, "task-poll-start");
    task_probe!(poll_end, TASK_POLL_END, "task-poll-end");
    task_probe!(terminate, TASK_TERMINATE, "task-terminate");
}

pub mod thread {
    use super::*;

    thread_probe!(start, THREAD_START, "worker-thread-start");
    thread_probe!(stop, THREAD_STOP, "worker-thread-stop");
    thread_probe!(park, THREAD_PARK, "worker-thread-park");
    thread_probe!(unpark, THREAD_UNPARK, "worker-thread-unpark");
}
