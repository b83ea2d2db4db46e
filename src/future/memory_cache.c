/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cached pages of a process's memory; see memory_cache.h. */
#include "future/memory_cache.h"

#include "base/compare.h"
#include "base/units.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	RUN_PAGES = 256,
};

struct mem_page {
	uint64_t addr;
	bool bad;
	bool missing; /* was wanted when the memory was frozen, and not read since */
	uint8_t data[PAGE];
};

void mem_init(struct mem *m, int (*read)(void *ctx, uint64_t addr, void *out, size_t len),
	      void *ctx)
{
	*m = (struct mem){.read = read, .ctx = ctx, .max_pages = 262144};
}

void mem_clear(struct mem *m)
{
	map_free(&m->pages, free);
	free(m->sorted);
	m->sorted = NULL;
	m->n_pages = m->n_sorted = m->n_missed = 0;
	m->frozen = false;
}

void mem_done(struct mem *m)
{
	mem_clear(m);
}

/* A page that is yet to be read. */
static struct mem_page *page_new(struct mem *m, uint64_t addr)
{
	struct mem_page *p;

	if (m->n_pages >= m->max_pages || !(p = malloc(sizeof(*p))))
		return NULL;
	p->addr = addr;
	p->bad = true;
	p->missing = false;
	if (map_put(&m->pages, addr, 0, p) < 0) {
		free(p);
		return NULL;
	}
	m->n_pages++;
	return p;
}

static struct mem_page *page_at(struct mem *m, uint64_t addr)
{
	struct mem_page *p = map_get(&m->pages, addr, 0);

	if (p) {
		m->n_missed += p->missing;
		return p->bad ? NULL : p;
	}
	if (m->frozen)
		m->n_missed++;
	p = page_new(m, addr);
	if (p && m->frozen)
		p->missing = true;
	else if (p)
		p->bad = m->read(m->ctx, addr, p->data, PAGE) < 0;
	return p && !p->bad ? p : NULL;
}

static void log_add(struct mem_log *l, uint64_t addr, uint64_t len)
{
	if (!GROW(l->v, l->n, l->cap)) {
		l->failed = true;
		return;
	}
	l->v[l->n++] = (struct mem_range){addr, len};
}

static int by_start(const void *a, const void *b)
{
	const struct mem_range *x = a, *y = b;

	return ASCENDING(x->addr, y->addr);
}

bool mem_unchanged(struct mem *m, const struct mem_log *log)
{
	uint64_t now_at = UINT64_MAX;
	uint8_t now[PAGE];
	bool bad = false;

	if (log->failed)
		return false;
	if (log->n) /* so that each page is read once more, not each range */
		qsort(log->v, log->n, sizeof(*log->v), by_start);
	for (size_t i = 0; i < log->n; i++) {
		uint64_t at = log->v[i].addr, end = at + log->v[i].len;

		while (at < end) {
			uint64_t base = at & ~(uint64_t)(PAGE - 1);
			uint64_t n = base + PAGE < end ? base + PAGE - at : end - at;
			const struct mem_page *p = map_get(&m->pages, base, 0);

			if (base != now_at) {
				bad = m->read(m->ctx, base, now, PAGE) < 0;
				now_at = base;
			}
			if (p && (bad != p->bad ||
				  (!bad && memcmp(now + (at - base), p->data + (at - base), n))))
				return false;
			at += n;
		}
	}
	return true;
}

void mem_forget(struct mem *m, struct mem_log *log)
{
	for (size_t i = 0; i < log->n; i++) {
		uint64_t end = log->v[i].addr + log->v[i].len;

		for (uint64_t at = log->v[i].addr & ~(uint64_t)(PAGE - 1); at < end; at += PAGE) {
			struct mem_page *p = map_remove(&m->pages, at, 0);

			m->n_pages -= p != NULL;
			free(p);
		}
	}
	log->n = 0;
	log->failed = false;
}

void mem_log_done(struct mem_log *log)
{
	free(log->v);
	*log = (struct mem_log){0};
}

bool mem_read(struct mem *m, uint64_t addr, void *out, size_t len)
{
	uint8_t *to = out;

	if (addr + len < addr)
		return false;
	if (m->log)
		log_add(m->log, addr, len);
	while (len) {
		uint64_t base = addr & ~(uint64_t)(PAGE - 1);
		size_t at = addr - base, n = PAGE - at < len ? PAGE - at : len;
		struct mem_page *p = page_at(m, base);

		if (!p)
			return false;
		memcpy(to, p->data + at, n);
		to += n;
		addr += n;
		len -= n;
	}
	return true;
}

bool mem_u64(struct mem *m, uint64_t addr, uint64_t *ret)
{
	return mem_read(m, addr, ret, 8);
}

bool mem_uint(struct mem *m, uint64_t addr, unsigned size, uint64_t *ret)
{
	uint64_t v = 0;

	if ((size != 1 && size != 2 && size != 4 && size != 8) || !mem_read(m, addr, &v, size))
		return false;
	*ret = v;
	return true;
}

static int by_addr(const void *a, const void *b)
{
	const struct mem_page *const *x = a, *const *y = b;

	return ASCENDING((*x)->addr, (*y)->addr);
}

/* Reads pages that lie in a row; one by one where not all of them are there. */
static void read_run(struct mem *m, struct mem_page **pages, size_t n)
{
	struct iovec iov[RUN_PAGES] = {0};

	for (size_t i = 0; i < n; i++)
		iov[i] = (struct iovec){pages[i]->data, PAGE};
	if (m->readv && m->readv(m->ctx, pages[0]->addr, iov, (int)n) == 0) {
		for (size_t i = 0; i < n; i++)
			pages[i]->bad = pages[i]->missing = false;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		pages[i]->bad = m->read(m->ctx, pages[i]->addr, pages[i]->data, PAGE) < 0;
		pages[i]->missing = false;
	}
}

int mem_want(struct mem *m, uint64_t addr, uint64_t len)
{
	for (uint64_t at = addr & ~(uint64_t)(PAGE - 1); at < addr + len; at += PAGE) {
		if (!mem_has(m, at) && !page_new(m, at))
			return -ENOMEM;
	}
	return 0;
}

void mem_take(struct mem *m, uint64_t addr, uint64_t len)
{
	struct mem_page *run[RUN_PAGES];
	size_t n = 0;

	for (uint64_t at = addr & ~(uint64_t)(PAGE - 1); at < addr + len; at += PAGE) {
		struct mem_page *p = map_get(&m->pages, at, 0);

		if (!p)
			p = page_new(m, at);
		if (p)
			run[n++] = p;
		if (n && (n == RUN_PAGES || !p || at + PAGE >= addr + len)) {
			read_run(m, run, n);
			n = 0;
		}
	}
}

bool mem_has(const struct mem *m, uint64_t addr)
{
	const struct mem_page *p = map_get(&m->pages, addr & ~(uint64_t)(PAGE - 1), 0);

	return p && !p->missing;
}

int mem_prepare(struct mem *m)
{
	const struct map_entry *e;
	size_t pos = 0, n = 0;

	free(m->sorted);
	m->sorted = malloc((m->n_pages ? m->n_pages : 1) * sizeof(*m->sorted));
	if (!m->sorted)
		return -ENOMEM;
	while ((e = map_next(&m->pages, &pos)))
		m->sorted[n++] = e->value;
	qsort(m->sorted, n, sizeof(*m->sorted), by_addr);
	m->n_sorted = n;
	return 0;
}

int mem_refresh(struct mem *m)
{
	size_t n = m->n_sorted, good = 0;

	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && k - i < RUN_PAGES &&
				m->sorted[k]->addr == m->sorted[k - 1]->addr + PAGE;)
			k++;
		read_run(m, m->sorted + i, k - i);
	}
	for (size_t i = 0; i < n; i++)
		good += !m->sorted[i]->bad;
	m->frozen = true;
	m->n_missed = 0;
	return n && !good ? -ESRCH : 0;
}

void mem_thaw(struct mem *m)
{
	m->frozen = false;
}
