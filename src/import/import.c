/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The formats, in the order in which they are tried, and the run through the files. Binary formats
 * come first: their first bytes can't be anything else.
 */
#include "import/import.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file_kind.h"
#include "base/own_command.h"
#include "import/formats.h"
#include "import/input.h"
#include "import/sink.h"
#include "trace/format.h"

#include <errno.h>
#include <string.h>

const struct import_ops *const import_formats[] = {
	&import_perf_data,   &import_uftrace_data, &import_uftrace_dump,
	&import_perf_script, &import_print_all,	   NULL,
};

const struct import_ops *import_find(const char *name)
{
	for (size_t i = 0; import_formats[i]; i++)
		if (!strcmp(import_formats[i]->name, name))
			return import_formats[i];
	return NULL;
}

void import_summary_done(struct import_summary *s)
{
	buf_done(&s->diagnostics);
}

static const struct import_ops *format_of(const struct input *in, const char *from,
					  struct error *err)
{
	const struct import_ops *ops = from ? import_find(from) : NULL;
	unsigned is = in->directory ? IMPORT_FOLDER : IMPORT_FILE;
	const char *kind = file_kind(in->head.bytes, in->head.len);

	if (ops && !(ops->takes & is)) {
		error_set(err, in->directory ? -EISDIR : -ENOTDIR, "%s is %s folder, and %s is %s",
			  in->path, in->directory ? "a" : "no", ops->name, ops->description);
		return NULL;
	}
	for (size_t i = 0; !ops && import_formats[i]; i++)
		if (import_formats[i]->takes & is && import_formats[i]->recognise(&in->head))
			ops = import_formats[i];
	if (ops)
		return ops;
	if (!in->directory && !in->head.len)
		error_set(err, -EBADMSG, "%s is empty", in->path);
	else if (in->head.len >= sizeof(PLX_MAGIC) - 1 &&
		 !memcmp(in->head.bytes, PLX_MAGIC, sizeof(PLX_MAGIC) - 1))
		error_set(err, -EBADMSG, "%s is a trace of pollux already: %s report %s", in->path,
			  own_command(), in->path);
	else
		error_set(err, -EBADMSG, "%s has an unknown format%s%s%s: choose one with --from",
			  in->path, kind ? " (it is " : "", kind ? kind : "", kind ? ")" : "");
	return NULL;
}

/* The summary's lines about one file. */
static void add_diagnostics(struct sink *s, const struct import_ops *ops, const char *path,
			    struct import_summary *sum)
{
	s->diagnostics.item = ops->item;
	if (s->diagnostics.n && sum->diagnostics.len)
		buf_printf(&sum->diagnostics, "in %s:\n", path);
	diagnostics_text(&s->diagnostics, &sum->diagnostics);
	sum->n_diagnostics += s->diagnostics.total;
	diagnostics_done(&s->diagnostics);
}

static int one_file(const char *path, const struct import_options *opt, struct sink *s,
		    struct import_summary *sum, struct error *err)
{
	struct input in;
	int r = 0;

	TRY(input_open(path, opt, &in, err));
	const struct import_ops *ops = format_of(&in, opt->format, err);
	if (ops) {
		s->input = in.path;
		sink_machine(s, "", 0);
		r = ops->read(&in, s, err);
		sum->format = ops->name;
		sum->bytes += in.offset;
		add_diagnostics(s, ops, in.path, sum);
		if (r < 0 && !err->code)
			error_sys(err, r, "cannot import %s", in.path);
	} else {
		r = err->code;
	}
	input_close(&in);
	return r;
}

static int emit_end(struct sink *s)
{
	struct providers_stats stats;
	const struct trace_cost cost = {
		.recorder_cpu_ns = clock_cpu_ns(), .end_ns = s->last_ns, .end_reason = "imported"};

	providers_stats(s->providers, &stats);
	if (stats.n_late)
		sink_cover(s, "ends of polls", stats.n_hits - stats.n_late, stats.n_hits,
			   "the next events of their threads came too late to say how they ended");
	if (stats.n_strange)
		sink_cover(s, "probe hits", stats.n_hits - stats.n_strange, stats.n_hits,
			   "some are of no task: ends without a begin");
	if (s->n_twice)
		sink_cover(s, "records", s->n_hits - s->n_twice, s->n_hits,
			   "perf record wrote the others twice: counted once");
	if (s->n_inconsistent_syscalls)
		sink_cover(s, "system calls", 0, s->n_inconsistent_syscalls,
			   "begins and ends that belong to no other were left out");
	if (s->n_unnamed_syscalls)
		sink_cover(s, "names of system calls", 0, s->n_unnamed_syscalls,
			   "recorded on another architecture, which has other numbers for them");
	if (s->n_off_cpu || s->n_never_back)
		sink_cover(s, "times off CPU", s->n_off_cpu, s->n_off_cpu + s->n_never_back,
			   s->n_never_back ? "it was not recorded when the threads of the others "
					     "ran again: perf does so with -a only"
					   : "");
	if (s->n_late)
		sink_cover(s, "order of time", s->n_hits - s->n_late, s->n_hits,
			   "some came so late that they were moved to a later time");
	if (s->frames.n_refused)
		sink_cover(s, "stacks", s->frames.n_stacks,
			   s->frames.n_stacks + s->frames.n_refused,
			   "more different ones than are kept: the rest is cut");
	return s->code ? s->code : trace_writer_cost(s->writer, &cost);
}

int import_run(const char *const *paths, size_t n, const struct import_options *opt,
	       struct trace_writer *w, struct import_summary *ret_summary, struct error *err)
{
	struct sink s;
	int r = sink_init(&s, w, n == 1, err);

	if (r < 0)
		return r;
	*ret_summary = (struct import_summary){0};
	for (size_t i = 0; i < n && r >= 0; i++)
		r = one_file(paths[i], opt, &s, ret_summary, err);
	if (r >= 0) {
		r = emit_end(&s);
		if (r < 0)
			error_sys(err, r, "cannot write the trace");
	}
	ret_summary->n_items = s.n_items;
	ret_summary->n_events = s.n_events;
	ret_summary->n_threads = s.n_emitted;
	ret_summary->n_stacks = s.frames.n_stacks;
	ret_summary->n_lost = s.n_lost;
	sink_done(&s);
	if (r >= 0 && buf_failed(&ret_summary->diagnostics))
		r = error_set(err, -ENOMEM, "out of memory");
	return r;
}
