/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The moments of a recording: of its start, and of its end, of each process. */
#pragma once

#include "capture/capture.h"

struct capture_threads;
struct moments;

/* NULL: out of memory. */
struct moments *moments_new(struct trace_writer *w, struct capture_threads *threads,
			    const struct capture_options *opt);
void moments_free(struct moments *m);
/* A process joins the recording: its moment of now, but for a program that pollux starts. What
 * can't be had becomes coverage, and no error. 0, or negative errno: of the trace, or no memory. */
int moments_join(struct moments *m, pid_t pid, uint32_t process, struct error *err);
/* The recording has ended, and nothing of it is in the processes any more: the moments of those that
 * still run. Adds cost and coverage to the stats. */
int moments_end(struct moments *m, struct capture_stats *stats, struct error *err);
