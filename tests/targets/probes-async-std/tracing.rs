//! The five functions that async-std's branch of 2019 exports for perf, by the same names and with
//! the same arguments. There they are empty, and today's compiler removes their calls: here each
//! has a `nop` that takes the arguments, so that they are passed as ever, and that differs from the
//! others', so that no two become one function. Each counts its calls.

use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

pub static SPAWNED: AtomicU64 = AtomicU64::new(0);
pub static COMPLETED: AtomicU64 = AtomicU64::new(0);
pub static SCHEDULED_LOCAL: AtomicU64 = AtomicU64::new(0);
pub static SCHEDULED_GLOBAL: AtomicU64 = AtomicU64::new(0);
pub static BLOCKED: AtomicU64 = AtomicU64::new(0);
pub static STARTING: AtomicU64 = AtomicU64::new(0);

pub fn task_spawn(id: u64, parent: u64, name: Option<&str>) {
    SPAWNED.fetch_add(1, SeqCst);
    async_std_task_spawn(id, parent, name);
}

pub fn task_completed(id: u64) {
    COMPLETED.fetch_add(1, SeqCst);
    async_std_task_completed(id);
}

pub fn machine_scheduled_task(machine: u64, id: u64, local: bool) {
    if local { &SCHEDULED_LOCAL } else { &SCHEDULED_GLOBAL }.fetch_add(1, SeqCst);
    async_std_machine_scheduled_task(machine, id, local);
}

pub fn machine_blocked(machine: u64) {
    BLOCKED.fetch_add(1, SeqCst);
    async_std_machine_blocked(machine);
}

pub fn machine_starting(machine: u64) {
    STARTING.fetch_add(1, SeqCst);
    async_std_machine_starting(machine);
}

/// What was counted, as a member of a JSON object.
pub fn json() -> String {
    let n = |counter: &AtomicU64| counter.load(SeqCst);
    format!(
        "\"probes\":{{\"task_spawn\":{},\"task_completed\":{},\"machine_scheduled_task\":{},\
         \"local\":{},\"global\":{},\"machine_blocked\":{},\"machine_starting\":{}}}",
        n(&SPAWNED),
        n(&COMPLETED),
        n(&SCHEDULED_LOCAL) + n(&SCHEDULED_GLOBAL),
        n(&SCHEDULED_LOCAL),
        n(&SCHEDULED_GLOBAL),
        n(&BLOCKED),
        n(&STARTING)
    )
}

#[no_mangle]
#[inline(never)]
pub fn async_std_task_spawn(task_id: u64, parent_id: u64, name: Option<&str>) {
    let (name, len) = name.map_or((std::ptr::null(), 0), |name| (name.as_ptr(), name.len()));
    // SAFETY: does nothing, here and below.
    unsafe {
        asm!("nop // task_spawn {} {} {} {}", in(reg) task_id, in(reg) parent_id, in(reg) name, in(reg) len)
    }
}

#[no_mangle]
#[inline(never)]
pub fn async_std_task_completed(task_id: u64) {
    unsafe { asm!("nop // task_completed {}", in(reg) task_id) }
}

#[no_mangle]
#[inline(never)]
pub fn async_std_machine_scheduled_task(machine_addr: u64, task_id: u64, local: bool) {
    unsafe {
        asm!("nop // machine_scheduled_task {} {} {}", in(reg) machine_addr, in(reg) task_id, in(reg) u64::from(local))
    }
}

#[no_mangle]
#[inline(never)]
pub fn async_std_machine_blocked(machine_addr: u64) {
    unsafe { asm!("nop // machine_blocked {}", in(reg) machine_addr) }
}

#[no_mangle]
#[inline(never)]
pub fn async_std_machine_starting(machine_addr: u64) {
    unsafe { asm!("nop // machine_starting {}", in(reg) machine_addr) }
}
