/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The index of a trace that is still written. One process reads what is added, once, and keeps what an
 * index is made of; whenever an index is asked for, a copy of it (fork) takes the trace as ended there and
 * writes one, while the process waits for more:
 *
 *     server ── ask ──▶ reads to the file's end ── fork ──▶ ends, writes ── descriptor ──▶ server
 *                         │                                                       (is gone)
 *                         └─ waits for the next ask
 */
#pragma once

#include "view/prepare.h"

/* Zeroed before the first use. */
struct view_growing {
	pid_t pid;	 /* 0: there is no process */
	int socket;	 /* can be read when an index is there, or the process is not */
	uint64_t cpu_ns; /* that the last index took */
};

/* Asks for an index of all that is in the file; starts the process if there is none. 0 or negative errno. */
int view_growing_ask(struct view_growing *g, int trace, const struct view_progress *progress,
		     struct error *err);
/* Waits for it. After a failure there is no process. */
int view_growing_take(struct view_growing *g, struct index **ret_index, struct error *err);
void view_growing_stop(struct view_growing *g);
