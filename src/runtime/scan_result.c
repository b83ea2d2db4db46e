/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the scan of an object consists of, and how the files of runtimes add to it. */
#include "runtime/find.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "binary/names.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

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

int find_cover_as(struct runtime_scan *f, enum trace_cover cover, const char *item, uint64_t seen,
		  uint64_t total, const char *note, ...)
{
	struct trace_coverage *c;
	va_list ap;

	va_start(ap, note);
	c = coverage_vaddf(&f->coverage, item, seen, total, note, ap);
	va_end(ap);
	if (c) {
		c->cover = cover;
		c->runtime = f->covering;
	}
	return coverage_result(&f->coverage);
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
