/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One snapshot of all tasks.
 *
 *    search memory ─▶ headers ─▶ walk ─▶ stop, copy ─▶ walk ─▶ block_ons, who runs, run queues
 *
 * The first walk runs while the program does, reads debug information and may take long; it leaves
 * the pages that matter in the cache. Then the threads are stopped, those pages are copied, the
 * threads go on, and a second walk over the copy makes the trees that are shown. If the program has
 * changed so that the copy misses something, it is done again, a few times.
 *
 * Without a stop nothing is of one moment. Then everything that was read for a task is read once
 * more: if it has not changed, there was a moment at which all of it was so.
 */
#include "base/compare.h"
#include "future/inspect.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "base/vec.h"
#include "future/block_ons.h"
#include "future/cell.h"
#include "future/moved.h"
#include "future/queues.h"
#include "future/current_task.h"
#include "future/thread_stacks.h"
#include "process/registers.h"
#include "process/threads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	STOP_TIMEOUT_MS = 2000,
	MAX_STOPS = 3,	  /* of one look */
	MAX_READINGS = 8, /* of one task, without a stop */
	MAX_STEPS = 1 << 30,
};

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
		d = inspect_debug(in, o);
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

	if (t->root) {
		*ret_type = t->root;
		*ret_addr = t->addr;
		return true;
	}
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
		.budget = &in->budget,
	};
	const struct dw_type *type;
	uint64_t addr;

	await_node_free(t->tree);
	t->tree = NULL;
	if (t->kind->kind->role == TR_ROOT && !t->root)
		return; /* it has its reason already */
	t->no_tree_reason = NULL;
	if (t->state == IS_DONE) {
		t->no_tree_reason = "finished";
		return;
	}
	if (t->kind->kind->role != TR_TASK && !t->root) {
		t->no_tree_reason = t->kind->kind->role == TR_WORKER ? "a worker's main loop"
								     : "a blocking closure";
		return;
	}
	if (t->kind->no_type_reason) {
		t->no_tree_reason = t->kind->no_type_reason;
		return;
	}
	if (!future_place(in, t, &type, &addr)) {
		t->no_tree_reason = "its future can't be read now";
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
	bool root_x = x->kind->kind->role == TR_ROOT, root_y = y->kind->kind->role == TR_ROOT;

	return ASCENDING(root_x, root_y) ?: DESCENDING(x->kind->tokio, y->kind->tokio) ?:
	       ASCENDING(x->id, y->id) ?: ASCENDING(x->addr, y->addr);
}

/* Reads the header again and makes its tree; false: it is no task (any more), or not asked for. */
static bool read_task(struct inspect *in, struct inspect_task *t, const struct inspect_options *opt,
		      uint64_t now_ns)
{
	t->doubtful = false;
	if (!task_read_header(in, t) || (t->state == IS_DONE && !opt->finished))
		return false;
	inspect_resolve(in, t->kind);
	read_tree(in, t, opt, now_ns);
	return true;
}

static void read_tasks(struct inspect *in, struct inspect_result *res,
		       const struct inspect_options *opt)
{
	size_t n = 0;

	for (size_t i = 0; i < res->n_tasks; i++) {
		struct inspect_task t = res->tasks[i];

		if (read_task(in, &t, opt, res->now_ns))
			res->tasks[n++] = t;
		else
			await_node_free(t.tree);
	}
	res->n_tasks = n;
}

/* The same of a program that runs: each task until nothing of it changes meanwhile. */
static void read_running_tasks(struct inspect *in, struct inspect_result *res,
			       const struct inspect_options *opt)
{
	struct mem_log log = {0};
	size_t n = 0;

	in->mem.log = &log;
	for (size_t i = 0; i < res->n_tasks; i++) {
		struct inspect_task t = res->tasks[i];
		bool there = false;

		t.torn = true;
		for (unsigned k = 0; k < MAX_READINGS && t.torn; k++) {
			mem_forget(&in->mem, &log);
			there = read_task(in, &t, opt, res->now_ns);
			t.torn = !mem_unchanged(&in->mem, &log);
		}
		/* Memory that was given back looks like a task, but for its neighbours. */
		there = there && !t.doubtful;
		res->n_torn += there && t.torn;
		if (there)
			res->tasks[n++] = t;
		else
			await_node_free(t.tree);
	}
	in->mem.log = NULL;
	mem_log_done(&log);
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
	struct arch_regs *registers = NULL;
	struct process_stop stop = {0};
	size_t n = 0;
	int r = threads_stop(&c->in->process, STOP_TIMEOUT_MS * NSEC_PER_MSEC, &stop, c->err);

	if (r < 0)
		return process_lost(&c->in->process, c->err) < 0 ? -ESRCH : r;
	c->res->now_ns = clock_monotonic_ns();
	r = mem_refresh(&c->in->mem);
	if (r == 0)
		r = registers_read(&stop, &registers, &n);
	if (r == 0)
		stacks_note(c->in, registers, n);
	threads_resume(&stop);
	c->res->stopped = true;
	c->res->stop_ns += stop.stop_ns;
	return r < 0 ? error_set(c->err, r, "process %d is gone", c->in->process.pid) : 0;
}

static int freeze(struct inspect *in, struct inspect_result *res, struct error *err)
{
	struct stop_call call = {in, res, err};
	struct tracer *tracer;
	int r;

	r = mem_prepare(&in->mem);
	if (r < 0)
		return error_set(err, r, "out of memory");
	r = tracer_start(&tracer, err);
	if (r < 0)
		return r;
	r = tracer_call(tracer, stop_and_copy, &call);
	tracer_end(tracer);
	return r;
}

/* A core is of one moment already. */
static int take_core(struct inspect *in, struct inspect_result *res, struct error *err)
{
	struct arch_regs *registers;

	res->stopped = true;
	registers = calloc(in->core->n_threads ? in->core->n_threads : 1, sizeof(*registers));
	if (!registers)
		return error_set(err, -ENOMEM, "out of memory");
	if (in->core->n_threads)
		memcpy(registers, in->core->threads, in->core->n_threads * sizeof(*registers));
	stacks_note(in, registers, in->core->n_threads);
	return 0;
}

/* Makes what was found the tasks to read. */
static int take_found(struct found_list *list, const struct inspect_options *opt,
		      struct inspect_result *res, struct error *err)
{
	struct inspect_task *v;

	res->n_left_out = 0;
	if (opt->max_tasks && list->n > opt->max_tasks) {
		res->n_left_out = list->n - opt->max_tasks;
		list->n = opt->max_tasks;
	}
	v = calloc(list->n ? vec_implied_cap(list->n) : 1, sizeof(*v));

	if (!v)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < res->n_tasks; i++)
		await_node_free(res->tasks[i].tree);
	free(res->tasks);
	res->tasks = v;
	for (size_t i = 0; i < list->n; i++)
		v[i] = (struct inspect_task){.addr = list->v[i].addr, .kind = list->v[i].kind};
	res->n_tasks = list->n;
	return 0;
}

static int take_threads(struct inspect *in, struct inspect_result *res, struct error *err)
{
	free(res->threads);
	res->n_threads = 0;
	res->threads = calloc(in->n_threads ? in->n_threads : 1, sizeof(*res->threads));
	if (!res->threads)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < in->n_threads; i++) {
		struct inspect_thread *t = &res->threads[res->n_threads++];

		t->tid = in->threads[i].regs.tid;
		memcpy(t->name, in->threads[i].name, sizeof(t->name));
	}
	return 0;
}

/* What follows from the stacks, once all tasks are read: of one moment, like them. */
static int read_stacks(struct inspect *in, struct inspect_result *res,
		       const struct inspect_options *opt, struct error *err)
{
	size_t n = res->n_tasks;

	TRY(stacks_walk(in, err));
	TRY(take_threads(in, res, err));
	TRY(block_ons_find(in, res, err));
	for (size_t i = n; i < res->n_tasks; i++)
		read_tree(in, &res->tasks[i], opt, res->now_ns);
	block_ons_settle(res, n);
	running_find(in, res);
	return queues_find(in, res, err);
}

/* One copy, and what is in it. */
static int look_at_copy(struct inspect *in, const struct inspect_options *opt, bool whole,
			struct found_list *list, struct inspect_result *res, struct error *err)
{
	int r = in->core ? take_core(in, res, err) : freeze(in, res, err);

	if (r == 0 && whole) {
		list->n = 0;
		r = tasks_scan(in, true, list, err);
	}
	/* of the stop before, there may be entries for block_ons and fewer tasks */
	if (r == 0)
		r = take_found(list, opt, res, err);
	if (r < 0)
		return r;
	in->mem.n_missed = 0;
	read_tasks(in, res, opt);
	r = read_stacks(in, res, opt, err);
	res->n_missed = in->mem.n_missed;
	return r;
}

int inspect_snapshot(struct inspect *in, const struct inspect_options *opt,
		     struct inspect_result *ret_result, struct error *err)
{
	struct inspect_result res = {0};
	struct found_list list = {0};
	bool whole;
	int r;

	mem_clear(&in->mem);
	budget_init(&in->budget, MAX_STEPS, 0);
	r = tasks_scan(in, false, &list, err);
	if (r == 0)
		r = take_found(&list, opt, &res, err);
	log_debug(LOG_TREE, "a search of the memory found %zu that may be tasks: %s", list.n,
		  r < 0 ? strerror(-r) : "done");
	if (r < 0)
		goto out;
	res.now_ns = in->core ? 0 : clock_monotonic_ns();
	if (opt->no_stop && !in->core) {
		read_running_tasks(in, &res, opt);
	} else {
		if (!in->core)
			read_tasks(in, &res, opt);
		whole = !in->core && tasks_want_whole(in);
		for (unsigned i = 0; i < MAX_STOPS; i++) {
			r = look_at_copy(in, opt, whole, &list, &res, err);
			if (r < 0)
				goto out;
			mem_thaw(&in->mem);
			log_debug(LOG_TREE,
				  "stop %u: %zu threads, all of %.3f ms; %zu tasks, %zu reads "
				  "missed the copy",
				  i + 1, res.n_threads, (double)res.stop_ns / 1e6, res.n_tasks,
				  res.n_missed);
			if (!res.n_missed || in->core)
				break;
		}
	}
	r = tasks_drop_ghosts(&res);
	if (r == 0)
		r = moved_take_out(&res);
	if (r < 0) {
		error_set(err, r, "out of memory");
		goto out;
	}
	for (size_t i = 0; i < res.n_tasks; i++)
		if (res.tasks[i].tree)
			name_sockets(in, res.tasks[i].tree);
	qsort(res.tasks, res.n_tasks, sizeof(*res.tasks), by_id);
	if (!in->budget.steps && !in->ended) {
		in->ended = true;
		inspect_note(in, strdup("the tasks lead to more memory than pollux may read: "
					"trees, queues and threads are not complete"));
	}
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
	free(r->threads);
	*r = (struct inspect_result){0};
}
