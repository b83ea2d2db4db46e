/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which threads are in a block_on: those whose stack holds a return address into a function that
 * makes a root's waker and goes on to poll with it. The scan knows where wakers are made (the sites
 * of root wakers, runtime.h); what is still missing is the function around it:
 *
 * - Mostly block_on itself, or the program's function into which it is inlined: from the site on,
 *   its return addresses are after the making of the waker.
 * - A function of a few instructions, which does nothing but make a waker (CachedParkThread::waker,
 *   Handle::waker_ref): then its callers, from the call on.
 * - In unoptimised code no site is known; there the functions have their names
 *   (tokio/src/runtime/park.rs, scheduler/current_thread/mod.rs; 1.23 to 1.54).
 *
 * A function of the program's own is left later than its block_on: for that time, and where the
 * stack holds what is left of an earlier one, the answer is wrong.
 */
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/search.h"
#include "base/vec.h"
#include "binary/code/code_index.h"
#include "binary/dwarf/eh_frame.h"
#include "runtime/find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A function that only makes a waker is smaller (22 and 82 bytes were seen), one that blocks isn't.
 */
#define MAX_MAKER_BYTES 128u
#define MAX_MAKER_FRAME 1024
/* From a call (of 5 or 6 bytes) to the return address of a later one at the least. */
#define MIN_BEHIND 7u

struct block_on_list {
	struct scan_block_on *v;
	size_t n, cap;
};

/* `addr`: what it is known by, see struct scan_block_on. */
static int add(struct block_on_list *found, uint64_t start, uint64_t end, uint32_t waker,
	       uint64_t addr)
{
	if (start >= end)
		return 0;
	if (!GROW(found->v, found->n, found->cap))
		return -ENOMEM;
	found->v[found->n++] = (struct scan_block_on){
		.start = start, .end = end, .waker = waker, .site = {.addr = addr}};
	return 0;
}

static void rules_free(struct eh_table **t)
{
	eh_table_free(*t);
}

/* Behind the calls of a function that only makes a waker. */
static int add_callers(struct elf_image *image, struct block_on_list *found, uint64_t maker,
		       uint32_t waker)
{
	struct code_index *calls = code_index_of(image);
	const uint64_t *c;
	size_t n;

	if (!calls)
		return -ENOMEM;
	c = code_index_calls(calls, maker, &n);
	for (size_t i = 0; i < n; i++) {
		uint64_t start, end;

		/* Not the call's own return address: the maker's frame. */
		if (elf_image_function(image, c[i], &start, &end) && start != maker)
			TRY(add(found, c[i] + MIN_BEHIND, end, waker, c[i]));
	}
	return 0;
}

/* Where a function's return address is, by its unwind rules. */
static int find_back(struct elf_image *image, struct eh_table **rules, struct scan_site *site)
{
	const struct eh_row *row;
	int rc = *rules ? 0 : eh_table_of_image(image, rules);

	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	row = eh_table_at(*rules, site->addr);
	if (row && row->cfa_rule == EH_CFA_SP && row->ra_rule == EH_RA_AT_CFA && row->cfa >= 8 &&
	    row->cfa <= MAX_MAKER_FRAME)
		site->back = (uint16_t)(row->cfa - 8 + 1);
	return 0;
}

static int add_sites(struct elf_image *image, struct runtime_scan *f, struct block_on_list *found)
{
	_cleanup_(rules_free) struct eh_table *rules = NULL;

	for (uint32_t i = 0; i < f->n_wakers; i++) {
		struct scan_waker *w = &f->wakers[i];

		for (size_t k = 0; w->root && k < w->n_sites; k++) {
			uint64_t start, end, site = w->sites[k].addr;

			if (!elf_image_function(image, site, &start, &end))
				continue;
			if (end - start > MAX_MAKER_BYTES) {
				TRY(add(found, site + w->sites[k].len, end, i, site));
				continue;
			}
			TRY(add_callers(image, found, start, i));
			TRY(find_back(image, &rules, &w->sites[k]));
		}
	}
	return 0;
}

/* A site shows better where it polls. */
static bool is_covered(const struct block_on_list *found, size_t n, uint64_t end)
{
	for (size_t i = 0; i < n; i++)
		if (found->v[i].end == end)
			return true;
	return false;
}

static int add_named(struct elf_image *image, const struct runtime_scan *f,
		     struct block_on_list *found)
{
	static const struct {
		const char *part, *waker;
	} names[] = {
		{"16CachedParkThread", "block_on (multi_thread)"},
		{"9CoreGuard", "block_on (current_thread)"},
	};
	const struct elf_symbol *s;
	size_t n = elf_image_symbols(image, &s), n_sites = found->n;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		if (!s[i].size || !strstr(s[i].name, "8block_on") ||
		    !strstr(s[i].name, "5tokio7runtime") ||
		    is_covered(found, n_sites, s[i].addr + s[i].size))
			continue;
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]) && rc == 0; k++) {
			if (!strstr(s[i].name, names[k].part))
				continue;
			for (uint32_t w = 0; w < f->n_wakers; w++) {
				if (!f->wakers[w].root || strcmp(f->wakers[w].name, names[k].waker))
					continue;
				rc = add(found, s[i].addr, s[i].addr + s[i].size, w, s[i].addr);
				break;
			}
		}
	}
	return rc;
}

static int by_start(const void *a, const void *b)
{
	const struct scan_block_on *x = a, *y = b;

	return ASCENDING(x->start, y->start);
}

int block_on_find(struct elf_image *image, struct runtime_scan *f, struct scan_block_on **ret,
		  size_t *ret_n)
{
	struct block_on_list found = {0};
	int rc = add_sites(image, f, &found);

	if (rc == 0 && f->has_symbols)
		rc = add_named(image, f, &found);
	if (rc < 0) {
		free(found.v);
		return rc;
	}
	if (found.n)
		qsort(found.v, found.n, sizeof(*found.v), by_start);
	*ret = found.v;
	*ret_n = found.n;
	return 0;
}

const struct scan_block_on *block_on_at(const struct scan_block_on *v, size_t n, uint64_t addr)
{
	size_t lo = PARTITION_POINT(i, 0, n, v[i].start <= addr);

	/* Of places in one function the last one before the address: they end together. */
	return lo && addr < v[lo - 1].end ? &v[lo - 1] : NULL;
}
