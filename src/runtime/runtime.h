/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What pollux knows of each runtime, one file each behind one ops table; and the scan result: all
 * places in one ELF object where that runtime can be hooked. Nothing here touches a process:
 * addresses are *linked* addresses (virtual addresses as in the file); the loader adds the bias and
 * compares the slot's live content with what is expected before it changes anything.
 */
#pragma once

#include "base/error.h"
#include "trace/coverage.h"
#include "trace/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct elf_image; /* src/binary */

/* A patched place: the instruction that takes a table's address. */
struct scan_site {
	uint64_t addr; /* of the instruction */
	uint8_t len;   /* its length; at least 5 */
	uint8_t reg;   /* destination register number (0 rax .. 15 r15), 0xff: a store to memory */
	uint8_t bytes[15]; /* the instruction as it is in the file */
	bool patchable;	   /* false: `note` of the coverage says why (too short, ...) */
	/* Of a function that does nothing but make a block_on's waker: from the stack pointer at the
	 * site to its return address, which says which block_on it is; plus 1, 0: not known. */
	uint16_t back;
	char *where; /* "app::serve+0x1f3" demangled, or "server+0x5f3a0" */
	/* The calls that lead to it, from the inside outwards: a line table knows which functions
	 * were inlined there. */
	struct scan_caller *callers;
	size_t n_callers;
};

struct scan_caller {
	uint64_t addr;	/* of the call, or of a jump out of a function */
	uint32_t inner; /* the one that it leads to: index + 1; 0: to the site itself */
};

/* How a runtime's tasks are made: what agent/runtime_*.h says of them. Several runtimes may have
 * one model. */
enum task_model { TASK_TOKIO = 0, TASK_ASYNC_TASK, TASK_N_MODELS };

/* What the functions of a task's vtable do. No model has all of them. */
enum task_function {
	TF_POLL = 0,	/* async-task: run */
	TF_SCHEDULE,	/* puts it into a run queue */
	TF_FREE,	/* dealloc; async-task: destroy */
	TF_DROP_FUTURE, /* async-task: of a task that is not run any more */
	TF_SHUTDOWN,	/* Tokio */
	TF_READ,	/* try_read_output; async-task: get_output */
	TF_DROP_JOIN,	/* Tokio: of the handles */
	TF_DROP_ABORT,
	TF_DROP_REF, /* async-task */
	TF_CLONE_WAKER,
	TF_N,
};

struct find_slot {
	uint64_t addr, function; /* 0: there is none */
};

/* A task kind: one vtable. */
struct scan_kind {
	uint32_t runtime;     /* index into scan.runtimes */
	enum trace_role role; /* by names; TR_TASK if not known */
	bool block_in_place;  /* the worker kind that block_in_place spawns */
	uint64_t vtable;
	struct find_slot slots[TF_N];
	uint16_t id_offset, scheduler_offset, trailer_offset; /* Tokio */
	uint16_t vtable_offset, state_offset;		      /* in the header: Tokio 16 and 0 */
	char *name, *full_name, *scheduler;		      /* see struct trace_kind */
	struct scan_site *sites;
	size_t n_sites;
};

/* A RawWakerVTable. */
struct scan_waker {
	uint32_t runtime;
	bool root; /* of a block_on; else of tasks */
	uint64_t vtable;
	struct find_slot wake, wake_by_ref;
	struct scan_site *sites; /* root only: where block_on makes its waker */
	size_t n_sites;
	char *name; /* root: "block_on (multi_thread)", "block_on (current_thread)" */
	/* async-task: calls of these functions past the table, where the optimiser knew the waker:
	 * four bytes at `addr`, relative to what follows them, lead to `target`. */
	struct scan_direct {
		uint64_t addr, target;
	} * direct;
	size_t n_direct;
};

/* A GOT slot of a call of enum trace_call, or of the unwinder; of a static program also a direct
 * call. */
struct scan_call {
	uint64_t slot;	   /* direct: the four bytes, relative to what follows them */
	uint64_t function; /* a static program's own; else 0 */
	bool direct;
	bool waits;    /* a thread goes there to wait: the begin of such a call is recorded too */
	uint16_t call; /* enum trace_call; TB_NONE: _Unwind_RaiseException */
	const char *symbol;
};

struct scan_runtime {
	enum task_model model;
	char *name, *version, *verified;
	uint64_t next_id; /* Tokio: address of the task id counter, 0 if not found */
};

/* Code in which a block_on polls, by return addresses: a thread whose stack holds one of them is in
 * a block_on that made a waker of scan.wakers[waker]; sorted. See block_on.c for when that is
 * wrong. */
struct scan_block_on {
	uint64_t start, end;
	uint32_t waker;
	/* addr: the site of the waker, or the call of the function that has it, or the beginning of
	 * block_on itself; where, callers: of the block_on. */
	struct scan_site site;
	/* Of its future, or of the program's function that calls block_on; NULL: not known. */
	char *name, *full_name;
};

struct runtime_scan {
	char *path;	 /* as the target names it */
	char *libraries; /* crates from a registry, see name_task(); NULL: it has no kinds */
	struct scan_runtime *runtimes;
	size_t n_runtimes;
	struct scan_kind *kinds;
	size_t n_kinds;
	struct scan_waker *wakers;
	size_t n_wakers;
	struct scan_call *calls;
	size_t n_calls;
	uint64_t n_inline_syscalls; /* `syscall` instructions in functions of the program: not
				       visible */
	bool has_symbols, pie, is_static, is_musl;
	struct scan_block_on *block_ons;
	size_t n_block_ons;
	struct coverage_list coverage; /* process index is 0 here */
	const char *covering; /* the runtime that finds now: coverage that is added is its own */
};

/* Everything pollux can hook in this object. An object without any runtime gives 0 runtimes, not an
 * error; a runtime of a version that can't be hooked gives a coverage entry with the reason.
 * Symbols, layouts and code come from outside: nothing is trusted. */
int runtime_find(struct elf_image *image, struct runtime_scan *ret_scan, struct error *err);
void runtime_scan_done(struct runtime_scan *f);
/* Why what is there can't be had, each reason followed by "; ". */
void scan_reasons(const struct runtime_scan *f, struct buf *out);

/* True if all versions of a find_runtime's `version` are at least MAJOR.MINOR; false if none is
 * known.
 */
bool version_at_least(const char *versions, unsigned major, unsigned minor);

static inline enum task_model find_model(const struct runtime_scan *f, uint32_t runtime)
{
	return f->runtimes[runtime].model;
}

/* Whether its polls are surely no worker's main loop: those are Tokio's blocking tasks, which have
 * a scheduler of no size. Where names don't show it, its polls do: no task polls another one. */
bool find_kind_is_task(const struct runtime_scan *f, const struct scan_kind *k);

/* The one that an address lies in; NULL. */
const struct scan_block_on *block_on_at(const struct scan_block_on *v, size_t n, uint64_t addr);

/* One runtime. Each adds what it finds to `f`. No other code asks for it by name: what differs
 * is in its model. */
struct runtime_ops {
	const char *name;
	int (*find)(struct elf_image *image, struct runtime_scan *f, struct error *err);
};
extern const struct runtime_ops *const runtimes[]; /* NULL-terminated: tokio, async-task */
