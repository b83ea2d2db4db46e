/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scan of one object: asks each runtime, then what doesn't depend on one (blocking calls, the
 * unwinder's registration), and says what was seen and what not.
 */
#include "runtime/find.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "binary/names.h"

#include <errno.h>
#include <string.h>

const struct runtime_ops *const runtimes[] = {&runtime_tokio, &runtime_async_task, NULL};

/* Grows an array of the scan by one zeroed item. */
static void *grow(void *array, size_t *n, size_t item_bytes)
{
	char **items = array;
	size_t cap = vec_implied_cap(*n);
	void *p = *items;

	if (*n >= cap && !vec_grow(&p, *n, &cap, SIZE_MAX, item_bytes))
		return NULL;
	*items = p;
	return memset(*items + (*n)++ * item_bytes, 0, item_bytes);
}

int find_add_runtime(struct elf_image *image, struct runtime_scan *f, enum task_model model,
		     const char *verified)
{
	struct scan_runtime *rt = grow(&f->runtimes, &f->n_runtimes, sizeof(*f->runtimes));

	if (!rt)
		return -ENOMEM;
	rt->model = model;
	rt->name = strdup(f->covering);
	rt->version = version_find(image, f->covering);
	rt->verified = strdup(verified);
	return rt->name && rt->version && rt->verified ? 0 : -ENOMEM;
}

struct scan_kind *find_add_kind(struct runtime_scan *f)
{
	return grow(&f->kinds, &f->n_kinds, sizeof(*f->kinds));
}

struct scan_waker *find_add_waker(struct runtime_scan *f)
{
	return grow(&f->wakers, &f->n_wakers, sizeof(*f->wakers));
}

struct scan_site *find_add_site(struct scan_site **sites, size_t *n_sites)
{
	return grow(sites, n_sites, sizeof(**sites));
}

struct scan_direct *find_add_direct(struct scan_waker *w)
{
	return grow(&w->direct, &w->n_direct, sizeof(*w->direct));
}

int find_add_call(struct runtime_scan *f, const struct scan_call *call)
{
	struct scan_call *c = grow(&f->calls, &f->n_calls, sizeof(*f->calls));

	if (!c)
		return -ENOMEM;
	*c = *call;
	return 0;
}

__attribute__((format(printf, 6, 0))) static int
add_coverage(struct runtime_scan *f, enum trace_cover cover, const char *item, uint64_t seen,
	     uint64_t total, const char *note, va_list ap)
{
	struct trace_coverage *c = coverage_vaddf(&f->coverage, item, seen, total, note, ap);

	if (c) {
		c->cover = cover;
		c->runtime = f->covering;
	}
	return coverage_result(&f->coverage);
}

int find_cover(struct runtime_scan *f, const char *item, uint64_t seen, uint64_t total,
	       const char *note, ...)
{
	va_list ap;
	int rc;

	va_start(ap, note);
	rc = add_coverage(f, TRACE_COVER_OTHER, item, seen, total, note, ap);
	va_end(ap);
	return rc;
}

int find_cover_as(struct runtime_scan *f, enum trace_cover cover, const char *item, uint64_t seen,
		  uint64_t total, const char *note, ...)
{
	va_list ap;
	int rc;

	va_start(ap, note);
	rc = add_coverage(f, cover, item, seen, total, note, ap);
	va_end(ap);
	return rc;
}

/* The path is at the front of a name: after "_ZN", or after the tags of a v0 path. */
static bool begins_with(const char *symbol, const char *part)
{
	const char *hit = strstr(symbol, part);

	if (strncmp(symbol, "_ZN", 3) == 0)
		return hit == symbol + 3;
	return strncmp(symbol, "_R", 2) == 0 && hit && hit - symbol < 64;
}

const struct elf_symbol *find_symbol(struct elf_image *image, uint64_t addr, const char *part)
{
	const struct elf_symbol *all, *s = elf_image_symbol_at(image, addr);
	size_t n = elf_image_symbols(image, &all);

	if (!s || s->addr != addr)
		return NULL;
	while (s > all && s[-1].addr == addr)
		s--;
	for (; s < all + n && s->addr == addr; s++) {
		if (begins_with(s->name, part))
			return s;
	}
	return NULL;
}

const char *find_worker_name(bool block_in_place)
{
	return block_in_place ? "tokio worker (block_in_place)" : "tokio worker";
}

bool find_kind_is_task(const struct runtime_scan *f, const struct scan_kind *k)
{
	if (k->role == TR_WORKER)
		return false;
	return !k->id_offset || k->scheduler_offset != k->id_offset ||
	       (k->name && *k->name && f->has_symbols);
}

const char *find_site_trouble(const struct code_ref *ref)
{
	if (ref->len < 5)
		return "instruction shorter than a jump";
	if (ref->jumped_into)
		return "a branch leads into the instruction";
	if (ref->reused)
		return "the address is taken once before a loop";
	if (ref->spared)
		return "the address is taken before it is known whether a task is made";
	return NULL;
}

int find_site(struct elf_image *image, const struct code_ref *ref, struct scan_site *ret)
{
	const struct elf_symbol *s = elf_image_symbol_at(image, ref->addr);
	const uint8_t *bytes;
	struct buf where = BUF_INIT;
	size_t left;

	bytes = elf_image_bytes(image, ref->addr, &left);
	if (!bytes || left < ref->len || ref->len > sizeof(ret->bytes))
		return -EINVAL;
	*ret = (struct scan_site){
		.addr = ref->addr,
		.len = ref->len,
		.reg = ref->reg,
		.patchable = !find_site_trouble(ref),
	};
	memcpy(ret->bytes, bytes, ref->len);
	if (s) {
		_cleanup_free_ char *name = name_demangle(s->name);

		buf_printf(&where, "%s+0x%llx", name ? name : s->name,
			   (unsigned long long)(ref->addr - s->addr));
	} else {
		const char *path = elf_image_name(image), *slash = strrchr(path, '/');

		buf_printf(&where, "%s+0x%llx", slash ? slash + 1 : path,
			   (unsigned long long)ref->function);
	}
	ret->where = buf_steal(&where);
	return ret->where ? 0 : -ENOMEM;
}

const char *find_runtime_name(const char *name)
{
	for (size_t i = 0; runtimes[i]; i++)
		if (!strcmp(runtimes[i]->name, name))
			return runtimes[i]->name;
	return NULL;
}

int runtime_find(struct elf_image *image, struct runtime_scan *ret_scan, struct error *err)
{
	struct runtime_scan f = {0};
	const char *interp = elf_image_interp(image);
	int r = 0;

	f.path = strdup(elf_image_name(image));
	f.has_symbols = elf_image_has_symtab(image);
	f.pie = elf_image_pie(image);
	f.is_static = elf_image_is_static(image);
	f.is_musl = interp && strstr(interp, "ld-musl");
	if (!f.path)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && runtimes[i]; i++) {
		f.covering = runtimes[i]->name;
		r = runtimes[i]->find(image, &f, err);
	}
	f.covering = NULL;
	if (r == 0)
		r = calls_find(image, &f);
	if (r == 0)
		r = block_on_find(image, &f, &f.block_ons, &f.n_block_ons);
	if (r < 0) {
		runtime_scan_done(&f);
		return r == -ENOMEM ? error_set(err, r, "out of memory") : r;
	}
	*ret_scan = f;
	return 0;
}

static void sites_done(struct scan_site *sites, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(sites[i].where);
		free(sites[i].callers);
	}
	free(sites);
}

void scan_reasons(const struct runtime_scan *f, struct buf *out)
{
	for (size_t i = 0; i < f->coverage.n; i++)
		if (f->coverage.v[i].note && *f->coverage.v[i].note)
			buf_printf(out, "%s; ", f->coverage.v[i].note);
}

void runtime_scan_done(struct runtime_scan *f)
{
	free(f->path);
	free(f->libraries);
	for (size_t i = 0; i < f->n_runtimes; i++) {
		free(f->runtimes[i].name);
		free(f->runtimes[i].version);
		free(f->runtimes[i].verified);
	}
	free(f->runtimes);
	for (size_t i = 0; i < f->n_kinds; i++) {
		free(f->kinds[i].name);
		free(f->kinds[i].full_name);
		free(f->kinds[i].scheduler);
		sites_done(f->kinds[i].sites, f->kinds[i].n_sites);
	}
	free(f->kinds);
	for (size_t i = 0; i < f->n_wakers; i++) {
		free(f->wakers[i].name);
		free(f->wakers[i].direct);
		sites_done(f->wakers[i].sites, f->wakers[i].n_sites);
	}
	free(f->wakers);
	free(f->calls);
	free(f->block_ons);
	coverage_done(&f->coverage);
	*f = (struct runtime_scan){0};
}
