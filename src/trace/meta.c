/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Metadata records, both ways. A record is a type, a length and its fields, so that a reader steps
 * over what it does not know; the order of the fields is that of docs/trace-format.md. What is read
 * lands in one arena of the reader: items never move, and a reader's whole metadata goes at once.
 */
#include "trace/meta.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/vec.h"
#include "trace/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A record with very many or very long spawn sites loses the last ones. */
#define MAX_SITES_BYTES (4u << 20)
/* A trace with more metadata than this is a hostile one. */
#define MAX_TOTAL_BYTES ((size_t)256 << 20)
#define BLOCK_BYTES (64u << 10)

/* ---- out ---- */

static void put_string(struct buf *out, const char *s)
{
	size_t len = s ? strnlen(s, PLX_MAX_STRING) : 0;
	buf_uleb(out, len);
	buf_add(out, s, len);
}

static void put_record(struct buf *out, enum plx_record_type type, const struct buf *fields)
{
	buf_uleb(out, type);
	buf_uleb(out, fields->len);
	buf_add(out, fields->data, fields->len);
	if (buf_failed(fields))
		out->failed = true;
}

void meta_put_process(struct buf *out, uint32_t index, const struct trace_process *p)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, index);
	buf_uleb(&f, p->pid);
	put_string(&f, p->exe);
	put_string(&f, p->cmdline);
	buf_uleb(&f, p->start_ns);
	buf_uleb(&f, p->start_realtime_ns);
	buf_uleb(&f, p->clock_step_ps);
	put_record(out, PLX_PROCESS, &f);
}

void meta_put_runtime(struct buf *out, uint32_t index, const struct trace_runtime *r)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, index);
	buf_uleb(&f, r->process);
	put_string(&f, r->name);
	put_string(&f, r->version);
	put_string(&f, r->object);
	put_string(&f, r->verified);
	put_record(out, PLX_RUNTIME, &f);
}

void meta_put_thread(struct buf *out, uint32_t index, const struct trace_thread *t)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, index);
	buf_uleb(&f, t->process);
	buf_uleb(&f, t->tid);
	put_string(&f, t->name);
	buf_uleb(&f, t->stream_of);
	put_record(out, PLX_THREAD, &f);
}

void meta_put_thread_name(struct buf *out, uint32_t thread, const char *name)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, thread);
	put_string(&f, name);
	put_record(out, PLX_THREAD_NAME, &f);
}

void meta_put_kind(struct buf *out, uint32_t index, const struct trace_kind *k)
{
	_cleanup_buf_ struct buf f = BUF_INIT, sites = BUF_INIT;
	uint32_t n_sites = 0;

	while (n_sites < k->n_sites && n_sites < PLX_MAX_SITES && sites.len < MAX_SITES_BYTES) {
		buf_uleb(&sites, k->site_addrs ? k->site_addrs[n_sites] : 0);
		put_string(&sites, k->sites ? k->sites[n_sites] : NULL);
		n_sites++;
	}
	buf_uleb(&f, index);
	buf_uleb(&f, k->process);
	buf_uleb(&f, k->runtime);
	buf_uleb(&f, k->role);
	buf_uleb(&f, k->address_named);
	buf_uleb(&f, k->vtable);
	buf_uleb(&f, k->poll);
	put_string(&f, k->name);
	put_string(&f, k->full_name);
	put_string(&f, k->scheduler);
	buf_uleb(&f, n_sites);
	buf_add(&f, sites.data, sites.len);
	buf_uleb(&f, k->flags);
	if (buf_failed(&sites))
		f.failed = true;
	put_record(out, PLX_KIND, &f);
}

void meta_put_place(struct buf *out, uint32_t index, const struct trace_place *p)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, index);
	buf_uleb(&f, p->process);
	put_string(&f, p->function);
	put_string(&f, p->file);
	buf_uleb(&f, p->line);
	buf_uleb(&f, p->flags);
	put_string(&f, p->awaits);
	buf_uleb(&f, p->outer);
	put_record(out, PLX_PLACE, &f);
}

void meta_put_frame(struct buf *out, uint32_t index, const struct trace_frame *fr)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, index);
	buf_uleb(&f, fr->process);
	buf_uleb(&f, fr->addr);
	put_string(&f, fr->object);
	put_string(&f, fr->function);
	put_string(&f, fr->file);
	buf_uleb(&f, fr->line);
	put_record(out, PLX_FRAME, &f);
}

void meta_put_stack(struct buf *out, uint32_t index, const struct trace_stack *s)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, index);
	buf_uleb(&f, s->parent);
	buf_uleb(&f, s->frame);
	buf_uleb(&f, s->flags);
	put_record(out, PLX_STACK, &f);
}

void meta_put_coverage(struct buf *out, uint32_t index, const struct trace_coverage *c)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, index);
	buf_uleb(&f, c->process);
	put_string(&f, c->item);
	buf_uleb(&f, c->seen);
	buf_uleb(&f, c->total);
	put_string(&f, c->note);
	put_string(&f, c->object);
	put_string(&f, c->runtime);
	buf_uleb(&f, c->cover);
	put_record(out, PLX_COVERAGE, &f);
}

void meta_put_cost(struct buf *out, const struct trace_cost *c)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, c->stop_ns);
	buf_uleb(&f, c->attach_ns);
	buf_uleb(&f, c->recorder_cpu_ns);
	buf_uleb(&f, c->event_cost_ps);
	buf_uleb(&f, c->end_ns);
	put_string(&f, c->end_reason);
	buf_uleb(&f, c->begin_ns);
	buf_uleb(&f, c->analysis_cpu_ns);
	put_record(out, PLX_COST, &f);
}

void meta_put_cpu(struct buf *out, uint32_t index, const struct trace_cpu *c)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, index);
	buf_uleb(&f, c->process);
	buf_uleb(&f, c->n_threads);
	buf_uleb(&f, c->cpu_ns);
	buf_uleb(&f, c->run_delay_ns);
	buf_uleb(&f, c->n_periods);
	buf_uleb(&f, c->n_throttled);
	buf_uleb(&f, c->throttled_ns);
	buf_uleb(&f, c->quota_ns);
	buf_uleb(&f, c->period_ns);
	put_string(&f, c->cgroup);
	put_record(out, PLX_CPU, &f);
}

void meta_put_neighbour(struct buf *out, uint32_t index, const struct trace_neighbour *n)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, index);
	buf_uleb(&f, n->pid);
	buf_uleb(&f, n->tid);
	buf_uleb(&f, n->flags);
	put_string(&f, n->name);
	put_record(out, PLX_NEIGHBOUR, &f);
}

void meta_put_message(struct buf *out, uint32_t index, const char *text)
{
	_cleanup_buf_ struct buf f = BUF_INIT;
	buf_uleb(&f, index);
	put_string(&f, text);
	put_record(out, PLX_MESSAGE, &f);
}

/* ---- in ---- */

struct meta_block {
	struct meta_block *next;
	size_t used, size;
	_Alignas(16) uint8_t bytes[];
};

/* Zeroed memory that lives as long as m. */
static void *take(struct meta *m, size_t size)
{
	struct meta_block *b = m->blocks;

	size = (size + 15) & ~(size_t)15;
	if (!b || b->size - b->used < size) {
		size_t block = size > BLOCK_BYTES ? size : BLOCK_BYTES;
		if (block > MAX_TOTAL_BYTES - m->total_bytes)
			return NULL;
		b = calloc(1, sizeof(*b) + block);
		if (!b)
			return NULL;
		b->size = block;
		b->next = m->blocks;
		m->blocks = b;
		m->total_bytes += block;
	}
	void *p = b->bytes + b->used;
	b->used += size;
	return p;
}

void meta_done(struct meta *m)
{
	while (m->blocks) {
		struct meta_block *next = m->blocks->next;
		free(m->blocks);
		m->blocks = next;
	}
	free(m->processes.items);
	free(m->runtimes.items);
	free(m->threads.items);
	free(m->kinds.items);
	free(m->places.items);
	free(m->frames.items);
	free(m->stacks.items);
	free(m->coverage.items);
	free(m->cpus.items);
	free(m->neighbours.items);
	free(m->messages.items);
	*m = (struct meta){0};
}

void *meta_get(const struct meta_table *t, uint32_t i)
{
	return i < t->n ? t->items[i] : NULL;
}

/* Sets *ret to a copy of the string; bytes of value 0 inside become '?'. */
static int get_string(struct meta *m, struct cursor *c, const char **ret)
{
	uint64_t len = cursor_uleb(c);
	const char *data = len <= PLX_MAX_STRING ? cursor_bytes(c, len) : NULL;
	if (!data)
		return -EBADMSG;

	char *s = take(m, len + 1);
	if (!s)
		return -ENOMEM;
	memcpy(s, data, len);
	for (char *zero = s; (zero = memchr(zero, 0, s + len - zero));)
		*zero = '?';
	*ret = s;
	return 0;
}

static uint32_t get_u32(struct cursor *c)
{
	uint64_t v = cursor_uleb(c);
	if (v > UINT32_MAX)
		c->failed = true;
	return (uint32_t)v;
}

static uint16_t get_u16(struct cursor *c)
{
	uint64_t v = cursor_uleb(c);
	if (v > UINT16_MAX)
		c->failed = true;
	return (uint16_t)v;
}

/* The first record of an index counts. An index that the file is too short for is made up: tables
 * are no larger than what the file holds. */
static int put_item(const struct meta *m, struct meta_table *t, uint32_t index, void *item)
{
	if (index > PLX_MAX_INDEX || index > m->max_index)
		return -EBADMSG;
	if (!GROW_ZERO(t->items, index, t->cap))
		return -ENOMEM;
	if (index >= t->n)
		t->n = index + 1;
	if (!t->items[index])
		t->items[index] = item;
	return 0;
}

static int read_process(struct meta *m, struct cursor *c)
{
	struct trace_process *p = take(m, sizeof(*p));
	if (!p)
		return -ENOMEM;
	uint32_t index = get_u32(c);
	p->pid = get_u32(c);
	int r = get_string(m, c, &p->exe);
	if (r == 0)
		r = get_string(m, c, &p->cmdline);
	p->start_ns = cursor_uleb(c);
	p->start_realtime_ns = cursor_uleb(c);
	if (cursor_left(c)) /* 1.1 had none */
		p->clock_step_ps = cursor_uleb(c);
	if (r < 0 || !cursor_ok(c))
		return r < 0 ? r : -EBADMSG;
	return put_item(m, &m->processes, index, p);
}

static int read_runtime(struct meta *m, struct cursor *c)
{
	struct trace_runtime *rt = take(m, sizeof(*rt));
	if (!rt)
		return -ENOMEM;
	uint32_t index = get_u32(c);
	rt->process = get_u32(c);
	const char **strings[] = {&rt->name, &rt->version, &rt->object, &rt->verified};
	for (unsigned i = 0; i < 4; i++)
		TRY(get_string(m, c, strings[i]));
	return cursor_ok(c) ? put_item(m, &m->runtimes, index, rt) : -EBADMSG;
}

static int read_thread(struct meta *m, struct cursor *c)
{
	struct trace_thread *t = take(m, sizeof(*t));
	if (!t)
		return -ENOMEM;
	uint32_t index = get_u32(c);
	t->process = get_u32(c);
	t->tid = get_u32(c);
	int r = get_string(m, c, &t->name);
	if (r == 0 && cursor_left(c)) /* 1.0 had none */
		t->stream_of = get_u32(c);
	if (r < 0 || !cursor_ok(c) || t->stream_of > index)
		return r < 0 ? r : -EBADMSG;
	return put_item(m, &m->threads, index, t);
}

static int read_thread_name(struct meta *m, struct cursor *c)
{
	const char *name;
	uint32_t index = get_u32(c);
	int r = get_string(m, c, &name);
	if (r < 0 || !cursor_ok(c))
		return r < 0 ? r : -EBADMSG;
	struct trace_thread *t = meta_get(&m->threads, index);
	if (t)
		t->name = name;
	return 0;
}

static int read_sites(struct meta *m, struct cursor *c, struct trace_kind *k)
{
	uint64_t n = cursor_uleb(c);
	/* A site has at least two bytes. */
	if (n > PLX_MAX_SITES || n > cursor_left(c) / 2)
		return -EBADMSG;
	uint64_t *addrs = take(m, n * sizeof(*addrs));
	const char **sites = take(m, n * sizeof(*sites));
	if (!addrs || !sites)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++) {
		addrs[i] = cursor_uleb(c);

		TRY(get_string(m, c, &sites[i]));
	}
	k->n_sites = (uint32_t)n;
	k->site_addrs = addrs;
	k->sites = sites;
	return 0;
}

static int read_kind(struct meta *m, struct cursor *c)
{
	struct trace_kind *k = take(m, sizeof(*k));
	if (!k)
		return -ENOMEM;
	uint32_t index = get_u32(c);
	k->process = get_u32(c);
	k->runtime = get_u32(c);
	k->role = get_u16(c);
	k->address_named = get_u16(c);
	k->vtable = cursor_uleb(c);
	k->poll = cursor_uleb(c);
	const char **strings[] = {&k->name, &k->full_name, &k->scheduler};
	for (unsigned i = 0; i < 3; i++)
		TRY(get_string(m, c, strings[i]));
	int r = read_sites(m, c, k);
	if (r == 0 && cursor_left(c)) /* since 1.6 */
		k->flags = get_u32(c);
	if (r < 0 || !cursor_ok(c))
		return r < 0 ? r : -EBADMSG;
	return put_item(m, &m->kinds, index, k);
}

static int read_place(struct meta *m, struct cursor *c)
{
	struct trace_place *p = take(m, sizeof(*p));
	if (!p)
		return -ENOMEM;
	uint32_t index = get_u32(c);
	p->process = get_u32(c);
	int r = get_string(m, c, &p->function);
	if (r == 0)
		r = get_string(m, c, &p->file);
	p->line = get_u32(c);
	p->flags = get_u32(c);
	if (r == 0)
		r = get_string(m, c, &p->awaits);
	p->outer = cursor_left(c) ? get_u32(c) : 0;
	if (r < 0 || !cursor_ok(c) || p->outer > index)
		return r < 0 ? r : -EBADMSG;
	return put_item(m, &m->places, index, p);
}

static int read_frame(struct meta *m, struct cursor *c)
{
	struct trace_frame *f = take(m, sizeof(*f));
	if (!f)
		return -ENOMEM;
	uint32_t index = get_u32(c);
	f->process = get_u32(c);
	f->addr = cursor_uleb(c);
	const char **strings[] = {&f->object, &f->function, &f->file};
	for (unsigned i = 0; i < 3; i++)
		TRY(get_string(m, c, strings[i]));
	f->line = get_u32(c);
	return cursor_ok(c) ? put_item(m, &m->frames, index, f) : -EBADMSG;
}

/* A caller's record precedes its callees', so no chain of parents has a loop. */
static int read_stack(struct meta *m, struct cursor *c)
{
	struct trace_stack *s = take(m, sizeof(*s));
	if (!s)
		return -ENOMEM;
	uint32_t index = get_u32(c);
	s->parent = get_u32(c);
	s->frame = get_u32(c);
	s->flags = get_u32(c);
	return cursor_ok(c) && s->parent <= index ? put_item(m, &m->stacks, index, s) : -EBADMSG;
}

static int read_coverage(struct meta *m, struct cursor *c)
{
	struct trace_coverage *v = take(m, sizeof(*v));
	if (!v)
		return -ENOMEM;
	uint32_t index = get_u32(c);
	v->process = get_u32(c);
	int r = get_string(m, c, &v->item);
	v->seen = cursor_uleb(c);
	v->total = cursor_uleb(c);
	if (r == 0)
		r = get_string(m, c, &v->note);
	v->object = v->runtime = "";
	if (r == 0 && cursor_left(c)) { /* 1.1 had none */
		r = get_string(m, c, &v->object);
		if (r == 0)
			r = get_string(m, c, &v->runtime);
	}
	if (r == 0 && cursor_left(c)) /* since 1.4 */
		v->cover = get_u32(c);
	if (r < 0 || !cursor_ok(c))
		return r < 0 ? r : -EBADMSG;
	return put_item(m, &m->coverage, index, v);
}

static int read_cost(struct meta *m, struct cursor *c)
{
	struct trace_cost *v = take(m, sizeof(*v));
	if (!v)
		return -ENOMEM;
	v->stop_ns = cursor_uleb(c);
	v->attach_ns = cursor_uleb(c);
	v->recorder_cpu_ns = cursor_uleb(c);
	v->event_cost_ps = cursor_uleb(c);
	v->end_ns = cursor_uleb(c);
	int r = get_string(m, c, &v->end_reason);
	if (r == 0 && cursor_left(c)) /* 1.1 had none */
		v->begin_ns = cursor_uleb(c);
	if (r < 0 || !cursor_ok(c))
		return r < 0 ? r : -EBADMSG;
	if (cursor_left(c)) /* since 1.3 */
		v->analysis_cpu_ns = cursor_uleb(c);
	if (!cursor_ok(c))
		return -EBADMSG;
	m->cost = v;
	return 0;
}

static int read_cpu(struct meta *m, struct cursor *c)
{
	struct trace_cpu *v = take(m, sizeof(*v));
	if (!v)
		return -ENOMEM;
	uint32_t index = get_u32(c);
	v->process = get_u32(c);
	v->n_threads = get_u32(c);
	v->cpu_ns = cursor_uleb(c);
	v->run_delay_ns = cursor_uleb(c);
	v->n_periods = cursor_uleb(c);
	v->n_throttled = cursor_uleb(c);
	v->throttled_ns = cursor_uleb(c);
	v->quota_ns = cursor_uleb(c);
	v->period_ns = cursor_uleb(c);
	int r = get_string(m, c, &v->cgroup);
	if (r < 0 || !cursor_ok(c))
		return r < 0 ? r : -EBADMSG;
	return put_item(m, &m->cpus, index, v);
}

static int read_neighbour(struct meta *m, struct cursor *c)
{
	struct trace_neighbour *v = take(m, sizeof(*v));
	if (!v)
		return -ENOMEM;
	uint32_t index = get_u32(c);
	v->pid = get_u32(c);
	v->tid = get_u32(c);
	v->flags = get_u32(c);
	int r = get_string(m, c, &v->name);
	if (r < 0 || !cursor_ok(c))
		return r < 0 ? r : -EBADMSG;
	return put_item(m, &m->neighbours, index, v);
}

static int read_message(struct meta *m, struct cursor *c)
{
	const char **v = take(m, sizeof(*v));
	if (!v)
		return -ENOMEM;
	uint32_t index = get_u32(c);
	int r = get_string(m, c, v);
	if (r < 0 || !cursor_ok(c))
		return r < 0 ? r : -EBADMSG;
	return put_item(m, &m->messages, index, v);
}

int meta_read(struct meta *m, const void *payload, size_t size)
{
	static int (*const readers[])(struct meta *, struct cursor *) = {
		[PLX_PROCESS] = read_process, [PLX_RUNTIME] = read_runtime,
		[PLX_THREAD] = read_thread,   [PLX_THREAD_NAME] = read_thread_name,
		[PLX_KIND] = read_kind,	      [PLX_COVERAGE] = read_coverage,
		[PLX_COST] = read_cost,	      [PLX_PLACE] = read_place,
		[PLX_FRAME] = read_frame,     [PLX_STACK] = read_stack,
		[PLX_CPU] = read_cpu,	      [PLX_NEIGHBOUR] = read_neighbour,
		[PLX_MESSAGE] = read_message,
	};
	struct cursor c;
	int result = 0;

	cursor_init(&c, payload, size);
	while (cursor_left(&c)) {
		uint64_t type = cursor_uleb(&c), len = cursor_uleb(&c);
		const void *fields = cursor_bytes(&c, len);
		if (!fields)
			return -EBADMSG;
		if (type >= sizeof(readers) / sizeof(readers[0]) || !readers[type])
			continue;
		struct cursor record;
		cursor_init(&record, fields, len);
		int r = readers[type](m, &record);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			result = r;
	}
	return result;
}
