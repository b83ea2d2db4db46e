/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The frames of threads, unwound from their registers, in the copy of the program's memory, by the
 * unwind rules of the objects that the inspection has opened. Rules are compiled once per object
 * and inspection.
 */
#include "future/thread_stacks.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	STACK_BYTES = 256 << 10, /* of one thread's stack, from its top frame on */
	RED_ZONE = 128,
};

static void forget_threads(struct inspect *in)
{
	for (size_t i = 0; i < in->n_threads; i++)
		free(in->threads[i].frames);
	free(in->threads);
	in->threads = NULL;
	in->n_threads = 0;
}

void stacks_done(struct inspect *in)
{
	forget_threads(in);
	unwind_map_free(in->code);
	unwind_files_done(&in->code_files, NULL);
	for (size_t i = 0; i < in->n_rules; i++)
		eh_table_free(in->rules[i]);
	free(in->rules);
}

static uint64_t thread_local_bytes(const struct inspect *in)
{
	uint64_t most = 0;

	for (size_t i = 0; i < in->n_looked; i++) {
		uint64_t below = elf_image_tls_below(in->looked[i].object->image);

		if (in->looked[i].object->main && below > most)
			most = below;
	}
	return most;
}

void stacks_note(struct inspect *in, struct arch_regs *registers, size_t n)
{
	uint64_t below = thread_local_bytes(in);

	forget_threads(in);
	in->threads = calloc(n ? n : 1, sizeof(*in->threads));
	for (size_t i = 0; in->threads && i < n; i++) {
		struct inspect_stack *s = &in->threads[in->n_threads++];
		const struct process_map *map;
		uint64_t low = registers[i].sp - RED_ZONE, len = STACK_BYTES;

		s->regs = registers[i];
		map = maps_at(&in->maps, s->regs.sp);
		if (map && map->end - low < len)
			len = map->end - low;
		if (!in->mem.frozen) /* a core file has all memory */
			continue;
		mem_take(&in->mem, low, len);
		if (below && s->regs.thread > below)
			mem_take(&in->mem, s->regs.thread - below, below);
	}
	free(registers);
}

static void read_name(const struct inspect *in, struct inspect_stack *s)
{
	char path[64];

	snprintf(path, sizeof(path), "task/%d/comm", (int)s->regs.tid);
	s->name[0] = 0;
	if (!in->core && process_read_file(&in->process, path, s->name, sizeof(s->name)) > 0)
		s->name[strcspn(s->name, "\n")] = 0;
}

/* The map of all code and its unwind rules. */
static int make_map(struct inspect *in)
{
	_cleanup_free_ struct unwind_code *codes = calloc(in->objects.n + 1, sizeof(*codes));
	size_t n = 0;

	in->rules = calloc(in->objects.n + 1, sizeof(*in->rules));
	if (!codes || !in->rules)
		return -ENOMEM;
	for (size_t i = 0; i < in->objects.n; i++) {
		const struct process_object *o = &in->objects.v[i];
		struct eh_table *rules = NULL;

		if (o->image && eh_table_of_image(o->image, &rules) == -ENOMEM)
			return -ENOMEM;
		if (rules)
			in->rules[in->n_rules++] = rules;
		codes[n++] = (struct unwind_code){
			.start = o->start, .end = o->end, .bias = o->bias, .table = rules};
	}
	return unwind_map_of(codes, n, in->core ? NULL : &in->process, &in->maps, &in->code_files,
			     &in->code);
}

static int read_mem(void *ctx, uint64_t addr, void *out, size_t len)
{
	return mem_read(ctx, addr, out, len) ? 0 : -EFAULT;
}

int stacks_walk(struct inspect *in, struct error *err)
{
	_cleanup_free_ struct unwind_frame *frames = calloc(UNWIND_MAX_FRAMES, sizeof(*frames));
	size_t missed = in->mem.n_missed;
	int r = in->code || !in->n_threads ? 0 : make_map(in);

	if (!frames || r < 0)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < in->n_threads; i++) {
		struct inspect_stack *s = &in->threads[i];
		const struct unwind_start start = {
			.ip = s->regs.pc,
			.sp = s->regs.sp,
			.bp = s->regs.fp,
			.bp_known = true,
			.read = read_mem,
			.arg = &in->mem,
		};
		size_t n = 0;

		unwind(in->code, &start, frames, &n);
		free(s->frames);
		s->n_frames = 0;
		s->frames = calloc(n ? n : 1, sizeof(*frames));
		if (!s->frames)
			return error_set(err, -ENOMEM, "out of memory");
		memcpy(s->frames, frames, n * sizeof(*frames));
		s->n_frames = n;
		read_name(in, s);
	}
	in->mem.n_missed = missed; /* a wrong frame's reads do not mean that a tree has changed */
	return 0;
}

struct inspect_object *stacks_object(struct inspect *in, uint64_t pc)
{
	for (size_t i = 0; i < in->n_looked; i++)
		if (pc >= in->looked[i].object->start && pc < in->looked[i].object->end)
			return &in->looked[i];
	return NULL;
}

uint64_t stacks_frame_end(const struct inspect_stack *s, size_t frame)
{
	return frame + 1 < s->n_frames ? s->frames[frame + 1].sp : 0;
}

uint64_t stacks_thread_local(const struct inspect_stack *s, const struct inspect_object *o,
			     uint64_t value)
{
	uint64_t below = o->object->main ? elf_image_tls_below(o->object->image) : 0;

	return below && value < below && s->regs.thread > below ? s->regs.thread - below + value
								: 0;
}
