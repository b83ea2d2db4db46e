/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The tracepoint sched:sched_switch, of perf's text and of its files. Private to this module. */
#pragma once

#include "import/perf_line.h"
#include "import/sink.h"

struct perf_switch {
	uint64_t prev,
		next;	 /* the kernel's numbers of the thread that leaves and the one that comes */
	uint16_t reason; /* enum trace_off_cpu; TX_N: for good */
};

/* "prev_comm=app prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=sh next_pid=8 next_prio=120",
 * or as libtraceevent prints it, "app:7 [120] S ==> sh:8 [120]". False: it is neither. */
bool perf_switch_parse(const struct perf_text *text, struct perf_switch *ret);
/* The field prev_state. */
uint16_t perf_switch_why(uint64_t state);
/* thread: whose event it is, NULL if that is none of interest. */
int perf_switch_hit(struct sink *sink, struct import_thread *thread, uint64_t time,
		    const struct perf_switch *sw);

/* An idle CPU has the number 0; of a thread that is already gone perf says -1. */
bool perf_is_thread(uint32_t tid);
