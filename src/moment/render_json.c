/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The same as JSON: every task, every node; specified in docs/tree-json.md. */
#include "base/json.h"
#include "moment/render.h"
#include "moment/sizes.h"

#include <stdlib.h>
#include <string.h>

static const char *const node_kinds[] = {"async", "branch", "future", "leaf", "note"};
static const char *const node_states[] = {"suspended", "unpolled", "done",
					  "panicked",  "disabled", "asleep"};

static void held_json(struct json *j, const struct await_held *h)
{
	json_object(j, NULL);
	json_string(j, "kind", h->kind == AH_GUARD ? "guard" : "channel");
	json_string(j, "type", h->type ? h->type : "");
	json_u64(j, "address", h->addr);
	if (h->bytes)
		json_u64(j, "bytes", h->bytes);
	if (h->counted) {
		json_u64(j, "length", h->length);
		if (h->capacity)
			json_u64(j, "capacity", h->capacity);
		json_u64(j, "senders", h->senders);
		json_bool(j, "closed", h->closed);
	}
	json_end_object(j);
}

static void node_json(struct json *j, const struct graph *g, const char *key,
		      const struct await_node *n)
{
	const struct moment_task *target = n->kind == AN_LEAF ? graph_target(g, n) : NULL;
	const struct graph_lock *lock;

	json_object(j, key);
	json_string(j, "kind", node_kinds[n->kind]);
	json_string(j, "state", node_states[n->state]);
	json_string(j, "name", n->name);
	json_string(j, "type", n->full_name);
	json_u64(j, "address", n->addr);
	if (n->bytes)
		json_u64(j, "bytes", n->bytes);
	if (render_is_internal(n))
		json_bool(j, "internal", true);
	if (n->file) {
		json_string(j, "file", n->file);
		json_u64(j, "line", n->line);
	}
	if (n->kind == AN_LEAF) {
		json_string(j, "waits_for", await_wait_name(n->wait));
		if (n->resource)
			json_u64(j, "resource", n->resource);
		if (n->granted)
			json_bool(j, "granted", true);
		if (n->wait == AW_SLEEP)
			json_u64(j, "deadline_ns", n->value);
		else if (n->wait == AW_SOCKET)
			json_u64(j, "fd", n->value);
		else if (n->value)
			json_u64(j, "permits_wanted", n->value);
		if (n->ends)
			json_string(j, "ends", n->ends);
		lock = graph_lock(g, n);
		if (lock) {
			json_u64(j, "waiting", lock->n_waiting);
			json_array(j, "held_by");
			for (size_t i = 0; i < lock->n_holders; i++)
				json_u64(j, NULL, g->moment->tasks[lock->holders[i]].addr);
			json_end_array(j);
		}
		if (target) {
			json_u64(j, "task_id", target->id);
			json_u64(j, "task_address", target->addr);
		}
	}
	if (n->detail && n->kind != AN_NOTE)
		json_string(j, "detail", n->detail);
	if (n->n_holds) {
		json_array(j, "holds");
		for (size_t i = 0; i < n->n_holds; i++)
			json_u64(j, NULL, n->holds[i]);
		json_end_array(j);
	}
	if (n->n_held) {
		json_array(j, "held");
		for (size_t i = 0; i < n->n_held; i++)
			held_json(j, &n->held[i]);
		json_end_array(j);
	}
	if (n->n_children) {
		json_array(j, "children");
		for (size_t i = 0; i < n->n_children; i++)
			node_json(j, g, NULL, n->children[i]);
		json_end_array(j);
	}
	json_end_object(j);
}

static void thread_json(struct json *j, const struct moment_thread *t)
{
	json_object(j, "thread");
	json_u64(j, "tid", (uint64_t)t->tid);
	if (*t->name)
		json_string(j, "name", t->name);
	json_end_object(j);
}

static void stack_json(struct json *j, const struct moment_thread *t, size_t n_frames)
{
	json_array(j, "stack");
	for (size_t i = 0; i < n_frames; i++) {
		const struct moment_frame *f = &t->frames[i];

		json_object(j, NULL);
		json_string(j, "function", f->function);
		if (f->line) {
			json_string(j, "file", f->file);
			json_u64(j, "line", f->line);
		}
		json_string(j, "object", f->object);
		json_u64(j, "address", f->addr);
		json_end_object(j);
	}
	json_end_array(j);
}

static void use_json(struct json *j, const struct graph *g, const struct moment_thread *t,
		     const struct thread_use *u)
{
	const struct graph_held *by = graph_blocked_by(g, t);
	const char *call = moment_call_name(t);

	json_object(j, NULL);
	json_u64(j, "tid", t->tid);
	json_string(j, "name", t->name);
	if (u->worker)
		json_bool(j, "worker", true);
	if (u->parked)
		json_bool(j, "parked", true);
	if (u->task) {
		json_object(j, "task");
		json_u64(j, "id", u->task->id);
		json_u64(j, "address", u->task->addr);
		json_end_object(j);
	}
	if (t->call)
		json_u64(j, "call_number", t->call - 1);
	if (call)
		json_string(j, "call", call);
	if (by) {
		json_object(j, "blocked_by");
		json_u64(j, "id", g->moment->tasks[by->task].id);
		json_u64(j, "address", g->moment->tasks[by->task].addr);
		json_u64(j, "lock", by->held->addr);
		json_string(j, "guard", by->held->type ? by->held->type : "");
		json_end_object(j);
	}
	stack_json(j, t, t->n_frames);
	json_end_object(j);
}

/* The stack of a running task: its part of the thread's stack. */
static void running_json(struct json *j, const struct trace_moment *m,
			 const struct thread_use *uses, const struct moment_task *t)
{
	size_t n = moment_task_frames(m, uses, t);

	if (!n)
		return;
	if (uses[t->thread - 1].in_place)
		json_bool(j, "block_in_place", true);
	stack_json(j, &m->threads[t->thread - 1], n);
}

void render_json(const struct graph *g, const struct render_options *opt, struct json *j,
		 const char *key)
{
	const struct trace_moment *r = g->moment;
	struct thread_use *uses = moment_thread_uses(r);
	struct task_size size;

	json_object(j, key);
	json_u64(j, "now_ns", r->now_ns);
	json_u64(j, "stop_ns", r->stop_ns);
	json_u64(j, "missed_reads", r->n_missed);
	json_u64(j, "torn", r->n_torn);
	json_array(j, "tasks");
	for (size_t i = 0; uses && i < r->n_tasks; i++) {
		const struct moment_task *t = &r->tasks[i];

		if (!task_selected(&opt->select, g, uses, t))
			continue;
		json_object(j, NULL);
		json_u64(j, "id", t->id);
		json_u64(j, "address", t->addr);
		json_string(j, "name", t->kind->name);
		json_string(j, "type", t->kind->full_name);
		json_string(j, "role", trace_role_name(t->kind->role));
		json_string(j, "object", t->kind->object);
		json_string(j, "spawned_at", t->kind->site);
		json_string(j, "state", inspect_state_name(t->state));
		if (t->thread)
			thread_json(j, &r->threads[t->thread - 1]);
		if (opt->select.for_ns && opt->select.for_ns[i])
			json_u64(j, "state_for_ns", opt->select.for_ns[i]);
		if (t->queue)
			json_string(j, "queue", t->queue);
		if (t->torn)
			json_bool(j, "torn", true);
		json_bool(j, "cancelled", t->cancelled);
		json_u64(j, "references", t->refs);
		json_u64(j, "state_word", t->raw_state);
		json_u64(j, "owner", t->owner);
		if (t->kind->future_bytes)
			json_u64(j, "future_bytes", t->kind->future_bytes);
		if (t->kind->task_bytes)
			json_u64(j, "task_bytes", t->kind->task_bytes);
		size = moment_task_size(t);
		if (size.boxed_bytes)
			json_u64(j, "boxed_bytes", size.boxed_bytes);
		if (t->thread)
			running_json(j, r, uses, t);
		if (t->tree)
			node_json(j, g, "tree", t->tree);
		else
			json_string(j, "no_tree", t->no_tree_reason ? t->no_tree_reason : "");
		json_end_object(j);
	}
	json_end_array(j);
	json_array(j, "deadlocks");
	for (size_t i = 0; i < g->n_cycles; i++) {
		json_array(j, NULL);
		for (size_t k = 0; k < g->cycles[i].n; k++) {
			const struct moment_task *t = &r->tasks[g->cycles[i].tasks[k]];

			json_object(j, NULL);
			json_u64(j, "id", t->id);
			json_u64(j, "address", t->addr);
			node_json(j, g, "waits", g->cycles[i].leaves[k]);
			json_end_object(j);
		}
		json_end_array(j);
	}
	json_end_array(j);
	json_array(j, "never_again");
	for (size_t i = 0; i < g->n_lost; i++) {
		const struct moment_task *t = &r->tasks[g->lost[i].task];

		json_object(j, NULL);
		json_u64(j, "id", t->id);
		json_u64(j, "address", t->addr);
		json_string(j, "proof", g->lost[i].proof);
		if (g->lost[i].pending)
			json_bool(j, "pending", true);
		json_end_object(j);
	}
	json_end_array(j);
	json_array(j, "threads");
	for (size_t i = 0; uses && i < r->n_threads; i++)
		use_json(j, g, &r->threads[i], &uses[i]);
	json_end_array(j);
	free(uses);
	if (r->n_descriptors) {
		json_object(j, "descriptors");
		json_u64(j, "open", r->n_descriptors);
		json_u64(j, "limit", r->max_descriptors);
		json_end_object(j);
	}
	if (r->n_found > r->n_tasks)
		json_u64(j, "left_out", r->n_found - r->n_tasks);
	json_array(j, "notes");
	for (size_t i = 0; i < r->n_notes; i++)
		json_string(j, NULL, r->notes[i]);
	json_end_array(j);
	json_end_object(j);
}
