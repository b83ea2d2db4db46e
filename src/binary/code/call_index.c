/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Jumps are kept too, since a tail call is one; those within a function never lead to its
 * beginning, so they match nothing.
 */
#include "binary/code/call_index.h"

#include "base/vec.h"
#include "binary/code/code_scan.h"
#include "binary/elf/image.h"

#include <errno.h>

struct indexing {
	struct elf_image *img;
	size_t cap;
};

static int add(void *context, const struct code_hit *hit)
{
	struct indexing *x = context;
	struct elf_image *img = x->img;
	uint64_t target = hit->target;

	if (hit->word && !elf_image_pointer_at(img, target, &target))
		return 0;
	if (!image_may_begin(img, target))
		return 0;
	if (!GROW(img->calls, img->n_calls, x->cap))
		return -ENOMEM;
	img->calls[img->n_calls++] = (struct call){target, hit->addr};
	return 0;
}

int call_index_init(struct call_index *x, struct elf_image *img)
{
	struct indexing indexing = {.img = img};
	int r = img->calls ? 0 : code_scan(img, CODE_CALLS, NULL, add, &indexing);

	if (r == 0 && indexing.cap)
		r = image_sort(img->calls, img->n_calls, sizeof(*img->calls));
	if (r < 0)
		image_drop_calls(img);
	*x = (struct call_index){img->calls, img->n_calls};
	return r;
}

void call_index_done(struct call_index *x)
{
	*x = (struct call_index){0};
}

const struct call *call_index_find(const struct call_index *x, uint64_t target, size_t *ret_n)
{
	size_t i = image_find(x->calls, x->n, sizeof(*x->calls), target, ret_n);

	return *ret_n ? &x->calls[i] : NULL;
}
