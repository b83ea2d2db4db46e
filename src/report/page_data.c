/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Collects the page's tables from a timeline, cuts them to what a page can hold, and writes them as
 * columns.
 *
 * What is between the polls of a task follows from them: it waits from the end of one until it is
 * scheduled, then it is ready until the next begins. So a poll says when it was scheduled, by which
 * thread, and what was waited for before it; the stretch after the last poll is the task's own.
 */
#include "report/page_data.h"

#include "base/compare.h"
#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"
#include "timeline/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where items are left out, what all of them add up to in cells of this many to the whole trace. */
#define CELLS 1024u
#define MOST_LANES 512u
#define SHARES 1000u /* numbers of cells are in parts of a cell's width */

/* Items that a page holds of each table: about 12 bytes each, before compression. */
#define MOST_POLLS 500000u
#define MOST_TASKS 200000u
#define MOST_OTHERS 200000u
#define LIVES_ON                                                                                   \
	UINT64_MAX /* the length of a task that has not ended: kept before all others, 0 in the file */
#define WAKES_KEPT 8u /* of a task, until the poll begins that they led to */

enum poll_flags {
	PF_BEGIN_SEEN = 1,
	PF_END_SEEN = 2,
	PF_INFERRED = 4,
	PF_WOKEN_INSIDE = 8,
	PF_UNKNOWN_BEFORE = 16, /* the state between the poll before and this one is not known */
	PF_AFTER_GAP = 32,	/* the task's poll before was left out: set when all is cut */
	PF_SELF_WAKE = 64,	/* what scheduled it was the task itself */
};

enum task_flags { TF_SPAWN_SEEN = 1 };

/* Every item begins so; the rest of it is numbers of 8 or 4 bytes that its table names. */
struct page_item {
	uint64_t begin_ns, length_ns;
};

struct page_poll {
	struct page_item at;
	uint64_t nth;  /* of its task's polls, from 1; not in the file */
	uint64_t task; /* serial; in the file the task's row */
	uint64_t
		ready_ns; /* begin - ready_ns: when it was scheduled; in the file + 1, 0: unknown */
	uint64_t blocked_ns;
	uint32_t thread, depth, place, resource, flags, outcome;
	uint32_t waker;	  /* 1 + the thread that woke it, 0: not known */
	uint32_t handler; /* 1 + kind; 0: none */
};

struct page_task {
	struct page_item at; /* spawn; how long it lived */
	uint64_t serial, number, parent, polls, wakes, self_wakes;
	/* After its last poll: the state, and since when (before the end). */
	uint64_t last_ns;
	uint32_t last_state, place, resource;
	uint32_t kind, role, outcome, flags;
};

struct page_call {
	struct page_item at;
	uint64_t task;
	uint32_t thread, call, keeps_worker;
};

struct page_park {
	struct page_item at;
	uint32_t thread, call;
};

struct page_off_cpu {
	struct page_item at;
	uint64_t task;
	uint32_t thread, reason, syscall;
};

struct page_sample {
	struct page_item at; /* length: its weight */
	uint64_t task;
	uint32_t thread, type;
	uint32_t stack; /* 1 + index in the trace */
	uint32_t node;	/* the same in the file */
};

struct page_future {
	struct page_item at;
	uint64_t task, serial;
	uint32_t thread, kind, depth, outcome;
};

/* A table of which the longest items are kept. */
struct table_kept {
	char *items;
	size_t n, cap, item_bytes, most;
	uint64_t floor_ns; /* shorter ones are left out */
	uint64_t n_left_out;
};

enum cell_sum { CS_POLL = 0, CS_BLOCKED, CS_READY, CS_WAIT, CS_PARK, CS_OFF_CPU, CS_N };

/* Of a thread or a family: ns in each cell, and its polls. */
struct lane_cells {
	uint64_t ns[CS_N][CELLS];
	uint64_t polls[CELLS], longest_ns[CELLS];
};

/* What is known of a task until its next poll. */
struct page_live_task {
	struct {
		uint64_t serial;
		uint32_t thread;
		bool self;
	} wakes[WAKES_KEPT];
	unsigned n_wakes;
	struct tl_resource resource;
	uint64_t wait_ns, place; /* of the last stretch between polls: its begin */
	enum task_state state;
	bool unknown;
	uint64_t n_polls;
};

struct page_data {
	struct trace_reader *reader;
	uint64_t base_ns, cell_ns;
	struct map threads, families; /* index or kind, 0 to struct lane_cells */
	struct pool lives;
	struct table_kept polls, tasks, calls, parks, off_cpu, samples, futures, losses;
	struct map resources; /* (address, type and process) to index + 1 */
	struct tl_resource *resource;
	size_t n_resources;
};

/* ---- keeping the longest ---- */

static int longer(const void *a, const void *b)
{
	const struct page_item *x = a, *y = b;

	return DESCENDING(x->length_ns, y->length_ns) ?: ASCENDING(x->begin_ns, y->begin_ns);
}

/* To `most` items. */
static void cut(struct table_kept *t)
{
	if (t->n <= t->most)
		return;
	qsort(t->items, t->n, t->item_bytes, longer);
	t->n_left_out += t->n - t->most;
	t->n = t->most;
	t->floor_ns = ((struct page_item *)(t->items + (t->n - 1) * t->item_bytes))->length_ns;
}

/* Adds the item, unless it is too short already. 0 or -ENOMEM. */
static int keep(struct table_kept *t, const void *item)
{
	if (((const struct page_item *)item)->length_ns < t->floor_ns) {
		t->n_left_out++;
		return 0;
	}
	if (t->n == 2 * t->most)
		cut(t);
	if (t->n == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 256;
		char *items = realloc(t->items, cap * t->item_bytes);

		if (!items)
			return -ENOMEM;
		t->items = items;
		t->cap = cap;
	}
	memcpy(t->items + t->n++ * t->item_bytes, item, t->item_bytes);
	return 0;
}

/* ---- cells ---- */

/* NULL: out of memory, or there are too many. */
static struct lane_cells *lane_cells(struct map *lanes, uint32_t lane)
{
	struct lane_cells *known = map_get(lanes, lane, 0);

	return known || lanes->n >= MOST_LANES ? known
					       : map_new(lanes, lane, 0, sizeof(struct lane_cells));
}

static void add_time(struct page_data *d, struct lane_cells *lane, enum cell_sum sum,
		     struct page_item at)
{
	uint64_t begin = at.begin_ns, end = at.begin_ns + at.length_ns;

	for (uint64_t i = begin / d->cell_ns; lane && i < CELLS && begin < end; i++) {
		uint64_t next = (i + 1) * d->cell_ns < end ? (i + 1) * d->cell_ns : end;

		lane->ns[sum][i] += next - begin;
		begin = next;
	}
}

static void add_poll(const struct page_data *d, struct lane_cells *lane, struct page_item at)
{
	uint64_t i = at.begin_ns / d->cell_ns;

	if (!lane || i >= CELLS)
		return;
	lane->polls[i]++;
	if (at.length_ns > lane->longest_ns[i])
		lane->longest_ns[i] = at.length_ns;
}

/* ---- the sink ---- */

static uint64_t since_begin(const struct page_data *d, uint64_t ns)
{
	return ns > d->base_ns ? ns - d->base_ns : 0;
}

static struct page_item item(const struct page_data *d, uint64_t begin_ns, uint64_t end_ns)
{
	return (struct page_item){since_begin(d, begin_ns),
				  end_ns > begin_ns ? end_ns - begin_ns : 0};
}

/* Index + 1 of what a task waits for; 0: not known, or no memory for it. */
static uint32_t resource_index(struct page_data *d, const struct tl_resource *res, uint32_t process)
{
	uint64_t whose = (uint64_t)process << 16 | res->type;
	uint32_t known;

	if (!res->address)
		return 0;
	known = (uint32_t)(uintptr_t)map_get(&d->resources, res->address, whose);
	if (known || d->n_resources >= MOST_OTHERS || !GROW_ONE(d->resource, d->n_resources))
		return known;
	d->resource[d->n_resources++] = *res;
	if (map_put(&d->resources, res->address, whose, (void *)(uintptr_t)d->n_resources) < 0) {
		d->n_resources--;
		return 0;
	}
	return (uint32_t)d->n_resources;
}

static uint32_t process_of(const struct page_data *d, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(d->reader, kind);

	return k ? k->process : 0;
}

static int on_task_begin(void *ctx, struct tl_task *task)
{
	struct page_data *d = ctx;

	task->user = pool_get(&d->lives);
	return task->user ? 0 : -ENOMEM;
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct page_data *d = ctx;
	struct page_live_task *live = task->user;
	struct page_task t = {
		.at = item(d, task->spawn_ns, task->end_ns),
		.serial = task->serial,
		.number = task->number,
		.parent = task->parent_number,
		.polls = task->n_polls,
		.wakes = task->n_wakes,
		.self_wakes = task->n_self_wakes,
		.last_ns = live->wait_ns,
		.last_state = live->wait_ns ? live->state : 0,
		.place = (uint32_t)live->place,
		.resource = resource_index(d, &live->resource, process_of(d, task->kind)),
		.kind = task->kind,
		.role = task->role,
		.outcome = task->outcome,
		.flags = task->spawn_seen ? TF_SPAWN_SEEN : 0,
	};

	if (!task->end_ns)
		t.at.length_ns = LIVES_ON;
	pool_put(&d->lives, live);
	task->user = NULL;
	return keep(&d->tasks, &t);
}

static int on_wake(void *ctx, const struct tl_wake *wake)
{
	struct page_live_task *live = wake->task->user;

	(void)ctx;
	if (!live || wake->effect == TW_NOOP)
		return 0;
	unsigned at = live->n_wakes++ % WAKES_KEPT;
	live->wakes[at].serial = wake->serial;
	live->wakes[at].thread = wake->thread;
	live->wakes[at].self = wake->self;
	return 0;
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct page_data *d = ctx;
	struct page_live_task *live = wait->task->user;

	if (wait->state == TS_WAITING)
		live->resource = wait->resource;
	if (wait->state == TS_UNKNOWN)
		live->unknown = true;
	if (wait->state == TS_WAITING || wait->state == TS_SCHEDULED)
		add_time(d, lane_cells(&d->families, wait->task->kind),
			 wait->state == TS_WAITING ? CS_WAIT : CS_READY,
			 item(d, wait->begin_ns, wait->end_ns));
	live->state = wait->state;
	live->wait_ns = since_begin(d, wait->begin_ns) + 1;
	live->place = wait->place;
	return 0;
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct page_data *d = ctx;
	struct page_live_task *live = poll->task->user;
	uint64_t ready = poll->scheduled_ns && poll->scheduled_ns <= poll->begin_ns
				 ? poll->begin_ns - poll->scheduled_ns + 1
				 : 0;
	struct page_poll p = {
		.at = item(d, poll->begin_ns, poll->end_ns),
		.nth = ++live->n_polls,
		.task = poll->task->serial,
		.ready_ns = ready,
		.blocked_ns = poll->blocked_ns,
		.thread = poll->thread,
		.depth = poll->depth,
		.place = (uint32_t)poll->place,
		.resource = resource_index(d, &live->resource, process_of(d, poll->task->kind)),
		.outcome = poll->outcome,
		.handler = poll->round.serial ? poll->round.kind + 1 : 0,
	};

	for (unsigned i = 0; poll->wake_serial && i < WAKES_KEPT; i++) {
		if (live->wakes[i].serial != poll->wake_serial)
			continue;
		p.waker = live->wakes[i].thread + 1;
		p.flags |= live->wakes[i].self ? PF_SELF_WAKE : 0;
	}
	p.flags |= (poll->begin_seen ? PF_BEGIN_SEEN : 0) | (poll->end_seen ? PF_END_SEEN : 0) |
		   (poll->inferred ? PF_INFERRED : 0) | (poll->woken_inside ? PF_WOKEN_INSIDE : 0) |
		   (live->unknown ? PF_UNKNOWN_BEFORE : 0);
	TRY(keep(&d->polls, &p));
	struct lane_cells *thread = lane_cells(&d->threads, poll->thread);
	struct lane_cells *family = lane_cells(&d->families, poll->task->kind);
	if (!poll->depth)
		add_time(d, thread, CS_POLL, p.at);
	add_poll(d, thread, p.at);
	add_time(d, family, CS_POLL, p.at);
	add_poll(d, family, p.at);
	live->unknown = false;
	live->wait_ns = 0;
	live->place = poll->place;
	live->resource = (struct tl_resource){0};
	return 0;
}

static int on_block(void *ctx, const struct tl_block *block)
{
	struct page_data *d = ctx;
	const struct page_call c = {
		.at = item(d, block->begin_ns, block->end_ns),
		.task = block->task->serial,
		.thread = block->thread,
		.call = block->call,
		.keeps_worker = block->keeps_worker,
	};

	if (block->keeps_worker) {
		add_time(d, lane_cells(&d->threads, block->thread), CS_BLOCKED, c.at);
		add_time(d, lane_cells(&d->families, block->task->kind), CS_BLOCKED, c.at);
	}
	return keep(&d->calls, &c);
}

static int on_park(void *ctx, const struct tl_park *park)
{
	struct page_data *d = ctx;
	const struct page_park p = {
		.at = item(d, park->begin_ns, park->end_ns),
		.thread = park->thread,
		.call = park->call,
	};

	add_time(d, lane_cells(&d->threads, park->thread), CS_PARK, p.at);
	return keep(&d->parks, &p);
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct page_data *d = ctx;
	const struct page_off_cpu o = {
		.at = item(d, off->begin_ns, off->end_ns),
		.task = off->task ? off->task->serial : 0,
		.thread = off->thread,
		.reason = off->reason,
		.syscall = off->syscall,
	};

	if (off->task)
		add_time(d, lane_cells(&d->threads, off->thread), CS_OFF_CPU, o.at);
	return keep(&d->off_cpu, &o);
}

static int on_sample(void *ctx, const struct tl_sample *sample)
{
	struct page_data *d = ctx;
	const struct page_sample s = {
		.at = {since_begin(d, sample->time_ns), sample->weight},
		.task = sample->task ? sample->task->serial : 0,
		.thread = sample->thread,
		.type = sample->type,
		.stack = (uint32_t)sample->stack,
	};

	return keep(&d->samples, &s);
}

static int on_future_poll(void *ctx, const struct tl_future_poll *poll)
{
	struct page_data *d = ctx;
	const struct page_future f = {
		.at = item(d, poll->begin_ns, poll->end_ns),
		.task = poll->task ? poll->task->serial : 0,
		.serial = poll->future->serial,
		.thread = poll->thread,
		.kind = poll->future->kind,
		.depth = poll->depth,
		.outcome = poll->outcome,
	};

	return keep(&d->futures, &f);
}

static int on_loss(void *ctx, const struct tl_loss *loss)
{
	struct page_data *d = ctx;
	const struct page_park p = {
		.at = item(d, loss->begin_ns, loss->end_ns),
		.thread = loss->thread,
		.call = loss->aux,
	};

	return keep(&d->losses, &p);
}

const struct timeline_sink page_data_sink = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.wake = on_wake,
	.block = on_block,
	.park = on_park,
	.off_cpu = on_off_cpu,
	.sample = on_sample,
	.future_poll = on_future_poll,
	.loss = on_loss,
};

/* ---- columns ---- */

struct page_column {
	const char *name; /* "~" at its end: differences */
	size_t offset;
	unsigned bytes;
};

#define COLUMN(type, name, member)                                                                 \
	{                                                                                          \
		name, offsetof(struct type, member), sizeof(((struct type *)NULL)->member)         \
	}

/* clang-format off */
static const struct page_column poll_columns[] = {
	COLUMN(page_poll, "thread~", thread), COLUMN(page_poll, "begin~", at.begin_ns),
	COLUMN(page_poll, "length", at.length_ns), COLUMN(page_poll, "task~", task),
	COLUMN(page_poll, "ready", ready_ns), COLUMN(page_poll, "blocked", blocked_ns),
	COLUMN(page_poll, "depth", depth), COLUMN(page_poll, "place", place),
	COLUMN(page_poll, "resource", resource), COLUMN(page_poll, "flags", flags),
	COLUMN(page_poll, "outcome", outcome), COLUMN(page_poll, "waker", waker),
	COLUMN(page_poll, "handler", handler), {0},
};
static const struct page_column task_columns[] = {
	COLUMN(page_task, "serial~", serial), COLUMN(page_task, "number~", number),
	COLUMN(page_task, "begin~", at.begin_ns), COLUMN(page_task, "length", at.length_ns),
	COLUMN(page_task, "parent~", parent), COLUMN(page_task, "polls", polls),
	COLUMN(page_task, "wakes", wakes), COLUMN(page_task, "self_wakes", self_wakes),
	COLUMN(page_task, "last", last_ns), COLUMN(page_task, "state", last_state),
	COLUMN(page_task, "place", place), COLUMN(page_task, "resource", resource),
	COLUMN(page_task, "kind", kind), COLUMN(page_task, "role", role),
	COLUMN(page_task, "outcome", outcome), COLUMN(page_task, "flags", flags), {0},
};
static const struct page_column call_columns[] = {
	COLUMN(page_call, "thread~", thread), COLUMN(page_call, "begin~", at.begin_ns),
	COLUMN(page_call, "length", at.length_ns), COLUMN(page_call, "task~", task),
	COLUMN(page_call, "call", call), COLUMN(page_call, "keeps_worker", keeps_worker), {0},
};
static const struct page_column park_columns[] = {
	COLUMN(page_park, "thread~", thread), COLUMN(page_park, "begin~", at.begin_ns),
	COLUMN(page_park, "length", at.length_ns), COLUMN(page_park, "call", call), {0},
};
static const struct page_column off_cpu_columns[] = {
	COLUMN(page_off_cpu, "thread~", thread), COLUMN(page_off_cpu, "begin~", at.begin_ns),
	COLUMN(page_off_cpu, "length", at.length_ns), COLUMN(page_off_cpu, "task~", task),
	COLUMN(page_off_cpu, "reason", reason), COLUMN(page_off_cpu, "syscall", syscall), {0},
};
static const struct page_column sample_columns[] = {
	COLUMN(page_sample, "thread~", thread), COLUMN(page_sample, "begin~", at.begin_ns),
	COLUMN(page_sample, "length", at.length_ns), COLUMN(page_sample, "task~", task),
	COLUMN(page_sample, "type", type), COLUMN(page_sample, "stack", node), {0},
};
static const struct page_column future_columns[] = {
	COLUMN(page_future, "thread~", thread), COLUMN(page_future, "begin~", at.begin_ns),
	COLUMN(page_future, "length", at.length_ns), COLUMN(page_future, "task~", task),
	COLUMN(page_future, "serial~", serial), COLUMN(page_future, "kind", kind),
	COLUMN(page_future, "depth", depth), COLUMN(page_future, "outcome", outcome), {0},
};
/* clang-format on */

static uint64_t value(const struct page_column *c, const char *item)
{
	uint64_t wide;
	uint32_t narrow;

	if (c->bytes == sizeof(wide)) {
		memcpy(&wide, item + c->offset, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, item + c->offset, sizeof(narrow));
	return narrow;
}

static void write_column(const struct table_kept *t, const struct page_column *c, struct buf *out)
{
	bool differences = strchr(c->name, '~');
	uint64_t before = 0;

	for (size_t i = 0; i < t->n; i++) {
		uint64_t v = value(c, t->items + i * t->item_bytes);

		v = v == LIVES_ON ? 0 : v;
		uint64_t step = v - before;

		before = v;
		buf_uleb(out, differences ? step << 1 ^ -(step >> 63) : v);
	}
}

static void write_table(const struct table_kept *t, const char *name,
			const struct page_column *columns, struct buf *out, struct json *j)
{
	json_object(j, name);
	json_u64(j, "n", t->n);
	json_u64(j, "left_out", t->n_left_out);
	json_u64(j, "left_out_below_ns", t->n_left_out ? t->floor_ns : 0);
	json_array(j, "columns");
	for (const struct page_column *c = columns; c->name; c++) {
		json_string(j, NULL, c->name);
		write_column(t, c, out);
	}
	json_end_array(j);
	json_end_object(j);
}

/* By thread and begin, the outer one first; `thread` follows what all items begin with, and the
 * task where there is one. */
static int by_thread(const void *a, const void *b, void *arg)
{
	size_t thread_at = *(size_t *)arg;
	const struct page_item *x = a, *y = b;
	uint32_t s, t;

	memcpy(&s, (const char *)a + thread_at, sizeof(s));
	memcpy(&t, (const char *)b + thread_at, sizeof(t));
	return ASCENDING(s, t) ?: ASCENDING(x->begin_ns, y->begin_ns) ?:
	       DESCENDING(x->length_ns, y->length_ns);
}

static void sort(struct table_kept *t, size_t thread_at)
{
	cut(t);
	if (t->n)
		qsort_r(t->items, t->n, t->item_bytes, by_thread, &thread_at);
}

static int by_serial(const void *a, const void *b)
{
	const struct page_task *x = a, *y = b;

	return ASCENDING(x->serial, y->serial);
}

/* Polls of a task that was left out go, too: nothing would say whose they are. */
static void drop_strangers(struct page_data *d)
{
	struct page_poll *polls = (struct page_poll *)d->polls.items;
	size_t n = 0;

	if (!d->tasks.n_left_out)
		return;
	for (size_t i = 0; i < d->polls.n; i++) {
		const struct page_task key = {.serial = polls[i].task};

		if (d->tasks.n && bsearch(&key, d->tasks.items, d->tasks.n, sizeof(key), by_serial))
			polls[n++] = polls[i];
	}
	d->polls.n_left_out += d->polls.n - n;
	d->polls.n = n;
}

static int by_task(const void *a, const void *b)
{
	const struct page_poll *x = a, *y = b;

	return ASCENDING(x->task, y->task) ?: ASCENDING(x->nth, y->nth);
}

static void mark_gaps(struct table_kept *t)
{
	struct page_poll *polls = (struct page_poll *)t->items;

	if (t->n)
		qsort(polls, t->n, sizeof(*polls), by_task);
	for (size_t i = 0; i < t->n; i++) {
		bool same = i && polls[i - 1].task == polls[i].task;

		polls[i].flags &= ~(unsigned)PF_AFTER_GAP;
		if (polls[i].nth != (same ? polls[i - 1].nth : 0) + 1)
			polls[i].flags |= PF_AFTER_GAP;
	}
}

/* ---- what the numbers mean ---- */

static void write_places(const struct page_data *d, struct json *j)
{
	const struct trace_place *p;

	json_array(j, "places");
	for (uint32_t i = 0; (p = trace_reader_place(d->reader, i)); i++) {
		const struct trace_place *own = trace_reader_own_place(d->reader, i, NULL);

		json_object(j, NULL);
		json_string(j, "function", p->function);
		json_string(j, "file", p->file);
		json_u64(j, "line", p->line);
		json_string(j, "awaits", p->awaits);
		json_u64(j, "outer", p->outer);
		if (own && own != p) {
			json_object(j, "own");
			json_string(j, "function", own->function);
			json_string(j, "file", own->file);
			json_u64(j, "line", own->line);
			json_string(j, "awaits", own->awaits);
			json_end_object(j);
		}
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_resources(const struct page_data *d, struct json *j)
{
	json_array(j, "resources");
	for (size_t i = 0; i < d->n_resources; i++) {
		json_object(j, NULL);
		json_string(j, "what", trace_resource_name(d->resource[i].type));
		json_u64(j, "address", d->resource[i].address);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_cells_of(const struct page_data *d, const struct map *lanes, const char *name,
			   struct buf *out, struct json *j)
{
	const struct map_entry *e;

	json_array(j, name);
	for (size_t at = 0; (e = map_next(lanes, &at));) {
		const struct lane_cells *lane = e->value;

		json_u64(j, NULL, e->a);
		for (unsigned sum = 0; sum < CS_N; sum++)
			for (unsigned i = 0; i < CELLS; i++)
				buf_uleb(out,
					 (lane->ns[sum][i] * SHARES + d->cell_ns - 1) / d->cell_ns);
		for (unsigned i = 0; i < CELLS; i++)
			buf_uleb(out, lane->polls[i]);
		for (unsigned i = 0; i < CELLS; i++)
			buf_uleb(out, lane->longest_ns[i]);
	}
	json_end_array(j);
}

/* After the tables: of each lane that it names, all sums, polls and longest polls, cell by cell. */
static void write_cells(const struct page_data *d, struct buf *out, struct json *j)
{
	static const char *const sums[CS_N] = {"polling_ns", "blocked_ns", "ready_ns",
					       "waiting_ns", "parked_ns",  "off_cpu_ns"};

	json_object(j, "cells");
	json_u64(j, "n", CELLS);
	json_u64(j, "cell_ns", d->cell_ns);
	json_u64(j, "shares", SHARES);
	json_array(j, "sums");
	for (unsigned i = 0; i < CS_N; i++)
		json_string(j, NULL, sums[i]);
	json_end_array(j);
	write_cells_of(d, &d->threads, "threads", out, j);
	write_cells_of(d, &d->families, "families", out, j);
	json_end_object(j);
}

/* Gives the samples' stacks the numbers that they have in the page: 1 + index, the callers' before
 * those that they called. */
struct stack_numbers {
	struct map known;
	uint32_t *nodes; /* the trace's index by the page's */
	size_t n;
};

static int number_stack(const struct trace_reader *r, struct stack_numbers *s, uint64_t stack,
			uint32_t *ret)
{
	uint32_t chain[TRACE_STACK_FRAMES];
	size_t n = 0;
	uint64_t at = stack;

	for (; at && n < TRACE_STACK_FRAMES && !map_get(&s->known, at, 0); n++) {
		const struct trace_stack *node = trace_reader_stack(r, (uint32_t)(at - 1));

		if (!node)
			break;
		chain[n] = (uint32_t)(at - 1);
		at = node->parent;
	}
	while (n-- > 0) {
		if (!GROW_ONE(s->nodes, s->n))
			return -ENOMEM;
		s->nodes[s->n++] = chain[n];
		if (map_put(&s->known, (uint64_t)chain[n] + 1, 0, (void *)(uintptr_t)s->n) < 0)
			return -ENOMEM;
	}
	*ret = (uint32_t)(uintptr_t)map_get(&s->known, stack, 0);
	return 0;
}

static int number_stacks(struct page_data *d, struct stack_numbers *s)
{
	struct page_sample *samples = (struct page_sample *)d->samples.items;

	for (size_t i = 0; i < d->samples.n; i++)
		if (samples[i].stack &&
		    number_stack(d->reader, s, samples[i].stack, &samples[i].node) < 0)
			return -ENOMEM;
	return 0;
}

/* "stacks": pairs of the caller's number and the frame's index; "frames". */
static int write_stacks(const struct page_data *d, const struct stack_numbers *s, struct json *j)
{
	struct map frames = {0};
	uint32_t *used = NULL;
	size_t n_used = 0;
	int r = 0;

	json_array(j, "stacks");
	for (size_t i = 0; i < s->n && r == 0; i++) {
		const struct trace_stack *node = trace_reader_stack(d->reader, s->nodes[i]);
		uintptr_t frame = (uintptr_t)map_get(&frames, node->frame, 0);

		if (!frame) {
			if (!GROW_ONE(used, n_used)) {
				r = -ENOMEM;
				break;
			}
			used[n_used++] = node->frame;
			frame = n_used;
			r = map_put(&frames, node->frame, 0, (void *)frame);
		}
		json_u64(j, NULL,
			 node->parent ? (uintptr_t)map_get(&s->known, node->parent, 0) : 0);
		json_u64(j, NULL, frame - 1);
	}
	json_end_array(j);
	json_array(j, "frames");
	for (size_t i = 0; i < n_used; i++)
		page_frame_json(trace_reader_frame(d->reader, used[i]), j);
	json_end_array(j);
	free(used);
	map_done(&frames);
	return r;
}

bool page_data_shrink(struct page_data *d)
{
	struct table_kept *const tables[] = {&d->tasks,	  &d->polls,   &d->calls,   &d->parks,
					     &d->off_cpu, &d->samples, &d->futures, &d->losses};
	bool smaller = false;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		smaller |= tables[i]->n > 1;
		tables[i]->most = tables[i]->n / 2 + 1;
	}
	return smaller;
}

int page_data_write(struct page_data *d, struct buf *columns, struct json *j)
{
	struct stack_numbers stacks = {0};
	int r;

	cut(&d->tasks);
	if (d->tasks.n)
		qsort(d->tasks.items, d->tasks.n, d->tasks.item_bytes, by_serial);
	cut(&d->polls);
	drop_strangers(d);
	mark_gaps(&d->polls);
	sort(&d->polls, offsetof(struct page_poll, thread));
	sort(&d->calls, offsetof(struct page_call, thread));
	sort(&d->parks, offsetof(struct page_park, thread));
	sort(&d->off_cpu, offsetof(struct page_off_cpu, thread));
	sort(&d->samples, offsetof(struct page_sample, thread));
	sort(&d->futures, offsetof(struct page_future, thread));
	sort(&d->losses, offsetof(struct page_park, thread));

	r = number_stacks(d, &stacks);
	json_object(j, "tables");
	write_table(&d->tasks, "tasks", task_columns, columns, j);
	write_table(&d->polls, "polls", poll_columns, columns, j);
	write_table(&d->calls, "calls", call_columns, columns, j);
	write_table(&d->parks, "parks", park_columns, columns, j);
	write_table(&d->off_cpu, "off_cpu", off_cpu_columns, columns, j);
	write_table(&d->samples, "samples", sample_columns, columns, j);
	write_table(&d->futures, "futures", future_columns, columns, j);
	write_table(&d->losses, "losses", park_columns, columns, j);
	json_end_object(j);
	if (d->polls.n_left_out || d->parks.n_left_out || d->calls.n_left_out ||
	    d->off_cpu.n_left_out || d->tasks.n_left_out)
		write_cells(d, columns, j);
	write_places(d, j);
	write_resources(d, j);
	if (r == 0)
		r = write_stacks(d, &stacks, j);
	map_done(&stacks.known);
	free(stacks.nodes);
	return r;
}

/* ---- life cycle ---- */

static void table_init(struct table_kept *t, size_t item_bytes, size_t most)
{
	t->item_bytes = item_bytes;
	t->most = most;
}

struct page_data *page_data_new(struct trace_reader *r, uint64_t base_ns, uint64_t end_ns)
{
	struct page_data *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->reader = r;
	d->base_ns = base_ns;
	d->cell_ns = end_ns > base_ns ? (end_ns - base_ns) / CELLS + 1 : 1;
	pool_init(&d->lives, sizeof(struct page_live_task));
	table_init(&d->polls, sizeof(struct page_poll), MOST_POLLS);
	table_init(&d->tasks, sizeof(struct page_task), MOST_TASKS);
	table_init(&d->calls, sizeof(struct page_call), MOST_OTHERS);
	table_init(&d->parks, sizeof(struct page_park), MOST_OTHERS);
	table_init(&d->off_cpu, sizeof(struct page_off_cpu), MOST_OTHERS);
	table_init(&d->samples, sizeof(struct page_sample), MOST_OTHERS);
	table_init(&d->futures, sizeof(struct page_future), MOST_OTHERS);
	table_init(&d->losses, sizeof(struct page_park), MOST_OTHERS);
	return d;
}

void page_data_free(struct page_data *d)
{
	if (!d)
		return;
	pool_done(&d->lives);
	map_free(&d->threads, free);
	map_free(&d->families, free);
	free(d->polls.items);
	free(d->tasks.items);
	free(d->calls.items);
	free(d->parks.items);
	free(d->off_cpu.items);
	free(d->samples.items);
	free(d->futures.items);
	free(d->losses.items);
	map_done(&d->resources);
	free(d->resource);
	free(d);
}

/* ---- frames ---- */

void page_frame_json(const struct trace_frame *f, struct json *j)
{
	struct buf name = BUF_INIT;

	trace_frame_name(&name, f);
	json_object(j, NULL);
	json_string(j, "function", name.data ? name.data : "");
	json_string(j, "file", f ? f->file : "");
	json_u64(j, "line", f ? f->line : 0);
	json_string(j, "object", f ? f->object : "");
	json_bool(j, "own", f && trace_frame_is_own(f, NULL));
	json_end_object(j);
	buf_done(&name);
}
