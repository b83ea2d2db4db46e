/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Flame graphs in one HTML page that loads nothing: the time in which tasks waited, by await chain,
 * that in which they were polled or blocked a worker, and the CPU's by family, as far as it was
 * sampled. flame.html is the page, flame_end.html its script; between them are the data as JSON, in
 * which names are numbers. No name can end the data: '<' is written as an escape.
 */
#include "export/formats.h"
#include "export/out.h"
#include "export/time_sums.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "export/flame_pages.h"

#include <errno.h>
#include <string.h>

struct flame {
	const struct time_sums *sums;
	struct buf names, graphs;
	struct map by_name; /* number + 1 */
	size_t n_stacks;
};

static void quote(struct buf *out, const char *s)
{
	struct buf json = BUF_INIT;

	json_quote_shown(&json, s);
	for (size_t i = 0; i < json.len; i++) {
		if (json.data[i] == '<')
			buf_str(out, "\\u003c");
		else
			buf_char(out, json.data[i]);
	}
	out->failed = out->failed || buf_failed(&json);
	buf_done(&json);
}

static int name_of(struct flame *f, const char *name, size_t len, uint64_t *ret)
{
	uint64_t hash = hash_bytes(0, name, len), again = hash_bytes(1, name, len);
	uintptr_t known = (uintptr_t)map_get(&f->by_name, hash, again);
	struct buf text = BUF_INIT;

	*ret = known ? known - 1 : f->by_name.n;
	if (known)
		return 0;
	buf_add(&text, name, len);
	buf_str(&f->names, f->names.len ? ",\n" : "");
	quote(&f->names, text.data ? text.data : "");
	f->names.failed = f->names.failed || buf_failed(&text);
	buf_done(&text);
	return map_put(&f->by_name, hash, again, (void *)(uintptr_t)(*ret + 1));
}

/* Bytes that two lines of names have in common, up to the end of a whole name. */
static size_t common(const char *a, const char *b)
{
	size_t whole = 0, i = 0;

	for (; a[i] && a[i] == b[i]; i++)
		if (a[i] == ';')
			whole = i;
	if ((!a[i] || a[i] == ';') && (!b[i] || b[i] == ';'))
		whole = i;
	return whole;
}

static unsigned depth_of(const char *names, size_t len)
{
	unsigned n = len > 0;

	for (size_t i = 0; i < len; i++)
		n += names[i] == ';';
	return n;
}

/* A line's names as nested nodes: those that the line before has too are open already. */
static int put_line(struct flame *f, const struct folded_line *line, size_t from, bool first)
{
	const char *at = line->names + from + (from && line->names[from] == ';');

	buf_str(&f->graphs, first ? "" : ",");
	while (*at) {
		size_t len = strcspn(at, ";");
		bool last = !at[len];
		uint64_t name;

		TRY(name_of(f, at, len, &name));
		buf_printf(&f->graphs, "[%llu,%llu,[", (unsigned long long)name,
			   last ? (unsigned long long)line->value : 0ull);
		at += len + !last;
	}
	return 0;
}

static int put_tree(struct flame *f, const struct folded_line *lines, size_t n)
{
	unsigned open = 0;

	for (size_t i = 0; i < n; i++) {
		size_t same = i ? common(lines[i - 1].names, lines[i].names) : 0;
		unsigned keep = depth_of(lines[i].names, same);

		for (; open > keep; open--)
			buf_str(&f->graphs, "]]");
		/* A node's first child comes without a comma: after "[". */
		bool begins = f->graphs.len && f->graphs.data[f->graphs.len - 1] == '[';
		TRY(put_line(f, &lines[i], same, begins));
		open = depth_of(lines[i].names, strlen(lines[i].names));
	}
	while (open-- > 0)
		buf_str(&f->graphs, "]]");
	return 0;
}

static int put_graph(struct flame *f, unsigned mask, const char *title, const char *note, bool ns)
{
	struct folded_line *lines;
	size_t n;
	int r;

	TRY(time_sums_fold(f->sums, mask, &lines, &n));
	buf_str(&f->graphs, f->graphs.len ? ",\n{\"title\":" : "{\"title\":");
	quote(&f->graphs, title);
	buf_str(&f->graphs, ",\"note\":");
	quote(&f->graphs, note);
	buf_printf(&f->graphs, ",\"ns\":%s,\"tree\":[", ns ? "true" : "false");
	r = put_tree(f, lines, n);
	buf_str(&f->graphs, "]}");
	f->n_stacks += n;
	folded_lines_free(lines, n);
	return r;
}

static int put_graphs(struct flame *f)
{
	TRY(put_graph(f, 1u << SUM_WAITING | 1u << SUM_SCHEDULED, "Waiting, by await chain",
		      "The sum over all tasks, which is more than the time by the clock: what each "
		      "waited for, and \"scheduled\", how long it was ready but not polled.",
		      true));
	TRY(put_graph(f, 1u << SUM_POLLING, "Polling, by family",
		      "The time in polls, and so of workers.", true));
	TRY(put_graph(f, 1u << SUM_BLOCKED, "Blocking calls, by family",
		      "A part of the polls: calls that kept a worker.", true));
	return put_graph(f, 1u << SUM_CPU, "CPU, by family",
			 f->sums->counts[SUM_CPU] ? "From samples of stacks."
						  : "Recorded by record --cpu only.",
			 f->sums->cpu_is_time);
}

static int write_page(struct flame *f, struct out *o)
{
	TRY(put_graphs(f));
	if (buf_failed(&f->names) || buf_failed(&f->graphs))
		return -ENOMEM;
	out_write(o, page_flame, sizeof(page_flame) - 1);
	out_write(o, "{\"names\":[", 10);
	out_write(o, f->names.data, f->names.len);
	out_write(o, "],\n\"graphs\":[", 13);
	out_write(o, f->graphs.data, f->graphs.len);
	out_write(o, "]}\n", 3);
	out_write(o, page_flame_end, sizeof(page_flame_end) - 1);
	return 0;
}

static int flame_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
		       struct export_summary *ret_summary, struct error *err)
{
	struct time_sums s;
	struct flame f = {.sums = &s};
	struct out o = {0};
	int made = time_sums_make(&s, reader, opt, err), r = made;

	if (s.sums) {
		r = out_init(&o, file);
		if (r == 0)
			r = write_page(&f, &o);
		if (r < 0)
			error_set(err, r, "out of memory");
		else
			r = out_end(&o, made, err);
	}
	*ret_summary =
		(struct export_summary){.bytes = o.bytes, .rows = f.n_stacks, .row_name = "stacks"};
	buf_done(&f.names);
	buf_done(&f.graphs);
	map_done(&f.by_name);
	out_done(&o);
	time_sums_done(&s);
	return r;
}

const struct export_ops export_flame = {
	.name = "flame",
	.extension = ".flame.html",
	.viewers = "a browser",
	.reads = "browser",
	.begin = "<!DOCTYPE html>\n<!-- pollux flame graph -->",
	.write = flame_write,
};
