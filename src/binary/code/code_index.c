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

#include "base/search.h"
#include "base/vec.h"
#include "binary/elf/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* More questions cost more than to sort. */
#define MAX_LINEAR 16u

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

static bool add(struct code_places *p, uint64_t target, uint64_t addr)
{
	if (!GROW(p->targets, p->n, p->targets_cap) || !GROW(p->addrs, p->n, p->addrs_cap))
		return false;
	p->targets[p->n] = (uint32_t)target;
	p->addrs[p->n++] = (uint32_t)addr;
	return true;
}

static int note(void *context, const struct code_hit *hit)
{
	struct code_index *x = context;
	uint64_t target = hit->target;
	bool ok = true;

	if (hit->pattern == CODE_SYSCALLS) {
		ok = GROW(x->syscalls, x->n_syscalls, x->syscalls_cap);
		if (ok)
			x->syscalls[x->n_syscalls++] = hit->addr;
	} else if (hit->operand - x->base > UINT32_MAX) {
		return 0;
	} else if (hit->pattern == CODE_TAKES) {
		ok = elf_image_is_code(x->image, target) ||
		     add(&x->takes, target - x->base, hit->operand - x->base);
	} else {
		if (hit->word && !elf_image_pointer_at(x->image, target, &target))
			return 0;
		if (target - x->base <= UINT32_MAX && image_may_begin(x->image, target))
			ok = add(&x->calls, target - x->base, hit->addr - x->base);
	}
	return ok ? 0 : -ENOMEM;
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

struct code_index *code_index_of(struct elf_image *image)
{
	const struct elf_segment *first = elf_image_segment(image, 0),
				 *last = elf_image_segment(image, image->n_segments - 1);
	struct code_targets all = {0};
	struct code_index *x;

	if (image->index)
		return image->index;
	x = calloc(1, sizeof(*x));
	if (!x || !first || !last) {
		free(x);
		return NULL;
	}
	x->image = image;
	x->base = all.low = first->addr;
	all.span = last->addr + last->size - first->addr;
	if (all.span > UINT32_MAX)
		all.span = UINT32_MAX;
	if (code_scan(image, CODE_TAKES | CODE_CALLS | CODE_SYSCALLS, &all, note, x) < 0) {
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
	for (; i < p->n && (!x->sorted || p->targets[i] == wanted); i++)
		if (p->targets[i] == wanted && !answer(x, n++, p->addrs[i]))
			return NULL;
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
