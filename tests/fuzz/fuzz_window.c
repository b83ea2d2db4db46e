/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fuzz target for what pollux view makes of a trace: its index, all cells of it, and windows that are
 * read from the trace again. The input's checksums are made right first.
 */
#include "fuzz.h"

#include "index/window.h"
#include "tests/traces/file.h"
#include "timeline/replay.h"
#include "trace/cut.h"

static struct trace_reader *open_input(int fd)
{
	struct trace_reader *r;
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	int again = open(name, O_RDONLY | O_CLOEXEC);
	if (again < 0)
		abort();
	return trace_reader_open_fd(again, &r, NULL) < 0 ? NULL : r;
}

static struct index *make_index(struct trace_reader *r)
{
	const struct index_trace trace = {.bytes = 1};
	struct timeline_totals totals = {0};
	struct buf report = BUF_INIT;
	struct trace_event ev;
	struct index *ix = NULL;

	if (trace_reader_next(r, &ev, NULL) <= 0 || trace_reader_rewind(r, NULL) < 0)
		return NULL;
	struct index_builder *b = index_builder_new(r, ev.time);
	if (!b)
		return NULL;
	trace_reader_watch_chunks(r, index_builder_chunk, b);
	if (timeline_replay(r, NULL, &index_sink, b, NULL, NULL, &totals, NULL, NULL) == 0) {
		int out = memfd_create("index", MFD_CLOEXEC);
		struct error err = {0};

		/* What it writes it can read. */
		if (out < 0 || index_builder_write(b, out, &trace, &totals, &report, &err) < 0 ||
		    index_open(out, &trace, &ix, &err) < 0)
			abort();
	}
	index_builder_free(b);
	return ix;
}

static void read_cells(const struct index *ix)
{
	static uint64_t values[4096];
	struct index_facts facts;

	index_facts(ix, &facts);
	for (uint32_t lane = 0; index_lane(ix, lane); lane++) {
		struct index_series_name name;
		uint32_t pos = 0;

		while (index_next_series(ix, lane, &pos, &name))
			if (index_values(ix, name.number, facts.n_levels - 1, 0, 4096, values,
					 NULL) < 0)
				abort();
	}
}

static int take(void *ctx, const struct index_span *span)
{
	const struct window *w = ctx;

	if (span->type >= SPAN_N || span->end_ns < span->begin_ns || span->begin_ns >= w->to_ns ||
	    span->end_ns < w->from_ns)
		abort();
	return 0;
}

static void read_windows(const struct index *ix, struct trace_reader *r, int fd)
{
	struct index_facts facts;
	char name[32];

	index_facts(ix, &facts);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	if (trace_reader_skip_events(r, NULL) < 0)
		return;
	uint64_t span = facts.end_ns - facts.base_ns;
	for (unsigned i = 0; i < 4; i++) {
		struct window w = {.ix = ix, .slice = take, .max_events = 100000};

		w.ctx = &w;
		w.from_ns = facts.base_ns + (i < 3 ? span / 3 * i : 0);
		w.to_ns = i < 3 ? w.from_ns + span / 3 + 1 : facts.end_ns;
		if (w.to_ns > w.from_ns)
			window_read(&w, r, open(name, O_RDONLY | O_CLOEXEC), NULL);
	}
}

static void cut_it(const struct index *ix, int fd)
{
	int out = memfd_create("part", MFD_CLOEXEC);
	uint64_t *offsets;
	size_t n;

	if (out >= 0 && index_chunks(ix, 0, UINT64_MAX, UINT64_MAX, &offsets, &n, NULL) == 0) {
		trace_cut(fd, out, offsets, n, NULL);
		free(offsets);
	}
	close(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf input = BUF_INIT;

	if (size < sizeof(struct plx_header))
		return 0;
	file_seal(&input, data, size);
	int fd = fuzz_file((const uint8_t *)input.data, input.len);
	struct trace_reader *r = open_input(fd), *again = r ? open_input(fd) : NULL;
	struct index *ix = r ? make_index(r) : NULL;
	if (ix && again) {
		read_cells(ix);
		read_windows(ix, again, fd);
		cut_it(ix, fd);
	}
	index_free(ix);
	trace_reader_free(r);
	trace_reader_free(again);
	close(fd);
	buf_done(&input);
	return 0;
}
