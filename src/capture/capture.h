/*
 * Live sources of events behind one ops table. A source turns what it sees into the vocabulary of
 * trace/event.h and writes it; it knows nothing of what the events mean.
 */
#ifndef POLLUX_CAPTURE_CAPTURE_H
#define POLLUX_CAPTURE_CAPTURE_H

#include "base/error.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct capture;
struct places_ops; /* process/places.h */

struct capture_options {
	const pid_t *pids; /* attach to these ... */
	size_t n_pids;
	char *const *argv;		 /* ... or start this (NULL-terminated); not both */
	uint64_t ring_bytes;		 /* per thread */
	const struct places_ops *places; /* who knows await points; NULL: none are recorded */
};

struct capture_stats {
	uint64_t n_events, n_lost;
	uint64_t first_lost_ns, last_lost_ns; /* 0 if none */
	struct trace_cost cost;
	int exit_status; /* of the launched program, as from waitpid; -1 if still running */
	pid_t child;	 /* the launched program if it still runs, for waitpid; else 0 */
	struct trace_coverage *coverage; /* of all processes; capture_stats_done() */
	size_t n_coverage;
};
void capture_stats_done(struct capture_stats *s);

struct capture_ops {
	const char *name; /* "agent" */
	/* Finds, loads, enables. On success events flow. */
	int (*open)(const struct capture_options *opt, struct trace_writer *w,
		    struct capture **ret_capture, struct error *err);
	/* Writes all that is there now, ends a round of the writer when it is time. Returns ns
	 * after which it likes to be called again, 0 when all targets are gone and drained,
	 * negative errno. */
	int64_t (*drain)(struct capture *c, struct error *err);
	/* Detaches, drains the rest, writes coverage and cost. Frees c in every case. */
	int (*close)(struct capture *c, const char *reason, struct capture_stats *ret_stats,
		     struct error *err);
};

/* The launched program: its pid while it runs, else 0; its status from waitpid, -1 while it runs.
 */
pid_t capture_child(const struct capture *c);
int capture_exit_status(const struct capture *c);

extern const struct capture_ops capture_agent;

#endif
