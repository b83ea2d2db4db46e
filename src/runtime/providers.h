/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What known probes mean. Programs can carry probes of several makes: Tokio2Chrome's patched Tokio,
 * tokio-dtrace (and pollux's own crate), Tokio's pull request 7717, async-std's exported functions.
 * Here is one table of them, and one state machine that turns what they say into the vocabulary of
 * trace/event.h. It knows nothing of where the hits come from: the kernel source feeds it live,
 * importers feed it what an old recording has.
 *
 *   1. Match. A note of an ELF file, or an event of a recording, is looked up by provider, name and
 *      arguments: providers_match(), providers_match_event(), providers_function(). The row says
 *      what each argument is; strings (provider_arg_is_string()) must be read when the probe fires.
 *   2. Feed. providers_feed() takes one hit after the other; each thread's in its own order, all
 *      about in the order of time. The sink gets kinds before their first event, and events in
 *      each thread's order.
 *   3. Drain. What a probe means is sometimes known by what follows only (how a poll ended, whether
 *      a task is a worker's loop), so a few events wait, and those after them on their thread.
 *      providers_drain(before) decides all that is older: live, call it after each batch with now -
 *      PROVIDERS_WAIT_NS and use the same time as watermark; at the end with UINT64_MAX.
 *
 * Other events of the same threads (losses, a thread's end, parks that the kernel sees) are passed
 * through with providers_pass(), so that they keep their place; nothing of such a thread may be
 * written past the sink, unless as a stream of its own (trace_thread.stream_of).
 */
#pragma once

#include "base/error.h"
#include "base/units.h"
#include "trace/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct probe;	  /* binary/elf/probes.h */
struct machine;	  /* binary/machine.h */
struct probe_arg; /* binary/elf/probes.h */

#define PROVIDER_MAX_ARGS 6u
#define PROVIDERS_WAIT_NS (250 * NSEC_PER_MSEC)

enum provider_what {
	PW_NOTHING = 0, /* known, but without a word in the vocabulary */
	PW_SPAWN,
	PW_DETAILS, /* where and under which name a task is spawned, next to its PW_SPAWN */
	PW_SCHEDULE,
	PW_WAKE,
	PW_POLL_BEGIN,
	PW_POLL_END,	  /* how it ended comes with PW_TERMINATE, just before or just after */
	PW_POLL_END_TOLD, /* arguments say how */
	PW_TERMINATE,
	PW_FINISH, /* future or output dropped: two or three times in a task's life */
	PW_BLOCKING_BEGIN,
	PW_BLOCKING_END,
	PW_THREAD_START,
	PW_THREAD_STOP,
	PW_PARK,
	PW_UNPARK,
	PW_COMPLETED,
	PW_MACHINE_TASK,
	PW_MACHINE_BLOCKED,
	PW_MACHINE_STARTING,
	PW_N
};

enum provider_arg {
	PV_UNUSED = 0,
	PV_TASK, /* id */
	PV_PARENT,
	PV_FILE, /* of the spawn's place: address of a 0-terminated string */
	PV_LINE,
	PV_COLUMN,
	PV_NAME,       /* the task's: address of a 0-terminated string, or 0 ... */
	PV_NAME_BYTES, /* ... or its length is this argument, and it is not terminated */
	PV_READY,
	PV_PANICKED,
	PV_REASON,    /* 0 done, 1 cancelled, 2 panicked */
	PV_TASK_KIND, /* 0 block_on, 1 spawn, 2 spawn_local */
	PV_MACHINE,
	PV_LOCAL,
	PV_N
};

enum provider_make {
	PM_TOKIO2CHROME = 0, /* reports blocking tasks and workers too, but not which is which */
	PM_HOOKS,	     /* tokio-dtrace and pull request 7717: kin by names and meaning */
	PM_ASYNC_STD,
};

/* A row of the table. Static: compare by address. */
struct provider_probe {
	const char *provider; /* "tokio", "async_std" */
	const char *name;     /* as DTrace and perf spell it: "task-spawn", "task_poll_begin" */
	const char *source;   /* who carries it: "tokio-dtrace 0.1.1, pollux-probes" */
	const char *means;    /* one line for people: "a task is spawned at file:line:column" */
	const char *symbol;   /* the function to put a uprobe on; NULL: it has notes */
	uint8_t make;	      /* enum provider_make */
	uint8_t type;	      /* enum provider_what */
	uint8_t n_args;
	uint8_t args[PROVIDER_MAX_ARGS]; /* enum provider_arg */
};

/* NULL: not known. A provider's name may have a pid after it, a probe's `__` for `-`. */
const struct provider_probe *providers_match(const struct probe *probe);
/* From a recording: "sdt_tokio" or "tokio", "task_poll_end", "task_poll_end_2", with `n` arguments;
 * perf's names have `_` where the probe has `-`. */
const struct provider_probe *providers_match_event(const char *provider, const char *name,
						   size_t n_args);
/* Functions to be probed at their entry: by symbol. NULL: unknown. */
const struct provider_probe *providers_function(const char *symbol);
/* All rows in order; NULL after the last. */
const struct provider_probe *providers_row(size_t i);
/* Where a function's i-th argument is at its entry. */
void providers_function_arg(const struct machine *machine, size_t i, struct probe_arg *ret_arg);

bool provider_arg_is_string(enum provider_arg arg);
const char *provider_arg_name(enum provider_arg arg); /* "task", "file", "line": "" if unused */
const char *
provider_what_text(enum provider_what what); /* "poll_begin": the event that it becomes */

/* A probe that fired. */
struct provider_hit {
	const struct provider_probe *probe;
	uint64_t time;
	uint32_t process, thread;	  /* indices, as in the trace */
	uint64_t args[PROVIDER_MAX_ARGS]; /* by the row's order */
	/* What PV_FILE and PV_NAME pointed at; NULL: not read. Copied during the call. */
	const char *file, *name;
};

/* A negative return ends the feeding and comes out of it. */
struct providers_sink {
	/* Once per runtime and process; gives its index in the trace. */
	int (*runtime)(void *ctx, const struct trace_runtime *runtime, uint32_t *ret_index);
	int (*kind)(void *ctx, const struct trace_kind *kind, uint32_t *ret_index);
	int (*event)(void *ctx, const struct trace_event *ev); /* in its thread's order */
};

struct providers;

/* The sink must outlive it. NULL: out of memory. */
struct providers *providers_new(const struct providers_sink *sink, void *ctx);
void providers_free(struct providers *p);
/* After a failure every later call gives the same. */
int providers_feed(struct providers *p, const struct provider_hit *in);
int providers_pass(struct providers *p, const struct trace_event *ev);
int providers_drain(struct providers *p, uint64_t before_ns);
/* A process executed a new program: its ids start again. */
int providers_forget(struct providers *p, uint32_t process);

/* What the probes could not report, for the coverage; counts so far. */
struct providers_stats {
	uint64_t n_hits;
	uint64_t n_tasks, n_placed; /* tasks seen; those with a spawn site */
	uint64_t n_late;	    /* what followed came after the wait: outcomes may be missing */
	uint64_t n_strange;	    /* hits of no known task: an end without a begin */
};
void providers_stats(const struct providers *p, struct providers_stats *ret);
