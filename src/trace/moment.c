/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * MOMENT chunks, both ways (docs/trace-format.md). A moment of many tasks is several chunks, each
 * of which can be read alone: it has the strings and kinds that its tasks name. A chunk is a
 * sequence of records as in META, compressed as a whole, since tasks are alike.
 */
#include "trace/moment.h"

#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/vec.h"
#include "trace/format.h"
#include "trace/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum {
	CUT_BYTES = 1 << 20, /* a chunk with as many is complete */
	BLOCK_BYTES = 64 << 10,
	MAX_DEPTH = 512, /* of a tree; the walker follows half of it */
	LEVEL = 3,	 /* of zstd */
	/* What one task may add to that: a chunk stays below PLX_MAX_MOMENT_BYTES. */
	TREE_BYTES = PLX_MAX_MOMENT_BYTES / 4,
	STRINGS_BYTES = PLX_MAX_MOMENT_BYTES / 2,
};
/* A moment that needs more is a hostile one. */
#define MAX_MEMORY_BYTES ((size_t)512 << 20)

/* ---- names ---- */

const char *inspect_state_name(enum inspect_state s)
{
	static const char *const names[] = {"idle", "scheduled", "running", "running, woken again",
					    "done"};

	return s < IS_N ? names[s] : "?";
}

const char *await_wait_name(enum await_wait w)
{
	static const char *const names[] = {
		"unknown",	   "sleep",   "semaphore", "mutex", "rwlock", "channel_send",
		"channel_receive", "oneshot", "notify",	   "task",  "socket", "blocking"};

	return w < AW_N ? names[w] : "?";
}

const char *moment_when_name(enum moment_when when)
{
	static const char *const names[] = {"start", "end"};

	return when < MOMENT_N ? names[when] : "?";
}

/* ---- memory ---- */

struct moment_block {
	struct moment_block *next;
	size_t used, size;
	_Alignas(16) uint8_t bytes[];
};

void *moment_take(struct trace_moment *m, size_t size)
{
	struct moment_block *b = m->memory;

	if (size > MAX_MEMORY_BYTES) {
		m->full = true;
		return NULL;
	}
	size = (size + 15) & ~(size_t)15;
	if (!b || b->size - b->used < size) {
		size_t block = size > BLOCK_BYTES ? size : BLOCK_BYTES;

		if (block > MAX_MEMORY_BYTES - m->memory_bytes) {
			m->full = true;
			return NULL;
		}
		b = calloc(1, sizeof(*b) + block);
		if (!b)
			return NULL;
		b->size = block;
		b->next = m->memory;
		m->memory = b;
		m->memory_bytes += block;
	}
	void *p = b->bytes + b->used;
	b->used += size;
	return p;
}

char *moment_string(struct trace_moment *m, const char *s, size_t len)
{
	char *copy = moment_take(m, len + 1);

	if (!copy)
		return NULL;
	memcpy(copy, s, len);
	for (char *zero = copy; (zero = memchr(zero, 0, (size_t)(copy + len - zero)));)
		*zero = '?';
	return copy;
}

void moment_done(struct trace_moment *m)
{
	while (m->memory) {
		struct moment_block *next = m->memory->next;

		free(m->memory);
		m->memory = next;
	}
	free(m->tasks);
	free(m->threads);
	free(m->notes);
	map_done(&m->kinds);
	*m = (struct trace_moment){0};
}

/* ---- out ---- */

struct seen_string {
	const char *text;
	uint32_t number;
};

struct encoding {
	const struct trace_moment *m;
	int (*chunk)(void *ctx, const struct buf *payload);
	void *ctx;
	ZSTD_CCtx *zstd;
	struct buf raw, fields, node; /* records so far; the fields of the next; of a node in it */
	struct map strings;	      /* (hash, length) -> struct seen_string */
	struct map kinds;	      /* struct moment_kind -> its number + 1 */
	uint32_t n_strings, n_kinds;
};

static void put_record(struct encoding *e, enum plx_moment_record type, const struct buf *fields)
{
	buf_uleb(&e->raw, type);
	buf_uleb(&e->raw, fields->len);
	buf_add(&e->raw, fields->data, fields->len);
	if (buf_failed(fields))
		e->raw.failed = true;
}

/* The string's number + 1, 0 for none: it is in a record before what names it. */
static uint64_t string_number(struct encoding *e, const char *s)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	size_t len = s ? strnlen(s, PLX_MAX_STRING) : 0;
	struct seen_string *seen;
	uint64_t hash;

	if (!len || e->raw.len > STRINGS_BYTES)
		return 0;
	hash = hash_string(0, s);
	seen = map_get(&e->strings, hash, len);
	if (seen && !strncmp(seen->text, s, len))
		return seen->number + 1;
	if (!seen) {
		seen = map_new(&e->strings, hash, len, sizeof(*seen));
		if (!seen) {
			e->raw.failed = true;
			return 0;
		}
		*seen = (struct seen_string){s, e->n_strings};
	}
	buf_add(&text, s, len);
	put_record(e, PLX_MOMENT_STRING, &text);
	return ++e->n_strings;
}

static void put_string(struct encoding *e, struct buf *out, const char *s)
{
	buf_uleb(out, string_number(e, s));
}

static uint64_t kind_number(struct encoding *e, const struct moment_kind *k)
{
	uintptr_t known = (uintptr_t)map_get(&e->kinds, (uintptr_t)k, 0);
	_cleanup_buf_ struct buf f = BUF_INIT;

	if (known)
		return known - 1;
	buf_uleb(&f, k->role);
	buf_uleb(&f, k->tokio);
	buf_uleb(&f, k->vtable);
	buf_uleb(&f, k->future_bytes);
	buf_uleb(&f, k->task_bytes);
	put_string(e, &f, k->name);
	put_string(e, &f, k->full_name);
	put_string(e, &f, k->object);
	put_string(e, &f, k->site);
	put_record(e, PLX_MOMENT_KIND, &f);
	if (map_put(&e->kinds, (uintptr_t)k, 0, (void *)(uintptr_t)(e->n_kinds + 1)) < 0)
		e->raw.failed = true;
	return e->n_kinds++;
}

static void put_held(struct encoding *e, struct buf *f, const struct await_held *h)
{
	buf_uleb(f, h->kind);
	buf_uleb(f, (h->counted ? PLX_MOMENT_COUNTED : 0) | (h->closed ? PLX_MOMENT_CLOSED : 0));
	put_string(e, f, h->type);
	buf_uleb(f, h->addr);
	buf_uleb(f, h->bytes);
	buf_uleb(f, h->length);
	buf_uleb(f, h->capacity);
	buf_uleb(f, h->senders);
}

static void put_node(struct encoding *e, const struct await_node *n)
{
	struct buf *f = &e->node;

	buf_clear(f);
	buf_uleb(f, n->n_children);
	buf_uleb(f, n->kind);
	buf_uleb(f, n->state);
	buf_uleb(f, n->wait);
	buf_uleb(f, n->granted);
	put_string(e, f, n->name);
	put_string(e, f, n->full_name);
	put_string(e, f, n->file);
	buf_uleb(f, n->line);
	put_string(e, f, n->detail);
	put_string(e, f, n->ends);
	buf_uleb(f, n->resource);
	buf_uleb(f, n->value);
	buf_uleb(f, n->addr);
	buf_uleb(f, n->bytes);
	buf_uleb(f, n->n_holds);
	for (size_t i = 0; i < n->n_holds; i++)
		buf_uleb(f, n->holds[i]);
	buf_uleb(f, n->n_held);
	for (size_t i = 0; i < n->n_held; i++)
		put_held(e, f, &n->held[i]);
	buf_uleb(&e->fields, f->len);
	buf_add(&e->fields, f->data, f->len);
	if (buf_failed(f))
		e->raw.failed = true;
	for (size_t i = 0; i < n->n_children; i++)
		put_node(e, n->children[i]);
}

static void put_task_fields(struct encoding *e, const struct moment_task *t, bool tree)
{
	struct buf *f = &e->fields;
	const struct moment_thread *thread = t->thread ? &e->m->threads[t->thread - 1] : NULL;

	buf_clear(f);
	buf_uleb(f, kind_number(e, t->kind));
	buf_uleb(f, t->addr);
	buf_uleb(f, t->id);
	buf_uleb(f, t->state);
	buf_uleb(f, (t->cancelled ? PLX_MOMENT_CANCELLED : 0) |
			    (t->join_interest ? PLX_MOMENT_JOIN_INTEREST : 0) |
			    (t->torn ? PLX_MOMENT_TORN : 0) |
			    (t->in_no_queue ? PLX_MOMENT_IN_NO_QUEUE : 0));
	buf_uleb(f, t->raw_state);
	buf_uleb(f, t->refs);
	buf_uleb(f, t->owner);
	buf_uleb(f, thread ? thread->tid : 0);
	buf_uleb(f, t->place);
	put_string(e, f, t->queue);
	put_string(e, f,
		   tree || !t->tree ? t->no_tree_reason : "its tree is too large for a trace");
	if (tree && t->tree)
		put_node(e, t->tree);
}

static void put_task(struct encoding *e, const struct moment_task *t)
{
	put_task_fields(e, t, true);
	if (e->fields.len > TREE_BYTES)
		put_task_fields(e, t, false);
	put_record(e, PLX_MOMENT_TASK, &e->fields);
}

static void put_thread(struct encoding *e, const struct moment_thread *t)
{
	struct buf *f = &e->fields;

	buf_clear(f);
	buf_uleb(f, t->tid);
	put_string(e, f, t->name);
	buf_uleb(f, t->call);
	buf_uleb(f, t->n_frames);
	for (size_t i = 0; i < t->n_frames; i++) {
		buf_uleb(f, t->frames[i].addr);
		put_string(e, f, t->frames[i].object);
		put_string(e, f, t->frames[i].function);
		put_string(e, f, t->frames[i].file);
		buf_uleb(f, t->frames[i].line);
	}
	buf_uleb(f, t->call_arg);
	put_record(e, PLX_MOMENT_THREAD, f);
}

static void put_head(struct encoding *e)
{
	const struct trace_moment *m = e->m;
	struct buf *f = &e->fields;

	buf_clear(f);
	buf_uleb(f, m->now_ns);
	buf_uleb(f, m->stop_ns);
	buf_uleb(f, m->stopped);
	buf_uleb(f, m->n_found);
	buf_uleb(f, m->n_torn);
	buf_uleb(f, m->n_missed);
	buf_uleb(f, m->n_descriptors);
	buf_uleb(f, m->max_descriptors);
	put_record(e, PLX_MOMENT_HEAD, f);
}

static int write_out(struct encoding *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	size_t bound = ZSTD_compressBound(e->raw.len), n;
	int rc;

	if (buf_failed(&e->raw) || buf_failed(&e->fields))
		return -ENOMEM;
	buf_uleb(&out, e->m->process);
	buf_uleb(&out, e->m->when);
	buf_uleb(&out, e->raw.len);
	if (!buf_reserve(&out, bound > e->raw.len ? bound : e->raw.len))
		return -ENOMEM;
	n = ZSTD_compressCCtx(e->zstd, out.data + out.len, bound, e->raw.data, e->raw.len, LEVEL);
	if (!ZSTD_isError(n) && n < e->raw.len)
		out.len += n;
	else
		buf_add(&out, e->raw.data, e->raw.len);
	rc = e->chunk(e->ctx, &out);
	buf_clear(&e->raw);
	map_free(&e->strings, free);
	map_done(&e->kinds);
	e->strings = e->kinds = (struct map){0};
	e->n_strings = e->n_kinds = 0;
	return rc;
}

static int write_if_full(struct encoding *e)
{
	return e->raw.len >= CUT_BYTES ? write_out(e) : 0;
}

int moment_encode(const struct trace_moment *m, int (*chunk)(void *ctx, const struct buf *payload),
		  void *ctx)
{
	struct encoding e = {.m = m, .chunk = chunk, .ctx = ctx, .zstd = ZSTD_createCCtx()};
	int rc = e.zstd ? 0 : -ENOMEM;

	if (rc == 0)
		put_head(&e);
	for (size_t i = 0; i < m->n_notes && rc == 0; i++) {
		buf_clear(&e.fields);
		put_string(&e, &e.fields, m->notes[i]);
		put_record(&e, PLX_MOMENT_NOTE, &e.fields);
	}
	for (size_t i = 0; i < m->n_threads && rc == 0; i++) {
		put_thread(&e, &m->threads[i]);
		rc = write_if_full(&e);
	}
	for (size_t i = 0; i < m->n_tasks && rc == 0; i++) {
		put_task(&e, &m->tasks[i]);
		rc = write_if_full(&e);
	}
	if (rc == 0 && e.raw.len)
		rc = write_out(&e);
	map_free(&e.strings, free);
	map_done(&e.kinds);
	buf_done(&e.raw);
	buf_done(&e.fields);
	buf_done(&e.node);
	ZSTD_freeCCtx(e.zstd);
	return rc;
}

/* ---- in ---- */

struct decoding {
	struct trace_moment *m;
	const char **strings; /* of this chunk */
	size_t n_strings, strings_cap;
	const struct moment_kind **kinds;
	size_t n_kinds, kinds_cap;
	struct await_node **siblings; /* read, and not yet their parent's */
	size_t n_siblings, siblings_cap;
	bool no_memory;
};

static uint64_t get_below(struct cursor *c, uint64_t limit)
{
	uint64_t v = cursor_uleb(c);

	if (v >= limit)
		c->failed = true;
	return v < limit ? v : 0;
}

static uint32_t get_u32(struct cursor *c)
{
	return (uint32_t)get_below(c, (uint64_t)UINT32_MAX + 1);
}

/* NULL: none. */
static const char *get_string(struct decoding *d, struct cursor *c)
{
	uint64_t number = get_below(c, d->n_strings + 1);

	return number ? d->strings[number - 1] : NULL;
}

static const char *get_text(struct decoding *d, struct cursor *c)
{
	const char *s = get_string(d, c);

	return s ? s : "";
}

/* Room in the moment's growing arrays, which counts as its memory does. */
static bool count_memory(struct trace_moment *m, size_t size)
{
	if (size > MAX_MEMORY_BYTES - m->memory_bytes) {
		m->full = true;
		return false;
	}
	m->memory_bytes += size;
	return true;
}

static void *take(struct decoding *d, size_t size)
{
	void *p = moment_take(d->m, size);

	if (!p)
		d->no_memory = true;
	return p;
}

static int read_head(struct decoding *d, struct cursor *c)
{
	struct trace_moment *m = d->m;
	uint64_t v[8];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		v[i] = cursor_uleb(c);
	if (!cursor_ok(c))
		return -EBADMSG;
	m->now_ns = v[0];
	m->stop_ns = v[1];
	m->stopped = v[2] & 1;
	m->n_found = v[3];
	m->n_torn = v[4];
	m->n_missed = v[5];
	m->n_descriptors = v[6];
	m->max_descriptors = v[7];
	return 0;
}

static int read_string(struct decoding *d, struct cursor *c)
{
	size_t len = cursor_left(c);
	const char *data = len <= PLX_MAX_STRING ? cursor_bytes(c, len) : NULL;

	if (!data)
		return -EBADMSG;
	if (!GROW(d->strings, d->n_strings, d->strings_cap))
		return -ENOMEM;
	d->strings[d->n_strings] = moment_string(d->m, data, len);
	if (!d->strings[d->n_strings])
		return -ENOMEM;
	d->n_strings++;
	return 0;
}

static bool same_kind(const struct moment_kind *a, const struct moment_kind *b)
{
	return a->role == b->role && a->tokio == b->tokio && a->vtable == b->vtable &&
	       a->future_bytes == b->future_bytes && a->task_bytes == b->task_bytes &&
	       !strcmp(a->name, b->name) && !strcmp(a->full_name, b->full_name) &&
	       !strcmp(a->object, b->object) && !strcmp(a->site, b->site);
}

static int read_kind(struct decoding *d, struct cursor *c)
{
	struct moment_kind k = {0}, *known;
	uint64_t hash;

	k.role = (enum trace_role)get_below(c, TR_N);
	k.tokio = cursor_uleb(c) & 1;
	k.vtable = cursor_uleb(c);
	k.future_bytes = cursor_uleb(c);
	k.task_bytes = cursor_uleb(c);
	k.name = get_text(d, c);
	k.full_name = get_text(d, c);
	k.object = get_text(d, c);
	k.site = get_text(d, c);
	if (!cursor_ok(c))
		return -EBADMSG;
	hash = hash_string(hash_string(k.role, k.name), k.full_name);
	known = map_get(&d->m->kinds, hash, k.vtable);
	if (!known || !same_kind(known, &k)) {
		struct moment_kind *one = take(d, sizeof(*one));

		if (!one)
			return -ENOMEM;
		*one = k;
		if (!known && map_put(&d->m->kinds, hash, k.vtable, one) < 0)
			return -ENOMEM;
		known = one;
	}
	if (!GROW(d->kinds, d->n_kinds, d->kinds_cap))
		return -ENOMEM;
	d->kinds[d->n_kinds++] = known;
	return 0;
}

/* The last n of the nodes that were read are the children of this one. */
static bool adopt(struct decoding *d, struct await_node *n, size_t n_children)
{
	if (n_children) {
		n->children = take(d, n_children * sizeof(struct await_node *));
		if (!n->children)
			return false;
		memcpy(n->children, d->siblings + d->n_siblings - n_children,
		       n_children * sizeof(struct await_node *));
	}
	n->n_children = n_children;
	d->n_siblings -= n_children;
	return true;
}

static void get_held(struct decoding *d, struct cursor *c, struct await_held *h)
{
	uint64_t flags;

	h->kind = (enum await_held_kind)get_below(c, AH_N);
	flags = cursor_uleb(c);
	h->counted = flags & PLX_MOMENT_COUNTED;
	h->closed = flags & PLX_MOMENT_CLOSED;
	h->type = get_text(d, c);
	h->addr = cursor_uleb(c);
	h->bytes = cursor_uleb(c);
	h->length = cursor_uleb(c);
	h->capacity = cursor_uleb(c);
	h->senders = cursor_uleb(c);
}

/* A node and what is below it; NULL: damaged, or out of memory. */
static struct await_node *read_node(struct decoding *d, struct cursor *all, unsigned depth)
{
	struct await_node *n = depth < MAX_DEPTH ? take(d, sizeof(*n)) : NULL;
	size_t len = (size_t)get_below(all, cursor_left(all) + 1);
	const void *data = cursor_bytes(all, len);
	uint64_t n_children;
	struct cursor c;

	if (!n || !data)
		return NULL;
	cursor_init(&c, data, len);
	n_children = get_below(&c, cursor_left(all) + 1); /* each has a byte at least */
	n->kind = (enum await_node_kind)get_below(&c, AN_N);
	n->state = (enum await_state)get_below(&c, AS_N);
	n->wait = (enum await_wait)get_below(&c, AW_N);
	n->granted = cursor_uleb(&c) & 1;
	n->name = get_string(d, &c);
	n->full_name = get_text(d, &c);
	n->file = get_string(d, &c);
	n->line = get_u32(&c);
	n->detail = (char *)(uintptr_t)get_string(d, &c);
	n->ends = get_string(d, &c);
	n->resource = cursor_uleb(&c);
	n->value = cursor_uleb(&c);
	n->addr = cursor_uleb(&c);
	n->bytes = cursor_uleb(&c);
	n->n_holds = (size_t)get_below(&c, cursor_left(&c) + 1);
	if (n->n_holds && !(n->holds = take(d, n->n_holds * sizeof(*n->holds))))
		return NULL;
	for (size_t i = 0; i < n->n_holds; i++)
		n->holds[i] = cursor_uleb(&c);
	/* since 1.8 */
	n->n_held = cursor_left(&c) ? (size_t)get_below(&c, cursor_left(&c) + 1) : 0;
	if (n->n_held && !(n->held = take(d, n->n_held * sizeof(*n->held))))
		return NULL;
	for (size_t i = 0; i < n->n_held; i++)
		get_held(d, &c, &n->held[i]);
	if (!cursor_ok(&c))
		return NULL;
	for (uint64_t i = 0; i < n_children; i++) {
		struct await_node *child = read_node(d, all, depth + 1);

		if (!child)
			return NULL;
		if (!GROW(d->siblings, d->n_siblings, d->siblings_cap)) {
			d->no_memory = true;
			return NULL;
		}
		d->siblings[d->n_siblings++] = child;
	}
	return adopt(d, n, (size_t)n_children) ? n : NULL;
}

static int read_task(struct decoding *d, struct cursor *c)
{
	struct moment_task t = {0};
	uint64_t kind = get_below(c, d->n_kinds ? d->n_kinds : 1), flags;

	if (!d->n_kinds)
		return -EBADMSG;
	t.kind = d->kinds[kind];
	t.addr = cursor_uleb(c);
	t.id = cursor_uleb(c);
	t.state = (enum inspect_state)get_below(c, IS_N);
	flags = cursor_uleb(c);
	t.cancelled = flags & PLX_MOMENT_CANCELLED;
	t.join_interest = flags & PLX_MOMENT_JOIN_INTEREST;
	t.torn = flags & PLX_MOMENT_TORN;
	t.in_no_queue = flags & PLX_MOMENT_IN_NO_QUEUE;
	t.raw_state = cursor_uleb(c);
	t.refs = get_u32(c);
	t.owner = cursor_uleb(c);
	t.thread = get_u32(c); /* its tid, until all threads are known */
	t.place = get_u32(c);
	t.queue = get_string(d, c);
	t.no_tree_reason = get_string(d, c);
	if (!cursor_ok(c))
		return -EBADMSG;
	if (cursor_left(c)) {
		d->n_siblings = 0;
		t.tree = read_node(d, c, 0);
		if (!t.tree)
			return d->no_memory ? -ENOMEM : -EBADMSG;
	}
	if (!count_memory(d->m, sizeof(t)) || !GROW_ONE(d->m->tasks, d->m->n_tasks))
		return -ENOMEM;
	d->m->tasks[d->m->n_tasks++] = t;
	return 0;
}

static int read_thread(struct decoding *d, struct cursor *c)
{
	struct moment_thread t = {0};
	struct moment_frame *frames;

	t.tid = get_u32(c);
	t.name = get_text(d, c);
	t.call = get_u32(c);
	t.n_frames = (size_t)get_below(c, cursor_left(c) + 1);
	frames = take(d, (t.n_frames ? t.n_frames : 1) * sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	for (size_t i = 0; i < t.n_frames; i++) {
		frames[i].addr = cursor_uleb(c);
		frames[i].object = get_text(d, c);
		frames[i].function = get_text(d, c);
		frames[i].file = get_text(d, c);
		frames[i].line = get_u32(c);
	}
	t.frames = frames;
	t.call_arg = cursor_left(c) ? cursor_uleb(c) : 0; /* since 1.8 */
	if (!cursor_ok(c) || !t.tid)
		return -EBADMSG;
	if (!count_memory(d->m, sizeof(t)) || !GROW_ONE(d->m->threads, d->m->n_threads))
		return -ENOMEM;
	d->m->threads[d->m->n_threads++] = t;
	return 0;
}

static int read_note(struct decoding *d, struct cursor *c)
{
	const char *note = get_string(d, c);

	if (!note || !cursor_ok(c))
		return -EBADMSG;
	if (!count_memory(d->m, sizeof(note)) || !GROW_ONE(d->m->notes, d->m->n_notes))
		return -ENOMEM;
	d->m->notes[d->m->n_notes++] = note;
	return 0;
}

static int read_record(struct decoding *d, uint64_t type, struct cursor *c)
{
	switch (type) {
	case PLX_MOMENT_HEAD:
		return read_head(d, c);
	case PLX_MOMENT_STRING:
		return read_string(d, c);
	case PLX_MOMENT_KIND:
		return read_kind(d, c);
	case PLX_MOMENT_TASK:
		return read_task(d, c);
	case PLX_MOMENT_THREAD:
		return read_thread(d, c);
	case PLX_MOMENT_NOTE:
		return read_note(d, c);
	default:
		return 0;
	}
}

static int read_records(struct decoding *d, const void *data, size_t size)
{
	bool damaged = false;
	struct cursor all;

	cursor_init(&all, data, size);
	while (cursor_left(&all)) {
		uint64_t type = cursor_uleb(&all), len = cursor_uleb(&all);
		const void *fields = len <= cursor_left(&all) ? cursor_bytes(&all, len) : NULL;
		struct cursor c;
		int rc;

		if (!fields || !cursor_ok(&all))
			return -EBADMSG;
		cursor_init(&c, fields, len);
		rc = read_record(d, type, &c);
		if (rc == -ENOMEM)
			return d->m->full ? -EBADMSG : rc;
		damaged = damaged || rc < 0;
		/* Those after it are counted from it. */
		if (rc < 0 && (type == PLX_MOMENT_STRING || type == PLX_MOMENT_KIND))
			return rc;
	}
	return damaged ? -EBADMSG : 0;
}

static void read_target(struct cursor *c, uint32_t *ret_process, enum moment_when *ret_when,
			size_t *ret_raw_bytes)
{
	*ret_process = get_u32(c);
	*ret_when = (enum moment_when)get_below(c, MOMENT_N);
	*ret_raw_bytes = (size_t)get_below(c, PLX_MAX_MOMENT_BYTES + 1);
}

int moment_peek(const void *payload, size_t size, uint32_t *ret_process, enum moment_when *ret_when,
		size_t *ret_raw_bytes)
{
	struct cursor c;

	cursor_init(&c, payload, size);
	read_target(&c, ret_process, ret_when, ret_raw_bytes);
	return cursor_ok(&c) ? 0 : -EBADMSG;
}

int moment_decode(struct trace_moment *m, const void *payload, size_t size)
{
	struct decoding d = {.m = m};
	_cleanup_free_ void *raw = NULL;
	struct cursor c;
	size_t n, left;
	int rc;

	cursor_init(&c, payload, size);
	read_target(&c, &m->process, &m->when, &n);
	left = cursor_left(&c);
	if (!cursor_ok(&c) || left > n)
		return -EBADMSG;
	if (left < n) {
		raw = malloc(n);
		if (!raw)
			return -ENOMEM;
		if (ZSTD_decompress(raw, n, c.at, left) != n)
			return -EBADMSG;
	}
	rc = read_records(&d, raw ? raw : c.at, n);
	free(d.strings);
	free(d.kinds);
	free(d.siblings);
	return rc;
}

int moment_decoded(struct trace_moment *m)
{
	struct map by_tid = {0};
	int rc = 0;

	for (size_t i = 0; i < m->n_threads && rc == 0; i++)
		rc = map_put(&by_tid, m->threads[i].tid, 0, (void *)(uintptr_t)(i + 1));
	for (size_t i = 0; i < m->n_tasks && rc == 0; i++)
		m->tasks[i].thread = (uintptr_t)map_get(&by_tid, m->tasks[i].thread, 0);
	map_done(&by_tid);
	return rc;
}

bool moment_task_runs(const struct moment_task *t)
{
	return t->state == IS_RUNNING || t->state == IS_WOKEN_RUNNING;
}

const struct moment_thread *moment_thread_of(const struct trace_moment *m,
					     const struct moment_task *t)
{
	return moment_task_runs(t) && t->thread && t->thread <= m->n_threads
		       ? &m->threads[t->thread - 1]
		       : NULL;
}

const struct moment_thread *moment_worker_of(const struct trace_moment *m,
					     const struct moment_task *t)
{
	return t->kind->role == TR_WORKER ? moment_thread_of(m, t) : NULL;
}

const struct moment_frame *moment_own_frame(const struct moment_thread *t)
{
	for (size_t i = 0; i < t->n_frames; i++) {
		const struct moment_frame *f = &t->frames[i];
		const struct trace_frame frame = {
			.object = f->object, .function = f->function, .file = f->file};

		if (f->line && trace_frame_is_own(&frame, NULL))
			return f;
	}
	return NULL;
}
