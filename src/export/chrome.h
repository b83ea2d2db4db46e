/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The inside of Chrome's format, shared by its files:
 *
 *     chrome.c         tasks, polls, wakes, what blocks
 *     chrome_inside.c  what is inside of polls: futures, system calls, time off the CPU, samples
 *     chrome_names.c   names and order of lanes
 */
#pragma once

#include "export/export.h"
#include "export/out.h"
#include "export/limits.h"
#include "timeline/pool.h"

#include <string.h>

/* Where slices are too thin, Catapult draws the colour that is last in its own list. There a poll
 * comes after a park, and the very worst polls after all that we use. */
#define TERRIBLE "terrible"
/* On tasks' lanes: later than all of waits. */
#define POLLED "cq_build_attempt_passed"
#define LONG_POLL "cq_build_attempt_failed"
#define WAIT_OTHER "thread_state_sleeping" /* a socket, mostly */
#define WAIT_TIMER "grey"
#define WAIT_CHANNEL "cq_build_running" /* yellow */
#define WAIT_TASK "cq_build_passed"	/* light green */
#define WAIT_LOCK "cq_build_failed"	/* light red */
#define BUSY "background_memory_dump"	/* teal */
#define MAX_WAKES 4

/* A wake that may lead to a poll, and the lane that it came from. */
struct wake_ref {
	uint64_t serial, time_ns;
	uint32_t pid, tid;
	bool own_slice; /* came from outside of all polls */
};

struct chrome_task {
	struct lane_slot placed;
	struct wake_ref wakes[MAX_WAKES]; /* oldest first */
	unsigned n_wakes;
};

/* An await point, its texts as inside of a JSON string. */
struct place_label {
	char *name;   /* "main.rs:12 app::order"; NULL: not made yet */
	char *at;     /* "src/main.rs:12 app::order" */
	char *awaits; /* "tokio::time::sleep::Sleep" */
	const char *cname;
};

struct chrome {
	struct trace_reader *reader;
	struct export_scope sel;
	struct out out;
	struct pool tasks;
	struct place_label *places; /* by index, made when wanted */
	uint32_t n_places;
	struct pool futures;
	char **kind_labels, **kind_shorts; /* by index, NULL until wanted */
	uint32_t n_kind_labels, n_kind_shorts;
	uint64_t n_slices, n_flows, n_lanes;
};

/* ---- pieces of text ---- */

/* All that is known of a slice before it is drawn. */
struct head {
	const char *text;
	size_t len;
};
#define HEAD_TEXT(cat, name, cname)                                                                \
	",\n{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"cname\":\"" cname "\""
#define HEAD(...)                                                                                  \
	{                                                                                          \
		HEAD_TEXT(__VA_ARGS__), sizeof(HEAD_TEXT(__VA_ARGS__)) - 1                         \
	}

static inline char *put_head(char *p, const struct head *h)
{
	return put_mem(p, h->text, h->len);
}

static inline char *put_place(char *p, uint32_t pid, uint32_t tid, uint64_t ts_ns)
{
	p = put_lit(p, ",\"pid\":");
	p = put_u64(p, pid);
	p = put_lit(p, ",\"tid\":");
	p = put_u64(p, tid);
	p = put_lit(p, ",\"ts\":");
	return put_us(p, ts_ns);
}

/* Lane and time of a slice; what may follow is args and the closing brace. */
static inline char *put_span(struct chrome *c, char *p, uint32_t pid, uint32_t tid,
			     uint64_t begin_ns, uint64_t end_ns)
{
	c->n_slices++;
	p = put_place(p, pid, tid, begin_ns > c->sel.base_ns ? begin_ns - c->sel.base_ns : 0);
	p = put_lit(p, ",\"dur\":");
	return put_us(p, end_ns > begin_ns ? end_ns - begin_ns : 0);
}

static inline char *put_string(char *p, const char *s)
{
	return put_mem(p, s, strlen(s));
}

static inline const struct task_lane *lane_of(const struct lane_slot *at)
{
	return &at->family->lanes[at->lane];
}

/* Slices of a lane touch and never overlap, also where two threads' clocks disagree by a little. */
struct span {
	uint64_t begin_ns, end_ns;
};

static inline struct span place(struct lane_slot *at, uint64_t begin_ns, uint64_t end_ns)
{
	struct span s = {begin_ns, end_ns};
	if (s.begin_ns < at->last_ns)
		s.begin_ns = at->last_ns;
	if (s.end_ns < s.begin_ns)
		s.end_ns = s.begin_ns;
	at->last_ns = s.end_ns;
	return s;
}

/* How deep things lie in the poll around them: on a thread's lane, and on a task's. Where several begin
 * at once, as at a window's begin, each needs a begin of its own. `n`: polls of futures around. */
enum level { LEVEL_FUTURE, LEVEL_BLOCK = LEVEL_FUTURE, LEVEL_CALL, LEVEL_OFF_CPU };
static inline uint32_t level_on_thread(enum level level, uint32_t n)
{
	return 2 + (uint32_t)level + n; /* 1: block_in_place */
}

static inline uint32_t level_on_task(enum level level, uint32_t n)
{
	return 1 + (uint32_t)level + n;
}

/* Of two slices that begin at once, viewers take the one that comes first in the file for the outer
 * one. Ours come when they end, so what is inside begins 1 ns later. */
static inline uint64_t inside(uint64_t begin_ns, uint64_t end_ns)
{
	return begin_ns + (begin_ns < end_ns);
}

/* On a task's lane, where the poll around it will not begin before the last slice's end, and 1 ns
 * later if it is a request's first. */
static inline uint64_t inside_poll(const struct lane_slot *at, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t begin = begin_ns > at->last_ns ? begin_ns : at->last_ns;
	return begin + 2 < end_ns ? begin + 2 : end_ns;
}

/* A slice `n` levels inside another begins this many ns later. */
static inline uint64_t deeper(uint64_t begin_ns, uint64_t end_ns, uint32_t n)
{
	return begin_ns + n < end_ns ? begin_ns + n : end_ns;
}

/* What the timeline's task is here, made when new; NULL when out of memory. */
struct chrome_task *chrome_task(struct chrome *c, struct tl_task *task);
/* A kind's label, and its short name, as inside of a JSON string. */
const char *chrome_kind_label(struct chrome *c, uint32_t kind);
const char *chrome_kind_short(struct chrome *c, uint32_t kind);
/* NULL: not known. */
const struct place_label *chrome_place(struct chrome *c, uint64_t place);

/* chrome_inside.c, as callbacks of the timeline */
int chrome_syscall(void *ctx, const struct tl_syscall *call);
int chrome_off_cpu(void *ctx, const struct tl_off_cpu *off);
int chrome_sample(void *ctx, const struct tl_sample *sample);
int chrome_future_poll(void *ctx, const struct tl_future_poll *poll);
int chrome_future_end(void *ctx, struct tl_future *future);
/* Samples of a task that ends; of the threads, in the end. */
int chrome_end_stack(struct chrome *c, struct stack_lane *l, uint32_t pid, uint32_t tid);
int chrome_end_stacks(struct chrome *c);

/* chrome_names.c: everything before the slices. 0 or -ENOMEM. */
int chrome_head(struct chrome *c);
