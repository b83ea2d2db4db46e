/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The report of a window, as JSON. */
#include "report/report.h"
#include "view/answer.h"

#include <errno.h>

int answer_report(const struct view_source *v, const struct request *q, struct buf *out,
		  struct error *err)
{
	struct report_options opt = {.filter = {.lenient = true}};
	struct trace_reader *reader;
	struct report *rep;

	if (request_u64(q, "from", &opt.filter.from_ns) < 0 ||
	    request_u64(q, "to", &opt.filter.to_ns) < 0)
		return error_set(err, -EINVAL, "from and to are numbers of ns");
	TRY(view_reader(v, &reader, err));
	TRY(report_make(reader, &opt, &rep, err));
	report_json(rep, out);
	return 0;
}
