/* Cached pages of somebody's memory; see mem.h. */
#include "future/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	PAGE = MEM_PAGE,
	RUN_PAGES = 256,
};

struct mem_page {
	uint64_t addr;
	bool bad;
	uint8_t data[PAGE];
};

void mem_init(struct mem *m, int (*read)(void *ctx, uint64_t addr, void *out, size_t len),
	      void *ctx)
{
	*m = (struct mem){.read = read, .ctx = ctx, .max_pages = 262144};
}

void mem_clear(struct mem *m)
{
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&m->pages, &pos)))
		free(e->value);
	map_done(&m->pages);
	free(m->sorted);
	m->sorted = NULL;
	m->n_pages = m->n_sorted = m->n_missed = 0;
	m->frozen = false;
}

void mem_done(struct mem *m)
{
	mem_clear(m);
}

static struct mem_page *page_at(struct mem *m, uint64_t addr)
{
	struct mem_page *p = map_get(&m->pages, addr, 0);

	if (p)
		return p->bad ? NULL : p;
	if (m->frozen || m->n_pages >= m->max_pages) {
		m->n_missed++;
		return NULL;
	}
	p = malloc(sizeof(*p));
	if (!p)
		return NULL;
	p->addr = addr;
	p->bad = m->read(m->ctx, addr, p->data, PAGE) < 0;
	if (map_put(&m->pages, addr, 0, p) < 0) {
		free(p);
		return NULL;
	}
	m->n_pages++;
	return p->bad ? NULL : p;
}

bool mem_read(struct mem *m, uint64_t addr, void *out, size_t len)
{
	uint8_t *to = out;

	if (addr + len < addr)
		return false;
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

	return (*x)->addr < (*y)->addr ? -1 : (*x)->addr > (*y)->addr;
}

/* Reads pages that lie in a row; one by one where not all of them are there. */
static void read_run(struct mem *m, struct mem_page **pages, size_t n)
{
	struct iovec iov[RUN_PAGES] = {0};

	for (size_t i = 0; i < n; i++)
		iov[i] = (struct iovec){pages[i]->data, PAGE};
	if (m->readv && m->readv(m->ctx, pages[0]->addr, iov, (int)n) == 0) {
		for (size_t i = 0; i < n; i++)
			pages[i]->bad = false;
		return;
	}
	for (size_t i = 0; i < n; i++)
		pages[i]->bad = m->read(m->ctx, pages[i]->addr, pages[i]->data, PAGE) < 0;
}

int mem_want(struct mem *m, uint64_t addr, uint64_t len)
{
	for (uint64_t at = addr & ~(uint64_t)(PAGE - 1); at < addr + len; at += PAGE) {
		struct mem_page *p;

		if (mem_has(m, at))
			continue;
		if (m->n_pages >= m->max_pages || !(p = malloc(sizeof(*p))))
			return -ENOMEM;
		p->addr = at;
		p->bad = true; /* until it is read */
		if (map_put(&m->pages, at, 0, p) < 0) {
			free(p);
			return -ENOMEM;
		}
		m->n_pages++;
	}
	return 0;
}

bool mem_has(const struct mem *m, uint64_t addr)
{
	return map_get(&m->pages, addr & ~(uint64_t)(PAGE - 1), 0) != NULL;
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
