/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Each struct has one function here, which writes it and reads it: what is written is what is read.
 * Numbers are LEB128; a string is its length + 1, or 0 for none, and its bytes.
 *
 *    who wrote it; the scan
 *
 * "Who" is the very file of the pollux that runs, since another build may find more, or had found
 * something wrong.
 */
#include "runtime/scan_cache.h"

#include "base/cache.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/file.h"
#include "base/vec.h"
#include "binary/elf/elf_image.h"
#include "runtime/find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct cache_kind cache = {"scan", "plxfound", 5};

/* A smaller file is looked at as fast as its entry. */
#define MIN_BYTES (1u << 20)

struct io {
	bool reads;
	struct buf *out;
	struct cursor in;
};

static void number(struct io *io, uint64_t *v)
{
	if (io->reads)
		*v = cursor_uleb(&io->in);
	else
		buf_uleb(io->out, *v);
}

/* Of any width; a value that doesn't fit is no value that was written. */
#define NUMBER(io, member)                                                                         \
	do {                                                                                       \
		uint64_t number_v = (uint64_t)(member);                                            \
		number((io), &number_v);                                                           \
		if ((io)->reads) {                                                                 \
			(member) = (__typeof__(member))number_v;                                   \
			if ((uint64_t)(member) != number_v)                                        \
				(io)->in.failed = true;                                            \
		}                                                                                  \
	} while (0)

static void bytes(struct io *io, void *data, size_t len)
{
	const uint8_t *from;

	if (!io->reads) {
		buf_add(io->out, data, len);
		return;
	}
	from = cursor_bytes(&io->in, len);
	if (from)
		memcpy(data, from, len);
}

/* Writes it, or reads one that the caller owns: NULL if there is none. */
static char *put_or_get(struct io *io, const char *s)
{
	uint64_t len = !io->reads && s ? strlen(s) + 1 : 0;
	char *text = NULL;
	const uint8_t *from;

	number(io, &len);
	if (!io->reads) {
		if (len)
			buf_add(io->out, s, len - 1);
		return NULL;
	}
	from = len && len - 1 <= cursor_left(&io->in) ? cursor_bytes(&io->in, len - 1) : NULL;
	if (from && !memchr(from, 0, len - 1))
		text = strndup((const char *)from, len - 1);
	if (len && !text)
		io->in.failed = true;
	return text;
}

static void string(struct io *io, char **s)
{
	char *text = put_or_get(io, *s);

	if (io->reads)
		*s = text;
}

static void const_string(struct io *io, const char **s)
{
	char *text = put_or_get(io, *s);

	if (io->reads)
		*s = text;
}

/* One of a fixed set of strings, or NULL. */
static void constant(struct io *io, const char **s, const char *(*one)(const char *name))
{
	_cleanup_free_ char *text = put_or_get(io, *s);

	if (!io->reads)
		return;
	*s = text ? one(text) : NULL;
	if (text && !*s)
		io->in.failed = true;
}

/* How many follow; each takes at least a byte. They have room to grow as find.c lets them. */
static void array(struct io *io, void *items, size_t *n, size_t item_bytes)
{
	size_t count = *n;
	void *p;

	NUMBER(io, count);
	if (!io->reads || !cursor_ok(&io->in) || !count)
		return;
	p = count <= cursor_left(&io->in) ? calloc(vec_implied_cap(count), item_bytes) : NULL;
	if (!p) {
		io->in.failed = true;
		return;
	}
	*(void **)items = p;
	*n = count;
}
#define ARRAY(io, items, n) array((io), &(items), &(n), sizeof(*(items)))

/* A member that is added to one of these is to be kept, too: then its new size goes here. */
_Static_assert(sizeof(struct scan_site) == 56, "see site()");
_Static_assert(sizeof(struct scan_caller) == 16, "see site()");
_Static_assert(sizeof(struct scan_kind) == 240, "see kind()");
_Static_assert(sizeof(struct scan_waker) == 88, "see waker()");
_Static_assert(sizeof(struct scan_call) == 32, "see call()");
_Static_assert(sizeof(struct scan_block_on) == 96, "see scan()");
_Static_assert(sizeof(struct scan_runtime) == 40, "see runtime()");
_Static_assert(sizeof(struct trace_coverage) == 56, "see coverage()");
_Static_assert(sizeof(struct runtime_scan) == 144, "see scan()");

static void site(struct io *io, struct scan_site *s)
{
	NUMBER(io, s->addr);
	NUMBER(io, s->len);
	NUMBER(io, s->reg);
	bytes(io, s->bytes, sizeof(s->bytes));
	NUMBER(io, s->patchable);
	NUMBER(io, s->back);
	string(io, &s->where);
	if (s->len > sizeof(s->bytes))
		io->in.failed = true;
	ARRAY(io, s->callers, s->n_callers);
	for (size_t i = 0; i < s->n_callers && !io->in.failed; i++) {
		NUMBER(io, s->callers[i].addr);
		NUMBER(io, s->callers[i].inner);
		if (s->callers[i].inner > i)
			io->in.failed = true;
	}
}

static void sites(struct io *io, struct scan_site **v, size_t *n)
{
	ARRAY(io, *v, *n);
	for (size_t i = 0; i < *n && !io->in.failed; i++)
		site(io, &(*v)[i]);
}

static void slot(struct io *io, struct find_slot *s)
{
	NUMBER(io, s->addr);
	NUMBER(io, s->function);
}

static void kind(struct io *io, struct scan_kind *k)
{
	NUMBER(io, k->runtime);
	NUMBER(io, k->role);
	if ((unsigned)k->role >= TR_N)
		io->in.failed = true;
	NUMBER(io, k->block_in_place);
	NUMBER(io, k->vtable);
	for (size_t i = 0; i < TF_N; i++)
		slot(io, &k->slots[i]);
	NUMBER(io, k->id_offset);
	NUMBER(io, k->scheduler_offset);
	NUMBER(io, k->trailer_offset);
	NUMBER(io, k->vtable_offset);
	NUMBER(io, k->state_offset);
	string(io, &k->name);
	string(io, &k->full_name);
	string(io, &k->scheduler);
	sites(io, &k->sites, &k->n_sites);
}

static void waker(struct io *io, struct scan_waker *w)
{
	NUMBER(io, w->runtime);
	NUMBER(io, w->root);
	NUMBER(io, w->vtable);
	slot(io, &w->wake);
	slot(io, &w->wake_by_ref);
	sites(io, &w->sites, &w->n_sites);
	string(io, &w->name);
	ARRAY(io, w->direct, w->n_direct);
	for (size_t i = 0; i < w->n_direct && !io->in.failed; i++) {
		NUMBER(io, w->direct[i].addr);
		NUMBER(io, w->direct[i].target);
	}
}

static void call(struct io *io, struct scan_call *c)
{
	NUMBER(io, c->slot);
	NUMBER(io, c->function);
	NUMBER(io, c->direct);
	NUMBER(io, c->waits);
	NUMBER(io, c->call);
	constant(io, &c->symbol, calls_symbol);
	if (!c->symbol)
		io->in.failed = true;
}

static void runtime(struct io *io, struct scan_runtime *r)
{
	NUMBER(io, r->model);
	if ((unsigned)r->model >= TASK_N_MODELS)
		io->in.failed = true;
	string(io, &r->name);
	string(io, &r->version);
	string(io, &r->verified);
	NUMBER(io, r->next_id);
	if (!r->name || !r->version || !r->verified)
		io->in.failed = true;
}

static void coverage(struct io *io, struct trace_coverage *c)
{
	NUMBER(io, c->cover);
	NUMBER(io, c->seen);
	NUMBER(io, c->total);
	const_string(io, &c->item);
	const_string(io, &c->note);
	if (!c->item || !c->note)
		io->in.failed = true;
	constant(io, &c->runtime, find_runtime_name);
}

static void scan(struct io *io, struct runtime_scan *f)
{
	NUMBER(io, f->has_symbols);
	NUMBER(io, f->pie);
	NUMBER(io, f->is_static);
	NUMBER(io, f->is_musl);
	NUMBER(io, f->n_inline_syscalls);
	string(io, &f->libraries);
	ARRAY(io, f->runtimes, f->n_runtimes);
	for (size_t i = 0; i < f->n_runtimes && !io->in.failed; i++)
		runtime(io, &f->runtimes[i]);
	ARRAY(io, f->kinds, f->n_kinds);
	for (size_t i = 0; i < f->n_kinds && !io->in.failed; i++) {
		kind(io, &f->kinds[i]);
		if (f->kinds[i].runtime >= f->n_runtimes)
			io->in.failed = true;
	}
	ARRAY(io, f->wakers, f->n_wakers);
	for (size_t i = 0; i < f->n_wakers && !io->in.failed; i++) {
		waker(io, &f->wakers[i]);
		if (f->wakers[i].runtime >= f->n_runtimes)
			io->in.failed = true;
	}
	ARRAY(io, f->calls, f->n_calls);
	for (size_t i = 0; i < f->n_calls && !io->in.failed; i++)
		call(io, &f->calls[i]);
	ARRAY(io, f->block_ons, f->n_block_ons);
	for (size_t i = 0; i < f->n_block_ons && !io->in.failed; i++) {
		NUMBER(io, f->block_ons[i].start);
		NUMBER(io, f->block_ons[i].end);
		NUMBER(io, f->block_ons[i].waker);
		site(io, &f->block_ons[i].site);
		string(io, &f->block_ons[i].name);
		string(io, &f->block_ons[i].full_name);
		if (f->block_ons[i].waker >= f->n_wakers)
			io->in.failed = true;
	}
	ARRAY(io, f->coverage.v, f->coverage.n);
	for (size_t i = 0; i < f->coverage.n && !io->in.failed; i++)
		coverage(io, &f->coverage.v[i]);
}

void scan_cache_write(const struct runtime_scan *f, struct buf *out)
{
	struct io io = {.out = out};
	struct runtime_scan same = *f; /* only read */

	scan(&io, &same);
	/* What no scan has would not be read back. */
	if (io.in.failed)
		out->failed = true;
}

bool scan_cache_parse(const uint8_t *data, size_t len, struct runtime_scan *ret)
{
	struct io io = {.reads = true};
	struct runtime_scan f = {0};

	cursor_init(&io.in, data, len);
	scan(&io, &f);
	if (!cursor_ok(&io.in) || cursor_left(&io.in)) {
		runtime_scan_done(&f);
		return false;
	}
	*ret = f;
	return true;
}

/* The file of this pollux, "" if it isn't known. */
static void find_writer(char ret[static FILE_ID_TEXT])
{
	_cleanup_close_ int fd = file_open("/proc/self/exe", 0, NULL);
	struct file_id id;

	*ret = 0;
	if (fd >= 0 && file_id_read(fd, &id))
		file_id_text(&id, ret);
}

static bool load(const struct file_id *id, const char *writer, struct runtime_scan *ret)
{
	const size_t n = strlen(writer) + 1;
	_cleanup_free_ uint8_t *data = NULL;
	size_t len = 0;

	data = cache_load(&cache, id, &len);
	return data && len > n && !memcmp(data, writer, n) &&
	       scan_cache_parse(data + n, len - n, ret);
}

static void save(const struct file_id *id, const char *writer, const struct runtime_scan *f)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	buf_add(&out, writer, strlen(writer) + 1);
	scan_cache_write(f, &out);
	cache_save(&cache, id, &out);
}

int scan_cache_get(struct elf_image *image, struct runtime_scan *ret_scan, struct error *err)
{
	const int fd = elf_image_fd(image);
	char writer[FILE_ID_TEXT];
	struct file_id id, after;
	struct runtime_scan f;
	bool keeps;
	int r;

	find_writer(writer);
	keeps = *writer && file_id_read(fd, &id) && id.bytes >= MIN_BYTES && cache_may_keep(&id);
	if (keeps && load(&id, writer, &f)) {
		f.path = strdup(elf_image_name(image));
		if (f.path) {
			*ret_scan = f;
			return 0;
		}
		runtime_scan_done(&f);
		return error_set(err, -ENOMEM, "out of memory");
	}
	r = runtime_find(image, &f, err);
	if (r == -ENOMEM)
		return error_set(err, r,
				 "not enough memory to look into %s: raise the limit of pollux' "
				 "address space (ulimit -v)",
				 elf_image_name(image));
	if (r < 0)
		return r;
	r = elf_image_trouble(image, err);
	if (r < 0) {
		runtime_scan_done(&f);
		return r;
	}
	if (keeps && file_id_read(fd, &after) && file_id_same(&id, &after))
		save(&id, writer, &f);
	*ret_scan = f;
	return 0;
}
