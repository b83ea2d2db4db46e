/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The text of `uftrace dump`: the threads' calls, one thread after the other.
 *
 *     reading 6918.dat
 *     819.720202263   6918: [entry] async_std::task::sleep::_{{closure}}(55b302b1cfd5) depth: 15
 *
 * Times start again with each thread, so the trace gets no rounds: its reader merges them all.
 */
#include "base/units.h"
#include "base/error.h"
#include "import/formats.h"
#include "import/input.h"
#include "import/perf_line.h"
#include "import/uftrace_calls.h"
#include "import/uftrace_switches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct dump_line {
	uint64_t time;
	uint32_t tid;
	struct perf_text type; /* "entry", "exit", "lost", "event" */
	struct perf_text name; /* of the function, or the word in its place */
	uint64_t depth;
};

static bool line_parse(const char *line, size_t len, struct dump_line *ret)
{
	struct perf_text t = {line, len};
	uint64_t seconds, ns, tid;

	while (t.len && *t.p == ' ') {
		t.p++;
		t.len--;
	}
	if (!perf_number(&t, &seconds) || !perf_text_starts(&t, "."))
		return false;
	const char *fraction = ++t.p;
	t.len--;
	if (!perf_number(&t, &ns) || t.p - fraction != 9 || seconds > UINT64_MAX / NSEC_PER_SEC - 1)
		return false;
	while (t.len && *t.p == ' ') {
		t.p++;
		t.len--;
	}
	if (!perf_number(&t, &tid) || tid > UINT32_MAX || !perf_text_starts(&t, ": ["))
		return false;
	const char *what = t.p + 3, *end = line + len;
	const char *close = memchr(what, ']', (size_t)(end - what));
	if (!close)
		return false;
	*ret = (struct dump_line){.time = seconds * NSEC_PER_SEC + ns, .tid = (uint32_t)tid};
	ret->type = (struct perf_text){what, (size_t)(close - what)};
	while (ret->type.len && ret->type.p[ret->type.len - 1] == ' ')
		ret->type.len--;
	const char *name = close + 1;
	while (name < end && *name == ' ')
		name++;
	ret->name = (struct perf_text){name, (size_t)(end - name)};
	return true;
}

/* "name(55b302b1cfd5) depth: 15": splits. */
static bool call_parse(struct dump_line *l)
{
	static const char word[] = ") depth: ";
	const char *p = l->name.p, *end = p + l->name.len, *last = NULL;

	for (const char *at = p; (at = memmem(at, (size_t)(end - at), word, sizeof(word) - 1));)
		last = at++;
	if (!last)
		return false;
	struct perf_text depth = {last + sizeof(word) - 1,
				  (size_t)(end - (last + sizeof(word) - 1))};
	const char *open = memrchr(p, '(', (size_t)(last - p));
	if (!open || open == p || !perf_number(&depth, &l->depth) || l->depth >= CALLS_MAX_DEPTH)
		return false;
	l->name.len = (size_t)(open - p);
	return true;
}

struct dump {
	struct input *in;
	struct sink *sink;
	struct calls *calls;
	uint32_t tid; /* whose calls are read */
	uint32_t pid; /* of the first thread */
	bool any;     /* a thread is being read */
	struct uftrace_switches switches;
	uint64_t n_switches, n_events;
};

static int event_line(struct dump *d, const struct dump_line *l)
{
	d->n_events++;
	if (!uftrace_switches_known(&l->name))
		return 0;
	d->n_switches++;
	struct import_thread *t = sink_thread(d->sink, d->pid ? d->pid : l->tid, l->tid, "", 0);
	return t ? uftrace_switches_add(&d->switches, t, l->time, &l->name, d->in->n_lines)
		 : d->sink->code;
}

static int call_line(struct dump *d, struct dump_line *l)
{
	bool entry = perf_text_is(&l->type, "entry"), exit = perf_text_is(&l->type, "exit");
	uint64_t n, at = d->in->n_lines;

	if (perf_text_is(&l->type, "event"))
		return event_line(d, l);
	if (!d->any || d->tid != l->tid) {
		if (!d->pid)
			d->pid = l->tid;
		d->any = true;
		d->tid = l->tid;

		TRY(calls_thread(d->calls, d->pid, l->tid, ""));
	}
	if (perf_text_is(&l->type, "lost"))
		return calls_lost(d->calls, perf_number(&l->name, &n) && n ? n : 1, l->time);
	if ((!entry && !exit) || !call_parse(l)) {
		sink_diagnose(d->sink, "a line of uftrace that is no call", NULL, 0, at);
		return 0;
	}
	struct call_function *f = calls_function(d->calls, l->name.p, l->name.len, -1);
	if (!f) {
		sink_diagnose(d->sink, "a function more than are kept", NULL, 0, at);
		return d->sink->code;
	}
	return entry ? calls_entry(d->calls, f, (unsigned)l->depth, l->time, at)
		     : calls_exit(d->calls, f, (unsigned)l->depth, l->time, at);
}

static int one_line(struct dump *d, const char *line, size_t len)
{
	struct perf_text t = {line, len};
	struct dump_line l;

	if (d->in->cut) {
		sink_diagnose(d->sink, "a line of more than 64 KiB", NULL, 0, d->in->n_lines);
		return 0;
	}
	if (!len || perf_text_starts(&t, "uftrace file header"))
		return 0;
	if (perf_text_starts(&t, "reading ")) {
		d->any = false;
		return 0;
	}
	if (!line_parse(line, len, &l)) {
		sink_diagnose(d->sink, "no line of uftrace dump", NULL, 0, d->in->n_lines);
		return 0;
	}
	return call_line(d, &l);
}

static int read_dump(struct input *in, struct sink *sink, struct error *err)
{
	struct dump d = {.in = in, .sink = sink, .calls = calls_new(sink)};
	struct calls_stats stats = {0};
	const char *line;
	size_t len;
	int r;

	if (!d.calls)
		return error_set(err, -ENOMEM, "out of memory");
	sink->rounds = false;
	uftrace_switches_init(&d.switches, sink);
	while ((r = input_line(in, &line, &len)) > 0) {
		r = one_line(&d, line, len);
		if (r < 0)
			break;
	}
	sink->n_items += in->n_lines;
	if (r < 0 && in->code)
		error_sys(err, in->code, "cannot read %s", in->path);
	calls_stats(d.calls, &stats);
	if (r >= 0 && !stats.n_calls)
		r = error_set(err, -EBADMSG,
			      "%s: no line of it is a call as uftrace dump prints it", in->path);
	if (r >= 0)
		r = calls_finish(d.calls);
	if (r >= 0)
		r = uftrace_switches_give(&d.switches);
	if (r >= 0 && d.n_events > d.n_switches)
		r = sink_cover(sink, "events other than calls", d.n_switches, d.n_events,
			       "only context switches have a meaning here");
	uftrace_switches_done(&d.switches);
	calls_free(d.calls);
	return r < 0 ? r : 0;
}

static bool recognise(const struct import_head *head)
{
	const char *p = (const char *)head->bytes, *end = p + head->len;
	struct dump_line l;

	while (!head->directory && p < end) {
		const char *line_end = memchr(p, '\n', (size_t)(end - p));
		if (!line_end)
			line_end = end;
		if (line_parse(p, (size_t)(line_end - p), &l) ||
		    perf_text_starts(&(struct perf_text){p, (size_t)(line_end - p)},
				     "uftrace file header"))
			return true;
		p = line_end + 1;
	}
	return false;
}

const struct import_ops import_uftrace_dump = {
	.name = "uftrace-dump",
	.description = "the text of uftrace dump",
	.item = "line",
	.takes = IMPORT_FILE,
	.recognise = recognise,
	.read = read_dump,
};
