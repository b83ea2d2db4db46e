/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The trace file from end to end: what a writer was given is what a reader gives, merged by time.
 * Damage is test_trace_damage.c's.
 */
#include "base/cleanup.h"
#include "tests/traces/file.h"
#include "tests/traces/model.h"
#include "tests/traces/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[] = "/tmp/pollux-test-XXXXXX";
static char path[64];

static int make_dir(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/t.plx", dir);
	return 0;
}

static int remove_dir(void **state)
{
	unlink(path);
	return rmdir(dir);
}

static uint64_t seed = 88172645463325252ULL;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static struct trace_writer *open_writer(uint32_t n_threads)
{
	struct error err = {0};
	struct trace_writer *w = NULL;
	if (trace_writer_open(path, &w, &err) < 0)
		fail_msg("%s", err.text);
	for (uint32_t i = 0; i < n_threads; i++) {
		uint32_t index = 77;
		struct trace_thread t = {.tid = 100 + i, .name = "t"};
		assert_int_equal(trace_writer_thread(w, &t, &index), 0);
		assert_int_equal(index, i);
	}
	return w;
}

static void close_writer(struct trace_writer *w)
{
	struct error err = {0};
	if (trace_writer_close(w, &err) < 0)
		fail_msg("%s", err.text);
}

static struct file_read read_whole(void)
{
	struct file_read f = file_read_path(path);
	if (f.opened < 0 || f.code < 0)
		fail_msg("%s", f.err.text);
	if (f.truncated)
		fail_msg("%s", f.story);
	return f;
}

/* ---- one thread: exactly the same events in the same order ---- */

/* `wild` from 0 (as a runtime makes them) to 3 (anything that fits into the struct). */
static struct trace_event random_event(unsigned wild, uint64_t *time)
{
	struct trace_event ev = {0};
	uint64_t spread = wild ? rnd() % 64 : 12;

	*time += rnd() >> (63 - spread % (wild > 1 ? 64 : 40));
	if (wild && rnd() % 50 == 0)
		*time -= rnd() % 100000;
	if (wild > 1 && rnd() % 50 == 0)
		*time = rnd();
	ev.time = *time;
	ev.type = (uint16_t)(wild > 2 ? rnd() : rnd() % TE_N_TYPES);
	ev.arg = (uint16_t)(wild > 2 && rnd() % 4 == 0 ? rnd() : rnd() % 4);
	ev.kind = wild > 1 ? (uint32_t)rnd() >> rnd() % 32 : (uint32_t)(rnd() % 5) - 1;
	ev.task = wild > 1 ? rnd() >> rnd() % 64 : rnd() % 300;
	ev.value = rnd() % 3 ? 0 : rnd() >> rnd() % 64;
	return ev;
}

static void check_round_trip(unsigned wild, size_t n)
{
	struct trace_event *ev = calloc(n + 1, sizeof(*ev));
	uint64_t time = rnd() >> 20;

	for (size_t i = 0; i < n; i++)
		ev[i] = random_event(wild, &time);
	struct trace_writer *w = open_writer(1);
	for (size_t at = 0; at < n;) {
		size_t part = 1 + rnd() % (rnd() % 4 ? 100 : 40000);
		part = part < n - at ? part : n - at;
		assert_int_equal(trace_writer_events(w, 0, ev + at, part), 0);
		at += part;
		if (rnd() % 30 == 0)
			assert_int_equal(trace_writer_round(w, time), 0);
	}
	assert_int_equal(trace_writer_n_events(w), n);
	close_writer(w);

	struct file_read f = read_whole();
	assert_int_equal(f.n, n);
	for (size_t i = 0; i < n; i++)
		assert_memory_equal(&f.events[i], &ev[i], sizeof(*ev));
	file_read_done(&f);
	free(ev);
}

static void test_round_trip(void **state)
{
	for (unsigned wild = 0; wild < 4; wild++) {
		for (size_t n = 0; n < 40; n++)
			check_round_trip(wild, n);
		for (int i = 0; i < 5; i++)
			check_round_trip(wild, rnd() % 5000);
		check_round_trip(wild, 16384);
		check_round_trip(wild, 16385);
		check_round_trip(wild, 70000);
	}
}

/* The extreme of every field, and every size of a time's step, also backwards. */
static void test_extremes(void **state)
{
	struct trace_event ev[4 * 64 * 3];
	size_t n = 0;
	uint64_t time = 0;

	for (int bit = 0; bit < 64; bit++) {
		for (int d = -1; d <= 1; d++) {
			uint64_t v = (1ULL << bit) + (uint64_t)d;
			ev[n++] = (struct trace_event){.time = time += v, .value = v};
			ev[n++] = (struct trace_event){.time = time -= v, .task = v};
			ev[n++] = (struct trace_event){.time = time, .kind = (uint32_t)v};
			ev[n++] = (struct trace_event){
				.time = time, .kind = TRACE_KIND_NONE, .type = (uint16_t)(d + 5)};
		}
	}
	struct trace_writer *w = open_writer(1);
	assert_int_equal(trace_writer_events(w, 0, ev, n), 0);
	close_writer(w);
	struct file_read f = read_whole();
	assert_int_equal(f.n, n);
	assert_memory_equal(f.events, ev, n * sizeof(*ev));
	file_read_done(&f);
}

/* Polls inside polls, deeper than the stack; ends without begins, begins without ends. */
static void test_nested_polls(void **state)
{
	struct trace_event ev[1000];
	size_t n = 0;
	for (uint64_t i = 0; i < 100; i++)
		ev[n++] = (struct trace_event){.type = TE_POLL_BEGIN, .task = i % 90};
	for (uint64_t i = 100; i-- > 0;)
		ev[n++] = (struct trace_event){.type = TE_POLL_END, .task = i % 90};
	for (uint64_t i = 0; i < 300; i++)
		ev[n++] = (struct trace_event){.type = rnd() % 2 ? TE_POLL_BEGIN : TE_POLL_END,
					       .task = rnd() % 3};
	for (size_t i = 0; i < n; i++)
		ev[i].time = i;
	struct trace_writer *w = open_writer(1);
	assert_int_equal(trace_writer_events(w, 0, ev, n), 0);
	close_writer(w);
	struct file_read f = read_whole();
	assert_int_equal(f.n, n);
	assert_memory_equal(f.events, ev, n * sizeof(*ev));
	file_read_done(&f);
}

/* ---- many threads ---- */

/* Events sorted by time, equal times by thread; each thread's events numbered in `value`. */
static void check_merged(const struct file_read *f, uint32_t n_threads, const uint64_t *n_of)
{
	uint64_t *seen = calloc(n_threads, sizeof(*seen));
	for (size_t i = 0; i < f->n; i++) {
		const struct trace_event *ev = &f->events[i];
		assert_true(ev->thread < n_threads);
		assert_true(ev->value == ++seen[ev->thread]);
		if (i) {
			const struct trace_event *before = ev - 1;
			assert_true(before->time < ev->time ||
				    (before->time == ev->time && before->thread <= ev->thread));
		}
	}
	for (uint32_t i = 0; i < n_threads; i++)
		assert_true(seen[i] == n_of[i]);
	free(seen);
}

static void check_many_threads(uint32_t n_threads, uint64_t n_total, uint64_t max_step, bool late)
{
	uint64_t *now = calloc(n_threads, sizeof(*now)), *n_of = calloc(n_threads, sizeof(*n_of));
	uint64_t round = 0, round_ns = 200 * max_step;
	struct trace_writer *w = open_writer(n_threads);

	for (uint64_t total = 0; total < n_total;) {
		round += round_ns;
		for (uint32_t k = 0; k < n_threads; k++) {
			/* Some threads are idle in this round. A late one stops before its end and
			 * hands in the rest with the next. */
			if (rnd() % 4 == 0 && now[k] + round_ns > round) {
				now[k] = now[k] < round ? round : now[k];
				continue;
			}
			uint64_t until = late && k % 3 == 0 ? round - round_ns * 9 / 10 : round;
			while (now[k] < until) {
				struct trace_event ev = {.time = now[k],
							 .thread = k,
							 .type = TE_WAKE,
							 .arg = TW_NOOP,
							 .task = rnd() % 100,
							 .value = ++n_of[k]};
				assert_int_equal(trace_writer_events(w, k, &ev, 1), 0);
				now[k] += rnd() % max_step;
				total++;
			}
		}
		assert_int_equal(trace_writer_round(w, round), 0);
	}
	close_writer(w);

	struct file_read f = read_whole();
	check_merged(&f, n_threads, n_of);
	file_read_done(&f);
	free(now);
	free(n_of);
}

static void test_many_threads(void **state)
{
	check_many_threads(2, 20000, 1000, false);
	check_many_threads(7, 50000, 3, false); /* many equal times */
	check_many_threads(300, 100000, 1000, false);
	check_many_threads(6, 50000, 1000, true);
}

/* Later than a round may be late: delivered all the same, and at once. */
static void test_too_late(void **state)
{
	struct trace_writer *w = open_writer(2);
	for (uint64_t i = 1; i <= 10; i++) {
		struct trace_event ev = {.time = i * 100, .thread = 0, .type = TE_WAKE};
		assert_int_equal(trace_writer_events(w, 0, &ev, 1), 0);
		if (i == 6) {
			struct trace_event old = {.time = 50, .thread = 1, .type = TE_WAKE};
			assert_int_equal(trace_writer_events(w, 1, &old, 1), 0);
		}
		assert_int_equal(trace_writer_round(w, i * 100 + 1), 0);
	}
	close_writer(w);
	struct file_read f = read_whole();
	assert_int_equal(f.n, 11);
	size_t at = 0;
	while (f.events[at].time != 50)
		at++;
	assert_true(at >= 4 && at <= 6);
	file_read_done(&f);
}

/* More threads at once than a reader may hold: it gives out early rather than grow. */
static void test_memory_is_bounded(void **state)
{
	enum { THREADS = 700, EVENTS = 8000 };
	static struct trace_event ev[EVENTS];
	uint64_t n_of[THREADS];
	struct trace_writer *w = open_writer(THREADS);

	for (uint32_t k = 0; k < THREADS; k++) {
		for (uint64_t i = 0; i < EVENTS; i++)
			ev[i] = (struct trace_event){.time = i * 1000 + k,
						     .thread = k,
						     .task = i * 999999937 + k,
						     .value = i + 1};
		assert_int_equal(trace_writer_events(w, k, ev, EVENTS), 0);
		n_of[k] = 0;
	}
	assert_int_equal(trace_writer_round(w, EVENTS * 1000), 0);
	close_writer(w);

	struct error err = {0};
	struct trace_reader *r;
	struct trace_event got;
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	while (trace_reader_next(r, &got, &err) > 0)
		assert_true(got.value == ++n_of[got.thread]);
	for (uint32_t k = 0; k < THREADS; k++)
		assert_int_equal(n_of[k], EVENTS);
	trace_reader_free(r);
}

/* Threads whose clock steps: a wake on the last thread and the poll that it caused on the first,
 * at every place of a batch, rounds in between. */
static void test_ties(void **state)
{
	enum { THREADS = 9, STEPS = 3000 };
	struct trace_writer *w = open_writer(THREADS);
	struct error err = {0};
	struct trace_reader *r;
	struct trace_event got;
	uint64_t woken = 0, n = 0;

	(void)state;
	for (uint64_t i = 1; i <= STEPS; i++) {
		struct trace_event begin = {.time = i * 42, .type = TE_POLL_BEGIN, .task = i};
		struct trace_event wake = {
			.time = i * 42, .thread = THREADS - 1, .type = TE_WAKE, .task = i};

		assert_int_equal(trace_writer_events(w, 0, &begin, 1), 0);
		assert_int_equal(trace_writer_events(w, THREADS - 1, &wake, 1), 0);
		for (uint32_t k = 1; k <= i % (THREADS - 1); k++) {
			begin.task = STEPS + k;
			begin.thread = k;
			assert_int_equal(trace_writer_events(w, k, &begin, 1), 0);
		}
		if (i % 100 == 0)
			assert_int_equal(trace_writer_round(w, i * 42), 0);
	}
	close_writer(w);
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	for (uint64_t time = 0; trace_reader_next(r, &got, &err) > 0; time = got.time, n++) {
		assert_true(time <= got.time);
		if (got.type == TE_WAKE)
			assert_int_equal(got.task, ++woken);
		else if (got.task <= STEPS)
			assert_int_equal(got.task, woken);
	}
	assert_int_equal(woken, STEPS);
	assert_true(n > 2 * STEPS);
	trace_reader_free(r);
}

/* ---- metadata ---- */

static const char *text(const char *s)
{
	return s ? s : "";
}

static void check_sample_tables(const struct trace_reader *r)
{
	assert_int_equal(trace_reader_n_processes(r), 1);
	const struct trace_process *p = trace_reader_process(r, 0);
	assert_int_equal(p->pid, sample_process.pid);
	assert_string_equal(p->exe, sample_process.exe);
	assert_string_equal(p->cmdline, sample_process.cmdline);
	assert_true(p->start_ns == sample_process.start_ns);
	assert_true(p->start_realtime_ns == sample_process.start_realtime_ns);

	assert_int_equal(trace_reader_n_runtimes(r), 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct trace_runtime *got = trace_reader_runtime(r, i);
		assert_string_equal(got->name, sample_runtimes[i].name);
		assert_string_equal(got->version, sample_runtimes[i].version);
		assert_string_equal(got->object, sample_runtimes[i].object);
		assert_string_equal(got->verified, text(sample_runtimes[i].verified));
	}

	assert_int_equal(trace_reader_n_threads(r), 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct trace_thread *got = trace_reader_thread(r, i);
		assert_int_equal(got->tid, sample_threads[i].tid);
		assert_string_equal(got->name, i == 1 ? "renamed" : sample_threads[i].name);
	}

	assert_int_equal(trace_reader_n_kinds(r), 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct trace_kind *got = trace_reader_kind(r, i), *want = &sample_kinds[i];
		assert_int_equal(got->runtime, want->runtime);
		assert_int_equal(got->role, want->role);
		assert_int_equal(got->address_named, want->address_named);
		assert_true(got->vtable == want->vtable && got->poll == want->poll);
		assert_string_equal(got->name, want->name);
		assert_string_equal(got->full_name, text(want->full_name));
		assert_string_equal(got->scheduler, text(want->scheduler));
		assert_int_equal(got->n_sites, want->n_sites);
		for (uint32_t s = 0; s < want->n_sites; s++) {
			assert_true(got->site_addrs[s] == want->site_addrs[s]);
			assert_string_equal(got->sites[s], want->sites[s]);
		}
	}

	assert_int_equal(trace_reader_n_coverage(r), 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct trace_coverage *got = trace_reader_coverage(r, i);
		assert_string_equal(got->item, sample_coverage[i].item);
		assert_true(got->seen == sample_coverage[i].seen);
		assert_true(got->total == sample_coverage[i].total);
		assert_string_equal(got->note, text(sample_coverage[i].note));
	}

	const struct trace_cost *cost = trace_reader_cost(r);
	assert_non_null(cost);
	assert_true(cost->stop_ns == sample_cost.stop_ns);
	assert_true(cost->attach_ns == sample_cost.attach_ns);
	assert_true(cost->recorder_cpu_ns == sample_cost.recorder_cpu_ns);
	assert_true(cost->event_cost_ps == sample_cost.event_cost_ps);
	assert_true(cost->end_ns == sample_cost.end_ns);
	assert_string_equal(cost->end_reason, sample_cost.end_reason);

	assert_null(trace_reader_process(r, 1));
	assert_null(trace_reader_kind(r, TRACE_KIND_NONE));
	assert_null(trace_reader_thread(r, 3));
}

/* Each thread's events in the sample, whatever the order between threads. */
static void check_sample_events(const struct file_read *f)
{
	for (uint32_t thread = 0; thread < SAMPLE_THREADS; thread++) {
		size_t at = 0;
		for (uint32_t round = 0; round < SAMPLE_ROUNDS; round++) {
			struct trace_event ev[32];
			size_t n = sample_events(thread, round, ev);
			for (size_t i = 0; i < n; i++, at++) {
				while (at < f->n && f->events[at].thread != thread)
					at++;
				assert_true(at < f->n);
				assert_memory_equal(&f->events[at], &ev[i], sizeof(*ev));
			}
		}
	}
}

static void test_sample(void **state)
{
	struct error err = {0};
	assert_int_equal(sample_write(path, &err), 0);
	struct file_read f = read_whole();
	check_sample_tables(f.reader);
	check_sample_events(&f);

	/* A second pass gives the same and doubles nothing. */
	size_t n = f.n;
	const struct trace_kind *kind = trace_reader_kind(f.reader, 0);
	assert_int_equal(trace_reader_rewind(f.reader, &err), 0);
	file_read_events(&f);
	assert_int_equal(f.n, n);
	assert_ptr_equal(trace_reader_kind(f.reader, 0), kind);
	check_sample_tables(f.reader);
	check_sample_events(&f);

	/* Also from the middle of the first. */
	assert_int_equal(trace_reader_rewind(f.reader, &err), 0);
	struct trace_event ev;
	for (int i = 0; i < 30; i++)
		assert_int_equal(trace_reader_next(f.reader, &ev, &err), 1);
	assert_int_equal(trace_reader_rewind(f.reader, &err), 0);
	file_read_events(&f);
	assert_int_equal(f.n, n);
	assert_false(f.truncated);

	uint64_t done, total;
	trace_reader_progress(f.reader, &done, &total);
	assert_true(done == total && total > 0);
	file_read_done(&f);
}

/* The file as it was committed: what version 1.0 wrote must be readable for ever. */
static void test_golden(void **state)
{
	struct file_read f = file_read_path(POLLUX_TESTS "/traces/good/small.plx");
	assert_int_equal(f.opened, 0);
	assert_int_equal(f.code, 0);
	assert_false(f.truncated);
	check_sample_tables(f.reader);
	check_sample_events(&f);
	file_read_done(&f);
}

static void test_long_strings_and_many_sites(void **state)
{
	enum { SITES = 1000 };
	char *longest = malloc(100001);
	static const char *sites[SITES];
	static uint64_t addrs[SITES];
	uint32_t index;

	memset(longest, 'x', 100000);
	longest[100000] = 0;
	for (int i = 0; i < SITES; i++) {
		sites[i] = longest;
		addrs[i] = i;
	}
	struct trace_writer *w = open_writer(1);
	struct trace_kind k = {
		.name = longest, .n_sites = SITES, .site_addrs = addrs, .sites = sites};
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(trace_writer_kind(w, &k, &index), 0);
		assert_int_equal(index, i);
	}
	close_writer(w);
	struct file_read f = read_whole();
	assert_int_equal(trace_reader_n_kinds(f.reader), 10);
	const struct trace_kind *got = trace_reader_kind(f.reader, 9);
	assert_int_equal(strlen(got->name), 65536);
	assert_true(got->n_sites > 50 && got->n_sites < SITES);
	assert_true(got->site_addrs[got->n_sites - 1] == got->n_sites - 1);
	file_read_done(&f);
	free(longest);
}

static void test_places(void **state)
{
	static const struct trace_place places[] = {
		{.process = 3,
		 .line = 4000000000u,
		 .flags = TRACE_PLACE_BRANCHES,
		 .function = "app::serve",
		 .file = "src/main.rs",
		 .awaits = "select!"},
		{.function = NULL},
	};
	struct trace_writer *w = open_writer(1);
	struct trace_event ev[2] = {
		{.time = 10, .type = TE_POLL_BEGIN, .task = 7},
		{.time = 20, .type = TE_POLL_END, .arg = TO_PENDING, .task = 7, .value = 2}};
	uint32_t index;

	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(trace_writer_place(w, &places[i], &index), 0);
		assert_int_equal(index, i);
	}
	assert_int_equal(trace_writer_events(w, 0, ev, 2), 0);
	close_writer(w);
	struct file_read f = read_whole();
	assert_null(trace_reader_place(f.reader, 2));
	const struct trace_place *got = trace_reader_place(f.reader, 0);
	assert_int_equal(got->process, 3);
	assert_int_equal(got->line, 4000000000u);
	assert_int_equal(got->flags, TRACE_PLACE_BRANCHES);
	assert_string_equal(got->function, "app::serve");
	assert_string_equal(got->file, "src/main.rs");
	assert_string_equal(got->awaits, "select!");
	assert_string_equal(trace_reader_place(f.reader, 1)->function, "");
	assert_null(trace_reader_place(f.reader, 2));
	assert_int_equal(f.n, 2);
	assert_int_equal(f.events[1].value, 2);
	file_read_done(&f);
}

/* The program's own place among those around one. How far it is looked for has a limit: a hostile
 * chain is as long as the file. */
static void test_own_place(void **state)
{
	struct trace_writer *w = open_writer(1);
	struct trace_event ev = {.time = 10, .type = TE_POLL_BEGIN, .task = 7};
	uint32_t index;

	for (uint32_t i = 0; i < 1000; i++) {
		const struct trace_place place = {
			.function = "f", .flags = i ? 0 : TRACE_PLACE_OWN, .outer = i};

		assert_int_equal(trace_writer_place(w, &place, &index), 0);
		assert_int_equal(index, i);
	}
	assert_int_equal(trace_writer_events(w, 0, &ev, 1), 0);
	close_writer(w);
	struct file_read f = read_whole();
	const struct trace_reader *r = f.reader;
	assert_ptr_equal(trace_reader_own_place(r, 100, NULL), trace_reader_place(r, 0));
	assert_ptr_equal(trace_reader_own_place(r, 999, NULL), trace_reader_place(r, 999));
	file_read_done(&f);
}

/* Metadata written in the middle of the file is there before the first event that follows it. */
static void test_metadata_comes_before_events(void **state)
{
	struct trace_writer *w = open_writer(1);
	for (uint32_t i = 0; i < 50; i++) {
		struct trace_kind k = {.name = "k"};
		uint32_t index;
		assert_int_equal(trace_writer_kind(w, &k, &index), 0);
		struct trace_event ev = {.time = i * 10, .type = TE_WAKE, .kind = index};
		assert_int_equal(trace_writer_events(w, 0, &ev, 1), 0);
		if (i % 7 == 0)
			assert_int_equal(trace_writer_round(w, i * 10), 0);
	}
	close_writer(w);

	struct error err = {0};
	struct trace_reader *r;
	struct trace_event ev;
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	assert_int_equal(trace_reader_n_kinds(r), 0);
	while (trace_reader_next(r, &ev, &err) > 0)
		assert_non_null(trace_reader_kind(r, ev.kind));
	trace_reader_free(r);
}

/* What the caller may see at an event. */
struct seen {
	struct trace_event ev;
	uint32_t n_kinds, n_threads, n_moments, n_frames, n_coverage;
};

/* All events of a file, and what is wrong with it (free both). */
static struct seen *see_all(const char *name, bool ahead, size_t *ret_n, int *ret_code,
			    char **ret_story)
{
	struct error err = {0};
	struct trace_reader *r;
	struct seen *all = NULL, one = {0};
	size_t n = 0, cap = 0;
	const char *story;

	*ret_code = trace_reader_open(name, &r, &err);
	*ret_n = 0;
	*ret_story = NULL;
	if (*ret_code < 0)
		return NULL;
	if (ahead)
		assert_int_equal(trace_reader_read_ahead(r), 0);
	while ((*ret_code = trace_reader_next(r, &one.ev, &err)) > 0) {
		one.n_kinds = trace_reader_n_kinds(r);
		one.n_threads = trace_reader_n_threads(r);
		one.n_moments = trace_reader_n_moments(r);
		one.n_frames = trace_reader_n_frames(r);
		one.n_coverage = trace_reader_n_coverage(r);
		if (n == cap) {
			cap = cap ? 2 * cap : 1024;
			all = realloc(all, cap * sizeof(*all));
			assert_non_null(all);
		}
		all[n++] = one;
	}
	assert_int_equal(trace_reader_next(r, &one.ev, &err), *ret_code);
	if (trace_reader_truncated(r, &story))
		*ret_story = strdup(story);
	trace_reader_free(r);
	*ret_n = n;
	return all;
}

static void check_ahead(const char *name)
{
	char *story, *story_ahead;
	size_t n, n_ahead;
	int code, code_ahead;
	struct seen *one = see_all(name, false, &n, &code, &story);
	struct seen *ahead = see_all(name, true, &n_ahead, &code_ahead, &story_ahead);

	assert_int_equal(code_ahead, code);
	assert_int_equal(n_ahead, n);
	if (n)
		assert_memory_equal(ahead, one, n * sizeof(*one));
	assert_string_equal(text(story_ahead), text(story));
	free(one);
	free(ahead);
	free(story);
	free(story_ahead);
}

/* Reading ahead changes nothing of what the caller sees, whatever the file is. */
static void test_reads_ahead(void **state)
{
	static const char *const folders[] = {POLLUX_TESTS "/traces/good",
					      POLLUX_TESTS "/traces/bad"};
	struct error err = {0};
	struct trace_event ev;
	struct trace_reader *r;
	unsigned n_files = 0;

	for (unsigned i = 0; i < 2; i++) {
		DIR *folder = opendir(folders[i]);
		assert_non_null(folder);
		for (struct dirent *e; (e = readdir(folder));) {
			char name[512];
			snprintf(name, sizeof(name), "%s/%s", folders[i], e->d_name);
			if (!strstr(e->d_name, ".plx"))
				continue;
			check_ahead(name);
			n_files++;
		}
		closedir(folder);
	}
	assert_true(n_files > 20);

	/* Metadata between the events, in some hundred lots. */
	struct trace_writer *w = open_writer(3);
	for (uint32_t i = 0; i < 300000; i++) {
		struct trace_kind k = {.name = "k"};
		uint32_t index = 0;
		if (i % 1000 == 0)
			assert_int_equal(trace_writer_kind(w, &k, &index), 0);
		ev = (struct trace_event){.time = i * 10,
					  .type = TE_WAKE,
					  .thread = i % 3,
					  .kind = i / 1000,
					  .task = i};
		assert_int_equal(trace_writer_events(w, i % 3, &ev, 1), 0);
		if (i % 3000 == 2999)
			assert_int_equal(trace_writer_round(w, i * 10), 0);
	}
	close_writer(w);
	check_ahead(path);

	/* It ends early, begins again, or only reads the tables while the thread is somewhere. */
	for (unsigned i = 0; i < 40; i++) {
		assert_int_equal(trace_reader_open(path, &r, &err), 0);
		assert_int_equal(trace_reader_read_ahead(r), 0);
		for (unsigned k = 0; k < i * 137; k++)
			assert_int_equal(trace_reader_next(r, &ev, &err), 1);
		if (i % 3) {
			assert_int_equal(trace_reader_rewind(r, &err), 0);
			if (i % 3 == 1)
				assert_int_equal(trace_reader_read_ahead(r), 0);
			for (unsigned k = 0; k < 2500; k++) {
				assert_int_equal(trace_reader_next(r, &ev, &err), 1);
				assert_int_equal(ev.task, k);
			}
			assert_int_equal(trace_reader_rewind(r, &err), 0);
			assert_int_equal(trace_reader_skip_events(r, &err), 0);
			assert_int_equal(trace_reader_n_kinds(r), 300);
		}
		trace_reader_free(r);
	}
}

/* ---- size ---- */

static void test_bytes_per_event(void **state)
{
	struct trace_event ev[64];
	struct model m;
	uint64_t n = 0, round = 0;

	model_init(&m, 8);
	struct trace_writer *w = open_writer(8);
	while (n < 1000000) {
		uint32_t t = model_thread(&m);
		if (m.now[t] > round) {
			if (round)
				assert_int_equal(trace_writer_round(w, round), 0);
			round = m.now[t] + 100000000;
		}
		size_t k = model_turn(&m, t, ev);
		assert_int_equal(trace_writer_events(w, t, ev, k), 0);
		n += k;
	}
	assert_int_equal(trace_writer_n_events(w), n);
	assert_int_equal(trace_writer_round(w, round), 0);
	double bytes = (double)trace_writer_bytes(w) / (double)n;
	print_message("%.2f bytes an event\n", bytes);
	assert_true(bytes <= 2.8);
	close_writer(w);
}

/* ---- the file system ---- */

static void test_private_mode(void **state)
{
	struct stat st;
	mode_t old = umask(0);

	unlink(path);
	close_writer(open_writer(0));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);

	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(truncate(path, 100000), 0);
	close_writer(open_writer(0));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_true(st.st_size < 200);
	umask(old);
}

static void test_refuses_what_is_no_file_of_ours(void **state)
{
	char link_path[80];
	struct error err = {0};
	struct trace_writer *w = NULL;
	struct buf before = file_load(path);

	snprintf(link_path, sizeof(link_path), "%s/link", dir);
	assert_int_equal(symlink(path, link_path), 0);
	assert_int_equal(trace_writer_open(link_path, &w, &err), -ELOOP);
	assert_non_null(strstr(err.text, "symbolic link"));
	unlink(link_path);
	struct buf after = file_load(path);
	assert_int_equal(before.len, after.len);
	buf_done(&before);
	buf_done(&after);

	assert_true(trace_writer_open(dir, &w, &err) < 0);
	assert_true(trace_writer_open("/dev/full", &w, &err) < 0);
	assert_true(trace_writer_open("/nonexistent/x.plx", &w, &err) < 0);
	assert_null(w);

	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_int_equal(trace_writer_open(path, &w, &err), -EPERM);
		assert_non_null(strstr(err.text, "another user"));
		assert_int_equal(chown(path, 0, 0), 0);
	}
}

/* The file takes its name with the first events; or when it is whole; or, given up, not at all. */
static void test_when_the_file_gets_its_name(void **state)
{
	const struct trace_thread t = {.tid = 9};
	struct trace_event ev = {.time = 10, .type = TE_UNPARK, .kind = TRACE_KIND_NONE};
	struct error err = {0};
	uint32_t index;

	for (unsigned whole = 0; whole < 2; whole++) {
		for (unsigned discard = 0; discard < 2; discard++) {
			struct trace_writer *w = NULL;

			unlink(path);
			assert_int_equal(trace_writer_open(path, &w, &err), 0);
			if (whole)
				trace_writer_whole(w);
			assert_int_equal(trace_writer_thread(w, &t, &index), 0);
			assert_int_equal(trace_writer_round(w, 5), 0);
			assert_int_equal(access(path, F_OK), -1);
			assert_int_equal(trace_writer_events(w, 0, &ev, 1), 0);
			assert_int_equal(trace_writer_round(w, 11), 0);
			assert_int_equal(access(path, F_OK), whole ? -1 : 0);
			if (discard)
				trace_writer_discard(w);
			else
				assert_int_equal(trace_writer_close(w, &err), 0);
			assert_int_equal(access(path, F_OK), whole && discard ? -1 : 0);
			if (whole && discard)
				continue;
			struct file_read f = file_read_path(path);
			assert_int_equal(f.code, 0);
			assert_int_equal(f.n, 1);
			assert_int_equal(f.truncated, discard);
			file_read_done(&f);
		}
	}
}

/* Something of another user has taken the name meanwhile: an error that sticks. */
static void test_name_is_taken(void **state)
{
	const struct trace_thread t = {.tid = 9};
	struct trace_event ev = {.time = 10, .type = TE_UNPARK, .kind = TRACE_KIND_NONE};
	struct trace_writer *w = open_writer(0);
	struct error err = {0};
	uint32_t index;

	unlink(path);
	assert_int_equal(symlink("elsewhere", path), 0);
	assert_int_equal(trace_writer_thread(w, &t, &index), 0);
	assert_int_equal(trace_writer_events(w, 0, &ev, 1), 0);
	assert_int_equal(trace_writer_round(w, 11), -ELOOP);
	assert_int_equal(trace_writer_round(w, 12), -ELOOP);
	assert_int_equal(trace_writer_close(w, &err), -ELOOP);
	assert_non_null(strstr(err.text, "symbolic link"));
	unlink(path);
	close_writer(open_writer(0));
}

static void test_reader_refuses(void **state)
{
	struct error err = {0};
	struct trace_reader *r = NULL;
	char missing[80];

	snprintf(missing, sizeof(missing), "%s/missing.plx", dir);
	assert_int_equal(trace_reader_open(missing, &r, &err), -ENOENT);
	assert_non_null(strstr(err.text, "missing.plx"));
	assert_int_equal(trace_reader_open(dir, &r, &err), -EISDIR);
	assert_null(r);
}

/* A full disk, played by a limit on the file's size: an error that sticks, and a readable file. */
static void test_disk_full(void **state)
{
	static struct trace_event ev[5000];
	struct error err = {0};
	struct rlimit old, limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_IGN);
	limit = old;
	limit.rlim_cur = 100000;
	struct trace_writer *w = open_writer(1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	int r = 0;
	for (uint64_t lot = 0; lot < 50 && r == 0; lot++) {
		for (int i = 0; i < 5000; i++)
			ev[i] = (struct trace_event){.time = lot * 5000 + i, .value = rnd()};
		r = trace_writer_events(w, 0, ev, 5000);
		if (r == 0)
			r = trace_writer_round(w, lot * 5000);
	}
	assert_int_equal(r, -EFBIG);
	assert_int_equal(trace_writer_round(w, 0), -EFBIG);
	assert_int_equal(trace_writer_events(w, 0, ev, 1), -EFBIG);
	uint64_t bytes = trace_writer_bytes(w);
	assert_int_equal(trace_writer_close(w, &err), -EFBIG);
	assert_non_null(strstr(err.text, "cannot write the trace: File too large"));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);

	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_true((uint64_t)st.st_size == bytes);
	struct file_read f = file_read_path(path);
	assert_int_equal(f.code, 0);
	assert_true(f.n > 0 && f.n % 5000 == 0);
	assert_true(f.truncated);
	assert_non_null(strstr(f.story, "without an end mark"));
	file_read_done(&f);
}

/* From one process to another through a named pipe; such a trace can be read once. */
static void test_pipe(void **state)
{
	struct error err = {0};
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(sample_write(path, &err) < 0);
	struct file_read f = read_whole();
	check_sample_tables(f.reader);
	check_sample_events(&f);
	assert_int_equal(trace_reader_rewind(f.reader, &err), -ESPIPE);
	file_read_done(&f);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	unlink(path);
}

/* A writer killed at any moment leaves what was complete. */
static void test_killed_writer(void **state)
{
	for (int i = 0; i < 20; i++) {
		unlink(path);
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			struct trace_event ev[64];
			struct model m;
			struct trace_writer *w = open_writer(2);
			model_init(&m, 2);
			for (;;) {
				for (int k = 0; k < 200; k++) {
					uint32_t t = model_thread(&m);
					trace_writer_events(w, t, ev, model_turn(&m, t, ev));
				}
				trace_writer_round(w, m.now[0]);
			}
		}
		usleep((useconds_t)(20000 + rnd() % 20000));
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		struct file_read f = file_read_path(path);
		/* Under load the child may not have come to its first write. */
		if (f.opened == 0) {
			assert_int_equal(f.code, 0);
			assert_true(f.truncated);
			struct trace_event ev[64];
			struct model m;
			model_init(&m, 2);
			uint64_t now = 0;
			for (size_t e = 0; e < f.n; e++) {
				assert_true(f.events[e].time >= now);
				now = f.events[e].time;
			}
			size_t k = model_turn(&m, 0, ev);
			if (f.n >= 2 * k)
				assert_memory_equal(f.events, ev, sizeof(*ev));
		}
		file_read_done(&f);
	}
}

static void test_bad_calls(void **state)
{
	struct trace_event ev = {0};
	struct trace_writer *w = open_writer(2);
	assert_int_equal(trace_writer_events(w, 2, &ev, 1), -EINVAL);
	assert_int_equal(trace_writer_thread_name(w, 2, "x"), -EINVAL);
	assert_int_equal(trace_writer_events(w, 1, &ev, 0), 0);
	close_writer(w);
}

/* Which item a row of the coverage is goes with it, the words for it as they are. */
static void test_coverage_items(void **state)
{
	struct trace_writer *w = open_writer(1);

	for (uint32_t i = 0; i < TRACE_COVER_N; i++) {
		const struct trace_coverage row = {.cover = i, .item = "words", .seen = i};

		assert_int_equal(trace_writer_coverage(w, &row), 0);
		assert_non_null(trace_cover_name(i));
	}
	close_writer(w);
	struct file_read f = read_whole();
	assert_int_equal(trace_reader_n_coverage(f.reader), TRACE_COVER_N);
	for (uint32_t i = 0; i < TRACE_COVER_N; i++)
		assert_int_equal(trace_reader_coverage(f.reader, i)->cover, i);
	file_read_done(&f);
	assert_string_equal(trace_cover_name(TRACE_COVER_PANICS), "panics");
	assert_string_equal(trace_cover_name(UINT32_MAX), "other");
}

static void test_names(void **state)
{
	assert_string_equal(trace_event_type_name(TE_POLL_BEGIN), "poll_begin");
	assert_string_equal(trace_outcome_name(TO_CANCELLED), "cancelled");
	assert_string_equal(trace_wake_name(TW_SCHEDULED), "scheduled");
	assert_string_equal(trace_call_name(TB_EPOLL_WAIT), "epoll_wait");
	assert_string_equal(trace_role_name(TR_BLOCKING), "blocking");
	assert_string_equal(trace_role_name(TR_N), "?");
	assert_string_equal(trace_call_name(UINT32_MAX), "?");
	for (unsigned i = 0; i < TE_N_TYPES; i++)
		assert_string_not_equal(trace_event_type_name(i), "?");
	for (unsigned i = 0; i < TB_N; i++)
		assert_string_not_equal(trace_call_name(i), "?");
}

/* ---- frames, stacks, streams ---- */

static void test_stacks(void **state)
{
	struct trace_writer *w = open_writer(1);
	const struct trace_frame frames[] = {
		{.addr = 0x10, .object = "/bin/app", .function = "main", .file = "m.rs", .line = 3},
		{.addr = 0x20, .object = "[vdso]", .function = ""},
	};
	const struct trace_stack stacks[] = {
		{.frame = 0, .flags = TRACE_STACK_CUT}, {.parent = 1, .frame = 1}, {.frame = 9}};
	uint32_t index;
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(trace_writer_frame(w, &frames[i], &index), 0);
		assert_int_equal(index, i);
	}
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(trace_writer_stack(w, &stacks[i], &index), 0);
		assert_int_equal(index, i);
	}
	struct trace_event ev = {
		.time = 5, .type = TE_SAMPLE, .kind = TRACE_KIND_NONE, .task = 1000, .value = 2};
	assert_int_equal(trace_writer_events(w, 0, &ev, 1), 0);
	close_writer(w);

	struct trace_reader *r;
	struct error err = {0};
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	assert_int_equal(trace_reader_next(r, &ev, &err), 1);
	assert_int_equal(ev.task, 1000);
	assert_int_equal(trace_reader_n_frames(r), 2);
	assert_non_null(trace_reader_stack(r, 2));
	assert_null(trace_reader_stack(r, 3));
	const struct trace_stack *inner = trace_reader_stack(r, (uint32_t)ev.value - 1);
	assert_int_equal(inner->frame, 1);
	const struct trace_stack *outer = trace_reader_stack(r, inner->parent - 1);
	assert_int_equal(outer->flags, TRACE_STACK_CUT);
	assert_int_equal(outer->parent, 0);
	const struct trace_frame *f = trace_reader_frame(r, outer->frame);
	assert_string_equal(f->function, "main");
	assert_string_equal(f->file, "m.rs");
	assert_int_equal(f->line, 3);
	assert_string_equal(trace_reader_frame(r, 1)->object, "[vdso]");
	assert_null(trace_reader_frame(r, trace_reader_stack(r, 2)->frame)); /* dangles */
	trace_reader_free(r);
}

/* How far the clock steps; files before 1.2 don't say. */
static void test_clock_step(void **state)
{
	struct trace_process process = sample_process;
	struct trace_writer *w = open_writer(1);
	struct trace_reader *r;
	struct trace_event ev;
	struct error err = {0};
	uint32_t index;

	(void)state;
	process.clock_step_ps = 41667;
	assert_int_equal(trace_writer_process(w, &process, &index), 0);
	close_writer(w);
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	assert_int_equal(trace_reader_next(r, &ev, &err), 0);
	assert_int_equal(trace_reader_process(r, index)->clock_step_ps, 41667);
	trace_reader_free(r);
}

/* Events of a thread's other sources come with its first record's index. */
static void test_streams(void **state)
{
	struct trace_writer *w = open_writer(2);
	const struct trace_thread more = {.tid = 101, .stream_of = 2};
	struct trace_event ev = {.time = 7, .thread = 1, .type = TE_PARK, .kind = TRACE_KIND_NONE};
	uint32_t index;
	assert_int_equal(trace_writer_thread(w, &more, &index), 0);
	assert_int_equal(trace_writer_events(w, 1, &ev, 1), 0);
	ev = (struct trace_event){
		.time = 6, .thread = 2, .type = TE_SYSCALL, .kind = TRACE_KIND_NONE};
	assert_int_equal(trace_writer_events(w, 2, &ev, 1), 0);
	close_writer(w);

	struct trace_reader *r;
	struct error err = {0};
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	for (int pass = 0; pass < 2; pass++) {
		assert_int_equal(trace_reader_next(r, &ev, &err), 1);
		assert_int_equal(ev.type, TE_SYSCALL);
		assert_int_equal(ev.thread, 1);
		assert_int_equal(ev.stream, 3);
		assert_int_equal(trace_reader_next(r, &ev, &err), 1);
		assert_int_equal(ev.type, TE_PARK);
		assert_int_equal(ev.thread, 1);
		assert_int_equal(ev.stream, 0);
		assert_int_equal(trace_reader_next(r, &ev, &err), 0);
		assert_int_equal(trace_reader_rewind(r, &err), 0);
	}
	trace_reader_free(r);
}

/* ---- a reader in the same process ---- */

/* What was written so far can be read before the writer goes on. */
static void test_tee(void **state)
{
	int fds[2], second[2];
	struct trace_writer *w = NULL;
	struct trace_reader *r;
	struct trace_event ev = {.time = 10, .type = TE_UNPARK, .kind = TRACE_KIND_NONE};
	const struct trace_thread t = {.tid = 9, .name = "t"};
	struct error err = {0};
	uint32_t index;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(pipe(second), 0);
	assert_int_equal(trace_writer_open(path, &w, &err), 0);
	assert_int_equal(trace_writer_tee(w, fds[1]), 0);
	assert_int_equal(trace_writer_tee(w, second[1]), -EINVAL); /* one is enough */
	close(second[0]);
	assert_int_equal(trace_reader_open_fd(fds[0], &r, &err), 0);
	assert_int_equal(trace_writer_thread(w, &t, &index), 0);
	for (uint64_t i = 0; i < 3; i++) {
		ev.time = 10 + i;
		assert_int_equal(trace_writer_events(w, 0, &ev, 1), 0);
		assert_int_equal(trace_writer_round(w, 11 + i), 0);
	}
	/* what is older than the round before is given out at once: no end was written yet */
	assert_true(trace_reader_may_wait(r));
	assert_int_equal(trace_reader_next(r, &ev, &err), 1);
	assert_int_equal(ev.time, 10);
	assert_int_equal(trace_reader_next(r, &ev, &err), 1);
	assert_int_equal(ev.time, 11);
	assert_string_equal(trace_reader_thread(r, 0)->name, "t");
	close_writer(w);
	assert_int_equal(trace_reader_next(r, &ev, &err), 1);
	assert_int_equal(trace_reader_next(r, &ev, &err), 0);
	trace_reader_free(r);

	/* the file is whole, too */
	struct file_read f = read_whole();
	assert_int_equal(f.n, 3);
	file_read_done(&f);
}

/* A reader that goes away ends the copy, not the recording. */
static void test_tee_reader_gone(void **state)
{
	int fds[2];
	struct trace_writer *w = NULL;
	struct trace_event ev = {.time = 10, .type = TE_UNPARK, .kind = TRACE_KIND_NONE};
	const struct trace_thread t = {.tid = 9};
	struct error err = {0};
	uint32_t index;
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(trace_writer_open(path, &w, &err), 0);
	assert_int_equal(trace_writer_tee(w, fds[1]), 0);
	close(fds[0]);
	assert_int_equal(trace_writer_thread(w, &t, &index), 0);
	assert_int_equal(trace_writer_events(w, 0, &ev, 1), 0);
	assert_int_equal(trace_writer_round(w, 11), 0);
	close_writer(w);
	struct file_read f = read_whole();
	assert_int_equal(f.n, 1);
	file_read_done(&f);

	/* without a file that is the end */
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(trace_writer_open_fd(fds[1], &w, &err), 0);
	close(fds[0]);
	assert_int_equal(trace_writer_thread(w, &t, &index), 0);
	assert_int_equal(trace_writer_round(w, 11), -EPIPE);
	assert_int_equal(trace_writer_close(w, NULL), -EPIPE);
	signal(SIGPIPE, before);

	struct trace_reader *r;
	assert_int_equal(trace_reader_open_fd(open("/dev/null", O_RDONLY), &r, &err), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_nested_polls),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_too_late),
		cmocka_unit_test(test_memory_is_bounded),
		cmocka_unit_test(test_sample),
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_long_strings_and_many_sites),
		cmocka_unit_test(test_own_place),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_metadata_comes_before_events),
		cmocka_unit_test(test_reads_ahead),
		cmocka_unit_test(test_bytes_per_event),
		cmocka_unit_test(test_private_mode),
		cmocka_unit_test(test_refuses_what_is_no_file_of_ours),
		cmocka_unit_test(test_when_the_file_gets_its_name),
		cmocka_unit_test(test_name_is_taken),
		cmocka_unit_test(test_reader_refuses),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_killed_writer),
		cmocka_unit_test(test_bad_calls),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_coverage_items),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_ties),
		cmocka_unit_test(test_clock_step),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_tee),
		cmocka_unit_test(test_tee_reader_gone),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
