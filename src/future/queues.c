/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Run queues, and what it takes to say that a task is in none of them.
 *
 *    a task's scheduler ─▶ Tokio multi_thread: workers' queues, their LIFO slots, injection queue
 *                          Tokio current_thread: the core's queue, injection queue
 *                          LocalSet: its own queue, and the one for other threads
 *                          async-executor: the global queue, and those of the runners
 *
 * A worker's core, with its LIFO slot, belongs to that worker only; while it polls or parks, the
 * core is in the context that its thread-local variable leads to. In between it is on its stack,
 * and then nothing is concluded.
 *
 * A task can also be on its way: taken out of a queue and not yet running, or woken and not yet put
 * in. Then its address is in a register or on the stack of the thread that does it. So it counts as
 * lost only if its address is on no stack, but for threads that sleep in epoll_wait or on a
 * condition variable, which no thread does with a task in hand.
 *
 * Source: tokio/src/runtime/scheduler/{multi_thread/worker.rs,current_thread/mod.rs},
 * tokio/src/task/local.rs, tokio/src/runtime/context.rs, 1.23 to 1.54; async-executor 1.5 to 1.14.
 */
#include "future/queues.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "future/cell.h"
#include "future/queue_layouts.h"
#include "future/current_task.h"
#include "future/thread_stacks.h"

#include <asm/unistd.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_WORKERS = 4096,
	MAX_PLACES = 16,
	STEP_BYTES = 256,	 /* of a stack, searched in a step */
	STACK_BYTES = 256 << 10, /* the part of a stack that is in the copy */
};

/* One scheduler that some scheduled task has. */
struct scheduler {
	uint64_t addr;	/* of the Arc's content */
	bool all_known; /* every queue of it was read */
};

struct queue_search {
	struct inspect *in;
	struct map tasks; /* header -> the queue's name */
	struct scheduler *v;
	size_t n;
	/* of the scheduler that is read */
	struct walk w;
	struct inspect_object *object;
	const char *name; /* of the queue that is read */
	bool failed;	  /* out of memory */
};

static void one_task(void *ctx, uint64_t task)
{
	struct queue_search *s = ctx;

	if (map_put_const(&s->tasks, task, 0, s->name) < 0)
		s->failed = true;
}

/* A name that lives as long as the look. */
static const char *keep(struct queue_search *s, char *name)
{
	struct inspect *in = s->in;

	if (!name || !GROW_ONE(in->words, in->n_words)) {
		free(name);
		s->failed = true;
		return "a run queue";
	}
	return in->words[in->n_words++] = name;
}

static const char *worker_name(struct queue_search *s, const char *what, uint64_t worker)
{
	char *name = NULL;

	if (asprintf(&name, "%s of worker %lu", what, (unsigned long)worker) < 0)
		name = NULL;
	return keep(s, name);
}

/* ---- the cores of workers ---- */

typedef bool context_fn(struct queue_search *s, const struct dw_type *t, uint64_t addr, void *arg);

/* The scheduler's context of each thread that is in one: Tokio from 1.28 or so on, by CONTEXT. */
static void contexts_by_context(struct queue_search *s, context_fn *one, void *arg)
{
	const struct elf_symbol *symbol;
	size_t pos = 0;

	while ((symbol = running_local(s->object->object->image, "5tokio7runtime7context",
				       "7CONTEXT", &pos))) {
		const struct dw_type *t = running_local_type(s->w.dwarf, symbol->name), *x,
				     *pointee;

		for (size_t i = 0; t && i < s->in->n_threads; i++) {
			uint64_t at =
				stacks_thread_local(&s->in->threads[i], s->object, symbol->addr);
			uint64_t target;

			if (at && await_find_member(&s->w, t, at, "scheduler", &x, &at) &&
			    mem_u64(s->w.ctx->mem, at, &target) && target &&
			    (pointee = await_pointee(&s->w, x)))
				one(s, pointee, target, arg);
		}
	}
}

/* The same before: by a variable of the scheduler's own, a pointer without a type. */
static void contexts_by_current(struct queue_search *s, const char *path, const char *type,
				context_fn *one, void *arg)
{
	const struct elf_symbol *symbol;
	size_t pos = 0;

	while ((symbol = running_local(s->object->object->image, path, "7CURRENT", &pos))) {
		const struct dw_type *t = debug_named_type(s->w.dwarf, type);

		for (size_t i = 0; t && i < s->in->n_threads; i++) {
			uint64_t at =
				stacks_thread_local(&s->in->threads[i], s->object, symbol->addr);
			uint64_t target;

			if (at && mem_u64(s->w.ctx->mem, at, &target) && target)
				one(s, t, target, arg);
		}
	}
}

/* Box<Core> in a cell: its type and address; false: it isn't there now. */
static bool core_in(struct queue_search *s, const struct dw_type *t, uint64_t addr,
		    const struct dw_type **ret_type, uint64_t *ret_core)
{
	const struct dw_type *cell, *box;
	uint64_t at;

	if (!await_find_member(&s->w, t, addr, "core", &cell, &at) ||
	    !await_find_member(&s->w, cell, at, "value", &box, &at) ||
	    !mem_u64(s->w.ctx->mem, at, ret_core) || !*ret_core)
		return false;
	*ret_type = await_pointee(&s->w, box);
	return *ret_type != NULL;
}

/* ---- Tokio's multi_thread ---- */

struct workers {
	uint64_t handle; /* content of the Arc */
	size_t n, n_seen;
	bool *seen;
};

static void read_core(struct queue_search *s, struct workers *ws, uint64_t index,
		      const struct dw_type *core, uint64_t addr)
{
	uint64_t task;

	if (index >= ws->n || !deque_number(&s->w, core, addr, "lifo_slot", &task))
		return;
	if (task) {
		s->name = worker_name(s, "LIFO slot", index);
		one_task(s, task);
	}
	ws->n_seen += !ws->seen[index];
	ws->seen[index] = true;
}

/* multi_thread::worker::Context { worker: Arc<Worker { handle, index, core }>, core } */
static bool one_worker(struct queue_search *s, const struct dw_type *t, uint64_t addr, void *arg)
{
	struct workers *ws = arg;
	const struct dw_type *x, *worker, *core, *handle;
	uint64_t at, worker_at, core_at, handle_at, index;

	if (!await_find_member(&s->w, t, addr, "worker", &x, &at) ||
	    !mem_u64(s->w.ctx->mem, at, &worker_at) || !(worker = await_pointee(&s->w, x)) ||
	    !deque_number(&s->w, worker, worker_at, "index", &index) ||
	    !await_find_member(&s->w, worker, worker_at, "handle", &handle, &at) ||
	    !mem_u64(s->w.ctx->mem, at, &handle_at) || handle_at != ws->handle)
		return false;
	/* not `core` of the worker, which Context's own comes before in no order that is sure */
	for (size_t i = 0; i < t->n_members; i++)
		if (!strcmp(t->members[i].name, "worker"))
			goto direct;
	if (!await_find_type(&s->w, t, addr,
			     "tokio::runtime::scheduler::multi_thread::worker::Context", &t, &addr))
		return false;
direct:
	if (core_in(s, t, addr, &core, &core_at)) {
		read_core(s, ws, index, core, core_at);
		return true;
	}
	/* handed over by block_in_place, and not yet taken */
	if (await_find_member(&s->w, worker, worker_at, "core", &x, &at) &&
	    mem_u64(s->w.ctx->mem, at, &core_at) && core_at && (core = await_pointee(&s->w, x)))
		read_core(s, ws, index, core, core_at);
	return true;
}

/* Remote { steal: Steal(Arc<Inner>), .. } */
static bool read_remote(struct queue_search *s, const struct dw_type *t, uint64_t addr,
			size_t index)
{
	const struct deque_call c = {one_task, s};
	const struct dw_type *x, *inner;
	uint64_t at;

	if (!await_find_member(&s->w, t, addr, "steal", &x, &at) ||
	    !(inner = await_pointee(&s->w, x)) || !mem_u64(s->w.ctx->mem, at, &at))
		return false;
	s->name = worker_name(s, "run queue", index);
	return deque_worker(&s->w, inner, at, &c);
}

/* Inject { head }, or since 1.29 or so inject::Shared with its head in `synced`. */
static bool read_inject(struct queue_search *s, const struct dw_type *t, uint64_t addr)
{
	const struct deque_call c = {one_task, s};
	const struct dw_type *x, *head;
	uint64_t at, head_at;

	s->name = "injection queue";
	if (!await_find_member(&s->w, t, addr, "inject", &x, &at))
		return false;
	if (await_find_member(&s->w, x, at, "head", &head, &head_at))
		return deque_linked(&s->w, x, at, &c);
	return await_find_member(&s->w, t, addr, "synced", &x, &at) &&
	       await_find_member(&s->w, x, at, "inject", &x, &at) && deque_linked(&s->w, x, at, &c);
}

static bool read_multi_thread(struct queue_search *s, const struct dw_type *t, uint64_t addr,
			      uint64_t arc)
{
	struct workers ws = {.handle = arc};
	const struct dw_type *x, *remote;
	uint64_t at, n;
	bool ok;

	if (!await_find_member(&s->w, t, addr, "remotes", &x, &at) ||
	    !deque_number(&s->w, x, at, "length", &n) || n > MAX_WORKERS ||
	    !(remote = await_pointee(&s->w, x)) || !deque_number(&s->w, x, at, "data_ptr", &at))
		return false;
	ok = read_inject(s, t, addr);
	for (size_t i = 0; i < n; i++)
		ok &= read_remote(s, remote, at + i * remote->size, i);
	_cleanup_free_ bool *seen = calloc(n ? n : 1, sizeof(*seen));
	if (!seen)
		return false;
	ws.n = n;
	ws.seen = seen;
	contexts_by_context(s, one_worker, &ws);
	contexts_by_current(s, "5tokio7runtime9scheduler12multi_thread6worker",
			    "tokio::runtime::scheduler::multi_thread::worker::Context", one_worker,
			    &ws);
	return ok && ws.n_seen == n;
}

/* ---- Tokio's current_thread and LocalSet ---- */

struct current {
	uint64_t handle;
	bool seen;
};

/* current_thread::Context { handle: Arc<Handle>, core: RefCell<Option<Box<Core { tasks }>>> } */
static bool one_current(struct queue_search *s, const struct dw_type *t, uint64_t addr, void *arg)
{
	const struct deque_call c = {one_task, s};
	struct current *cur = arg;
	const struct dw_type *x, *core;
	uint64_t at, handle, core_at;

	if (!await_find_member(&s->w, t, addr, "handle", &x, &at) ||
	    !mem_u64(s->w.ctx->mem, at, &handle) || handle != cur->handle ||
	    !core_in(s, t, addr, &core, &core_at) ||
	    !await_find_member(&s->w, core, core_at, "tasks", &x, &at))
		return false;
	s->name = "run queue";
	cur->seen |= deque_std(&s->w, x, at, &c);
	return true;
}

static bool read_current_thread(struct queue_search *s, const struct dw_type *t, uint64_t addr,
				uint64_t arc)
{
	const struct deque_call c = {one_task, s};
	struct current cur = {.handle = arc};
	const struct dw_type *x;
	uint64_t at;
	bool ok = read_inject(s, t, addr);

	if (!ok && await_find_member(&s->w, t, addr, "queue", &x, &at)) {
		s->name = "injection queue";
		ok = deque_std(&s->w, x, at, &c);
	}
	contexts_by_context(s, one_current, &cur);
	contexts_by_current(s, "5tokio7runtime9scheduler14current_thread",
			    "tokio::runtime::scheduler::current_thread::Context", one_current,
			    &cur);
	return ok && cur.seen;
}

static bool read_local_set(struct queue_search *s, const struct dw_type *t, uint64_t addr)
{
	const struct deque_call c = {one_task, s};
	const struct dw_type *x;
	uint64_t at;
	bool ok;

	s->name = "LocalSet's run queue";
	ok = await_find_member(&s->w, t, addr, "local_queue", &x, &at) &&
	     deque_std(&s->w, x, at, &c);
	s->name = "LocalSet's queue for other threads";
	return ok && await_find_member(&s->w, t, addr, "queue", &x, &at) &&
	       deque_std(&s->w, x, at, &c);
}

/* ---- async-executor ---- */

static bool read_executor(struct queue_search *s, const struct dw_type *t, uint64_t addr)
{
	const struct deque_call c = {one_task, s};
	const struct dw_type *x, *vec, *arc, *queue;
	uint64_t at, data, n, one;
	bool ok;

	s->name = "executor's global queue";
	ok = await_find_member(&s->w, t, addr, "queue", &x, &at) &&
	     deque_concurrent(&s->w, x, at, &c);
	s->name = "a runner's queue";
	if (!ok || !await_find_member(&s->w, t, addr, "local_queues", &x, &at) ||
	    !await_find_type(&s->w, x, at, "alloc::vec::Vec<", &vec, &at) ||
	    !deque_number(&s->w, vec, at, "len", &n) || n > MAX_WORKERS ||
	    !deque_number(&s->w, vec, at, "ptr", &data) ||
	    !(arc = dw_param_type(s->w.dwarf, vec, "T")) || !(queue = await_pointee(&s->w, arc)))
		return false;
	for (size_t i = 0; i < n && ok; i++)
		ok = mem_u64(s->w.ctx->mem, data + i * 8, &one) &&
		     deque_concurrent(&s->w, queue, one, &c);
	return ok;
}

/* ---- schedulers ---- */

static bool read_scheduler(struct queue_search *s, const struct dw_type *t, uint64_t addr,
			   uint64_t arc)
{
	static const struct {
		const char *prefix;
		bool (*read)(struct queue_search *s, const struct dw_type *t, uint64_t addr,
			     uint64_t arc);
	} of_tokio[] = {
		{"tokio::runtime::scheduler::multi_thread::handle::Handle", read_multi_thread},
		{"tokio::runtime::scheduler::current_thread::Handle", read_current_thread},
	};
	const struct dw_type *x;
	uint64_t at;

	for (size_t i = 0; i < 2; i++)
		if (await_find_type(&s->w, t, addr, of_tokio[i].prefix, &x, &at))
			return of_tokio[i].read(s, x, at, arc);
	if (await_find_type(&s->w, t, addr, "tokio::task::local::Shared", &x, &at))
		return read_local_set(s, x, at);
	if (await_starts(t->full_name, "async_executor::State"))
		return read_executor(s, t, addr);
	if (await_find_type(&s->w, t, addr, "async_executor::State", &x, &at))
		return read_executor(s, x, at);
	return false;
}

/* What a task's scheduler points at. */
static const struct dw_type *scheduler_of(struct queue_search *s, const struct inspect_task *t,
					  uint64_t *ret_addr)
{
	const struct inspect_kind *k = t->kind;
	const struct dw_type *type = k->scheduler, *x;
	uint64_t at;

	if (!type)
		return NULL;
	if (k->tokio) {
		at = t->addr + k->kind->scheduler_offset;
	} else {
		if (!cell_async_schedule(k->vtable, s->in->mem.read, s->in->mem.ctx, &at))
			return NULL;
		at += t->addr;
		if (await_find_member(&s->w, type, at, "state", &x, &at))
			type = x;
	}
	return mem_u64(&s->in->mem, at, ret_addr) ? await_pointee(&s->w, type) : NULL;
}

static const struct scheduler *scheduler_at(struct queue_search *s, const struct inspect_task *t)
{
	struct await_context ctx = {.mem = &s->in->mem, .budget = &s->in->budget};
	const struct dw_type *type;
	uint64_t addr;

	s->object = t->kind->object;
	s->w = (struct walk){.ctx = &ctx, .dwarf = s->object->dwarf};
	type = s->w.dwarf ? scheduler_of(s, t, &addr) : NULL;
	if (!type)
		return NULL;
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].addr == addr)
			return &s->v[i];
	if (!GROW_ONE(s->v, s->n)) {
		s->failed = true;
		return NULL;
	}
	s->v[s->n] = (struct scheduler){.addr = addr};
	s->v[s->n].all_known = read_scheduler(s, type, addr, addr);
	return &s->v[s->n++];
}

/* ---- on its way ---- */

/* Sleeps in a way that no thread with a task in hand does. */
static bool sleeps(struct inspect *in, const struct inspect_stack *s)
{
	if (s->regs.call == __NR_epoll_wait || s->regs.call == __NR_epoll_pwait)
		return true;
	if (s->regs.call != __NR_futex)
		return false;
	for (size_t i = 0; i < s->n_frames; i++) {
		struct inspect_object *o = stacks_object(in, s->frames[i].ip);
		struct dw_place places[MAX_PLACES];
		size_t n = o && o->dwarf ? debug_places(o->dwarf, s->frames[i].ip - o->object->bias,
							places, MAX_PLACES)
					 : 0;

		for (size_t k = 0; k < n; k++)
			if (places[k].function && strstr(places[k].function, "ondvar"))
				return true;
	}
	return false;
}

static bool has_word(struct inspect *in, const struct inspect_stack *s, uint64_t word)
{
	const struct process_map *map = maps_at(&in->maps, s->regs.sp);
	uint64_t end = map ? map->end : 0, v;

	for (size_t i = 0; i < s->regs.n_others; i++)
		if (s->regs.others[i] == word)
			return true;
	if (s->regs.fp == word || !end || end - s->regs.sp > STACK_BYTES)
		return true; /* has it, or may have it */
	if (!budget_spend(&in->budget, (end - s->regs.sp) / STEP_BYTES + 1))
		return true;
	for (uint64_t at = s->regs.sp & ~7ULL; at < end; at += 8)
		if (!mem_u64(&in->mem, at, &v) || v == word)
			return true;
	return false;
}

static bool on_its_way(struct inspect *in, uint64_t task)
{
	for (size_t i = 0; i < in->n_threads; i++)
		if (!sleeps(in, &in->threads[i]) && has_word(in, &in->threads[i], task))
			return true;
	return false;
}

int queues_find(struct inspect *in, struct inspect_result *r, struct error *err)
{
	struct queue_search s = {.in = in};

	for (size_t i = 0; i < r->n_tasks && !s.failed; i++)
		if (r->tasks[i].state == IS_SCHEDULED && r->tasks[i].kind->kind->role == TR_TASK)
			scheduler_at(&s, &r->tasks[i]);
	for (size_t i = 0; i < r->n_tasks && !s.failed; i++) {
		struct inspect_task *t = &r->tasks[i];
		const struct scheduler *of;

		if (t->state != IS_SCHEDULED || t->kind->kind->role != TR_TASK)
			continue;
		t->queue = map_get(&s.tasks, t->addr, 0);
		of = t->queue ? NULL : scheduler_at(&s, t);
		t->in_no_queue = of && of->all_known && in->n_threads && !on_its_way(in, t->addr);
	}
	map_done(&s.tasks);
	free(s.v);
	return s.failed ? error_set(err, -ENOMEM, "out of memory") : 0;
}

void queues_done(struct inspect *in)
{
	for (size_t i = 0; i < in->n_words; i++)
		free(in->words[i]);
	free(in->words);
}
