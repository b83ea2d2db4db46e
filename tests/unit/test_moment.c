/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Moments through a trace: what the writer was given is what a reader gives, in however many chunks;
 * damage costs what is damaged; what changed between two of them.
 */
#include "base/cursor.h"
#include "moment/compare.h"
#include "moment/graph.h"
#include "moment/sizes.h"
#include "moment/threads.h"
#include "tests/traces/file.h"
#include "tests/traces/moment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <zstd.h>

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

static void same_text(const char *a, const char *b)
{
	assert_string_equal(a ? a : "", b ? b : "");
}

static void same_held(const struct await_held *a, const struct await_held *b)
{
	assert_int_equal(a->kind, b->kind);
	same_text(a->type, b->type);
	assert_int_equal(a->addr, b->addr);
	assert_int_equal(a->bytes, b->bytes);
	assert_int_equal(a->counted, b->counted);
	assert_int_equal(a->closed, b->closed);
	assert_int_equal(a->length, b->length);
	assert_int_equal(a->capacity, b->capacity);
	assert_int_equal(a->senders, b->senders);
}

static void same_node(const struct await_node *a, const struct await_node *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->state, b->state);
	assert_int_equal(a->wait, b->wait);
	assert_int_equal(a->granted, b->granted);
	assert_int_equal(a->line, b->line);
	assert_int_equal(a->resource, b->resource);
	assert_int_equal(a->value, b->value);
	assert_int_equal(a->addr, b->addr);
	assert_int_equal(a->bytes, b->bytes);
	same_text(a->name, b->name);
	same_text(a->full_name, b->full_name);
	same_text(a->file, b->file);
	same_text(a->detail, b->detail);
	same_text(a->ends, b->ends);
	assert_int_equal(a->n_holds, b->n_holds);
	for (size_t i = 0; i < a->n_holds; i++)
		assert_int_equal(a->holds[i], b->holds[i]);
	assert_int_equal(a->n_held, b->n_held);
	for (size_t i = 0; i < a->n_held; i++)
		same_held(&a->held[i], &b->held[i]);
	assert_int_equal(a->n_children, b->n_children);
	for (size_t i = 0; i < a->n_children; i++)
		same_node(a->children[i], b->children[i]);
}

static void same_task(const struct moment_task *a, const struct moment_task *b)
{
	same_text(a->kind->name, b->kind->name);
	same_text(a->kind->full_name, b->kind->full_name);
	same_text(a->kind->object, b->kind->object);
	same_text(a->kind->site, b->kind->site);
	assert_int_equal(a->kind->role, b->kind->role);
	assert_int_equal(a->kind->tokio, b->kind->tokio);
	assert_int_equal(a->kind->vtable, b->kind->vtable);
	assert_int_equal(a->kind->future_bytes, b->kind->future_bytes);
	assert_int_equal(a->kind->task_bytes, b->kind->task_bytes);
	assert_int_equal(a->addr, b->addr);
	assert_int_equal(a->id, b->id);
	assert_int_equal(a->raw_state, b->raw_state);
	assert_int_equal(a->owner, b->owner);
	assert_int_equal(a->refs, b->refs);
	assert_int_equal(a->state, b->state);
	assert_int_equal(a->cancelled, b->cancelled);
	assert_int_equal(a->join_interest, b->join_interest);
	assert_int_equal(a->torn, b->torn);
	assert_int_equal(a->in_no_queue, b->in_no_queue);
	assert_int_equal(a->thread, b->thread);
	assert_int_equal(a->place, b->place);
	same_text(a->queue, b->queue);
	same_text(a->no_tree_reason, b->no_tree_reason);
	assert_int_equal(a->tree != NULL, b->tree != NULL);
	if (a->tree)
		same_node(a->tree, b->tree);
}

static void same_moment(const struct trace_moment *a, const struct trace_moment *b)
{
	assert_int_equal(a->process, b->process);
	assert_int_equal(a->when, b->when);
	assert_int_equal(a->now_ns, b->now_ns);
	assert_int_equal(a->stop_ns, b->stop_ns);
	assert_int_equal(a->stopped, b->stopped);
	assert_int_equal(a->n_torn, b->n_torn);
	assert_int_equal(a->n_missed, b->n_missed);
	assert_int_equal(a->n_found, b->n_found);
	assert_int_equal(a->n_descriptors, b->n_descriptors);
	assert_int_equal(a->max_descriptors, b->max_descriptors);
	assert_int_equal(a->n_threads, b->n_threads);
	for (size_t i = 0; i < a->n_threads; i++) {
		assert_int_equal(a->threads[i].tid, b->threads[i].tid);
		assert_int_equal(a->threads[i].call, b->threads[i].call);
		assert_int_equal(a->threads[i].call_arg, b->threads[i].call_arg);
		same_text(a->threads[i].name, b->threads[i].name);
		assert_int_equal(a->threads[i].n_frames, b->threads[i].n_frames);
		for (size_t k = 0; k < a->threads[i].n_frames; k++) {
			const struct moment_frame *x = &a->threads[i].frames[k];
			const struct moment_frame *y = &b->threads[i].frames[k];

			assert_int_equal(x->addr, y->addr);
			assert_int_equal(x->line, y->line);
			same_text(x->object, y->object);
			same_text(x->function, y->function);
			same_text(x->file, y->file);
		}
	}
	assert_int_equal(a->n_notes, b->n_notes);
	for (size_t i = 0; i < a->n_notes; i++)
		same_text(a->notes[i], b->notes[i]);
	assert_int_equal(a->n_tasks, b->n_tasks);
	for (size_t i = 0; i < a->n_tasks; i++)
		same_task(&a->tasks[i], &b->tasks[i]);
}

static struct trace_reader *open_trace(const char *name)
{
	struct trace_reader *r = NULL;
	struct error err = {0};

	if (trace_reader_open(name, &r, &err) < 0)
		fail_msg("%s", err.text);
	return r;
}

static struct trace_moment read_moment(struct trace_reader *r, enum moment_when when)
{
	struct trace_moment m = {0};
	struct error err = {0};

	assert_int_equal(trace_reader_moment(r, 0, when, &m, &err), 1);
	return m;
}

static void check_sample(struct trace_reader *r)
{
	for (enum moment_when when = 0; when < MOMENT_N; when++) {
		const struct trace_moment given = moment_sample(when);
		struct trace_moment m = read_moment(r, when);

		same_moment(&given, &m);
		moment_done(&m);
	}
}

/* With the events, and without; and after a second pass they are there once. */
static void test_round_trip(void **state)
{
	struct error err = {0};
	struct trace_event ev;
	enum moment_when when;
	uint32_t process, n = 0;
	const char *why;

	assert_int_equal(moment_sample_write(path, &err), 0);
	struct trace_reader *r = open_trace(path);
	assert_int_equal(trace_reader_next(r, &ev, &err), 1);
	/* that of the start is there with the first event, the other is not yet */
	assert_true(trace_reader_moment_name(r, 0, &process, &when));
	assert_int_equal(when, MOMENT_START);
	for (int pass = 0; pass < 2; pass++) {
		for (n = 1 - (uint32_t)pass; trace_reader_next(r, &ev, &err) > 0;)
			n++;
		assert_int_equal(n, 7);
		check_sample(r);
		assert_true(trace_reader_moment_name(r, 1, &process, &when));
		assert_false(trace_reader_moment_name(r, 2, &process, &when));
		assert_false(trace_reader_truncated(r, &why));
		assert_int_equal(trace_reader_rewind(r, &err), 0);
	}
	trace_reader_free(r);

	r = open_trace(path);
	assert_int_equal(trace_reader_skip_events(r, &err), 0);
	check_sample(r);
	assert_false(trace_reader_truncated(r, &why));
	trace_reader_free(r);
}

static struct trace_writer *open_writer(void)
{
	struct trace_writer *w = NULL;
	struct error err = {0};

	if (trace_writer_open(path, &w, &err) < 0)
		fail_msg("%s", err.text);
	return w;
}

/* So many tasks that one chunk does not hold them. A kind is one, whatever chunk it comes from. */
static void test_many_tasks(void **state)
{
	enum { N = 60000 };
	struct moment_task *tasks = calloc(N, sizeof(*tasks));
	struct trace_moment given = moment_sample(MOMENT_END);
	struct trace_writer *w = open_writer();
	struct error err = {0};
	struct trace_reader *r;
	size_t n_chunks = 0;

	for (size_t i = 0; i < N; i++) {
		tasks[i] = moment_sample_start_tasks[i % 2];
		tasks[i].id = 100 + i;
		tasks[i].addr += i * 0x10000;
	}
	given.tasks = tasks;
	given.n_tasks = N;
	assert_int_equal(trace_writer_moment(w, &given), 0);
	assert_int_equal(trace_writer_close(w, &err), 0);
	struct buf b = file_load(path);
	while (file_find_chunk(&b, PLX_MOMENT, (int)n_chunks))
		n_chunks++;
	assert_true(n_chunks > 2);
	buf_done(&b);
	r = open_trace(path);
	assert_int_equal(trace_reader_skip_events(r, &err), 0);
	struct trace_moment m = read_moment(r, MOMENT_END);
	same_moment(&given, &m);
	for (size_t i = 1; i < N; i++)
		assert_ptr_equal(m.tasks[i].kind, m.tasks[0].kind);
	moment_done(&m);
	trace_reader_free(r);
	free(tasks);
}

/* A tree that no chunk takes is left out, with a reason, and the other tasks are there. */
static void test_large_tree(void **state)
{
	enum { N = 400000 };
	struct await_node *leaves = calloc(N, sizeof(*leaves));
	struct await_node **children = calloc(N, sizeof(struct await_node *));
	struct await_node root = {.kind = AN_BRANCH, .name = "join_all", .full_name = ""};
	struct moment_task tasks[3];
	struct trace_moment given = moment_sample(MOMENT_START);
	struct trace_writer *w = open_writer();
	struct error err = {0};

	for (size_t i = 0; i < N; i++) {
		leaves[i] = (struct await_node){.kind = AN_LEAF, .name = "sleep", .full_name = ""};
		children[i] = &leaves[i];
	}
	root.children = children;
	root.n_children = N;
	memcpy(tasks, moment_sample_start_tasks, sizeof(tasks));
	tasks[1].tree = &root;
	given.tasks = tasks;
	assert_int_equal(trace_writer_moment(w, &given), 0);
	assert_int_equal(trace_writer_close(w, &err), 0);
	struct trace_reader *r = open_trace(path);
	assert_int_equal(trace_reader_skip_events(r, &err), 0);
	struct trace_moment m = read_moment(r, MOMENT_START);
	assert_int_equal(m.n_tasks, 3);
	assert_null(m.tasks[1].tree);
	assert_non_null(strstr(m.tasks[1].no_tree_reason, "too large"));
	same_task(&given.tasks[2], &m.tasks[2]);
	moment_done(&m);
	trace_reader_free(r);
	free(leaves);
	free(children);
}

/* ---- damage ---- */

/* The records as they are before they are compressed. */
static int keep_payload(void *ctx, const struct buf *payload)
{
	struct buf *records = ctx;
	struct cursor c;
	size_t n;

	cursor_init(&c, payload->data, payload->len);
	cursor_uleb(&c);
	cursor_uleb(&c);
	n = (size_t)cursor_uleb(&c);
	buf_reserve(records, n);
	if (cursor_left(&c) == n)
		memcpy(records->data, c.at, n);
	else
		assert_int_equal(ZSTD_decompress(records->data, n, c.at, cursor_left(&c)), n);
	records->len = n;
	return 0;
}

/* A moment of these records, uncompressed. */
static int decode(const void *records, size_t n, struct trace_moment *m)
{
	struct buf b = BUF_INIT;
	int rc;

	buf_uleb(&b, 0);
	buf_uleb(&b, MOMENT_START);
	buf_uleb(&b, n);
	buf_add(&b, records, n);
	rc = moment_decode(m, b.data, b.len);
	buf_done(&b);
	return rc < 0 ? rc : moment_decoded(m);
}

/* Each cut: fewer tasks at the most, none made up. Each flipped byte: no read beyond (sanitizers). */
static void test_damaged_records(void **state)
{
	const struct trace_moment given = moment_sample(MOMENT_START);
	struct buf records = BUF_INIT;
	size_t most = 0;

	assert_int_equal(moment_encode(&given, keep_payload, &records), 0);
	for (size_t len = 0; len <= records.len; len++) {
		struct trace_moment m = {0};
		int rc = decode(records.data, len, &m);

		assert_true(rc == 0 || rc == -EBADMSG);
		assert_true(m.n_tasks >= most && m.n_tasks <= 3);
		most = m.n_tasks;
		moment_done(&m);
	}
	assert_int_equal(most, 3);
	for (size_t at = 0; at < records.len; at++)
		for (unsigned flip = 1; flip < 256; flip *= 2) {
			struct trace_moment m = {0};

			records.data[at] = (char)(records.data[at] ^ flip);
			decode(records.data, records.len, &m);
			records.data[at] = (char)(records.data[at] ^ flip);
			moment_done(&m);
		}
	buf_done(&records);
}

/* Of damage in one moment the other knows nothing, and the events are all there. */
static void test_damaged_chunk(void **state)
{
	struct file_read f = file_read_path(POLLUX_TESTS "/traces/bad/moment-no-frame.plx");
	const struct trace_moment given = moment_sample(MOMENT_END);
	const char *why;

	assert_int_equal(f.opened, 0);
	assert_int_equal(f.n, 7);
	struct trace_moment m = read_moment(f.reader, MOMENT_START);
	assert_int_equal(m.n_tasks, 0);
	moment_done(&m);
	m = read_moment(f.reader, MOMENT_END);
	same_moment(&given, &m);
	moment_done(&m);
	assert_true(trace_reader_truncated(f.reader, &why));
	assert_non_null(strstr(why, "1 damaged chunk"));
	/* it counts once, however often it is asked for */
	m = read_moment(f.reader, MOMENT_START);
	moment_done(&m);
	assert_true(trace_reader_truncated(f.reader, &why));
	assert_non_null(strstr(why, "1 damaged chunk"));
	file_read_done(&f);
}

/* Trees within trees, each of which says that it has very many children. */
static void test_hostile_tree(void **state)
{
	struct buf records = BUF_INIT, task = BUF_INIT;
	struct trace_moment m = {0};

	buf_add(&records, "\3\11\0\1\0\0\0\0\0\0\0", 11);
	buf_add(&task, "\0\1\1\0\0\0\0\0\0\0\0", 11);
	for (int i = 0; i < 100000; i++) {
		buf_uleb(&task, 18);
		buf_uleb(&task, 1000000);
		buf_add(&task, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
	}
	buf_uleb(&records, PLX_MOMENT_TASK);
	buf_uleb(&records, task.len);
	buf_add(&records, task.data, task.len);
	assert_int_equal(decode(records.data, records.len, &m), -EBADMSG);
	assert_int_equal(m.n_tasks, 0);
	assert_true(m.memory_bytes < 1 << 20);
	moment_done(&m);
	buf_done(&records);
	buf_done(&task);
}

/* A chunk of `raw` bytes of records, of which it has none. */
static void add_empty(struct buf *file, uint32_t process, size_t raw)
{
	struct buf b = BUF_INIT;

	buf_uleb(&b, process);
	buf_uleb(&b, MOMENT_START);
	buf_uleb(&b, raw);
	file_add_chunk(file, PLX_MOMENT, 0, b.data, b.len);
	buf_done(&b);
}

static struct trace_reader *read_tables(const struct buf *file)
{
	struct trace_reader *r;
	struct error err = {0};
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(file->data, 1, file->len, f), file->len);
	assert_int_equal(fclose(f), 0);
	r = open_trace(path);
	assert_int_equal(trace_reader_skip_events(r, &err), 0);
	return r;
}

static struct buf file_of_no_chunk(void)
{
	struct buf b = file_load(POLLUX_TESTS "/traces/bad/moment-no-frame.plx");

	assert_true(b.len > sizeof(struct plx_header));
	b.len = ((const struct plx_header *)b.data)->header_bytes;
	return b;
}

/* The time that moments take grows as their number does. */
static void test_many_moments(void **state)
{
	enum { N = 300000 };
	struct buf file = file_of_no_chunk();
	struct error err = {0};

	for (uint32_t i = 0; i < N; i++)
		add_empty(&file, i, 0);
	struct trace_reader *r = read_tables(&file);
	assert_int_equal(trace_reader_n_moments(r), N);
	for (uint32_t i = 0; i < N; i++) {
		struct trace_moment m;
		enum moment_when when;
		uint32_t process;

		assert_true(trace_reader_moment_name(r, i, &process, &when));
		assert_int_equal(process, i);
		assert_int_equal(trace_reader_moment(r, process, when, &m, &err), 1);
		moment_done(&m);
	}
	trace_reader_free(r);
	buf_done(&file);
}

/* Small chunks may say that they are large: all together are not. */
static void test_large_moments(void **state)
{
	struct buf file = file_of_no_chunk();
	const char *why;

	for (uint32_t i = 0; i < 131; i++)
		add_empty(&file, i % 2, PLX_MAX_MOMENT_BYTES);
	struct trace_reader *r = read_tables(&file);
	assert_int_equal(trace_reader_n_moments(r), 2);
	assert_true(trace_reader_truncated(r, &why));
	assert_non_null(strstr(why, "3 damaged chunks"));
	trace_reader_free(r);
	buf_done(&file);
}

/* ---- what follows ---- */

static void test_graph(void **state)
{
	const struct trace_moment m = moment_sample(MOMENT_START);
	struct error err = {0};
	struct graph g;

	assert_int_equal(graph_make(&m, &g, &err), 0);
	assert_ptr_equal(graph_target(&g, &moment_sample_lock), &m.tasks[1]);
	assert_int_equal(g.n_cycles, 0); /* the holder sleeps */
	graph_done(&g);
}

/* By where the source lies, or by crate. */
static void test_own_point(void **state)
{
	static const char *const axum[] = {"axum", NULL}, *const none[] = {"shop", NULL};
	struct await_node leaf = {.kind = AN_LEAF, .name = "sleep", .full_name = ""};
	struct await_node inner = {.kind = AN_ASYNC,
				   .name = "app::order",
				   .full_name = "app::order::{async_fn_env#0}",
				   .file = "src/main.rs",
				   .children = (struct await_node *[]){&leaf},
				   .n_children = 1};
	struct await_node outer = {.kind = AN_ASYNC,
				   .name = "axum::serve",
				   .full_name = "axum::serve::{async_fn_env#0}",
				   .file = "/home/me/.cargo/registry/src/x/axum-0.7.9/src/serve.rs",
				   .children = (struct await_node *[]){&inner},
				   .n_children = 1};
	const char *const *const owns[] = {NULL, axum, none};
	const struct await_node *const points[] = {&inner, &outer, NULL};

	for (size_t i = 0; i < 3; i++) {
		const struct graph g = {.own = owns[i]};
		const struct await_node *own = NULL;

		assert_ptr_equal(graph_leaf(&g, &outer, &own), &leaf);
		assert_ptr_equal(own, points[i]);
	}
}

static void test_comparison(void **state)
{
	const struct trace_moment from = moment_sample(MOMENT_START);
	const struct trace_moment to = moment_sample(MOMENT_END);
	struct error err = {0};
	struct comparison c;

	assert_int_equal(comparison_make(&from, &to, &c, &err), 0);
	assert_int_equal(c.changes[0], CHANGE_SAME);  /* 7 */
	assert_int_equal(c.changes[1], CHANGE_MOVED); /* 9 runs */
	assert_int_equal(c.changes[2], CHANGE_NEW);   /* 10 */
	assert_int_equal(c.changes[3], CHANGE_NEW);   /* the block_on */
	assert_int_equal(c.n_gone, 1);
	assert_int_equal(from.tasks[c.gone[0]].id, 8);
	comparison_done(&c);
	/* The same await point, but for another lock. */
	moment_sample_lock.resource++;
	struct await_node other_lock = moment_sample_lock;
	moment_sample_lock.resource--;
	struct await_node waiting = moment_sample_waiting;
	waiting.children = (struct await_node *[]){&other_lock};
	struct moment_task task = moment_sample_end_tasks[0];
	task.tree = &waiting;
	struct trace_moment elsewhere = to;
	elsewhere.tasks = &task;
	elsewhere.n_tasks = 1;
	assert_int_equal(comparison_make(&from, &elsewhere, &c, &err), 0);
	assert_int_equal(c.changes[0], CHANGE_MOVED);
	assert_int_equal(c.n_gone, 2);
	comparison_done(&c);
}

/* ---- who waits for whom ---- */

/* A long chain of tasks, each waiting for another one far from it, is taken apart link by link, by
 * edges and not by rounds over all; what is left are two that wait for each other. */
static void test_long_chain(void **state)
{
	enum { N = 100000, STEP = 61001, N_ALL = N + 2 };
	static const struct moment_kind kind = {.name = "app::serve", .role = TR_TASK};
	struct moment_task *tasks = calloc(N_ALL, sizeof(*tasks));
	struct await_node *leaves = calloc(N_ALL, sizeof(*leaves));
	const struct trace_moment m = {.tasks = tasks, .n_tasks = N_ALL, .stopped = true};
	struct error err = {0};
	struct graph g;
	(void)state;
	assert_non_null(tasks);
	assert_non_null(leaves);
	for (size_t i = 0; i < N_ALL; i++) {
		size_t to = i < N ? (i + STEP) % N : 2 * N + 1 - i;

		/* The last one of the chain, before the one at 0, waits for a timer. */
		leaves[i] = (struct await_node){.kind = AN_LEAF,
						.full_name = "",
						.wait = to ? AW_TASK : AW_SLEEP,
						.resource = 0x1000 * (to + 1)};
		tasks[i] = (struct moment_task){.kind = &kind,
						.addr = 0x1000 * (i + 1),
						.refs = 3,
						.owner = 1,
						.tree = &leaves[i]};
	}
	assert_int_equal(graph_make(&m, &g, &err), 0);
	assert_int_equal(g.n_cycles, 1);
	assert_int_equal(g.cycles[0].n, 2);
	assert_int_equal(g.cycles[0].tasks[0], N);
	graph_done(&g);
	free(tasks);
	free(leaves);
}

/* ---- what threads do ---- */

#define RUST(name)                                                                                 \
	{                                                                                          \
		.function = (name), .file = "/rustc/59807616e1fa/library/x.rs", .line = 1,         \
		.object = "/srv/app"                                                               \
	}
#define OWN(name)                                                                                  \
	{                                                                                          \
		.function = (name), .file = "src/main.rs", .line = 1, .object = "/srv/app"         \
	}

/* A task's stack begins at its poll, though there is more of the program's own around it. */
static void test_thread_uses(void **state)
{
	static const struct moment_kind worker = {.name = "tokio worker", .role = TR_WORKER};
	static const struct moment_kind task = {.name = "app::serve", .role = TR_TASK};
	static const struct moment_kind root = {.name = "app::main", .role = TR_ROOT};
	static const struct moment_frame in_place[] = {
		{.function = "clock_nanosleep", .object = "/lib/libc.so.6", .file = ""},
		RUST("std::thread::functions::sleep"),
		OWN("app::work"),
		RUST("tokio::task::blocking::block_in_place<app::work, ()>"),
		OWN("app::serve"),
		RUST("core::panic::unwind_safe::AssertUnwindSafe<..>::call_once"),
		RUST("tokio::runtime::task::raw::poll<app::serve>"),
		RUST("tokio::runtime::Runtime::block_on<app::main>"),
		OWN("app::main"),
	};
	static const struct moment_frame parked[] = {
		RUST("tokio::runtime::park::Inner::park"),
		RUST("std::thread::start"),
	};
	static const struct moment_frame of_root[] = {
		OWN("app::run"),
		RUST("tokio::runtime::Runtime::block_on<app::run>"),
		OWN("app::main"),
	};
	struct moment_thread threads[] = {
		{.tid = 1, .name = "w", .call = 220, .frames = in_place, .n_frames = 9},
		{.tid = 2, .name = "w", .call = 203, .frames = parked, .n_frames = 2},
		{.tid = 3, .name = "m", .frames = of_root, .n_frames = 3},
		{.tid = 4, .name = "m", .call = 203, .frames = of_root + 1, .n_frames = 2},
	};
	struct moment_task tasks[] = {
		{.kind = &task, .addr = 1, .state = IS_RUNNING, .thread = 1},
		{.kind = &root, .addr = 2, .state = IS_IDLE, .thread = 1},
		{.kind = &worker, .addr = 3, .state = IS_RUNNING, .thread = 2},
		{.kind = &root, .addr = 4, .state = IS_RUNNING, .thread = 3},
		{.kind = &root, .addr = 5, .state = IS_IDLE, .thread = 4},
	};
	const struct trace_moment m = {
		.tasks = tasks, .n_tasks = 5, .threads = threads, .n_threads = 4};
	struct thread_use *uses = moment_thread_uses(&m);

	(void)state;
	assert_non_null(uses);
	assert_string_equal(moment_call_name(&threads[0]), "clock_nanosleep");
	assert_ptr_equal(uses[0].task, &tasks[0]);
	assert_ptr_equal(uses[0].root, &tasks[1]);
	assert_int_equal(moment_task_frames(&m, uses, &tasks[0]), 5);
	assert_int_equal(moment_task_frames(&m, uses, &tasks[1]), 0);
	assert_true(uses[0].in_place && !uses[0].parked);
	assert_true(uses[1].worker && uses[1].parked && !uses[1].task);
	assert_int_equal(moment_task_frames(&m, uses, &tasks[2]), 0);
	assert_int_equal(moment_task_frames(&m, uses, &tasks[3]), 1);
	assert_true(!uses[2].parked);
	assert_int_equal(moment_task_frames(&m, uses, &tasks[4]), 0);
	assert_true(uses[3].parked);
	free(uses);
}

/* What lies in another allocation counts once, whatever is in it. */
static void test_sizes(void **state)
{
	static const struct moment_kind kind = {
		.name = "app::serve", .future_bytes = 200, .task_bytes = 256};
	struct await_node leaf = {.kind = AN_LEAF, .addr = 0x9000, .bytes = 112};
	struct await_node within = {.kind = AN_ASYNC, .addr = 0x5010, .bytes = 64};
	struct await_node *in_box[] = {&within, &leaf};
	struct await_node box = {.kind = AN_ASYNC,
				 .addr = 0x5000,
				 .bytes = 1000,
				 .children = in_box,
				 .n_children = 2};
	struct await_node inside = {.kind = AN_ASYNC, .addr = 0x1040, .bytes = 100};
	struct await_node *all[] = {&inside, &box};
	struct await_node tree = {
		.kind = AN_ASYNC, .addr = 0x1020, .bytes = 200, .children = all, .n_children = 2};
	const struct moment_task task = {.kind = &kind, .addr = 0x1000, .tree = &tree};
	struct task_size size = moment_task_size(&task);

	(void)state;
	assert_int_equal(size.future_bytes, 200);
	assert_int_equal(size.boxed_bytes, 1000 + 112);
	assert_int_equal(size.whole_bytes, 256 + 1000 + 112);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_many_tasks),
		cmocka_unit_test(test_large_tree),    cmocka_unit_test(test_damaged_records),
		cmocka_unit_test(test_damaged_chunk), cmocka_unit_test(test_hostile_tree),
		cmocka_unit_test(test_many_moments),  cmocka_unit_test(test_large_moments),
		cmocka_unit_test(test_graph),	      cmocka_unit_test(test_own_point),
		cmocka_unit_test(test_comparison),    cmocka_unit_test(test_long_chain),
		cmocka_unit_test(test_thread_uses),   cmocka_unit_test(test_sizes),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
