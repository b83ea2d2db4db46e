/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The report of a window, as JSON: that of the whole trace is in its index. */
#include "base/cleanup.h"
#include "report/report.h"
#include "view/answer.h"
#include "view/common.h"

#include <errno.h>

/* A report of a window reads the trace from its begin: of a longer one that takes too long. */
#define MAX_EVENTS 50000000u
/* Events of a window, and around it, of which a report is made then; of more the index has the sums. */
#define MAX_WINDOW_EVENTS 30000000u

static int write_report(struct trace_reader *reader, const struct report_options *opt,
			bool window_only, struct buf *out, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct report *rep;

	TRY(report_make(reader, opt, &rep, err));
	report_json(rep, &text);
	if (buf_failed(&text))
		return error_set(err, -ENOMEM, "out of memory for a report");
	/* It is one object. */
	buf_str(out, window_only ? "{\n  \"window_only\": true," : "{");
	buf_str(out, text.data + 1);
	return 0;
}

/* From the events of the window alone, and a little before it. */
static int report_window(const struct view_source *v, const struct view_request *q,
			 struct report_options *opt, uint64_t max_events, struct buf *out,
			 struct error *err)
{
	struct index_facts facts;
	struct view_window w;
	uint64_t *offsets;
	size_t n;

	index_facts(v->index, &facts);
	TRY(view_window(v, q, &w, err));
	uint64_t before = 2 * facts.exact_ns;
	int code = !max_events ? -E2BIG
			       : index_chunks(v->index, w.from_ns > before ? w.from_ns - before : 0,
					      w.to_ns, MAX_WINDOW_EVENTS, &offsets, &n, err);
	if (code == -E2BIG)
		return view_sums_report(v, &w, out, err);
	TRY(code);
	int fd = view_open_again(v, err);
	if (fd < 0)
		return fd;
	TRY(trace_reader_pick(v->tables, fd, offsets, n, err));
	opt->filter.base_ns = facts.base_ns;
	return write_report(v->tables, opt, true, out, err);
}

int answer_report(const struct view_source *v, const struct view_request *q, struct buf *out,
		  struct error *err)
{
	struct report_options opt = {.filter = {.lenient = true}};
	struct trace_reader *reader;
	struct index_facts facts;
	uint64_t max_events = MAX_EVENTS;

	if (request_u64(q, "from", &opt.filter.from_ns) < 0 ||
	    request_u64(q, "to", &opt.filter.to_ns) < 0 ||
	    request_u64(q, "max_events", &max_events) < 0)
		return error_set(err, -EINVAL, "from, to and max_events are numbers");
	if (!opt.filter.from_ns && !opt.filter.to_ns)
		return index_report(v->index, out, err);
	index_facts(v->index, &facts);
	if (facts.n_events > (max_events < MAX_EVENTS ? max_events : MAX_EVENTS))
		return report_window(v, q, &opt, max_events, out, err);
	TRY(view_reader(v, &reader, err));
	return write_report(reader, &opt, false, out, err);
}
