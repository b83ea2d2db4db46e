/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The report of a window, as JSON: that of the whole trace is in its index. */
#include "report/report.h"
#include "view/answer.h"

#include <errno.h>

/* A report of a window reads the trace from its begin: longer ones take too long. */
#define MAX_EVENTS 50000000u

int answer_report(const struct view_source *v, const struct request *q, struct buf *out,
		  struct error *err)
{
	struct report_options opt = {.filter = {.lenient = true}};
	struct trace_reader *reader;
	struct index_facts facts;
	struct report *rep;

	if (request_u64(q, "from", &opt.filter.from_ns) < 0 ||
	    request_u64(q, "to", &opt.filter.to_ns) < 0)
		return error_set(err, -EINVAL, "from and to are numbers of ns");
	if (!opt.filter.from_ns && !opt.filter.to_ns)
		return index_report(v->index, out, err);
	index_facts(v->index, &facts);
	if (facts.n_events > MAX_EVENTS)
		return error_set(err, -E2BIG,
				 "the trace is too long for the report of a part of it: "
				 "pollux report --from --to makes one");
	TRY(view_reader(v, &reader, err));
	TRY(report_make(reader, &opt, &rep, err));
	report_json(rep, out);
	return 0;
}
