/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Folded stacks, a line each: "outermost;...;innermost VALUE", for flamegraph.pl, inferno,
 * Speedscope and others. One kind of value per file: by default the time in which tasks waited, to be
 * woken (by await chain) or for a worker.
 */
#include "export/formats.h"
#include "export/out.h"
#include "export/time_sums.h"

#include "base/error.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name;
	unsigned mask;
} weights[] = {
	[WEIGHT_IDLE] = {"waits", 1u << SUM_WAITING | 1u << SUM_SCHEDULED},
	[WEIGHT_WAITING] = {"waits", 1u << SUM_WAITING},
	[WEIGHT_SCHEDULED] = {"scheduled tasks", 1u << SUM_SCHEDULED},
	[WEIGHT_POLLING] = {"polls", 1u << SUM_POLLING},
	[WEIGHT_BLOCKED] = {"blocking calls", 1u << SUM_BLOCKED},
	[WEIGHT_CPU] = {"CPU samples", 1u << SUM_CPU},
};

static int write_lines(const struct time_sums *s, unsigned mask, struct out *o, size_t *ret_n)
{
	struct folded_line *lines;

	TRY(time_sums_fold(s, mask, &lines, ret_n));
	for (size_t i = 0; i < *ret_n; i++) {
		char *p;

		out_write(o, lines[i].names, strlen(lines[i].names));
		p = out_room(o);
		*p++ = ' ';
		p = put_u64(p, lines[i].value);
		*p++ = '\n';
		out_used(o, p);
	}
	folded_lines_free(lines, *ret_n);
	return 0;
}

static int folded_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
			struct export_summary *ret_summary, struct error *err)
{
	struct time_sums s;
	struct out o = {0};
	size_t n = 0;
	int made = time_sums_make(&s, reader, opt, err), r = made;

	if (s.sums) { /* of a trace that broke off, what was before */
		r = out_init(&o, file);
		if (r == 0)
			r = write_lines(&s, weights[opt->weight].mask, &o, &n);
		if (r < 0)
			error_set(err, r, "out of memory");
		else
			r = out_end(&o, made, err);
	}
	*ret_summary = (struct export_summary){.bytes = o.bytes, .rows = n, .row_name = "stacks"};
	if (made == 0 && r == 0 && !n)
		snprintf(ret_summary->notice, sizeof(ret_summary->notice),
			 "nothing to show: no %s in this window", weights[opt->weight].name);
	out_done(&o);
	time_sums_done(&s);
	return r;
}

const struct export_ops export_folded = {
	.name = "folded",
	.extension = ".folded",
	.viewers = "flamegraph.pl, inferno, Speedscope",
	.reads = "inferno flamegraph.pl",
	.weights = true,
	.write = folded_write,
};
