/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An index against the timeline that it was made of: cells at every level against sums made slice by
 * slice, windows against the slices of the whole replay.
 */
#include "index/series.h"
#include "index/window.h"
#include "timeline/replay.h"
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t seed = 88172645463325252ULL;

static uint32_t pick(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 11) % below;
}

/* ---- series ---- */

struct stretch {
	uint64_t begin_ns, end_ns;
};

static uint64_t part(const struct stretch *s, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t begin = s->begin_ns > from_ns ? s->begin_ns : from_ns;
	uint64_t end = s->end_ns < to_ns ? s->end_ns : to_ns;

	return end > begin ? end - begin : 0;
}

static int keep(void *ctx, unsigned number, const uint64_t *values)
{
	memcpy((uint64_t *)ctx + (size_t)number * SERIES_BLOCK, values,
	       SERIES_BLOCK * sizeof(*values));
	return 0;
}

/* Stretches of all lengths, in the order of their ends; cells widen by time, or by memory. */
static void cells_have_their_parts_of_stretches(void **state)
{
	enum { N = 3000 };
	static struct stretch stretches[N];
	static uint64_t values[SERIES_CELLS], largest[SERIES_CELLS];

	for (unsigned round = 0; round < 6; round++) {
		const uint64_t base = 1000000 + pick(1000);
		struct series_set set;
		uint64_t now = base;

		series_set_init(&set, base, round % 2 ? 200000 : 1 << 30);
		struct series *sum = series_new(&set, false), *max = series_new(&set, true);
		assert_non_null(sum);
		assert_non_null(max);
		for (unsigned i = 0; i < N; i++) {
			uint64_t length = (uint64_t)pick(1000) << pick(20);
			now += (uint64_t)pick(1000) << (round < 2 ? 4 : 14);
			stretches[i].end_ns = now;
			stretches[i].begin_ns = length > now - base ? base : now - length;
			assert_int_equal(series_stretch(sum, stretches[i].begin_ns, now), 0);
			assert_int_equal(series_value(max, stretches[i].begin_ns,
						      now - stretches[i].begin_ns),
					 0);
		}
		if (round == 4)
			assert_int_equal(series_set_fit(&set, now, SERIES_BLOCK), 0);
		uint64_t width = 1ull << set.width_log2, n = series_cell(&set, now) + 1;
		assert_in_range(n, 1, round == 4 ? SERIES_BLOCK : SERIES_CELLS);
		memset(values, 0, sizeof(values));
		memset(largest, 0, sizeof(largest));
		assert_int_equal(series_each_block(sum, keep, values), 0);
		assert_int_equal(series_each_block(max, keep, largest), 0);
		for (uint64_t cell = 0; cell < n; cell += 1 + n / 2000) {
			uint64_t from = base + cell * width, expected = 0, most = 0;
			for (unsigned i = 0; i < N; i++) {
				uint64_t length = stretches[i].end_ns - stretches[i].begin_ns;
				expected += part(&stretches[i], from, from + width);
				if (series_cell(&set, stretches[i].begin_ns) == cell &&
				    length > most)
					most = length;
			}
			assert_int_equal(values[cell], expected);
			assert_int_equal(largest[cell], most);
		}
		series_set_done(&set);
	}
}

/* ---- a trace ---- */

#define THREADS 4u
#define TASKS 60u
#define KINDS 3u

struct sim {
	struct trace_writer *w;
	uint64_t now[THREADS], ready_at[TASKS], waits_since[TASKS]; /* 0: not */
	uint64_t n;
};

static void put(struct sim *s, uint32_t thread, uint64_t time, uint16_t type, uint16_t arg,
		uint32_t task, uint64_t value)
{
	struct trace_event ev = {.time = time,
				 .thread = thread,
				 .type = type,
				 .arg = arg,
				 .kind = task == UINT32_MAX ? TRACE_KIND_NONE : task % KINDS,
				 .task = task == UINT32_MAX ? 0 : 100 + task,
				 .value = value};

	assert_int_equal(trace_writer_events(s->w, thread, &ev, 1), 0);
	s->n++;
}

static void wake_some(struct sim *s, uint32_t thread, uint64_t *now, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t task = pick(TASKS);

		*now += 50 + pick(200);
		/* Some wait long. */
		if (!s->waits_since[task] || s->waits_since[task] > *now ||
		    (task % 7 == 0 && pick(400)))
			continue;
		put(s, thread, *now, TE_WAKE, TW_SCHEDULED, task, 0);
		s->waits_since[task] = 0;
		s->ready_at[task] = *now;
	}
}

static void turn(struct sim *s, uint32_t thread)
{
	uint64_t now = s->now[thread] + 100 + pick(100);
	uint32_t task = pick(TASKS), tries = 0;

	while (tries++ < TASKS && !(s->ready_at[task] && s->ready_at[task] < now))
		task = (task + 1) % TASKS;
	if (tries <= TASKS) {
		s->ready_at[task] = 0;
		put(s, thread, now, TE_POLL_BEGIN, 0, task, 0);
		wake_some(s, thread, &now, pick(3));
		if (!pick(20)) {
			uint32_t took = 1000 + pick(pick(30) ? 5000 : 900000);
			now += took + 100;
			put(s, thread, now, TE_BLOCK, TB_FSYNC, UINT32_MAX, took);
		}
		now += 500 + pick(9000) + (pick(200) ? 0 : pick(700000));
		put(s, thread, now, TE_POLL_END, TO_PENDING, task, 1 + pick(2));
		s->waits_since[task] = now;
	} else {
		put(s, thread, now, TE_PARK, TB_EPOLL_WAIT, UINT32_MAX, 0);
		now += 2000 + pick(20000);
		put(s, thread, now, TE_UNPARK, TB_EPOLL_WAIT, UINT32_MAX, 0);
		wake_some(s, thread, &now, 1 + pick(6));
	}
	s->now[thread] = now;
}

/* A trace of about n events in a file (close), none of which is lost or inconsistent. */
static int make_trace(uint64_t n)
{
	static const char *const names[KINDS] = {"app::one", "app::two", "app::three"};
	char path[] = "/tmp/pollux-index-XXXXXX";
	int fd = mkstemp(path);
	struct sim s = {0};
	struct error err = {0};
	uint32_t index;

	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(trace_writer_open_fd(dup(fd), &s.w, &err), 0);
	assert_int_equal(
		trace_writer_process(s.w, &(struct trace_process){.pid = 1, .exe = "/app"}, &index),
		0);
	for (uint32_t i = 0; i < KINDS; i++)
		assert_int_equal(
			trace_writer_kind(s.w, &(struct trace_kind){.name = names[i]}, &index), 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(trace_writer_place(s.w,
						    &(struct trace_place){.function = names[i],
									  .file = "src/app.rs",
									  .line = i + 1},
						    &index),
				 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		assert_int_equal(
			trace_writer_thread(s.w,
					    &(struct trace_thread){.tid = 10 + i, .name = "worker"},
					    &index),
			0);
		s.now[i] = 7000000000ull + i * 37;
	}
	for (uint32_t i = 0; i < TASKS; i++) {
		put(&s, 0, s.now[0] += 300, TE_SPAWN, TRACE_SPAWN_NAMED, i, 0);
		s.ready_at[i] = s.now[0];
	}
	uint64_t round = s.now[0] + 1000000;
	while (s.n < n) {
		uint32_t first = 0;
		for (uint32_t i = 1; i < THREADS; i++)
			if (s.now[i] < s.now[first])
				first = i;
		if (s.now[first] >= round) {
			assert_int_equal(trace_writer_round(s.w, round), 0);
			round += 1000000;
		}
		turn(&s, first);
	}
	assert_int_equal(trace_writer_close(s.w, &err), 0);
	return fd;
}

static struct trace_reader *open_trace(int fd)
{
	struct trace_reader *r;
	struct error err = {0};
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	int again = open(name, O_RDONLY | O_CLOEXEC);
	assert_true(again >= 0);
	assert_int_equal(trace_reader_open_fd(again, &r, &err), 0);
	return r;
}

/* `threads`: as `pollux view` does it, with a thread that reads and one that adds up. */
static struct index *make_index(int trace, const struct index_trace *id, bool threads, int *ret_fd)
{
	struct trace_reader *r = open_trace(trace);
	struct timeline_totals totals;
	struct buf report = BUF_INIT;
	struct error err = {0};
	struct trace_event ev;
	struct index *ix;

	assert_int_equal(trace_reader_next(r, &ev, &err), 1);
	assert_int_equal(trace_reader_rewind(r, &err), 0);
	struct index_builder *b = index_builder_new(r, ev.time);
	assert_non_null(b);
	trace_reader_watch_chunks(r, index_builder_chunk, b);
	if (threads) {
		assert_int_equal(trace_reader_read_ahead(r), 0);
		assert_int_equal(index_builder_start(b), 0);
	}
	assert_int_equal(timeline_replay(r, NULL, &index_sink, b, NULL, NULL, &totals, NULL, &err),
			 0);
	assert_int_equal(totals.n_inconsistent, 0);
	int fd = memfd_create("index", MFD_CLOEXEC);
	buf_str(&report, "{}");
	assert_int_equal(index_builder_write(b, fd, id, &totals, &report, &err), 0);
	index_builder_free(b);
	trace_reader_free(r);
	buf_done(&report);
	*ret_fd = dup(fd);
	assert_int_equal(index_open(fd, id, &ix, &err), 0);
	return ix;
}

static uint8_t *content_of(int fd, size_t *ret_len)
{
	off_t len = lseek(fd, 0, SEEK_END);
	uint8_t *content = malloc((size_t)len);

	assert_non_null(content);
	assert_int_equal(pread(fd, content, (size_t)len, 0), len);
	*ret_len = (size_t)len;
	return content;
}

/* ---- all slices, from the whole ---- */

struct all {
	struct index_span *v;
	size_t n, cap;
};

static int add(struct all *all, struct index_span span)
{
	if (all->n == all->cap) {
		all->cap = all->cap ? 2 * all->cap : 1024;
		all->v = realloc(all->v, all->cap * sizeof(*all->v));
		assert_non_null(all->v);
	}
	all->v[all->n++] = span;
	return 0;
}

static int all_poll(void *ctx, const struct tl_poll *p)
{
	return add(ctx, (struct index_span){.type = SPAN_POLL,
					    .begin_ns = p->begin_ns,
					    .end_ns = p->end_ns,
					    .thread = p->thread,
					    .kind = p->task->kind,
					    .task = p->task->id,
					    .what = p->place,
					    .since_ns = p->scheduled_ns,
					    .blocked_ns = p->blocked_ns,
					    .outcome = p->outcome});
}

static int all_wait(void *ctx, const struct tl_wait *w)
{
	if (w->state != TS_WAITING && w->state != TS_SCHEDULED)
		return 0;
	return add(ctx, (struct index_span){.type = w->state == TS_WAITING ? SPAN_WAIT : SPAN_READY,
					    .begin_ns = w->begin_ns,
					    .end_ns = w->end_ns,
					    .thread = UINT32_MAX,
					    .kind = w->task->kind,
					    .task = w->task->id,
					    .what = w->place});
}

static int all_block(void *ctx, const struct tl_block *b)
{
	return add(ctx, (struct index_span){.type = SPAN_CALL,
					    .begin_ns = b->begin_ns,
					    .end_ns = b->end_ns,
					    .thread = b->thread,
					    .kind = b->task->kind,
					    .task = b->task->id,
					    .what = b->call});
}

static int all_park(void *ctx, const struct tl_park *p)
{
	return add(ctx, (struct index_span){.type = SPAN_PARK,
					    .begin_ns = p->begin_ns,
					    .end_ns = p->end_ns,
					    .thread = p->thread,
					    .kind = TRACE_KIND_NONE,
					    .what = p->call});
}

static const struct timeline_sink all_sink = {
	.poll = all_poll, .wait = all_wait, .block = all_block, .park = all_park};

static struct all read_all(int trace)
{
	struct trace_reader *r = open_trace(trace);
	struct error err = {0};
	struct all all = {0};

	assert_int_equal(timeline_replay(r, NULL, &all_sink, &all, NULL, NULL, NULL, NULL, &err),
			 0);
	trace_reader_free(r);
	return all;
}

static bool in_series(const struct index_span *s, enum index_lane_type type, uint32_t number,
		      const struct index_series_name *name)
{
	bool thread = type == IL_THREAD;

	if ((thread ? s->thread : s->kind) != number)
		return false;
	switch (name->what) {
	case IX_POLLING:
	case IX_POLLS:
	case IX_LONGEST:
		return s->type == SPAN_POLL;
	case IX_BLOCKED:
		return s->type == SPAN_CALL;
	case IX_PARKED:
		return thread && s->type == SPAN_PARK;
	case IX_READY:
		return !thread && s->type == SPAN_READY;
	case IX_WAITING:
		return !thread && s->type == SPAN_WAIT && s->what == name->place;
	default:
		return false;
	}
}

static void check_series(const struct index *ix, const struct all *all, uint32_t lane,
			 const struct index_series_name *name)
{
	static uint64_t values[SERIES_CELLS], expected[SERIES_CELLS];
	const struct index_lane *l = index_lane(ix, lane);
	struct index_facts f;
	struct error err = {0};
	uint64_t n_found = 0;

	index_facts(ix, &f);
	memset(expected, 0, sizeof(expected));
	for (size_t i = 0; i < all->n; i++) {
		const struct index_span *s = &all->v[i];
		uint64_t length = s->end_ns - s->begin_ns,
			 first = (s->begin_ns - f.base_ns) >> f.width_log2;

		if (!in_series(s, l->type, l->number, name))
			continue;
		n_found++;
		if (name->what == IX_POLLS)
			expected[first]++;
		else if (name->what == IX_LONGEST)
			expected[first] = length > expected[first] ? length : expected[first];
		else
			for (uint64_t c = first; c <= (s->end_ns - f.base_ns) >> f.width_log2; c++)
				expected[c] += part(&(struct stretch){s->begin_ns, s->end_ns},
						    f.base_ns + (c << f.width_log2),
						    f.base_ns + ((c + 1) << f.width_log2));
	}
	assert_true(n_found > 0);
	for (unsigned level = 0; level < f.n_levels; level++) {
		uint64_t n = ((f.n_cells - 1) >> level) + 1, first = n > 5 ? n / 5 : 0;

		memset(values, 0, sizeof(values));
		assert_int_equal(index_values(ix, name->number, level, 0, n, values, &err), 0);
		assert_memory_equal(values, expected, n * sizeof(*values));
		/* And a part of it, up to beyond the end. */
		memset(values, 0, sizeof(values));
		assert_int_equal(index_values(ix, name->number, level, first, n, values, &err), 0);
		assert_memory_equal(values, expected + first, (n - first) * sizeof(*values));
		for (uint64_t c = 0; c < (n + 1) / 2; c++) {
			uint64_t a = expected[2 * c], b = 2 * c + 1 < n ? expected[2 * c + 1] : 0;
			expected[c] = name->what != IX_LONGEST ? a + b : a > b ? a : b;
		}
		memset(expected + (n + 1) / 2, 0, (n - (n + 1) / 2) * sizeof(*expected));
	}
}

struct fixture {
	int trace, index_fd;
	struct index_trace id;
	struct index *ix;
	struct all all;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->trace = make_trace(400000);
	assert_int_equal(index_trace_read(f->trace, &f->id), 0);
	f->ix = make_index(f->trace, &f->id, false, &f->index_fd);
	f->all = read_all(f->trace);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	index_free(f->ix);
	close(f->trace);
	close(f->index_fd);
	free(f->all.v);
	free(f);
	return 0;
}

static void sums_are_exact_at_every_level(void **state)
{
	const struct fixture *f = *state;
	struct index_facts facts;
	unsigned n_lanes = 0, n_series = 0;

	index_facts(f->ix, &facts);
	assert_true(facts.n_cells > SERIES_BLOCK && facts.n_levels > 10);
	for (uint32_t lane = 0; index_lane(f->ix, lane); lane++, n_lanes++) {
		struct index_series_name name;
		uint32_t pos = 0;

		while (index_next_series(f->ix, lane, &pos, &name)) {
			check_series(f->ix, &f->all, lane, &name);
			n_series++;
		}
	}
	assert_int_equal(n_lanes, THREADS + KINDS);
	/* polling, polls, longest, blocked; parked; ready and waiting at two places */
	assert_int_equal(n_series, THREADS * 5 + KINDS * 7);
}

static void lanes_are_found_by_their_numbers(void **state)
{
	const struct fixture *f = *state;
	uint64_t polls = 0, expected = 0;

	for (uint32_t i = 0; i < KINDS; i++) {
		uint32_t lane = index_find_lane(f->ix, IL_FAMILY, i);
		assert_int_equal(index_lane(f->ix, lane)->number, i);
		assert_int_equal(index_lane(f->ix, lane)->tasks, TASKS / KINDS);
		polls += index_lane(f->ix, lane)->polls;
	}
	for (size_t i = 0; i < f->all.n; i++)
		expected += f->all.v[i].type == SPAN_POLL;
	assert_int_equal(polls, expected);
	assert_int_equal(index_find_lane(f->ix, IL_FAMILY, KINDS), INDEX_OVERVIEW);
	assert_int_equal(index_find_lane(f->ix, IL_THREAD, THREADS), INDEX_OVERVIEW);
}

static void heat_counts_each_poll_once(void **state)
{
	const struct fixture *f = *state;
	struct error err = {0};

	for (uint32_t kind = 0; kind < KINDS; kind++) {
		for (unsigned what = 0; what < IH_N; what++) {
			static const unsigned types[] = {SPAN_POLL, SPAN_READY, SPAN_WAIT};
			uint64_t expected[INDEX_HEAT_ROWS] = {0}, found[INDEX_HEAT_ROWS] = {0};
			uint32_t lane = index_find_lane(f->ix, IL_FAMILY, kind), *cells;

			assert_int_equal(index_heat(f->ix, lane, what, &cells, &err), 0);
			for (unsigned c = 0; c < INDEX_HEAT_CELLS; c++)
				for (unsigned row = 0; row < INDEX_HEAT_ROWS; row++)
					found[row] += cells[c * INDEX_HEAT_ROWS + row];
			free(cells);
			for (size_t i = 0; i < f->all.n; i++) {
				const struct index_span *s = &f->all.v[i];
				unsigned row = 0;
				if (s->type != types[what] || s->kind != kind)
					continue;
				while (row + 1 < INDEX_HEAT_ROWS &&
				       index_heat_edge(row + 1) <= s->end_ns - s->begin_ns)
					row++;
				expected[row]++;
			}
			assert_memory_equal(found, expected, sizeof(found));
		}
	}
}

/* ---- windows ---- */

static int take(void *ctx, const struct index_span *span)
{
	return span->type == SPAN_TASK ? 0 : add(ctx, *span);
}

static int by_all(const void *a, const void *b)
{
	const struct index_span *x = a, *y = b;
#define BY(member)                                                                                 \
	if (x->member != y->member)                                                                \
	return x->member < y->member ? -1 : 1
	BY(begin_ns);
	BY(end_ns);
	BY(type);
	BY(thread);
	BY(task);
#undef BY
	return 0;
}

static void check_window(const struct fixture *f, struct trace_reader *r, uint64_t from,
			 uint64_t to)
{
	struct all found = {0}, expected = {0};
	struct window w = {.ix = f->ix, .from_ns = from, .to_ns = to, .slice = take, .ctx = &found};
	struct error err = {0};
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", f->trace);
	assert_int_equal(window_read(&w, r, open(name, O_RDONLY | O_CLOEXEC), &err), 0);
	assert_true(w.exact);
	for (size_t i = 0; i < f->all.n; i++) {
		const struct index_span *s = &f->all.v[i];
		if (s->begin_ns < to &&
		    (s->end_ns > from || (s->begin_ns == s->end_ns && s->begin_ns >= from)))
			add(&expected, *s);
	}
	if (found.n)
		qsort(found.v, found.n, sizeof(*found.v), by_all);
	if (expected.n)
		qsort(expected.v, expected.n, sizeof(*expected.v), by_all);
	assert_int_equal(found.n, expected.n);
	for (size_t i = 0; i < found.n; i++) {
		const struct index_span *x = &found.v[i], *y = &expected.v[i];
		assert_int_equal(by_all(x, y), 0);
		assert_int_equal(x->kind, y->kind);
		assert_int_equal(x->what, y->what);
		assert_int_equal(x->since_ns, y->since_ns);
		assert_int_equal(x->blocked_ns, y->blocked_ns);
		assert_int_equal(x->outcome, y->outcome);
	}
	free(found.v);
	free(expected.v);
}

static void windows_have_the_slices_of_the_whole(void **state)
{
	const struct fixture *f = *state;
	struct trace_reader *r = open_trace(f->trace);
	struct error err = {0};
	struct index_facts facts;

	assert_int_equal(trace_reader_skip_events(r, &err), 0);
	index_facts(f->ix, &facts);
	uint64_t span = facts.end_ns - facts.base_ns;
	/* Most of them are fed a part of the trace only. */
	assert_true(facts.exact_ns * 20 < span);
	check_window(f, r, facts.base_ns, facts.end_ns + 1);
	check_window(f, r, facts.base_ns, facts.base_ns + 1);
	check_window(f, r, facts.end_ns, facts.end_ns + 1);
	for (unsigned i = 0; i < 60; i++) {
		uint64_t from = facts.base_ns + (uint64_t)pick(1000000) * span / 1000000;
		check_window(f, r, from, from + 1 + pick(i < 30 ? 20000 : 3000000));
	}
	trace_reader_free(r);
}

static void too_many_events_leave_the_long_slices(void **state)
{
	const struct fixture *f = *state;
	struct trace_reader *r = open_trace(f->trace);
	struct all found = {0};
	struct error err = {0};
	struct index_facts facts;
	size_t n = 0;

	index_facts(f->ix, &facts);
	struct window w = {.ix = f->ix,
			   .from_ns = facts.base_ns,
			   .to_ns = facts.end_ns + 1,
			   .slice = take,
			   .ctx = &found,
			   .max_events = 1000};
	assert_int_equal(window_read(&w, r, open("/dev/null", O_RDONLY | O_CLOEXEC), &err), 0);
	assert_false(w.exact);
	for (size_t i = 0; i < f->all.n; i++)
		n += f->all.v[i].end_ns - f->all.v[i].begin_ns > facts.exact_ns;
	assert_true(n > 0);
	assert_int_equal(found.n, n);
	free(found.v);
	trace_reader_free(r);
}

/* ---- damage ---- */

static int use_lane(const struct index *ix, uint32_t lane)
{
	static uint64_t values[4096];
	struct index_series_name name;
	struct error err = {0};
	uint32_t pos = 0, *cells;
	int code = 0;

	while (index_next_series(ix, lane, &pos, &name))
		if (index_values(ix, name.number, 3, 1, 4096, values, &err) < 0)
			code = -1;
	for (unsigned what = 0; what < IH_N; what++)
		if (index_heat(ix, lane, what, &cells, &err) == 0)
			free(cells);
	return code;
}

static int ignore(void *ctx, const struct index_span *span)
{
	(void)ctx;
	return span->type < SPAN_N ? 0 : -EPROTO;
}

/* Whatever a byte is changed to, the index is refused or answers. */
static void a_changed_byte_harms_nothing(void **state)
{
	const struct fixture *f = *state;
	off_t bytes = lseek(f->index_fd, 0, SEEK_END);
	unsigned n_refused = 0;

	assert_true(bytes > 1000);
	for (unsigned i = 0; i < 600; i++) {
		int copy = memfd_create("copy", MFD_CLOEXEC);
		off_t from = 0, at = i < 280 ? (off_t)i : (off_t)(pick(1u << 30) % (uint64_t)bytes);
		struct error err = {0};
		struct index *ix;
		uint8_t byte;

		assert_int_equal(ftruncate(copy, 0), 0);
		while (from < bytes) {
			char part_of[1 << 16];
			ssize_t n = pread(f->index_fd, part_of, sizeof(part_of), from);
			assert_true(n > 0);
			assert_int_equal(pwrite(copy, part_of, (size_t)n, from), n);
			from += n;
		}
		assert_int_equal(pread(copy, &byte, 1, at), 1);
		byte ^= (uint8_t)(1 + pick(255));
		assert_int_equal(pwrite(copy, &byte, 1, at), 1);
		if (i % 10 == 9)
			assert_int_equal(ftruncate(copy, at), 0);
		if (index_open(copy, &f->id, &ix, &err) < 0) {
			n_refused++;
			assert_true(*err.text);
			continue;
		}
		assert_true(at >= 280);
		use_lane(ix, INDEX_OVERVIEW);
		for (uint32_t lane = 0; index_lane(ix, lane); lane++)
			use_lane(ix, lane);
		index_spans(ix, 0, UINT64_MAX, ignore, NULL, &err);
		index_samples(ix, 0, UINT64_MAX, ignore, NULL, &err);
		uint64_t *offsets;
		size_t n;
		if (index_chunks(ix, 0, UINT64_MAX, UINT64_MAX, &offsets, &n, &err) == 0)
			free(offsets);
		index_free(ix);
	}
	assert_true(n_refused >= 280);
}

/* The threads change no byte of it; and a builder that is given up in the middle ends its thread. */
static void threads_make_the_same_index(void **state)
{
	const struct fixture *f = *state;
	size_t n, n_threads;
	int fd;

	index_free(make_index(f->trace, &f->id, true, &fd));
	uint8_t *one = content_of(f->index_fd, &n), *with = content_of(fd, &n_threads);
	assert_int_equal(n_threads, n);
	assert_memory_equal(with, one, n);
	free(one);
	free(with);
	close(fd);

	struct trace_reader *r = open_trace(f->trace);
	struct index_builder *b = index_builder_new(r, 1);
	assert_int_equal(index_builder_start(b), 0);
	for (uint32_t i = 0; i < 5000; i++) {
		const struct tl_park park = {.thread = i % 3, .begin_ns = i, .end_ns = i + 1};
		assert_int_equal(index_sink.park(b, &park), 0);
	}
	index_builder_free(b);
	trace_reader_free(r);
}

static void an_index_of_another_trace_is_refused(void **state)
{
	const struct fixture *f = *state;
	struct index_trace other = f->id;
	struct error err = {0};
	struct index *ix;

	other.tail ^= 1;
	assert_int_equal(index_open(dup(f->index_fd), &other, &ix, &err), -ESTALE);
	assert_int_equal(index_open(open("/dev/null", O_RDONLY), &f->id, &ix, &err), -EBADMSG);
	assert_int_equal(index_open(dup(f->trace), &f->id, &ix, &err), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells_have_their_parts_of_stretches),
		cmocka_unit_test(sums_are_exact_at_every_level),
		cmocka_unit_test(lanes_are_found_by_their_numbers),
		cmocka_unit_test(heat_counts_each_poll_once),
		cmocka_unit_test(windows_have_the_slices_of_the_whole),
		cmocka_unit_test(too_many_events_leave_the_long_slices),
		cmocka_unit_test(a_changed_byte_harms_nothing),
		cmocka_unit_test(threads_make_the_same_index),
		cmocka_unit_test(an_index_of_another_trace_is_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
