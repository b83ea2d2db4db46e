/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The longest of some stretches of time, and what a thread and the others did in each: a window is
 * known when it ends, polls and parks that fill it are seen before or after that.
 */
#pragma once

#include "timeline/timeline.h"

#define WINDOWS_MOST 8u
#define WINDOWS_RECENT 64u /* of each: what ended before a window was known */
#define WINDOWS_IDLE 16u
#define WINDOWS_MIN_NS 10000000ull

struct finding_window {
	uint64_t begin_ns, end_ns;
	uint32_t thread, kind; /* kind: of what it is about */
	uint64_t serial, task; /* and its task: serial and number; 0: none */
	/* Threads that were parked for half of it or more, as many as there is room for. */
	uint32_t idle[WINDOWS_IDLE], n_idle;
	bool looked; /* an epoll was among them */
	/* The poll of `thread` that fills half of it or more; number 0: none. */
	uint32_t poll_kind;
	uint64_t poll_serial, poll_number, poll_begin_ns, poll_ns;
	/* What the owner adds. */
	uint32_t source_kind;
};

struct window_poll {
	uint64_t begin_ns, end_ns, serial, number;
	uint32_t thread, kind;
};

struct windows {
	struct finding_window top[WINDOWS_MOST]; /* longest first */
	size_t n;
	struct window_poll polls[WINDOWS_RECENT];
	struct tl_park parks[WINDOWS_RECENT];
	size_t n_polls, n_parks; /* that were seen: the rings hold the last */
};

/* Whether a thread in that call looks at timers and sockets. */
static inline bool park_is_look(uint16_t call)
{
	return call >= TB_EPOLL_WAIT && call <= TB_SELECT;
}

/* `task`: which it is about; NULL: none. Those of less than WINDOWS_MIN_NS are left out. NULL if longer
 * ones are there. Valid until the next call. */
struct finding_window *windows_add(struct windows *w, uint64_t begin_ns, uint64_t end_ns,
				   uint32_t thread, const struct tl_task *task);
void windows_poll(struct windows *w, const struct tl_poll *poll);
void windows_park(struct windows *w, const struct tl_park *park);
