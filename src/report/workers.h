/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The five sections of async-std's old report: machines, tasks, parent tasks, machines that never
 * ran a task, ghost tasks; docs/machines.md says what they mean. From async-std's own events where
 * a trace has them, else from the workers' polls.
 */
#pragma once

#include "report/report.h"

struct machines;

/* no_progress_ns: a worker blocks if a poll takes that long. Of the options the filter, n_families
 * (rows of each section), width and colour count. The reader must outlive the result. */
int machines_make(struct trace_reader *r, const struct report_options *opt, uint64_t no_progress_ns,
		  struct machines **ret_machines, struct error *err);
void machines_free(struct machines *m);
void machines_text(const struct machines *m, struct buf *out);
void machines_json(const struct machines *m, struct buf *out);
