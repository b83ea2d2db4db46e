/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The output of tokio-dtrace's print-all script, by dtrace or by bpftrace:
 *
 *     thread[  12] task-poll-start(task=5)
 *       3   5121   _ZN...:task-poll-start thread[  12] task-poll-start(task=5)
 *     thread[1234] usdt:/home/u/app:tokio:worker-thread-park()
 *
 * It has no times, so all that can be kept is the order: lines are put a microsecond apart, and the
 * coverage says so.
 */
#include "import/formats.h"
#include "import/input.h"
#include "import/perf_line.h"
#include "import/sink.h"

#include <errno.h>
#include <string.h>

#define LINE_NS 1000u

struct print_line {
	uint32_t tid;
	struct perf_text name; /* "task-poll-start" */
	uint64_t args[1];
	size_t n_args;
};

static bool line_parse(const char *line, size_t len, struct print_line *ret)
{
	static const char begin[] = "thread[";
	const char *end = line + len;
	const char *p = memmem(line, len, begin, sizeof(begin) - 1);
	uint64_t tid;

	if (!p)
		return false;
	for (p += sizeof(begin) - 1; p < end && *p == ' '; p++)
		;
	struct perf_text rest = {p, (size_t)(end - p)};
	if (!perf_number(&rest, &tid) || tid > UINT32_MAX || !perf_text_starts(&rest, "] "))
		return false;
	p = rest.p + 2;
	const char *open = memchr(p, '(', (size_t)(end - p));
	if (!open || open == p || end[-1] != ')')
		return false;
	const char *colon = memrchr(p, ':', (size_t)(open - p));
	if (colon)
		p = colon + 1;
	*ret = (struct print_line){.tid = (uint32_t)tid, .name = {p, (size_t)(open - p)}};
	rest = (struct perf_text){open + 1, (size_t)(end - 1 - (open + 1))};
	if (!rest.len)
		return true;
	if (!perf_text_starts(&rest, "task="))
		return false;
	rest.p += 5;
	rest.len -= 5;
	ret->n_args = 1;
	return perf_number(&rest, &ret->args[0]) && !rest.len;
}

/* "dtrace: 12 drops on CPU 0", "Lost 12 events": how many; 0: it is no such line. */
static uint64_t lost(const char *line, size_t len)
{
	static const char *const begins[] = {"dtrace: ", "Lost "};
	struct perf_text t = {line, len};
	uint64_t n;

	for (size_t i = 0; i < 2; i++) {
		if (!perf_text_starts(&t, begins[i]))
			continue;
		t.p += strlen(begins[i]);
		t.len -= strlen(begins[i]);
		return perf_number(&t, &n) ? n : 0;
	}
	return 0;
}

/* What the tools print before the first event. */
static bool is_preamble(const char *line, size_t len)
{
	struct perf_text t = {line, len};
	return perf_text_starts(&t, "Attaching ") || perf_text_starts(&t, "Attached ") ||
	       perf_text_starts(&t, "dtrace: script ") || perf_text_starts(&t, "CPU ") ||
	       perf_text_starts(&t, "dtrace: pid ");
}

static int one_line(struct input *in, struct sink *sink, const char *line, size_t len,
		    uint64_t *n_hits)
{
	struct print_line l;
	struct sink_item h = {.order.time = in->n_lines * LINE_NS};
	char name[64] = "";

	if (!len || is_preamble(line, len))
		return 0;
	if (!in->cut && (h.args[0] = lost(line, len))) {
		h.type = HIT_LOST;
		h.thread = sink_thread(sink, 0, 0, "", 0);
		return h.thread ? sink_hit(sink, &h) : sink->code;
	}
	if (in->cut || !line_parse(line, len, &l)) {
		sink_diagnose(sink, "no event as print-all prints it", NULL, 0, in->n_lines);
		return 0;
	}
	if (l.name.len < sizeof(name))
		memcpy(name, l.name.p, l.name.len);
	h.type = HIT_PROBE;
	h.probe = providers_match_event("tokio", name, l.n_args);
	if (!h.probe) {
		sink_diagnose(sink, "a probe without a meaning here:", l.name.p, l.name.len,
			      in->n_lines);
		return 0;
	}
	++*n_hits;
	h.args[0] = l.args[0];
	h.thread = sink_thread(sink, 0, l.tid, "", 0);
	return h.thread ? sink_hit(sink, &h) : sink->code;
}

static int read_print(struct input *in, struct sink *sink, struct error *err)
{
	uint64_t n_hits = 0;
	const char *line;
	size_t len;
	int r;

	while ((r = input_line(in, &line, &len)) > 0) {
		r = one_line(in, sink, line, len, &n_hits);
		if (r < 0)
			break;
	}
	sink->n_items += in->n_lines;
	if (r < 0 && in->code)
		error_sys(err, in->code, "cannot read %s", in->path);
	if (r >= 0)
		r = sink_flush(sink);
	if (r >= 0 && !n_hits)
		return error_set(err, -EBADMSG, "%s: no line of it is an event of print-all",
				 in->path);
	if (r >= 0)
		sink_cover(sink, "times", 0, n_hits,
			   "the recording has none: its lines were put 1 µs apart");
	return r < 0 ? r : 0;
}

static bool recognise(const struct import_head *head)
{
	const char *p = (const char *)head->bytes, *end = p + head->len;
	struct print_line l;

	while (!head->directory && p < end) {
		const char *line_end = memchr(p, '\n', (size_t)(end - p));
		if (!line_end)
			line_end = end;
		if (line_end > p && line_parse(p, (size_t)(line_end - p), &l))
			return true;
		p = line_end + 1;
	}
	return false;
}

const struct import_ops import_print_all = {
	.name = "print-all",
	.description = "the output of tokio-dtrace's print-all",
	.item = "line",
	.takes = IMPORT_FILE,
	.recognise = recognise,
	.read = read_print,
};
