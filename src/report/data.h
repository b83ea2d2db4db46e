/* What a report knows, between its collection (report.c) and its two forms (text.c, json.c). */
#ifndef POLLUX_REPORT_DATA_H
#define POLLUX_REPORT_DATA_H

#include "base/hist.h"
#include "base/map.h"
#include "report/report.h"

/* Calls of one sort, summed up. */
struct call_sum {
	uint16_t call; /* enum agent_call */
	uint64_t n, ns;
};

struct call_list {
	struct call_sum *items;
	size_t n;
};

struct family {
	uint32_t kind;
	unsigned role;				    /* enum trace_role */
	uint64_t n_tasks, n_spawned, n_ended[TO_N]; /* [TO_PENDING]: alive */
	uint64_t n_unpolled; /* alive, spawned in the recording, never polled */
	uint64_t n_polls, n_wakes, n_self_wakes, n_stray_wakes;
	uint64_t waiting_ns, scheduled_ns, blocked_ns;
	uint64_t max_delay_at_ns; /* when the poll with the longest delay began */
	struct hist poll, delay;
	struct call_list calls; /* blocking ones inside of polls */
};

struct long_poll {
	struct tl_poll poll; /* its task pointer is not valid any more */
	struct family *family;
	uint64_t serial, id, number;
	struct call_list calls;
};

struct open_calls {
	uint64_t serial; /* of the task in whose open poll they are */
	struct call_list calls;
};

struct thread_calls {
	struct open_calls *open;
	size_t n;
};

struct report {
	struct trace_reader *reader;
	struct report_options opt;
	struct timeline_totals totals;
	bool filtered;
	uint64_t base_ns, begin_ns, end_ns; /* zero of times; the window */

	struct family **families; /* by kind while collecting, then sorted and without holes */
	size_t n_families;
	struct tl_thread *threads; /* those that polled, workers first, busiest first */
	size_t n_threads;
	struct long_poll *longest; /* longest first */
	size_t n_longest, cap_longest;
	struct tl_loss *losses; /* one per thread: the sum, from the first to the last */
	size_t n_losses;
	uint64_t n_lost;

	struct thread_calls *calls; /* by thread, while collecting */
	size_t n_calls;
};

const char *family_name(const struct report *rep, const struct family *f);
/* Sums over the families of role task and blocking. */
struct family report_sum(const struct report *rep);
uint64_t report_busy_ns(const struct report *rep);

#endif
