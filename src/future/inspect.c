/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From a pid or a core file to its objects and the kinds of tasks in them; see inspect.h.
 *
 *    objects ─▶ scans ─▶ kinds (vtables) ─▶ what debug information says of each
 *
 * What follows, the search for tasks and the trees, is in tasks.c and snapshot.c.
 */
#include "future/inspect.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "base/vec.h"
#include "future/cell.h"
#include "future/queues.h"
#include "future/thread_stacks.h"
#include "future/tasks.h"
#include "process/maps.h"
#include "process/memory.h"
#include "process/objects.h"
#include "process/process.h"
#include "runtime/debug_names.h"
#include "runtime/scan_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* More than a page is read only of what is there. */
static int read_process(void *ctx, uint64_t addr, void *out, size_t len)
{
	const struct inspect *in = ctx;

	if (len > PAGE || addr % PAGE + len > PAGE)
		return memory_read(&in->process, addr, out, len);
	return pages_readv(&in->pages, &in->maps, addr, &(struct iovec){out, len}, 1);
}

static int next_process(void *ctx, uint64_t addr, uint64_t end, uint64_t *ret_start,
			uint64_t *ret_end)
{
	struct inspect *in = ctx;

	return pages_next(&in->pages, addr, end, ret_start, ret_end);
}

static int read_core(void *ctx, uint64_t addr, void *out, size_t len)
{
	const struct inspect *in = ctx;

	return core_read(in->core, addr, out, len);
}

static int next_core(void *ctx, uint64_t addr, uint64_t end, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct inspect *in = ctx;

	return core_next(in->core, addr, end, ret_start, ret_end);
}

static int readv_process(void *ctx, uint64_t addr, const struct iovec *iov, int n)
{
	const struct inspect *in = ctx;

	return pages_readv(&in->pages, &in->maps, addr, iov, n);
}

static int by_vtable(const void *a, const void *b)
{
	const struct inspect_kind *x = a, *y = b;

	return ASCENDING(x->vtable, y->vtable);
}

/*
 * The offset of the vtable pointer in a task's header. The scan reads it from the code that makes
 * tasks, which a debug build spreads over many functions. Then async-task's header shows it: {
 * state, awaiter (two words), vtable } in an order that rustc chose; with the state in the second
 * or the third word there is only one place for each of the others.
 */
static uint16_t vtable_offset_of(const struct scan_kind *k)
{
	if (k->vtable_offset != OFFSET_UNKNOWN)
		return k->vtable_offset;
	return k->state_offset == 8 ? 0 : k->state_offset == 16 ? 24 : OFFSET_UNKNOWN;
}

/* Why there is nothing in it is added to `notes`: a library that can't be read is no reason to give
 * up the program. */
static int add_object(struct inspect *in, struct process_object *o, struct buf *notes,
		      struct error *err)
{
	struct inspect_object *lo = &in->looked[in->n_looked];
	struct error why = {0};
	int r;

	r = scan_cache_get(o->image, &lo->scan, &why);
	if (r == -ENOMEM)
		return error_set(err, r, "%s", why.text);
	log_debug(LOG_TREE, "%s: %zu kinds%s%s", o->path, r < 0 ? 0 : lo->scan.n_kinds,
		  *why.text ? ": " : "", why.text);
	if (r < 0) {
		buf_printf(notes, "%s not understood: %s; ", o->path, why.text);
		return 0;
	}
	lo->object = o;
	if (!lo->scan.n_kinds) {
		scan_reasons(&lo->scan, notes);
		runtime_scan_done(&lo->scan);
		return 0;
	}
	in->n_looked++;
	if (!GROW_BY(in->kinds, in->n_kinds, lo->scan.n_kinds))
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < lo->scan.n_kinds; i++) {
		const struct scan_kind *k = &lo->scan.kinds[i];

		in->kinds[in->n_kinds++] = (struct inspect_kind){
			.object = lo,
			.kind = k,
			.runtime = lo->scan.runtimes[k->runtime].name,
			.tokio = find_model(&lo->scan, k->runtime) == TASK_TOKIO,
			.vtable = k->vtable + o->bias,
			.vtable_offset = vtable_offset_of(k),
		};
	}
	return 0;
}

/* The kinds of all objects. `who` is for messages. */
static int find_kinds(struct inspect *in, const char *who, struct error *err)
{
	_cleanup_buf_ struct buf notes = BUF_INIT;

	in->looked = calloc(in->objects.n ? in->objects.n : 1, sizeof(*in->looked));
	if (!in->looked)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < in->objects.n; i++) {
		struct process_object *o = &in->objects.v[i];
		int r = o->image ? add_object(in, o, &notes, err) : 0;

		if (r < 0)
			return r;
		if (o->image)
			elf_image_rest(o->image);
	}
	if (!in->n_kinds)
		return error_set(err, -ENOENT,
				 "%s has no runtime that pollux knows: no task tables of Tokio or "
				 "async-task in "
				 "any of its %zu loaded objects%s%.*s",
				 who, in->objects.n, notes.len ? "; " : "",
				 notes.len >= 2 ? (int)notes.len - 2 : 0,
				 notes.data ? notes.data : "");
	qsort(in->kinds, in->n_kinds, sizeof(*in->kinds), by_vtable);
	return 0;
}

int inspect_open(pid_t pid, struct inspect **ret_inspect, struct error *err)
{
	struct inspect *in = calloc(1, sizeof(*in));
	char who[32];
	int r;

	if (!in)
		return error_set(err, -ENOMEM, "out of memory");
	in->process = (struct process)PROCESS_INIT;
	snprintf(who, sizeof(who), "process %d", pid);
	mem_init(&in->mem, read_process, in);
	in->mem.readv = readv_process;
	in->mem.next = next_process;
	in->pages.fd = -1;
	r = process_open(pid, &in->process, err);
	if (r == 0) {
		pages_open(&in->process, &in->pages);
		r = maps_read(&in->process, &in->maps, err);
	}
	if (r == 0)
		r = objects_read(&in->process, &in->maps, &in->objects, err);
	if (r == 0)
		r = find_kinds(in, who, err);
	if (r < 0) {
		inspect_free(in);
		return r;
	}
	sockets_init(&in->sockets, in->process.proc_fd);
	*ret_inspect = in;
	return 0;
}

/* Whether the file is the program of this core: a relocated word of its first table shows it. */
static bool same_program(struct inspect *in)
{
	const struct inspect_kind *k = &in->kinds[0];
	uint64_t bias = k->object->object->bias, poll;

	const struct find_slot *slot = &k->kind->slots[TF_POLL];

	return mem_u64(&in->mem, slot->addr + bias, &poll) && poll == slot->function + bias;
}

int inspect_open_core(const char *path, const char *exe, struct inspect **ret_inspect,
		      struct error *err)
{
	struct inspect *in = calloc(1, sizeof(*in));
	int r;

	if (!in)
		return error_set(err, -ENOMEM, "out of memory");
	in->process = (struct process)PROCESS_INIT;
	in->pages.fd = -1;
	mem_init(&in->mem, read_core, in);
	in->mem.next = next_core;
	sockets_init(&in->sockets, -1);
	r = core_open(path, exe, &in->core, &in->maps, &in->objects, err);
	if (r == 0)
		r = find_kinds(in, path, err);
	if (r == 0 && !same_program(in))
		r = error_set(err, -EINVAL,
			      "%s is not a core of %s: another build of it, or another program; "
			      "name the right one "
			      "with --exe",
			      path, in->core->exe);
	if (r < 0) {
		inspect_free(in);
		return r;
	}
	*ret_inspect = in;
	return 0;
}

void inspect_free(struct inspect *in)
{
	if (!in)
		return;
	for (size_t i = 0; i < in->n_kinds; i++) {
		free(in->kinds[i].name);
		free(in->kinds[i].site);
		free(in->kinds[i].no_type_reason);
	}
	free(in->kinds);
	for (size_t i = 0; i < in->n_root_kinds; i++) {
		free(in->root_kinds[i]->name);
		free(in->root_kinds[i]->site);
		free(in->root_kinds[i]);
	}
	free(in->root_kinds);
	stacks_done(in);
	queues_done(in);
	for (size_t i = 0; i < in->n_looked; i++) {
		runtime_scan_done(&in->looked[i].scan);
		debug_free(in->looked[i].dwarf);
	}
	free(in->looked);
	for (size_t i = 0; i < in->n_notes; i++)
		free(in->notes[i]);
	free(in->notes);
	map_free(&in->names, free);
	mem_done(&in->mem);
	sockets_done(&in->sockets);
	objects_done(&in->objects);
	maps_done(&in->maps);
	pages_close(&in->pages);
	process_close(&in->process);
	core_close(in->core);
	free(in);
}

/* ---- kinds ---- */

struct debug *inspect_debug(struct inspect *in, struct inspect_object *o)
{
	_cleanup_close_ int fd = -1;
	char name[64];
	char *text;

	if (o->dwarf_tried)
		return o->dwarf;
	o->dwarf_tried = true;
	if (in->core)
		fd = fcntl(in->core->exe_fd, F_DUPFD_CLOEXEC, 3);
	else if (o->object->main)
		snprintf(name, sizeof(name), "exe");
	else {
		const struct process_map *m = maps_at(&in->maps, o->object->start);

		snprintf(name, sizeof(name), "map_files/%lx-%lx", (unsigned long)(m ? m->start : 0),
			 (unsigned long)(m ? m->end : 0));
	}
	if (!in->core)
		fd = file_open_at(in->process.proc_fd, name, 0, 0, NULL);
	if (fd < 0)
		error_sys(&o->dwarf_error, in->core ? -errno : fd, "%s can't be opened",
			  o->object->path);
	else
		debug_open(fd, o->object->path, &o->dwarf, &o->dwarf_error);
	log_debug(LOG_TREE, "%s: debug information %s%s", o->object->path,
		  o->dwarf ? "opened" : "missing: ", o->dwarf ? "" : o->dwarf_error.text);
	if (!o->dwarf &&
	    asprintf(&text, "%s: no await trees; %s", o->dwarf_error.text,
		     o->scan.has_symbols ? "names, states, ids and lost tasks still work"
					 : "states, ids and lost tasks still work, but it has "
					   "no symbols either, so kinds are "
					   "numbered") > 0)
		inspect_note(in, text);
	return o->dwarf;
}

void inspect_resolve(struct inspect *in, struct inspect_kind *k)
{
	struct debug_kind types;
	struct debug *d;

	if (k->resolved)
		return;
	k->resolved = true;
	d = inspect_debug(in, k->object);
	if (!d) {
		k->no_type_reason = strdup("no debug information");
		return;
	}
	if (k->kind->n_sites)
		k->site = debug_spawn_place(d, &k->kind->sites[0]);
	debug_kind_read(d, k->kind, &types);
	k->future = types.future;
	k->scheduler = types.scheduler;
	if (!k->future) {
		k->no_type_reason = strdup(
			"the debug information does not have its type; line tables have none");
		return;
	}
	if (k->tokio) {
		k->stage = cell_stage(d, k->kind, &types, &k->stage_offset);
		if (!k->stage)
			k->no_type_reason =
				strdup("the debug information has no layout of its cell");
	}
	if (k->kind->role != TR_WORKER)
		k->name = debug_kind_name(d, k->object->object->image, k->kind, k->future,
					  k->object->scan.libraries);
}
