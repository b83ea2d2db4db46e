/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The coverage of a recording: to the trace and to the summary. */
#include "capture/capture.h"

int capture_keep_coverage(struct capture_stats *s, const struct trace_coverage *c)
{
	struct trace_coverage *kept =
		coverage_add(&s->coverage, c->item, c->seen, c->total, c->note);

	if (kept) {
		kept->process = c->process;
		kept->cover = c->cover;
	}
	return coverage_result(&s->coverage);
}

int capture_tell_coverage(struct trace_writer *w, struct capture_stats *s,
			  const struct trace_coverage *c)
{
	int rc = trace_writer_coverage(w, c);

	return rc < 0 ? rc : capture_keep_coverage(s, c);
}
