/*
 * From a pid to its tasks and their trees; see inspect.h.
 *
 *    objects ─▶ findings ─▶ kinds (vtables) ─▶ search memory ─▶ headers ─▶ walk ─▶ stop, copy, walk
 *
 * The first walk runs beside the program, reads debug information and so takes as long as it takes;
 * it leaves the pages that matter in the cache. Then the threads are stopped, those pages are
 * copied, the threads go on, and a second walk over the copy makes the trees that are shown.
 */
#include "future/inspect.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "future/cell.h"
#include "future/tasks.h"
#include "process/maps.h"
#include "process/memory.h"
#include "process/objects.h"
#include "process/process.h"
#include "process/threads.h"
#include "runtime/debug_names.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum { STOP_TIMEOUT_MS = 2000 };

static int read_process(void *ctx, uint64_t addr, void *out, size_t len)
{
	const struct inspect *in = ctx;

	return memory_read(&in->process, addr, out, len);
}

static int read_core(void *ctx, uint64_t addr, void *out, size_t len)
{
	const struct inspect *in = ctx;

	return core_read(in->core, addr, out, len);
}

static int readv_process(void *ctx, uint64_t addr, const struct iovec *iov, int n)
{
	const struct inspect *in = ctx;
	size_t want = 0;

	for (int i = 0; i < n; i++)
		want += iov[i].iov_len;
	return preadv(in->process.mem_fd, iov, n, (off_t)addr) == (ssize_t)want ? 0 : -EIO;
}

static void note(struct inspect *in, char *text)
{
	char **v = text ? reallocarray(in->notes, in->n_notes + 1, sizeof(*v)) : NULL;

	if (!v) {
		free(text);
		return;
	}
	in->notes = v;
	v[in->n_notes++] = text;
}

static int by_vtable(const void *a, const void *b)
{
	const struct inspect_kind *x = a, *y = b;

	return x->vtable < y->vtable ? -1 : x->vtable > y->vtable;
}

/*
 * Where the pointer to the vtable stands in a task's header. The finder reads it from the code that
 * makes tasks, which a debug build spreads over many functions. Then async-task's header tells it:
 * { state, awaiter (two words), vtable } in an order that rustc chose; with the state in the second
 * or the third word there is only one place for each of the others.
 */
static uint16_t vtable_offset_of(const struct find_kind *k, bool tokio)
{
	if (tokio)
		return 16;
	if (k->vtable_offset != UNKNOWN_OFFSET)
		return k->vtable_offset;
	return k->state_offset == 8 ? 0 : k->state_offset == 16 ? 24 : UNKNOWN_OFFSET;
}

static int add_object(struct inspect *in, struct process_object *o, struct error *err)
{
	struct inspect_object *lo = &in->looked[in->n_looked];
	int r = runtime_find(o->image, &lo->finding, err);

	if (r < 0)
		return r;
	lo->object = o;
	if (!lo->finding.n_kinds) {
		finding_done(&lo->finding);
		return 0;
	}
	in->n_looked++;
	in->kinds = reallocarray(in->kinds, in->n_kinds + lo->finding.n_kinds, sizeof(*in->kinds));
	if (!in->kinds)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < lo->finding.n_kinds; i++) {
		const struct find_kind *k = &lo->finding.kinds[i];
		const char *runtime = lo->finding.runtimes[k->runtime].name;

		in->kinds[in->n_kinds++] = (struct inspect_kind){
			.object = lo,
			.kind = k,
			.runtime = runtime,
			.tokio = !strcmp(runtime, "tokio"),
			.vtable = k->vtable + o->bias,
			.vtable_offset = vtable_offset_of(k, !strcmp(runtime, "tokio")),
		};
	}
	return 0;
}

/* The kinds of all objects. `who` is for messages. */
static int find_kinds(struct inspect *in, const char *who, struct error *err)
{
	in->looked = calloc(in->objects.n ? in->objects.n : 1, sizeof(*in->looked));
	if (!in->looked)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < in->objects.n; i++) {
		int r = in->objects.v[i].image ? add_object(in, &in->objects.v[i], err) : 0;

		if (r < 0)
			return r;
	}
	if (!in->n_kinds)
		return error_set(err, -ENOENT,
				 "%s has no runtime that pollux knows: no task tables of Tokio or "
				 "async-task in "
				 "any of its %zu loaded objects",
				 who, in->objects.n);
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
	r = process_open(pid, &in->process, err);
	if (r == 0)
		r = maps_read(&in->process, &in->maps, err);
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

/* Is the file the program of this core? A relocated word of its first table tells. */
static bool same_program(struct inspect *in)
{
	const struct inspect_kind *k = &in->kinds[0];
	uint64_t bias = k->object->object->bias, poll;

	return mem_u64(&in->mem, k->kind->poll_slot + bias, &poll) && poll == k->kind->poll + bias;
}

int inspect_open_core(const char *path, const char *exe, struct inspect **ret_inspect,
		      struct error *err)
{
	struct inspect *in = calloc(1, sizeof(*in));
	int r;

	if (!in)
		return error_set(err, -ENOMEM, "out of memory");
	in->process = (struct process)PROCESS_INIT;
	mem_init(&in->mem, read_core, in);
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
	const struct map_entry *e;
	size_t pos = 0;

	if (!in)
		return;
	for (size_t i = 0; i < in->n_kinds; i++) {
		free(in->kinds[i].name);
		free(in->kinds[i].site);
		free(in->kinds[i].why);
	}
	free(in->kinds);
	for (size_t i = 0; i < in->n_looked; i++) {
		finding_done(&in->looked[i].finding);
		debug_free(in->looked[i].dwarf);
	}
	free(in->looked);
	for (size_t i = 0; i < in->n_notes; i++)
		free(in->notes[i]);
	free(in->notes);
	while ((e = map_next(&in->names, &pos)))
		free(e->value);
	map_done(&in->names);
	mem_done(&in->mem);
	sockets_done(&in->sockets);
	objects_done(&in->objects);
	maps_done(&in->maps);
	process_close(&in->process);
	core_close(in->core);
	free(in);
}

/* ---- kinds ---- */

static struct debug *object_debug(struct inspect *in, struct inspect_object *o)
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
		fd = openat(in->process.proc_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		error_sys(&o->dwarf_error, -errno, "%s can't be opened", o->object->path);
	else
		debug_open(fd, o->object->path, &o->dwarf, &o->dwarf_error);
	if (!o->dwarf &&
	    asprintf(&text, "%s: no await trees; %s", o->dwarf_error.text,
		     o->finding.has_symbols ? "names, states, ids and lost tasks still work"
					    : "states, ids and lost tasks still work, but it has "
					      "no symbols either, so kinds are "
					      "numbered") > 0)
		note(in, text);
	return o->dwarf;
}

static void resolve(struct inspect *in, struct inspect_kind *k)
{
	struct debug_kind types;
	struct debug *d;

	if (k->resolved)
		return;
	k->resolved = true;
	d = object_debug(in, k->object);
	if (!d) {
		k->why = strdup("no debug information");
		return;
	}
	if (k->kind->n_sites)
		k->site = debug_spawn_place(d, &k->kind->sites[0]);
	debug_kind_read(d, k->kind, &types);
	k->future = types.future;
	if (!k->future) {
		k->why = strdup("the debug information does not tell its type");
		return;
	}
	if (k->tokio) {
		k->stage = cell_stage(d, k->kind, &types, &k->stage_offset);
		if (!k->stage)
			k->why = strdup("the debug information has no layout of its cell");
	}
	if (k->kind->role != TR_WORKER)
		k->name = debug_future_name(d, k->future);
}

bool inspect_kind_is_tokio(const struct inspect_kind *k)
{
	return k->tokio;
}

const char *inspect_kind_name(const struct inspect_kind *k)
{
	return k->name ? k->name : k->kind->name ? k->kind->name : "?";
}

const char *inspect_kind_full(const struct inspect_kind *k)
{
	return k->future ? k->future->full : k->kind->full_name ? k->kind->full_name : "";
}

enum trace_role inspect_kind_role(const struct inspect_kind *k)
{
	return k->kind->role;
}

const char *inspect_kind_site(const struct inspect_kind *k)
{
	return k->site					     ? k->site
	       : k->kind->n_sites && k->kind->sites[0].where ? k->kind->sites[0].where
							     : "";
}

const char *inspect_state_name(enum inspect_state s)
{
	static const char *const names[] = {"idle", "scheduled", "running", "running, woken again",
					    "done"};

	return s <= IS_DONE ? names[s] : "?";
}

size_t inspect_notes(const struct inspect *in, const char *const **ret)
{
	*ret = (const char *const *)in->notes;
	return in->n_notes;
}

/* ---- trees ---- */

static bool dyn_type(void *ctx, uint64_t vtable, struct debug **ret_dwarf,
		     const struct dw_type **ret_type)
{
	struct inspect *in = ctx;

	for (size_t i = 0; i < in->n_looked; i++) {
		struct inspect_object *o = &in->looked[i];
		const struct dw_type *t = NULL;
		struct dw_function f;
		struct debug *d;
		uint64_t poll, size;

		if (vtable < o->object->start || vtable >= o->object->end)
			continue;
		d = object_debug(in, o);
		if (!d || !mem_u64(&in->mem, vtable + 8, &size) ||
		    !mem_u64(&in->mem, vtable + 24, &poll))
			return false;
		/* cheap: `self` of its poll function is Pin<&mut X>; else the table's own entry */
		if (debug_function(d, poll - o->object->bias, &f) && f.self_ref) {
			const struct dw_type *pin = dw_type_of(d, f.self_ref);
			const struct dw_type *p = dw_member_type(d, dw_find_member(pin, "pointer"));

			if (p && p->class == DC_POINTER)
				t = dw_type_of(d, p->target_ref);
		}
		if (!t || t->size != size || t->declaration)
			t = debug_vtable_type(d, vtable - o->object->bias);
		if (!t || t->size != size)
			return false;
		*ret_dwarf = d;
		*ret_type = t;
		return true;
	}
	return false;
}

static int read_mem(void *ctx, uint64_t addr, void *out, size_t len)
{
	return mem_read(ctx, addr, out, len) ? 0 : -EIO;
}

static bool future_place(struct inspect *in, const struct inspect_task *t,
			 const struct dw_type **ret_type, uint64_t *ret_addr)
{
	const struct inspect_kind *k = t->kind;
	struct walk w = {.ctx = &(struct await_context){.mem = &in->mem},
			 .dwarf = k->object->dwarf};

	if (!k->tokio) {
		struct future_cell cell = {.future = k->future};

		if (!cell_async_offset(k->vtable, read_mem, &in->mem, &cell))
			return false;
		*ret_type = cell.future;
		*ret_addr = t->addr + cell.offset;
		return true;
	}
	/* Running holds the future; the others are known from the state word */
	for (size_t i = 0; i < k->stage->n_variants; i++) {
		const struct dw_variant *v = await_variant(&w, k->stage, t->addr + k->stage_offset);
		const struct dw_type *running;

		if (!v || strcmp(v->member.name, "Running") != 0)
			return false;
		running = dw_member_type(w.dwarf, &v->member);
		if (!running || !running->n_members)
			return false;
		*ret_type = dw_member_type(w.dwarf, &running->members[0]);
		*ret_addr =
			t->addr + k->stage_offset + v->member.offset + running->members[0].offset;
		return *ret_type != NULL;
	}
	return false;
}

static void read_tree(struct inspect *in, struct inspect_task *t, const struct inspect_options *opt,
		      uint64_t now_ns)
{
	struct await_context ctx = {
		.mem = &in->mem,
		.dwarf = t->kind->object->dwarf,
		.dyn_type = dyn_type,
		.ctx = in,
		.names = &in->names,
		.now_ns = now_ns,
		.max_depth = opt->max_depth,
	};
	const struct dw_type *type;
	uint64_t addr;

	await_node_free(t->tree);
	t->tree = NULL;
	t->why = NULL;
	if (t->state == IS_DONE) {
		t->why = "finished";
		return;
	}
	if (t->kind->kind->role != TR_TASK) {
		t->why = t->kind->kind->role == TR_WORKER ? "a worker's main loop"
							  : "a blocking closure";
		return;
	}
	if (t->kind->why) {
		t->why = t->kind->why;
		return;
	}
	if (!future_place(in, t, &type, &addr)) {
		t->why = "its future can't be read now";
		return;
	}
	t->tree = await_walk(&ctx, type, addr);
}

/* Adds both ends of sockets to what leaves say. */
static void name_sockets(struct inspect *in, struct await_node *n)
{
	if (n->kind == AN_LEAF && n->wait == AW_SOCKET && n->detail) {
		const char *ends = sockets_ends(&in->sockets, (unsigned)n->value);
		char *text;

		if (*ends && asprintf(&text, "%s, %s", n->detail, ends) > 0) {
			free(n->detail);
			n->detail = text;
			n->ends = text + strlen(text) - strlen(ends);
		}
	}
	for (size_t i = 0; i < n->n_children; i++)
		name_sockets(in, n->children[i]);
}

static int by_id(const void *a, const void *b)
{
	const struct inspect_task *x = a, *y = b;

	if (x->kind->tokio != y->kind->tokio)
		return x->kind->tokio ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Reads headers anew and drops what is no task (any more). */
static void read_tasks(struct inspect *in, struct inspect_result *res,
		       const struct inspect_options *opt)
{
	size_t n = 0;

	for (size_t i = 0; i < res->n_tasks; i++) {
		struct inspect_task t = res->tasks[i];

		if (!task_read_header(in, &t) || (t.state == IS_DONE && !opt->finished)) {
			await_node_free(t.tree);
			continue;
		}
		resolve(in, (struct inspect_kind *)t.kind);
		read_tree(in, &t, opt, res->now_ns);
		res->tasks[n++] = t;
	}
	res->n_tasks = n;
}

struct stop_call {
	struct inspect *in;
	struct inspect_result *res;
	struct error *err;
};

static int stop_and_copy(void *arg)
{
	struct stop_call *c = arg;
	struct process_stop stop = {0};
	int r = threads_stop(&c->in->process, STOP_TIMEOUT_MS * 1000000ULL, &stop, c->err);

	if (r < 0)
		return r;
	c->res->now_ns = clock_monotonic_ns();
	r = mem_refresh(&c->in->mem);
	threads_resume(&stop);
	c->res->stopped = true;
	c->res->stop_ns = stop.stop_ns;
	return r < 0 ? error_set(c->err, r, "process %d is gone", c->in->process.pid) : 0;
}

static int freeze(struct inspect *in, const struct inspect_options *opt, struct inspect_result *res,
		  struct error *err)
{
	struct stop_call call = {in, res, err};
	struct tracer *tracer;
	int r;

	if (in->core) {
		res->stopped = true;
		r = mem_refresh(&in->mem);
		return r < 0 ? error_set(err, r, "nothing of the core can be read") : 0;
	}
	if (opt->no_stop) {
		res->now_ns = clock_monotonic_ns();
		r = mem_refresh(&in->mem);
		return r < 0 ? error_set(err, r, "process %d is gone", in->process.pid) : 0;
	}
	r = tracer_start(&tracer, err);
	if (r < 0)
		return r;
	r = tracer_call(tracer, stop_and_copy, &call);
	tracer_end(tracer);
	return r;
}

/* Makes what was found the tasks to read, and empties the list. */
static int take_found(struct found_list *list, struct inspect_result *res, struct error *err)
{
	struct inspect_task *v = calloc(list->n ? list->n : 1, sizeof(*v));

	if (!v)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < res->n_tasks; i++)
		await_node_free(res->tasks[i].tree);
	free(res->tasks);
	res->tasks = v;
	for (size_t i = 0; i < list->n; i++)
		v[i] = (struct inspect_task){.addr = list->v[i].addr, .kind = list->v[i].kind};
	res->n_tasks = list->n;
	list->n = 0;
	return 0;
}

int inspect_look(struct inspect *in, const struct inspect_options *opt,
		 struct inspect_result *ret_result, struct error *err)
{
	struct inspect_result res = {0};
	struct found_list list = {0};
	bool whole;
	int r;

	mem_clear(&in->mem);
	r = tasks_scan(in, false, &list, err);
	if (r == 0)
		r = take_found(&list, &res, err);
	if (r < 0)
		goto out;
	res.now_ns = in->core ? 0 : clock_monotonic_ns();
	read_tasks(in, &res, opt);
	whole = !in->core && tasks_want_whole(in);
	r = mem_prepare(&in->mem);
	if (r < 0)
		error_set(err, r, "out of memory");
	else
		r = freeze(in, opt, &res, err);
	if (r == 0 && whole)
		r = tasks_scan(in, true, &list, err);
	if (r == 0 && whole)
		r = take_found(&list, &res, err);
	if (r < 0)
		goto out;
	in->mem.n_missed = 0;
	read_tasks(in, &res, opt);
	res.n_missed = in->mem.n_missed;
	mem_thaw(&in->mem);
	for (size_t i = 0; i < res.n_tasks; i++)
		if (res.tasks[i].tree)
			name_sockets(in, res.tasks[i].tree);
	qsort(res.tasks, res.n_tasks, sizeof(*res.tasks), by_id);
	*ret_result = res;
	res = (struct inspect_result){0};
out:
	free(list.v);
	inspect_result_done(&res);
	return r;
}

void inspect_result_done(struct inspect_result *r)
{
	for (size_t i = 0; i < r->n_tasks; i++)
		await_node_free(r->tasks[i].tree);
	free(r->tasks);
	*r = (struct inspect_result){0};
}
