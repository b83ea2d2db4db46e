/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Some million places of a large library, so each is two numbers of 32 bits, from the lowest
 * segment on: what is farther away than 4 GiB is not found. Most objects are asked for few
 * functions' callers, for which all calls are looked through; who asks often has them sorted.
 *
 * Jumps are kept too, since a tail call is one; those within a function never lead to its
 * beginning, so they match nothing.
 */
#include "binary/code/code_index.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/search.h"
#include "base/vec.h"
#include "binary/elf/image.h"
#include "binary/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* More questions cost more than to sort. */
#define MAX_LINEAR 16u
#define STEP 16u
#define AHEAD 16u
#define PART_BYTES (16u << 10)

struct code_places {
	uint32_t *targets, *addrs;
	size_t n, targets_cap, addrs_cap;
};

struct code_index {
	struct elf_image *image;
	uint64_t base;
	struct code_places calls, takes; /* of takes the operands */
	size_t n_asked;
	bool sorted; /* calls, by target */
	uint64_t *syscalls;
	size_t n_syscalls, syscalls_cap;
	uint64_t *answer;
	size_t answer_cap;
};

/* Room for `more` after the n of them. */
static bool make_room(struct code_places *p, size_t more)
{
	size_t last = p->n + more - 1;

	return !more ||
	       (GROW(p->targets, last, p->targets_cap) && GROW(p->addrs, last, p->addrs_cap));
}

static void add(struct code_places *p, uint32_t target, uint32_t addr, bool keep)
{
	p->targets[p->n] = target;
	p->addrs[p->n] = addr;
	p->n += keep;
}

/* Takes over what a part of the code has. Where functions begin is spread over more than the caches
 * have: what is asked for next is fetched meanwhile. */
static int take(struct code_index *x, const struct code_lists *l)
{
	struct elf_image *image = x->image;
	size_t n = l->n[CODE_LIST_CALLS], words = l->n[CODE_LIST_WORDS];
	const uint32_t *targets = l->targets[CODE_LIST_CALLS], *addrs = l->addrs[CODE_LIST_CALLS];

	if (!make_room(&x->calls, n + words) || !make_room(&x->takes, l->n[CODE_LIST_TAKES]))
		return -ENOMEM;
	for (size_t i = 0; i < n && i < AHEAD; i++)
		image_begin_soon(image, x->base + targets[i]);
	for (size_t i = 0; i < n; i++) {
		if (i + AHEAD < n)
			image_begin_soon(image, x->base + targets[i + AHEAD]);
		add(&x->calls, targets[i], addrs[i], image_may_begin(image, x->base + targets[i]));
	}
	for (size_t i = 0; i < words; i++) {
		uint64_t target;

		if (elf_image_pointer_at(image, x->base + l->targets[CODE_LIST_WORDS][i],
					 &target) &&
		    target - x->base <= UINT32_MAX && image_may_begin(image, target))
			add(&x->calls, (uint32_t)(target - x->base), l->addrs[CODE_LIST_WORDS][i],
			    true);
	}
	for (size_t i = 0; i < l->n[CODE_LIST_TAKES]; i++) {
		uint32_t target = l->targets[CODE_LIST_TAKES][i];

		add(&x->takes, target, l->addrs[CODE_LIST_TAKES][i],
		    !elf_image_is_code(image, x->base + target));
	}
	for (size_t i = 0; i < l->n[CODE_LIST_SYSCALLS]; i++) {
		if (!GROW(x->syscalls, x->n_syscalls, x->syscalls_cap))
			return -ENOMEM;
		x->syscalls[x->n_syscalls++] = x->base + l->addrs[CODE_LIST_SYSCALLS][i];
	}
	return 0;
}

static void code_index_free(void *index)
{
	struct code_index *x = index;

	free(x->calls.targets);
	free(x->calls.addrs);
	free(x->takes.targets);
	free(x->takes.addrs);
	free(x->syscalls);
	free(x->answer);
	free(x);
}

/* Room for a hit at each byte of a part. */
static bool lists_init(struct code_lists *l)
{
	for (size_t i = 0; i < CODE_N_LISTS; i++) {
		l->addrs[i] = malloc(PART_BYTES * sizeof(**l->addrs));
		l->targets[i] = malloc(PART_BYTES * sizeof(**l->targets));
		if (!l->addrs[i] || !l->targets[i])
			return false;
	}
	return true;
}

static void lists_done(struct code_lists *l)
{
	for (size_t i = 0; i < CODE_N_LISTS; i++) {
		free(l->addrs[i]);
		free(l->targets[i]);
	}
}

/* One stretch of code, some at a time, so that lists stay in the cache. */
static int read_code(struct code_index *x, struct code_lists *l, uint64_t start, uint64_t end)
{
	size_t left;
	const uint8_t *code = elf_image_bytes(x->image, start, &left);
	int rc = 0;

	if (!code)
		return 0;
	if (left > end - start)
		left = end - start;
	for (size_t len; rc == 0 && left; left -= len, code += len, start += len) {
		len = left < PART_BYTES ? left : PART_BYTES;
		if (start - x->base > UINT32_MAX - PART_BYTES)
			break;
		memset(l->n, 0, sizeof(l->n));
		elf_image_machine(x->image)->list(code, len, left, start, l);
		rc = take(x, l);
	}
	return rc;
}

static int read_all(struct code_index *x)
{
	const struct elf_image *image = x->image;
	const struct elf_segment *last = &image->segments[image->n_segments - 1];
	_cleanup_(lists_done) struct code_lists l = {.base = x->base};
	size_t n = elf_image_n_code(image);
	uint64_t start, end, unused;
	int rc = 0;

	l.all = last->addr + last->size - x->base;
	if (l.all > UINT32_MAX)
		l.all = UINT32_MAX;
	if (!n)
		return 0;
	elf_image_code(image, 0, &l.low, &unused);
	elf_image_code(image, n - 1, &unused, &end);
	l.span = end - l.low;
	if (l.low - x->base >= l.all)
		l.span = 0;
	else if (l.span > l.all - (l.low - x->base))
		l.span = l.all - (l.low - x->base);
	if (!lists_init(&l))
		return -ENOMEM;
	for (size_t i = 0; i < n && rc == 0; i++) {
		elf_image_code(image, i, &start, &end);
		rc = read_code(x, &l, start, end);
	}
	return rc;
}

struct code_index *code_index_of(struct elf_image *image)
{
	const struct elf_segment *first = elf_image_segment(image, 0);
	struct code_index *x;

	if (image->index)
		return image->index;
	x = first ? calloc(1, sizeof(*x)) : NULL;
	if (!x)
		return NULL;
	x->image = image;
	x->base = first->addr;
	if (read_all(x) < 0) {
		code_index_free(x);
		return NULL;
	}
	image->index_free = code_index_free;
	return image->index = x;
}

/* By eleven bits at a time, from the lowest: stable. */
static bool sort(struct code_places *p)
{
	enum { BITS = 11, N = 1 << BITS };
	uint32_t *targets = malloc(p->n * sizeof(*targets)), *addrs = malloc(p->n * sizeof(*addrs));
	bool ok = targets && addrs;

	for (unsigned shift = 0; ok && shift < 32; shift += BITS) {
		uint32_t *old_targets = p->targets, *old_addrs = p->addrs;
		size_t at[N] = {0}, sum = 0;

		for (size_t i = 0; i < p->n; i++)
			at[p->targets[i] >> shift & (N - 1)]++;
		for (size_t i = 0; i < N; i++) {
			size_t count = at[i];

			at[i] = sum;
			sum += count;
		}
		for (size_t i = 0; i < p->n; i++) {
			size_t k = at[p->targets[i] >> shift & (N - 1)]++;

			targets[k] = p->targets[i];
			addrs[k] = p->addrs[i];
		}
		p->targets = targets;
		p->addrs = addrs;
		targets = old_targets;
		addrs = old_addrs;
	}
	free(targets);
	free(addrs);
	return ok;
}

/* Whether one of STEP targets is it. */
static bool any(const uint32_t *targets, uint32_t wanted)
{
	uint32_t found = 0;

	for (unsigned i = 0; i < STEP; i++)
		found |= targets[i] == wanted;
	return found;
}

static bool answer(struct code_index *x, size_t n, uint32_t addr)
{
	if (!GROW(x->answer, n, x->answer_cap))
		return false;
	x->answer[n] = x->base + addr;
	return true;
}

const uint64_t *code_index_calls(struct code_index *x, uint64_t target, size_t *ret_n)
{
	const struct code_places *p = &x->calls;
	uint64_t wanted = target - x->base;
	size_t i = 0, n = 0;

	*ret_n = 0;
	if (wanted > UINT32_MAX)
		return NULL;
	if (!x->sorted && ++x->n_asked > MAX_LINEAR)
		x->sorted = sort(&x->calls);
	if (x->sorted)
		i = PARTITION_POINT(k, 0, p->n, p->targets[k] < wanted);
	for (; i < p->n && (!x->sorted || p->targets[i] == wanted); i++) {
		while (!x->sorted && i + STEP <= p->n && !any(p->targets + i, (uint32_t)wanted))
			i += STEP;
		if (i < p->n && p->targets[i] == wanted && !answer(x, n++, p->addrs[i]))
			return NULL;
	}
	if (n)
		qsort(x->answer, n, sizeof(*x->answer), compare_u64);
	*ret_n = n;
	return n ? x->answer : NULL;
}

int code_index_takes(const struct code_index *x, const struct code_targets *targets,
		     code_hit_fn hit, void *context)
{
	uint64_t low = targets->low - x->base;
	int rc = 0;

	for (size_t i = 0; i < x->takes.n && rc == 0; i++) {
		struct code_hit h = {.pattern = CODE_TAKES};

		if (x->takes.targets[i] - low >= targets->span)
			continue;
		h.target = x->base + x->takes.targets[i];
		h.operand = h.addr = x->base + x->takes.addrs[i];
		if (code_targets_have(targets, h.target))
			rc = hit(context, &h);
	}
	return rc;
}

const uint64_t *code_index_syscalls(const struct code_index *x, size_t *ret_n)
{
	*ret_n = x->n_syscalls;
	return x->syscalls;
}
