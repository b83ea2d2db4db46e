/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Await points by the kernel source: the layout programs that the agent would run in the program
 * (agent/ring.h, src/future/program.h), handed to the programs in the kernel, by vtable.
 *
 * The compiler keeps what it was given and works on a thread of its own, and our lists of objects
 * move when they grow; so it gets a copy of its own of what it needs, and their files stay open.
 */
#include "capture/kernel/kernel.h"
#include "capture/points.h"
#include "process/memory.h"
#include "process/places.h"
#include "runtime/debug_names.h"

#include <errno.h>
#include <stdlib.h>

/* Reading debug information takes a thread and memory: of a binary's many processes these have it.
 */
#define MAX_COMPILED 8u

struct kernel_points {
	void *compiler; /* NULL: it has ended */
	struct process *process;
	struct attach_object *objects; /* as loaded[] */
	int *fds;
	size_t n_objects;
	struct attach_kind *kinds;
	uint32_t *indices; /* of them in the trace */
	size_t n_kinds;
	struct points points;	      /* by number */
	uint64_t n_programs, n_tasks; /* kinds of tasks, and of these those that have a program */
};

static int read_memory(const void *ctx, uint64_t addr, void *out, size_t len)
{
	const struct kernel_points *k = ctx;

	return memory_read(k->process, addr, out, len);
}

static int object_fd(const void *ctx, const struct attach_object *o)
{
	const struct kernel_points *k = ctx;

	return k->fds[o - k->objects];
}

static size_t n_compiled(const struct capture *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_processes; i++)
		n += c->processes[i]->points && c->processes[i]->points->compiler;
	return n;
}

static int fill(struct capture *c, struct kernel_process *p, struct kernel_points *k)
{
	size_t n_kinds = 0;

	for (size_t i = 0; i < p->n_loaded; i++)
		n_kinds += c->objects[p->loaded[i].object].scan.n_kinds;
	k->process = &p->process;
	k->n_objects = p->n_loaded;
	k->objects = calloc(p->n_loaded + 1, sizeof(*k->objects));
	k->fds = calloc(p->n_loaded + 1, sizeof(*k->fds));
	k->kinds = calloc(n_kinds + 1, sizeof(*k->kinds));
	k->indices = calloc(n_kinds + 1, sizeof(*k->indices));
	if (!k->objects || !k->fds || !k->kinds || !k->indices)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_loaded; i++) {
		const struct kernel_object *o = &c->objects[p->loaded[i].object];

		k->objects[i] = (struct attach_object){o->scan, p->loaded[i].bias};
		k->fds[i] = o->fd;
		/* The unwinder's object has no kinds in the trace. */
		for (size_t f = 0; p->loaded[i].kinds && f < o->scan.n_kinds; f++) {
			const struct scan_kind *kind = &o->scan.kinds[f];

			if (kind->role != TR_TASK)
				continue;
			k->kinds[k->n_kinds] =
				(struct attach_kind){&k->objects[i], kind, NULL, NULL};
			k->indices[k->n_kinds++] = p->loaded[i].kinds[f].index;
		}
	}
	k->n_tasks = k->n_kinds;
	return 0;
}

int kernel_points_begin(struct capture *c, struct kernel_process *p, bool wait)
{
	const struct places_ops *ops = c->shared->options->places;
	struct kernel_points *k;
	int rc;

	if (!ops || p->providers)
		return 0;
	k = p->points = calloc(1, sizeof(*k));
	rc = k ? fill(c, p, k) : -ENOMEM;
	if (rc < 0 || n_compiled(c) >= MAX_COMPILED)
		return rc;
	const struct places_target target = {.kinds = k->kinds,
					     .n_kinds = k->n_kinds,
					     .object_fd = object_fd,
					     .read = read_memory,
					     .ctx = k,
					     .own = c->shared->options->own};
	k->compiler = ops->begin(&target, PLACES_NEAR);
	if (!k->compiler || !wait)
		return 0;
	ops->wait(k->compiler, DEBUG_WAIT_NS);
	return kernel_points_take(c, p);
}

/* The trace knows of the places before any event names them. */
int kernel_points_take(struct capture *c, struct kernel_process *p)
{
	const struct places_ops *ops = c->shared->options->places;
	struct kernel_points *k = p->points;
	struct place_program program;

	while (k && k->compiler && ops->next(k->compiler, &program) == 1) {
		const struct attach_kind *kind = &k->kinds[program.kind];

		TRY(points_add(&k->points, &program, k->indices[program.kind], p->index,
			       c->shared->writer));
		if (kernel_core_layout(c->core, p->pid, kind->kind->vtable + kind->object->bias,
				       program.words, program.n_words) == 0)
			k->n_programs++;
	}
	return 0;
}

uint64_t kernel_points_value(const struct kernel_process *p, uint16_t point, uint32_t kind)
{
	const struct kernel_points *k = p->points;

	const struct await_point *known = point && k ? points_get(&k->points, point) : NULL;

	return known && known->kind == kind ? (uint64_t)known->place + 1 : 0;
}

/* A program of BPF can't be in the poll of each box, and when the task's poll is over, its boxes may be
 * another thread's. */
static int cover_boxes(struct capture *c, const struct kernel_process *p,
		       struct capture_stats *stats)
{
	const struct trace_coverage boxes = {.process = p->index,
					     .item = "await points in boxes, handlers",
					     .note = "the kernel source sees no further than to a "
						     "task's first box; without --backend "
						     "kernel they are recorded"};

	return c->shared->options->near ? 0
					: capture_emit_coverage(c->shared->writer, stats, &boxes);
}

int kernel_points_emit(struct capture *c, const struct kernel_process *p,
		       struct capture_stats *stats)
{
	const struct places_ops *ops = c->shared->options->places;
	const struct kernel_points *k = p->points;
	struct error trouble = {0};

	if (!ops)
		return 0;
	if (k && k->compiler)
		ops->trouble(k->compiler, &trouble);
	struct trace_coverage points =
		points_coverage(p->index, k ? k->n_programs : 0, k ? k->n_tasks : 0, &trouble);
	if (p->providers)
		points.note = "probes don't show them: the agent does";
	if (!p->providers && !points.total)
		return 0;
	TRY(capture_emit_coverage(c->shared->writer, stats, &points));
	return cover_boxes(c, p, stats);
}

void kernel_points_free(struct capture *c, struct kernel_process *p)
{
	struct kernel_points *k = p->points;

	if (!k)
		return;
	if (k->compiler)
		c->shared->options->places->end(k->compiler);
	free(k->objects);
	free(k->fds);
	free(k->kinds);
	free(k->indices);
	points_free(&k->points);
	free(k);
	p->points = NULL;
}
