/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A small made-up recording through the writer, the reader and the report, compared with golden
 * files (the folder is the first argument). POLLUX_BLESS=1 shows the difference and takes the new
 * text.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "report/data.h"
#include "base/text_fit.h"
#include "report/table.h"
#include "trace/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull
#define US 1000ull
#define START (5000 * MS)

static const char *golden_dir;
static char trace_path[] = "/tmp/test_report.XXXXXX";

/* ---- the recording ---- */

enum { K_CONN, K_HASH, K_JOB, K_WORKER, K_ROOT, K_ODD, K_SPIN, K_ORDER };

static const char *const conn_sites[] = {"shop::serve (src/serve.rs:41)",
					 "shop::retry (src/serve.rs:88)"};
static const uint64_t conn_addrs[] = {0x1000, 0x2000};

static const struct trace_kind kinds[] = {
	[K_CONN] = {.name = "shop::serve::handle_connection",
		    .full_name = "shop::serve::handle_connection",
		    .scheduler = "multi_thread",
		    .n_sites = 2,
		    .sites = conn_sites,
		    .site_addrs = conn_addrs},
	[K_HASH] = {.name = "shop::auth::hash_password<shop::auth::Argon2<shop::auth::Params>, "
			    "core::marker::PhantomData<shop::auth::Pepper>>",
		    .full_name = "hash",
		    .scheduler = "multi_thread"},
	[K_JOB] = {.role = TR_BLOCKING,
		   .name = "shop::thumbnails::shrink",
		   .full_name = "shrink",
		   .scheduler = "blocking"},
	[K_WORKER] = {.role = TR_WORKER, .name = "tokio worker", .full_name = "Launch::launch"},
	[K_ROOT] = {.role = TR_ROOT,
		    .name = "block_on (multi_thread)",
		    .scheduler = "multi_thread"},
	[K_ODD] = {.name = "b\x1b[31mad\xff::日本語::task", .full_name = "bad"},
	[K_SPIN] = {.name = "shop::metrics::spin", .full_name = "shop::metrics::spin"},
	[K_ORDER] = {.role = TR_FUTURE,
		     .name = "shop::order",
		     .full_name = "shop::order",
		     .flags = TRACE_KIND_HANDLER},
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Events of one thread are collected, then written in one go. */
struct script {
	struct trace_event ev[16384];
	size_t n;
	uint32_t thread;
};

static void at(struct script *s, uint64_t time_ns, unsigned type, unsigned arg, uint32_t kind,
	       uint64_t task, uint64_t value)
{
	assert_true(s->n < sizeof(s->ev) / sizeof(s->ev[0]));
	s->ev[s->n++] = (struct trace_event){
		.time = START + time_ns,
		.thread = s->thread,
		.type = type,
		.arg = arg,
		.kind = kind,
		.task = task,
		.value = value,
	};
}

static void flush(struct script *s, struct trace_writer *w)
{
	assert_int_equal(trace_writer_events(w, s->thread, s->ev, s->n), 0);
	s->n = 0;
	s->thread++;
}

static void script_main(struct script *s)
{
	at(s, 0, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
	at(s, 10 * US, TE_SPAWN, 0, K_WORKER, 1, 0);
	at(s, 20 * US, TE_ROOT_ENTER, 0, K_ROOT, 0, 0);
	for (unsigned i = 0; i < 20; i++)
		at(s, 30 * US + i * US, TE_SPAWN, 0, K_CONN, 10 + i, 0);
	at(s, 60 * US, TE_SPAWN, 0, K_HASH, 40, 0);
	at(s, 61 * US, TE_SPAWN, 0, K_JOB, 41, 0);
	at(s, 62 * US, TE_SPAWN, 0, K_ODD, 42, 0);
	at(s, 63 * US, TE_SPAWN, 0, K_SPIN, 43, 0);
	at(s, 64 * US, TE_SPAWN, 0, K_CONN, 99, 0); /* never polled */
	at(s, 100 * US, TE_PARK, TB_FUTEX, TRACE_KIND_NONE, 0, 0);
	at(s, 900 * MS, TE_UNPARK, TB_FUTEX, TRACE_KIND_NONE, 0, 0);
	at(s, 901 * MS, TE_PARK, TB_FUTEX, TRACE_KIND_NONE, 0, 0);
}

/* Connections come and go, then a hash keeps the worker for 80 ms, then a task sleeps in a poll.
 */
static void script_worker(struct script *s)
{
	at(s, 50 * US, TE_POLL_BEGIN, 0, K_WORKER, 1, 0);
	uint64_t t = 200 * US;
	for (unsigned i = 0; i < 20; i++, t += 40 * US) {
		at(s, t, TE_POLL_BEGIN, 0, K_CONN, 10 + i, 0);
		/* one in four at an unknown place */
		at(s, t + (10 + i) * US, TE_POLL_END, TO_PENDING, K_CONN, 10 + i,
		   i % 4 == 3 ? 0 : 1 + i % 2);
	}
	at(s, t, TE_PARK, TB_EPOLL_WAIT, TRACE_KIND_NONE, 0, 0);
	t = 20 * MS;
	at(s, t, TE_UNPARK, TB_EPOLL_WAIT, TRACE_KIND_NONE, 0, 0);
	for (unsigned i = 0; i < 20; i++)
		at(s, t + i * US, TE_WAKE, TW_SCHEDULED, K_CONN, 10 + i, 0);
	t += 100 * US;
	at(s, t, TE_POLL_BEGIN, 0, K_HASH, 40, 0);
	t += 80 * MS;
	at(s, t, TE_POLL_END, TO_READY, K_HASH, 40, 0);
	at(s, t, TE_DROP, 0, K_HASH, 40, 0);
	for (unsigned i = 0; i < 18; i++, t += 50 * US) {
		unsigned outcome = i == 3 ? TO_PANICKED : i == 4 ? TO_CANCELLED : TO_READY;
		at(s, t, TE_POLL_BEGIN, 0, K_CONN, 10 + i, 0);
		if (i == 7) {
			t += 30 * MS;
			at(s, t, TE_BLOCK, TB_NANOSLEEP, TRACE_KIND_NONE, 0, 30 * MS - 10 * US);
			t += 2 * MS;
			at(s, t, TE_BLOCK, TB_READ, TRACE_KIND_NONE, 0, 1 * MS);
		}
		at(s, t + 20 * US, TE_POLL_END, outcome, K_CONN, 10 + i, 0);
		at(s, t + 21 * US, TE_DROP, 0, K_CONN, 10 + i, 0);
	}
	at(s, t, TE_POLL_BEGIN, 0, K_ODD, 42, 0);
	at(s, t + 5 * US, TE_POLL_END, TO_PENDING, K_ODD, 42, 0);
	at(s, 300 * MS, TE_PARK, TB_EPOLL_WAIT, TRACE_KIND_NONE, 0, 0);
	at(s, 310 * MS, TE_LOST, 0, TRACE_KIND_NONE, 0, 1234);
	for (unsigned i = 0; i < 2000; i++) {
		t = 400 * MS + i * 2 * US;
		at(s, t, TE_POLL_BEGIN, 0, K_SPIN, 43, 0);
		at(s, t + 500, TE_WAKE, TW_RUNNING, K_SPIN, 43, 0);
		at(s, t + 1 * US, TE_POLL_END, TO_PENDING, K_SPIN, 43, 0);
	}
	at(s, 500 * MS, TE_PARK, TB_EPOLL_WAIT, TRACE_KIND_NONE, 0, 0);
	at(s, 880 * MS, TE_UNPARK, TB_EPOLL_WAIT, TRACE_KIND_NONE, 0, 0);
	at(s, 890 * MS, TE_ROOT_WAKE, 0, K_ROOT, 0x7000, 0);
	at(s, 891 * MS, TE_PARK, TB_EPOLL_WAIT, TRACE_KIND_NONE, 0, 0);
}

static void script_blocking(struct script *s)
{
	at(s, 2 * MS, TE_POLL_BEGIN, 0, K_JOB, 41, 0);
	at(s, 600 * MS, TE_BLOCK, TB_READ, TRACE_KIND_NONE, 0, 500 * MS);
	at(s, 700 * MS, TE_POLL_END, TO_READY, K_JOB, 41, 0);
	at(s, 700 * MS, TE_DROP, 0, K_JOB, 41, 0);
}

static void write_trace(void)
{
	int fd = mkstemp(trace_path);
	assert_true(fd >= 0);
	close(fd);
	struct trace_writer *w;
	struct error err = {0};
	assert_int_equal(trace_writer_open(trace_path, &w, &err), 0);
	uint32_t index;
	const struct trace_process process = {.pid = 4242,
					      .exe = "/srv/shop/bin/shop",
					      .cmdline = "shop --port 80",
					      .start_ns = START};
	const struct trace_runtime runtime = {.name = "tokio",
					      .version = "1.38.0",
					      .object = "/srv/shop/bin/shop",
					      .verified = "symbols"};
	assert_int_equal(trace_writer_process(w, &process, &index), 0);
	assert_int_equal(trace_writer_runtime(w, &runtime, &index), 0);
	for (size_t i = 0; i < N_KINDS; i++)
		assert_int_equal(trace_writer_kind(w, &kinds[i], &index), 0);
	static const char *const names[] = {"shop", "tokio-runtime-w", "tokio-runtime-w"};
	for (unsigned i = 0; i < 3; i++) {
		const struct trace_thread thread = {.tid = 4242 + i, .name = names[i]};
		assert_int_equal(trace_writer_thread(w, &thread, &index), 0);
	}
	static const struct trace_place places[] = {
		{.function = "shop::conn::serve",
		 .file = "src/conn.rs",
		 .line = 41,
		 .awaits = "tokio::net::tcp::listener::accept"},
		{.function = "tokio::io::util::copy",
		 .file = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/"
			 "tokio-1.38.0/src/io/util/copy.rs",
		 .line = 7,
		 .flags = TRACE_PLACE_BRANCHES,
		 .awaits = "select!"},
	};
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(trace_writer_place(w, &places[i], &index), 0);
	struct script *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	script_main(s);
	flush(s, w);
	script_worker(s);
	flush(s, w);
	script_blocking(s);
	flush(s, w);
	free(s);
	const struct trace_coverage coverage[] = {
		{.item = "task vtables", .seen = 6, .total = 6, .note = ""},
		{.item = "spawn sites",
		 .seen = 7,
		 .total = 8,
		 .note = "1 is too short to be patched"},
		{.item = "patched spawn sites",
		 .cover = TRACE_COVER_SPAWNS,
		 .seen = 7,
		 .total = 8,
		 .note = "tasks of the others are seen later"},
	};
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(trace_writer_coverage(w, &coverage[i]), 0);
	const struct trace_cost cost = {.stop_ns = 212 * US,
					.attach_ns = 31 * MS,
					.recorder_cpu_ns = 12 * MS,
					.event_cost_ps = 23400,
					.end_ns = START + 1000 * MS,
					.end_reason = "duration",
					.analysis_cpu_ns = 45 * MS};
	assert_int_equal(trace_writer_cost(w, &cost), 0);
	const struct trace_cpu cpu = {.n_threads = 3,
				      .cpu_ns = 130 * MS,
				      .run_delay_ns = 890 * MS,
				      .n_periods = 10,
				      .n_throttled = 9,
				      .throttled_ns = 880 * MS,
				      .quota_ns = 15 * MS,
				      .period_ns = 100 * MS,
				      .cgroup = "/sys/fs/cgroup/shop"};
	assert_int_equal(trace_writer_cpu(w, &cpu), 0);
	assert_int_equal(trace_writer_close(w, &err), 0);
}

/* ---- golden files ---- */

/* Opens a new trace; `path` is a template of mkstemp(), and its name from then on. */
static struct trace_writer *new_trace(char *path)
{
	struct trace_writer *w;
	struct error err = {0};
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(trace_writer_open(path, &w, &err), 0);
	return w;
}

static char *slurp(const char *path)
{
	FILE *f = fopen(path, "r");
	if (!f)
		return strdup("");
	struct buf b = BUF_INIT;
	char part[4096];
	size_t n;
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_add(&b, part, n);
	fclose(f);
	char *text = buf_steal(&b);
	return text ? text : strdup("");
}

static void compare(const char *name, const struct buf *got)
{
	assert_false(buf_failed(got));
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", golden_dir, name);
	char *want = slurp(path);
	bool same = !strcmp(want, got->data);
	free(want);
	if (same)
		return;
	char fresh[] = "/tmp/test_report_got.XXXXXX";
	int fd = mkstemp(fresh);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, got->data, got->len), (ssize_t)got->len);
	close(fd);
	char command[9000];
	snprintf(command, sizeof(command), "diff -u '%s' '%s' >&2", path, fresh);
	bool differs = system(command) != 0;
	unlink(fresh);
	if (!getenv("POLLUX_BLESS")) {
		if (differs)
			fail_msg("%s differs; POLLUX_BLESS=1 takes the new text", name);
		fail_msg("%s can't be read", name);
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(got->data, 1, got->len, f), got->len);
	assert_int_equal(fclose(f), 0);
}

static struct report *make(const struct report_options *opt, struct trace_reader **ret_reader)
{
	struct error err = {0};
	struct report *rep = NULL;
	assert_int_equal(trace_reader_open(trace_path, ret_reader, &err), 0);
	int r = report_make(*ret_reader, opt, &rep, &err);
	if (r < 0)
		fail_msg("report_make: %s", err.text);
	return rep;
}

static void check(const char *name, const struct report_options *opt, bool json)
{
	struct trace_reader *reader;
	struct report *rep = make(opt, &reader);
	struct buf out = BUF_INIT;
	if (json)
		report_json(rep, &out);
	else
		report_text(rep, &out);
	compare(name, &out);
	buf_done(&out);
	report_free(rep);
	trace_reader_free(reader);
}

static void test_text(void **state)
{
	check("wide.txt", &(struct report_options){0}, false);
	check("80.txt", &(struct report_options){.width = 80}, false);
	check("120.txt", &(struct report_options){.width = 120, .n_families = 3, .n_longest = 4},
	      false);
	check("color.txt", &(struct report_options){.width = 100, .color = true, .sort = RS_NAME},
	      false);
}

static void test_json(void **state)
{
	check("all.json", &(struct report_options){0}, true);
}

static void test_window(void **state)
{
	const char *const conn[] = {"handle_conn", NULL};
	const struct report_options opt = {
		.filter = {.from_ns = 20 * MS, .to_ns = 110 * MS, .families = conn},
		.width = 100,
	};
	check("window.txt", &opt, false);
	check("window.json", &opt, true);
}

static void test_one_task(void **state)
{
	const char *const tasks[] = {"43", NULL};
	check("task.txt", &(struct report_options){.filter.tasks = tasks, .width = 100}, false);
}

static void test_one_thread(void **state)
{
	const char *const threads[] = {"4244", NULL};
	check("thread.txt", &(struct report_options){.filter.threads = threads, .width = 100},
	      false);
}

/* Two windows that meet see together what one sees that spans them. */
static void test_windows_add_up(void **state)
{
	const uint64_t cuts[] = {50 * US,  300 * US, 100 * MS, 115 * MS,
				 401 * MS, 650 * MS, 999 * MS};
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		const struct report_options parts[] = {
			{.width = 0},
			{.filter.to_ns = cuts[i]},
			{.filter.from_ns = cuts[i]},
		};
		uint64_t busy[3] = {0}, parked[3] = {0}, blocked[3] = {0}, lost[3] = {0}, length[3];
		for (unsigned k = 0; k < 3; k++) {
			struct trace_reader *reader;
			struct report *rep = make(&parts[k], &reader);
			for (size_t t = 0; t < rep->n_threads; t++) {
				busy[k] += rep->threads[t].busy_ns;
				parked[k] += rep->threads[t].parked_ns;
				blocked[k] += rep->threads[t].blocked_ns;
			}
			lost[k] = rep->n_lost;
			length[k] = rep->end_ns - rep->begin_ns;
			report_free(rep);
			trace_reader_free(reader);
		}
		assert_int_equal(busy[0], busy[1] + busy[2]);
		assert_int_equal(parked[0], parked[1] + parked[2]);
		assert_int_equal(lost[0], lost[1] + lost[2]);
		assert_int_equal(length[0], length[1] + length[2]);
		assert_int_equal(blocked[0], blocked[1] + blocked[2]);
	}
}

/* No line is longer than the terminal, at any width that one has. */
static void test_fits(void **state)
{
	for (unsigned width = 80; width <= 200; width += 7) {
		struct trace_reader *reader;
		struct report *rep = make(&(struct report_options){.width = width}, &reader);
		struct buf out = BUF_INIT;
		report_text(rep, &out);
		for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n")) {
			assert_true(text_width(line) <= width);
			assert_null(strchr(line, 27));
		}
		buf_done(&out);
		report_free(rep);
		trace_reader_free(reader);
	}
}

static void test_sort_words(void **state)
{
	enum report_sort sort;
	assert_int_equal(report_parse_sort("delay", &sort), 0);
	assert_int_equal(sort, RS_DELAY);
	assert_int_equal(report_parse_sort("name", &sort), 0);
	assert_int_equal(sort, RS_NAME);
	assert_true(report_parse_sort("", &sort) < 0);
	assert_true(report_parse_sort("delays", &sort) < 0);
}

/* Kinds of one name get the parameter that distinguishes most of them, of those the shortest. */
static void use_all_kinds(struct trace_reader *r)
{
	for (uint32_t i = 0; i < trace_reader_n_kinds(r); i++)
		assert_true(trace_reader_use_kind(r, i));
}

static void test_labels(void **state)
{
#define HANDLER "web::{impl#3}::call::{async_block#0}"
	static const struct {
		const char *name, *full, *label;
	} rows[] = {
		{"web::call",
		 HANDLER "<fn() -> app::a::{async_fn_env#0}, app::a::{async_fn_env#0}, S>",
		 "web::call<app::a>"},
		{"web::call",
		 HANDLER
		 "<fn(u32, [u8; 4]) -> app::b::{async_fn_env#0}, app::b::{async_fn_env#0}, S>",
		 "web::call<app::b>"},
		{"web::call",
		 HANDLER "<fn(u64) -> app::c::{async_fn_env#0}, "
			 "app::c::{async_fn#0}::{closure_env#1}<u8, u8>, T, more>",
		 "web::call<app::c<u8, u8>>"},
		{"web::call", "web::call", "web::call"},
		{"web::call", "pin::Pin<web::call::{async_fn#0}>", "web::call (pin::Pin)"},
		{"serve<..>", "serve::{async_fn#0}<S, app::Router>", "serve<app::Router>"},
		{"serve<..>", "serve<S, app::Other>", "serve<app::Other>"},
		{"alone<..>", "alone<S>", "alone<..>"},
		{"x::impls", "x::{impl#1}::impls<(), fn() -> a, X>", "x::impls<fn() -> a>"},
		{"x::impls", "x::{impl#1}::impls<(), fn() -> b, X>", "x::impls<fn() -> b>"},
		{"x::impls", "x::{impl#2}::impls<a, ()>", "x::impls<a>"},
		{"x::impls", "x::{impl#2}::impls<b, ()>", "x::impls<b>"},
		{"x::impls", "x::{impl#2}::impls<c, ()>", "x::impls<c>"},
		{"x::impls", "x::{impl#3}::impls<d, ()>", "x::impls"},
		/* alike in all but the kind's number */
		{"twice", "twice<S>", "twice #14"},
		{"twice", "twice<S>", "twice #15"},
		{"odd", "odd<a, b>>", "odd (a) #16"},
		{"odd", "odd<(a, b>", "odd (a) #17"},
		{"odd", "odd<->", "odd"},
		/* called after something in them: the path in which they differ */
		{"<T as Runtime>::spawn<..>", "spawn<into_py<R, app::get::{closure#0}, Page>>",
		 "<T as Runtime>::spawn<..> (app::get)"},
		{"<T as Runtime>::spawn<..>", "spawn<into_py<R, app::put::{closure#0}, Page>>",
		 "<T as Runtime>::spawn<..> (app::put)"},
		{"long", "long<0123456789012345678901234567890123456789012345678901234567890>",
		 "long<012345678901234567890123456789012345678901234567..>"},
		{"long", "long<>", "long<>"},
		{"wrap<..>", "spawn<into_py<R, app::get::{closure#0}>::{closure#0}>",
		 "wrap<..> (app::get) #23"},
		{"wrap<..>", "spawn<into_py<R, app::get::{closure#0}>::{closure#0}::{closure#0}>",
		 "wrap<..> (app::get) #24"},
		{"wrap<..>", "spawn<into_py<R, app::put::{closure#0}>::{closure#0}>",
		 "wrap<..> (app::put)"},
		{"", "nameless<a>", "?"},
		{"", "nameless<b>", "?"},
	};
#undef HANDLER
	enum { N = sizeof(rows) / sizeof(rows[0]) };
	char path[] = "/tmp/test_report.XXXXXX";
	const struct trace_process process = {.exe = "/app", .cmdline = "app"};
	struct kind_labels labels;
	struct trace_writer *w;
	struct trace_reader *r;
	struct trace_event ev;
	struct error err = {0};
	uint32_t index;

	w = new_trace(path);
	assert_int_equal(trace_writer_process(w, &process, &index), 0);
	for (size_t i = 0; i < N; i++) {
		const struct trace_kind k = {.name = rows[i].name, .full_name = rows[i].full};
		assert_int_equal(trace_writer_kind(w, &k, &index), 0);
	}
	assert_int_equal(trace_writer_close(w, &err), 0);
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	assert_int_equal(trace_reader_next(r, &ev, &err), 0);
	use_all_kinds(r);
	assert_int_equal(kind_labels_make(r, &labels), 0);
	for (uint32_t i = 0; i < N; i++)
		assert_string_equal(kind_label(&labels, r, i), rows[i].label);
	assert_string_equal(kind_label(&labels, r, N), "?");
	kind_labels_done(&labels);
	trace_reader_free(r);
	unlink(path);
}

/* One process, runtimes in several libraries: what no symbol names says in which it is. */
static void test_label_objects(void **state)
{
	static const char *const objects[] = {"/py/rnet/rnet.cpython-311.so",
					      "/py/deltalake/_internal.abi3.so",
					      "/py/datafusion/_internal.abi3.so"};
	static const struct {
		uint32_t runtime;
		uint16_t role;
		const char *name, *full, *scheduler, *label;
	} rows[] = {
		{0, TR_TASK, "kind 7", "", "", "rnet: kind 7"},
		{1, TR_TASK, "kind 7", "", "", "deltalake/_internal: kind 7"},
		{2, TR_TASK, "kind 7", "", "", "datafusion/_internal: kind 7"},
		{2, TR_TASK, "kind 8 (src/a.rs:1)", "/b/x/src/a.rs:1 or /b/x/src/b.rs:2", "",
		 "datafusion/_internal: kind 8 (src/a.rs:1)"},
		{0, TR_ROOT, "block_on", "", "", "rnet: block_on"},
		{1, TR_WORKER, "tokio worker", "tokio::Launch", "blocking",
		 "deltalake/_internal: tokio worker"},
		{0, TR_TASK, "app::a", "app::a::{closure#0}", "local", "app::a (local)"},
		{0, TR_TASK, "app::a", "app::a::{closure#0}", "multi_thread",
		 "app::a (multi_thread)"},
		{0, TR_BLOCKING, "app::a", "app::a::{closure#0}", "blocking", "app::a"},
		{1, TR_BLOCKING, "app::b", "app::b::{closure#0}", "blocking",
		 "deltalake/_internal: app::b"},
		{2, TR_BLOCKING, "app::b", "app::b::{closure#0}", "blocking",
		 "datafusion/_internal: app::b"},
	};
	enum { N = sizeof(rows) / sizeof(rows[0]) };
	const struct trace_process process = {.exe = "/app", .cmdline = "app"};
	char path[] = "/tmp/test_report.XXXXXX";
	struct kind_labels labels;
	struct trace_writer *w;
	struct trace_reader *r;
	struct trace_event ev;
	struct error err = {0};
	uint32_t index;

	(void)state;
	w = new_trace(path);
	assert_int_equal(trace_writer_process(w, &process, &index), 0);
	for (size_t i = 0; i < 3; i++) {
		const struct trace_runtime rt = {.name = "tokio", .object = objects[i]};

		assert_int_equal(trace_writer_runtime(w, &rt, &index), 0);
	}
	for (size_t i = 0; i < N; i++) {
		const struct trace_kind k = {.runtime = rows[i].runtime,
					     .role = rows[i].role,
					     .name = rows[i].name,
					     .full_name = rows[i].full,
					     .scheduler = rows[i].scheduler};

		assert_int_equal(trace_writer_kind(w, &k, &index), 0);
	}
	assert_int_equal(trace_writer_close(w, &err), 0);
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	assert_int_equal(trace_reader_next(r, &ev, &err), 0);
	assert_true(trace_has_objects(r, 0));
	use_all_kinds(r);
	assert_int_equal(kind_labels_make(r, &labels), 0);
	for (uint32_t i = 0; i < N; i++)
		assert_string_equal(kind_label(&labels, r, i), rows[i].label);
	kind_labels_done(&labels);
	trace_reader_free(r);
	unlink(path);
}

/* Handlers bear the name of the program's own function; short names leave the crate out. */
static void test_label_handlers(void **state)
{
	enum { N_ROOT = 1000 }; /* no flag: a block_on, called as below */
	static const char *const sites[] = {"tokio::runtime::park::x+0x30 (my_apples::pie)",
					    "src/main.rs:7 (my_app::main)"};
	static const struct {
		uint32_t flags;
		const char *name, *full, *label, *shorter;
	} rows[] = {
		{TRACE_KIND_HANDLER, "web::call",
		 "web::{impl#3}::call::{async_block_env#0}<fn(u8) -> "
		 "my_app::api::a::{async_fn_env#0}, "
		 "my_app::api::a::{async_fn_env#0}, S>",
		 "my_app::api::a", "api::a"},
		{TRACE_KIND_HANDLER, "web::call",
		 "web::{impl#3}::call::{async_block_env#0}<my_app::main::{async_block#0}::{closure_"
		 "env#1}, "
		 "core::option::Option<u8>, S>",
		 "my_app::main::{closure#1}", "main::{closure#1}"},
		{TRACE_KIND_HANDLER, "web::call",
		 "web::{impl#3}::call::{async_block_env#0}<web::x::{async_fn_env#0}, "
		 "my_app::b::{async_fn_env#0}<my_app::S>>",
		 "my_app::b", "b"},
		{TRACE_KIND_HANDLER, "<my_app::Api as Shop>::order",
		 "my_app::{impl#1}::order::{async_block_env#0}", "my_app::order", "order"},
		{TRACE_KIND_HANDLER, "lib_api::c", "lib_api::c::{async_fn_env#0}<u8>", "lib_api::c",
		 "c"},
		{TRACE_KIND_HANDLER, "srv::handler",
		 "srv::handler::{async_block_env#0}<fn(srv::D<my_app::S>) -> "
		 "my_app::d::{async_fn_env#0}, (my_app::S)>",
		 "my_app::d", "d"},
		{0, "axum::serve::into_future<..>", "axum::serve::into_future<R>",
		 "axum::serve::into_future<..>", "axum connection"},
		{0, "my_app::mailer", "my_app::mailer", "my_app::mailer", "mailer"},
		{0, "my_apples::pie<Vec<u8>>", "", "my_apples::pie<Vec<u8>>", "my_apples::pie"},
		{0, "<T as Future>", "", "<T as Future>", "<T as Future>"},
		{N_ROOT, "block_on (multi_thread)", "", "block_on (multi_thread)",
		 "block_on (main)"},
	};
	enum { N = sizeof(rows) / sizeof(rows[0]) };
	const struct trace_process process = {.exe = "/bin/my-app", .cmdline = "my-app"};
	char path[] = "/tmp/test_report.XXXXXX";
	struct kind_labels labels;
	struct trace_writer *w;
	struct trace_reader *r;
	struct trace_event ev;
	struct error err = {0};
	uint32_t index;

	(void)state;
	w = new_trace(path);
	assert_int_equal(trace_writer_process(w, &process, &index), 0);
	for (size_t i = 0; i < N; i++) {
		bool root = rows[i].flags == N_ROOT;
		const struct trace_kind k = {.name = rows[i].name,
					     .full_name = rows[i].full,
					     .flags = root ? 0 : rows[i].flags,
					     .n_sites = root ? 2 : 0,
					     .sites = root ? sites : NULL,
					     .role = root	     ? TR_ROOT
						     : rows[i].flags ? TR_FUTURE
								     : TR_TASK};

		assert_int_equal(trace_writer_kind(w, &k, &index), 0);
	}
	assert_int_equal(trace_writer_close(w, &err), 0);
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	assert_int_equal(trace_reader_next(r, &ev, &err), 0);
	use_all_kinds(r);
	assert_int_equal(kind_labels_make(r, &labels), 0);
	for (uint32_t i = 0; i < N; i++) {
		_cleanup_free_ char *shorter = kind_short(&labels, r, i);

		assert_string_equal(kind_label(&labels, r, i), rows[i].label);
		assert_string_equal(shorter, rows[i].shorter);
	}
	kind_labels_done(&labels);
	trace_reader_free(r);
	unlink(path);
}

/* Runtimes of two libraries have a task of one number each: both are reported, with their
 * runtime. */
static void test_equal_numbers(void **state)
{
	static const char *const objects[] = {"/py/deltalake/_internal.abi3.so",
					      "/py/rnet/rnet.cpython-311.so"};
	static const char *const want[] = {
		"Life of task 7 (1 of 2 of this number, in _internal), app::a\n",
		"Life of task 7 (2 of 2 of this number, in rnet), app::b\n",
		"Life of task 8, app::b\n",
	};
	static const char *const names[] = {"app::a", "app::b"};
	const char *const tasks[] = {"7", "8", NULL};
	const struct report_options opt = {.filter.tasks = tasks, .width = 100};
	const struct trace_process process = {.exe = "/app", .cmdline = "app"};
	const struct trace_thread thread = {.tid = 1, .name = "main"};
	char path[] = "/tmp/test_report.XXXXXX";
	struct script *s = calloc(1, sizeof(*s));
	struct buf text = BUF_INIT;
	struct trace_reader *r;
	struct trace_writer *w;
	struct error err = {0};
	struct report *rep;
	uint32_t index;

	(void)state;
	assert_non_null(s);
	w = new_trace(path);
	assert_int_equal(trace_writer_process(w, &process, &index), 0);
	assert_int_equal(trace_writer_thread(w, &thread, &index), 0);
	for (uint32_t i = 0; i < 2; i++) {
		const struct trace_runtime rt = {.name = "tokio", .object = objects[i]};
		const struct trace_kind k = {.runtime = i, .name = names[i], .full_name = names[i]};

		assert_int_equal(trace_writer_runtime(w, &rt, &index), 0);
		assert_int_equal(trace_writer_kind(w, &k, &index), 0);
	}
	for (uint32_t i = 0; i < 3; i++) {
		at(s, 2 * i * MS, TE_POLL_BEGIN, 0, i > 0, i < 2 ? 7 : 8, 0);
		at(s, (2 * i + 1) * MS, TE_POLL_END, TO_READY, i > 0, i < 2 ? 7 : 8, 0);
	}
	flush(s, w);
	assert_int_equal(trace_writer_close(w, &err), 0);
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	assert_int_equal(report_make(r, &opt, &rep, &err), 0);
	report_text(rep, &text);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_non_null(strstr(text.data, want[i]));
	buf_done(&text);
	report_free(rep);
	trace_reader_free(r);
	unlink(path);
	free(s);
}

/* The same kind in processes of two programs, of one program twice, and of one that executed itself. */
static void test_label_processes(void **state)
{
	static const char *const exes[] = {"/bin/rustup", "/srv/app", "/srv/app", "/srv/app"};
	static const unsigned pids[] = {100, 101, 102, 102};
	static const char *const want[] = {"rustup: block_on", "app/101: block_on",
					   "app/102: block_on", "app/102 again (2): block_on",
					   "app::main"};
	char path[] = "/tmp/test_report.XXXXXX";
	struct kind_labels labels;
	struct trace_writer *w;
	struct trace_reader *r;
	struct trace_event ev;
	struct error err = {0};
	uint32_t index;

	w = new_trace(path);
	for (uint32_t i = 0; i < 4; i++) {
		const struct trace_process p = {.pid = pids[i], .exe = exes[i], .cmdline = ""};
		const struct trace_kind k = {.process = i, .role = TR_ROOT, .name = "block_on"};

		assert_int_equal(trace_writer_process(w, &p, &index), 0);
		assert_int_equal(trace_writer_kind(w, &k, &index), 0);
	}
	const struct trace_kind own = {.process = 1, .name = "app::main"};
	assert_int_equal(trace_writer_kind(w, &own, &index), 0);
	assert_int_equal(trace_writer_close(w, &err), 0);
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	assert_int_equal(trace_reader_next(r, &ev, &err), 0);
	use_all_kinds(r);
	assert_int_equal(kind_labels_make(r, &labels), 0);
	for (uint32_t i = 0; i < 5; i++)
		assert_string_equal(kind_label(&labels, r, i), want[i]);
	kind_labels_done(&labels);
	trace_reader_free(r);
	unlink(path);
}

/* ---- sentences ---- */

static bool everything_lives;

static bool lives(void *ctx, const struct trace_process *p)
{
	(void)ctx;
	(void)p;
	return everything_lives;
}

/* A report on the events of one thread; `cpu` and `cost` may be NULL. */
static struct report *report_of(const struct script *s, const struct trace_cpu *cpu,
				const struct trace_cost *cost, const struct report_options *opt,
				struct trace_reader **ret_reader)
{
	char path[] = "/tmp/test_report.XXXXXX";
	const struct trace_process process = {.pid = 4242, .exe = "/app", .cmdline = "app"};
	const struct trace_thread thread = {.tid = 4242, .name = "app"};
	const struct trace_place place = {
		.function = "shop::order", .file = "src/order.rs", .line = 7, .awaits = "sleep"};
	struct trace_writer *w;
	struct report *rep;
	struct error err = {0};
	uint32_t index;

	w = new_trace(path);
	assert_int_equal(trace_writer_process(w, &process, &index), 0);
	for (size_t i = 0; i < N_KINDS; i++)
		assert_int_equal(trace_writer_kind(w, &kinds[i], &index), 0);
	assert_int_equal(trace_writer_thread(w, &thread, &index), 0);
	/* Two places of one line. */
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(trace_writer_place(w, &place, &index), 0);
	assert_int_equal(trace_writer_events(w, 0, s->ev, s->n), 0);
	if (cpu)
		assert_int_equal(trace_writer_cpu(w, cpu), 0);
	if (cost)
		assert_int_equal(trace_writer_cost(w, cost), 0);
	assert_int_equal(trace_writer_close(w, &err), 0);
	assert_int_equal(trace_reader_open(path, ret_reader, &err), 0);
	if (report_make(*ret_reader, opt, &rep, &err) < 0)
		fail_msg("report_make: %s", err.text);
	unlink(path);
	return rep;
}

static char *text_of(const struct script *s, const struct trace_cpu *cpu)
{
	const struct report_options opt = {.all_findings = true, .lives = lives};
	struct buf out = BUF_INIT;
	struct trace_reader *r;
	struct report *rep = report_of(s, cpu, NULL, &opt, &r);

	report_text(rep, &out);
	report_free(rep);
	trace_reader_free(r);
	return buf_steal(&out);
}

/* A poll of 100 ms in which a worker that lives for a second does `n` such calls of that length. */
static bool blames_calls(unsigned call, unsigned n, uint64_t ns, const struct trace_cpu *cpu)
{
	struct script *s = calloc(1, sizeof(*s));
	char *text;
	bool found;

	assert_non_null(s);
	at(s, 0, TE_POLL_BEGIN, 0, K_WORKER, 1, 0);
	at(s, 1 * MS, TE_SPAWN, 0, K_CONN, 2, 0);
	at(s, 2 * MS, TE_POLL_BEGIN, 0, K_CONN, 2, 0);
	for (unsigned i = 1; i <= n; i++)
		at(s, 2 * MS + i * (ns + 1000), TE_BLOCK, call, TRACE_KIND_NONE, 0, ns);
	at(s, 102 * MS, TE_POLL_END, TO_PENDING, K_CONN, 2, 0);
	at(s, 1000 * MS, TE_PARK, TB_EPOLL_WAIT, TRACE_KIND_NONE, 0, 0);
	text = text_of(s, cpu);
	found = strstr(text, "inside polls took");
	free(text);
	free(s);
	return found;
}

/* Which calls are findings: 1 ms in one, or a hundredth of the worker's time. Where threads have
 * no CPU a short wait for a lock is none, and sched_yield() never. */
static void test_blocking_calls(void **state)
{
	const struct trace_cpu ample = {.n_threads = 2, .cpu_ns = 500 * MS};
	const struct trace_cpu starved = {
		.n_threads = 2, .cpu_ns = 500 * MS, .run_delay_ns = 900 * MS};
	const struct trace_cpu throttled = {.n_threads = 2,
					    .cpu_ns = 500 * MS,
					    .n_periods = 10,
					    .n_throttled = 9,
					    .quota_ns = 15 * MS,
					    .period_ns = 100 * MS};

	assert_true(blames_calls(TB_READ, 1, 1 * MS, &ample));
	assert_false(blames_calls(TB_READ, 9, 990 * US, &ample));
	assert_true(blames_calls(TB_READ, 11, 990 * US, &ample));
	assert_true(blames_calls(TB_READ, 2, 2 * MS, &starved));
	assert_true(blames_calls(TB_FUTEX, 20, 2 * MS, &ample));
	assert_false(blames_calls(TB_FUTEX, 20, 2 * MS, &starved));
	assert_false(blames_calls(TB_FUTEX, 20, 2 * MS, &throttled));
	assert_false(blames_calls(TB_PTHREAD_MUTEX_LOCK, 20, 2 * MS, &starved));
	assert_true(blames_calls(TB_FUTEX, 1, 20 * MS, &starved));
	assert_false(blames_calls(TB_SCHED_YIELD, 40, 2 * MS, &ample));
	assert_false(blames_calls(TB_SCHED_YIELD, 1, 20 * MS, &starved));
}

/* A recording in which nothing was polled says what to do; its block_on has waited all the time. */
static void test_nothing_polled(void **state)
{
	struct script *s = calloc(1, sizeof(*s));
	char *text;

	assert_non_null(s);
	at(s, 0, TE_ROOT_ENTER, TRACE_ROOT_BEFORE, K_ROOT, 0, 0);
	at(s, 0, TE_PARK, TB_FUTEX, TRACE_KIND_NONE, 0, 0);
	at(s, 3000 * MS, TE_THREAD_END, 0, TRACE_KIND_NONE, 0, 0);
	everything_lives = true;
	text = text_of(s, NULL);
	assert_non_null(strstr(text, "no task was polled in 3.00 s: "));
	assert_non_null(strstr(text, "; pollux tree 4242 shows where its tasks wait"));
	assert_non_null(strstr(text, " 3.00 s      0     0  1 unknown"));
	free(text);
	/* It can't be looked at when it is gone. */
	everything_lives = false;
	text = text_of(s, NULL);
	assert_non_null(strstr(text, "no task was polled in 3.00 s: "));
	assert_null(strstr(text, "pollux tree"));
	free(text);

	s->n = 0;
	at(s, 0, TE_POLL_BEGIN, 0, K_CONN, 2, 0);
	at(s, 1 * MS, TE_POLL_END, TO_PENDING, K_CONN, 2, 0);
	text = text_of(s, NULL);
	assert_null(strstr(text, "no task was polled in"));
	free(text);
	free(s);
}

/* A poll of a connection that serves two requests is longer than each of them; one that serves one
 * request isn't. */
static void test_poll_of_requests(void **state)
{
	static const char note[] = "a poll is the task's";
	struct script *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	for (unsigned n = 1; n <= 2; n++) {
		char *text;

		s->n = 0;
		at(s, 1 * MS, TE_SPAWN, 0, K_CONN, 2, 0);
		at(s, 2 * MS, TE_POLL_BEGIN, 0, K_CONN, 2, 0);
		for (unsigned i = 0; i < n; i++) {
			at(s, (2 + 10 * i) * MS, TE_FUTURE_BEGIN, TRACE_FUTURE_FIRST, K_ORDER,
			   0x100, 0);
			at(s, (12 + 10 * i) * MS, TE_FUTURE_END, TO_READY, K_ORDER, 0x100, 0);
		}
		at(s, (2 + 10 * n) * MS, TE_POLL_END, TO_READY, K_CONN, 2, 0);
		text = text_of(s, NULL);
		assert_non_null(strstr(text, "Requests by handler"));
		assert_int_equal(strstr(text, note) != NULL, n == 2);
		free(text);
	}
	free(s);
}

/* A request that waits at two places of one line, half of its time at each. */
static void test_waits_at_one_line(void **state)
{
	struct script *s = calloc(1, sizeof(*s));
	char *text;

	(void)state;
	assert_non_null(s);
	at(s, 0, TE_SPAWN, 0, K_CONN, 2, 0);
	for (unsigned i = 0; i < 3; i++) {
		const uint64_t t = (2 + 40 * i) * MS;
		const unsigned outcome = i == 2 ? TO_READY : TO_PENDING;

		if (i)
			at(s, t, TE_WAKE, TW_SCHEDULED, K_CONN, 2, 0);
		at(s, t, TE_POLL_BEGIN, 0, K_CONN, 2, 0);
		at(s, t, TE_FUTURE_BEGIN, i ? 0 : TRACE_FUTURE_FIRST, K_ORDER, 0x100, 0);
		at(s, t + 1 * US, TE_FUTURE_END, outcome, K_ORDER, 0x100, 0);
		at(s, t + 1 * US, TE_POLL_END, outcome, K_CONN, 2, i < 2 ? 1 + i : 0);
	}
	text = text_of(s, NULL);
	assert_non_null(strstr(text, "waiting 99 %: src/order.rs:7 shop::order"));
	free(text);
	free(s);
}

/* A block_on in a task's poll, with a task's poll in it: the thread is busy once, however much of it
 * is in a window. */
static void test_busy_once(void **state)
{
	static const uint64_t windows[][2] = {{0, 0}, {10, 20}, {0, 50}, {50, 0}, {101, 108}};
	struct script *s = calloc(1, sizeof(*s));

	(void)state;
	assert_non_null(s);
	at(s, 0, TE_SPAWN, 0, K_HASH, 2, 0);
	at(s, 0, TE_SPAWN, 0, K_CONN, 3, 0);
	at(s, 1 * MS, TE_POLL_BEGIN, 0, K_HASH, 2, 0);
	at(s, 2 * MS, TE_ROOT_ENTER, 0, K_ROOT, 0, 0);
	at(s, 3 * MS, TE_POLL_BEGIN, 0, K_ROOT, 0, 0);
	at(s, 4 * MS, TE_POLL_BEGIN, 0, K_CONN, 3, 0);
	at(s, 98 * MS, TE_POLL_END, TO_READY, K_CONN, 3, 0);
	at(s, 99 * MS, TE_POLL_END, TO_READY, K_ROOT, 0, 0);
	at(s, 100 * MS, TE_POLL_END, TO_READY, K_HASH, 2, 0);
	at(s, 110 * MS, TE_THREAD_END, 0, TRACE_KIND_NONE, 0, 0);
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		const uint64_t from = windows[i][0] * MS, to = windows[i][1] * MS;
		const struct report_options opt = {.filter = {.from_ns = from, .to_ns = to}};
		const uint64_t begin = from > 1 * MS ? from : 1 * MS;
		const uint64_t end = to && to < 100 * MS ? to : 100 * MS;
		struct trace_reader *r;
		struct report *rep = report_of(s, NULL, NULL, &opt, &r);

		assert_int_equal(report_busy_ns(rep), begin < end ? end - begin : 0);
		for (size_t t = 0; t < rep->n_threads; t++)
			assert_true(rep->threads[t].busy_ns <=
				    rep->threads[t].end_ns - rep->threads[t].begin_ns);
		report_free(rep);
		trace_reader_free(r);
	}
	free(s);
}

/* What pollux used to read the program is not the recording's; the events' share, which is an
 * estimate, is one of all that the program used. */
static void test_cost(void **state)
{
	const struct trace_cpu cpu = {.n_threads = 1, .cpu_ns = 1 * MS};
	const struct trace_cost cost = {
		.recorder_cpu_ns = 5 * MS,
		.analysis_cpu_ns = 659 * MS,
		.event_cost_ps = 5000 * MS,
		.end_reason = "duration",
	};
	struct script *s = calloc(1, sizeof(*s));
	struct buf text = BUF_INIT, json = BUF_INIT;
	struct trace_reader *r;
	struct report *rep;

	(void)state;
	assert_non_null(s);
	at(s, 0, TE_POLL_BEGIN, 0, K_CONN, 2, 0);
	at(s, 38 * MS, TE_POLL_END, TO_READY, K_CONN, 2, 0);
	rep = report_of(s, &cpu, &cost, &(struct report_options){0}, &r);
	report_text(rep, &text);
	report_json(rep, &json);
	assert_non_null(strstr(text.data, "pollux itself used 5.00 ms of CPU, and 659 ms before "
					  "that to read the program\n"));
	assert_non_null(strstr(text.data, "(5000000.0 ns an event, measured here): 100.0 % of its "
					  "CPU time\n"));
	assert_non_null(strstr(json.data, "\"recorder_cpu_ns\": 5000000,"));
	assert_non_null(strstr(json.data, "\"analysis_cpu_ns\": 659000000,"));
	assert_non_null(strstr(json.data, "\"share_of_cpu\": 1,"));
	buf_done(&text);
	buf_done(&json);
	report_free(rep);
	trace_reader_free(r);
	free(s);
}

/* In a window a future has waited for as long as it does there: all of it, one that waits all
 * through it. */
static void test_futures_in_window(void **state)
{
	static const struct {
		uint64_t from, to, waited;
	} windows[] = {
		{0, 0, 390 + 90}, /* between its polls, and until the end */
		{100, 200, 100},  /* all through it, between polls */
		{420, 480, 60},	  /* all through it, to no poll any more */
		{0, 200, 190},	  {300, 450, 100 + 40}, {300, 0, 100 + 90}, {405, 0, 90},
	};
	struct script *s = calloc(1, sizeof(*s));

	(void)state;
	assert_non_null(s);
	at(s, 0, TE_SPAWN, 0, K_CONN, 2, 0);
	for (unsigned i = 0; i < 2; i++) {
		at(s, 400 * i * MS, TE_POLL_BEGIN, 0, K_CONN, 2, 0);
		at(s, 400 * i * MS, TE_FUTURE_BEGIN, i ? 0 : TRACE_FUTURE_FIRST, K_ORDER, 0x100, 0);
		at(s, (400 * i + 10) * MS, TE_FUTURE_END, TO_PENDING, K_ORDER, 0x100, 0);
		at(s, (400 * i + 10) * MS, TE_POLL_END, TO_PENDING, K_CONN, 2, 0);
	}
	at(s, 500 * MS, TE_THREAD_END, 0, TRACE_KIND_NONE, 0, 0);
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		const struct report_options opt = {
			.filter = {.from_ns = windows[i].from * MS, .to_ns = windows[i].to * MS}};
		struct buf json = BUF_INIT;
		struct trace_reader *r;
		struct report *rep = report_of(s, NULL, NULL, &opt, &r);
		unsigned long long sum = 0;
		char *at_wait;

		report_json(rep, &json);
		at_wait = strstr(json.data, "\"futures\": [");
		assert_non_null(at_wait);
		at_wait = strstr(at_wait, "\"wait_ns\": {");
		assert_non_null(at_wait);
		at_wait = strstr(at_wait, "\"sum\": ");
		assert_non_null(at_wait);
		assert_int_equal(sscanf(at_wait, "\"sum\": %llu", &sum), 1);
		assert_int_equal(sum, windows[i].waited * MS);
		buf_done(&json);
		report_free(rep);
		trace_reader_free(r);
	}
	free(s);
}

/* Tasks and blocking closures are counted, a block_on or a worker's loop is not: the same number
 * everywhere. */
static void test_one_count(void **state)
{
	const char *const none[] = {"4711", NULL};
	const struct report_options opt = {.filter.tasks = none};
	struct trace_reader *reader;
	struct report *all = make(&(struct report_options){0}, &reader), *rep;
	uint64_t n = report_sum(all).n_tasks;
	struct error err = {0};
	char want[80];

	report_free(all);
	snprintf(want, sizeof(want), "the trace has %llu tasks, from number ",
		 (unsigned long long)n);
	assert_int_equal(trace_reader_rewind(reader, &err), 0);
	assert_true(report_make(reader, &opt, &rep, &err) < 0);
	assert_non_null(strstr(err.text, want));
	trace_reader_free(reader);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: test_report GOLDEN_DIR\n");
		return 2;
	}
	golden_dir = argv[1];
	write_trace();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_one_task),
		cmocka_unit_test(test_one_thread),
		cmocka_unit_test(test_windows_add_up),
		cmocka_unit_test(test_fits),
		cmocka_unit_test(test_sort_words),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_label_handlers),
		cmocka_unit_test(test_label_objects),
		cmocka_unit_test(test_label_processes),
		cmocka_unit_test(test_blocking_calls),
		cmocka_unit_test(test_nothing_polled),
		cmocka_unit_test(test_one_count),
		cmocka_unit_test(test_equal_numbers),
		cmocka_unit_test(test_poll_of_requests),
		cmocka_unit_test(test_waits_at_one_line),
		cmocka_unit_test(test_busy_once),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_futures_in_window),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(trace_path);
	return failed;
}
