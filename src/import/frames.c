/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Interning of call stacks. The tree of stacks is a map from (parent, frame) to the node, walked
 * from the outermost frame inwards; the first steps of neighbouring samples are nearly always the
 * same, and so in the cache.
 */
#include "import/frames.h"

#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>

/* What the names of frames may take, and how many stacks are kept: a recording of hours stays far
 * below, a hostile one does not make the memory grow. */
#define MAX_NAME_BYTES ((size_t)32 << 20)
#define MAX_STACKS (1u << 19)

void frames_init(struct frames *f, struct trace_writer *w)
{
	*f = (struct frames){.writer = w};
	names_init(&f->names, MAX_NAME_BYTES);
}

void frames_done(struct frames *f)
{
	names_done(&f->names);
	map_done(&f->stacks);
	free(f->numbers);
	*f = (struct frames){0};
}

uint32_t frames_find(const struct frames *f, const char *key, size_t len)
{
	uint32_t number = names_find(&f->names, key, len);
	return number < f->cap ? f->numbers[number] : UINT32_MAX;
}

uint32_t frames_add(struct frames *f, const char *key, size_t len, const struct trace_frame *frame)
{
	bool is_new;
	uint32_t number = names_get(&f->names, key, len, &is_new);

	if (number == UINT32_MAX)
		return UINT32_MAX;
	if (!is_new)
		return f->numbers[number];
	if (!GROW(f->numbers, number, f->cap)) {
		f->code = -ENOMEM;
		return UINT32_MAX;
	}
	f->numbers[number] = UINT32_MAX;
	int r = trace_writer_frame(f->writer, frame, &f->numbers[number]);
	if (r < 0 && r != -E2BIG)
		f->code = r;
	return f->numbers[number];
}

uint64_t frames_stack(struct frames *f, const uint32_t *frames, size_t n, uint32_t flags)
{
	uint64_t parent = 0;

	for (size_t i = n; i-- && !f->code;) {
		uint32_t own = parent ? 0 : flags;
		uint64_t key = (uint64_t)own << 32 | frames[i];
		uint64_t known = (uint64_t)(uintptr_t)map_get(&f->stacks, parent, key);
		if (known) {
			parent = known;
			continue;
		}
		const struct trace_stack s = {
			.parent = (uint32_t)parent, .frame = frames[i], .flags = own};
		uint32_t index;
		if (frames[i] == UINT32_MAX || f->n_stacks >= MAX_STACKS) {
			f->n_refused++;
			return parent;
		}
		int r = trace_writer_stack(f->writer, &s, &index);
		if (r == 0)
			r = map_put(&f->stacks, parent, key, (void *)((uintptr_t)index + 1));
		if (r < 0) {
			f->code = r;
			return 0;
		}
		f->n_stacks++;
		parent = (uint64_t)index + 1;
	}
	return parent;
}
