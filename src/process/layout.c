/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Placement of the agent's area.
 *
 *     | image | stubs | trampolines | remote calls |   state, hooks | programs | switch, words |
 *      R-X                                        RW-
 *
 * A patched spawn site reaches its trampoline by a jump of +-2 GiB, so the area lies next to the
 * object that has sites (the program, as a rule): below it, since above it the heap grows. A second
 * such object, a library of an interpreter, say, that lies too far off gets a block of trampolines
 * of its own; from there an indirect call leads to the agent, wherever that is.
 *
 * Code is never writable and data never executable: we write through /proc/PID/mem, which needs
 * neither, so a program under PR_SET_MDWE or SELinux' execmem rule sees nothing that it forbids.
 */
#include "process/layout.h"

#include "base/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

/* Address space for layout programs; memory is used only as they are written. */
#define PROGRAM_BYTES_PER_HOOK 4096u
#define PROGRAMS_BYTES_MAX (8ull << 20)
/* Some of a jump's reach is used up by the sizes of what jumps and what is jumped to. */
#define REACH (ARCH_JUMP_REACH - (64ull << 20))

uint64_t layout_page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t layout_pages(uint64_t bytes)
{
	uint64_t page = layout_page_bytes();

	return (bytes + page - 1) & ~(page - 1);
}

int layout_want(struct layout *l, const struct process_object *object, uint32_t n)
{
	if (l->n_blocks == LAYOUT_MAX_BLOCKS)
		return -ENOSPC;
	l->block[l->n_blocks++] = (struct layout_block){.object = object, .n = n};
	return 0;
}

static bool reaches(uint64_t addr, uint64_t bytes, const struct process_object *o)
{
	uint64_t lo = addr < o->start ? addr : o->start;
	uint64_t hi = addr + bytes > o->end ? addr + bytes : o->end;

	return hi - lo < ARCH_JUMP_REACH;
}

int layout_plan(struct layout *l, const struct agent_image *image, uint32_t n_hooks,
		const struct process_maps *maps, const struct process_object *main_object,
		const struct layout_earlier *at, struct error *err)
{
	struct layout_block *first = &l->block[0];
	/* The stubs follow the image at once, so it is they that end at a page's end. */
	uint64_t page = layout_page_bytes();
	uint64_t stubs_bytes =
		layout_pages(image->image_bytes + (uint64_t)n_hooks * AGENT_STUB_BYTES) -
		image->image_bytes;
	uint64_t tables_bytes =
		layout_pages(image->state_bytes + (uint64_t)n_hooks * sizeof(struct agent_hook));
	uint64_t programs_bytes = layout_pages((uint64_t)n_hooks * PROGRAM_BYTES_PER_HOOK);
	uint64_t near_bytes =
		layout_pages((uint64_t)(l->n_blocks ? first->n : 0) * ARCH_TRAMPOLINE_BYTES);
	const struct process_object *near = l->n_blocks ? first->object : main_object;
	_cleanup_(maps_done) struct process_maps taken = {0};

	if (maps_copy(maps, &taken) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	if (programs_bytes > PROGRAMS_BYTES_MAX)
		programs_bytes = PROGRAMS_BYTES_MAX;
	l->code_bytes = image->image_bytes + stubs_bytes + near_bytes + page;
	l->data_bytes = tables_bytes + programs_bytes + page;
	uint64_t all = l->code_bytes + l->data_bytes;

	l->code = at ? at->code : maps_find_hole(maps, near->start, near->end, REACH, all);
	if (!l->code || (l->n_blocks && !reaches(l->code, all, near)))
		return error_set(err, -ENOSPC, "no free address space near %s", near->path);
	l->stubs = l->code + image->image_bytes;
	if (l->n_blocks) {
		first->addr = l->stubs + stubs_bytes;
		first->bytes = near_bytes;
		first->used = 0;
	}
	l->remote_calls = l->code + l->code_bytes - page;
	l->data = l->code + l->code_bytes;
	l->hooks = l->data + image->state_bytes;
	l->programs = l->data + tables_bytes;
	l->programs_bytes = programs_bytes;
	l->live = l->data + l->data_bytes - page;
	l->words = l->live + LAYOUT_WORDS_OFFSET;

	/* What is not mapped yet must not be chosen twice. */
	if (!at && maps_take(&taken, l->code, all) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 1; i < l->n_blocks; i++) {
		struct layout_block *b = &l->block[i];

		b->used = 0;
		b->bytes = layout_pages((uint64_t)b->n * ARCH_TRAMPOLINE_BYTES);
		if (at) {
			b->addr = at->blocks[i];
			if (!b->addr || !reaches(b->addr, b->bytes, b->object))
				return error_set(err, -ENOSPC, "no trampolines near %s",
						 b->object->path);
			continue;
		}
		b->addr = maps_find_hole(&taken, b->object->start, b->object->end, REACH, b->bytes);
		if (b->addr && maps_take(&taken, b->addr, b->bytes) < 0)
			return error_set(err, -ENOMEM, "out of memory");
		if (!b->addr)
			b->n = 0; /* its sites stay unpatched, and the coverage says so */
	}
	/* What changes pages and what is mapped apart: stubs, data, the page of remote calls. */
	assert((l->code | l->data | l->live | l->remote_calls) % page == 0);
	assert(l->stubs + (uint64_t)n_hooks * AGENT_STUB_BYTES <= l->remote_calls);
	assert(l->hooks + n_hooks * sizeof(struct agent_hook) <= l->programs);
	assert(l->programs + l->programs_bytes <= l->live);
	return 0;
}

uint64_t layout_trampoline(struct layout *l, const struct process_object *object)
{
	for (uint32_t i = 0; i < l->n_blocks; i++) {
		struct layout_block *b = &l->block[i];

		assert(b->used <= b->n);
		if (b->object == object && b->used < b->n)
			return b->addr + (uint64_t)b->used++ * ARCH_TRAMPOLINE_BYTES;
	}
	return 0;
}
