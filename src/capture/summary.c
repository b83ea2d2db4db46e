/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A recording's summary: coverage (which is in the trace, too), losses. */
#include "capture/capture.h"

#include <stdlib.h>

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

int capture_emit_coverage(struct trace_writer *w, struct capture_stats *s,
			  const struct trace_coverage *c)
{
	int rc = trace_writer_coverage(w, c);

	return rc < 0 ? rc : capture_keep_coverage(s, c);
}

void capture_stats_done(struct capture_stats *s)
{
	coverage_done(&s->coverage);
	free(s->program);
	*s = (struct capture_stats){0};
}

void capture_loss_add(struct capture_loss *loss, uint64_t n, uint64_t first_ns, uint64_t last_ns)
{
	if (__builtin_add_overflow(loss->n, n, &loss->n))
		loss->n = UINT64_MAX;
	if (first_ns && (!loss->first_ns || first_ns < loss->first_ns))
		loss->first_ns = first_ns;
	if (last_ns > loss->last_ns)
		loss->last_ns = last_ns;
}
