/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Trees of causes as JSON: docs/causes.md. */
#include "causes/data.h"

#include "base/json.h"
#include "base/syscalls.h"

static void write_kind(const struct causes *c, struct json *j, const char *key, uint32_t kind)
{
	json_string(j, key,
		    kind == TRACE_KIND_NONE ? NULL : kind_label(&c->labels, c->reader, kind));
}

static void write_place(const struct causes *c, struct json *j, uint64_t place)
{
	const struct trace_place *p =
		place ? trace_reader_own_place(c->reader, (uint32_t)(place - 1), c->opt.own) : NULL;

	if (!p) {
		json_string(j, "place", NULL);
		return;
	}
	json_object(j, "place");
	json_string(j, "function", p->function);
	json_string(j, "file", p->file);
	json_u64(j, "line", p->line);
	json_string(j, "awaits", p->awaits);
	json_end_object(j);
}

/* Where a call is, if a stack was taken in it. */
static void write_frame(const struct causes *c, struct json *j, uint32_t stack)
{
	const struct trace_frame *f =
		stack ? trace_reader_own_frame(c->reader, stack - 1, c->opt.own) : NULL;

	if (!f) {
		json_string(j, "place", NULL);
		return;
	}
	json_object(j, "place");
	json_string(j, "function", f->function);
	json_string(j, "file", f->file);
	json_u64(j, "line", f->line);
	json_end_object(j);
}

/* Who had a CPU: all threads of that name, and the one that had it longest at a time. */
static void write_neighbour(const struct causes *c, struct json *j, const struct node *n)
{
	const struct trace_neighbour *one = n->a ? trace_reader_neighbour(c->reader, n->a - 1)
						 : NULL,
				     *longest = one ? trace_reader_neighbour(
							      c->reader,
							      (uint32_t)(n->longest_task - 1))
						    : NULL;

	json_string(j, "thread", one ? one->name : NULL);
	json_bool(j, "idle", one && one->flags & TRACE_NEIGHBOUR_IDLE);
	json_bool(j, "own", one && c->neighbours[n->a - 1].thread);
	json_u64(j, "longest_pid", longest ? longest->pid : 0);
	json_u64(j, "longest_tid", longest ? longest->tid : 0);
}

static void write_what(const struct causes *c, struct json *j, const struct node *n)
{
	const struct trace_thread *t;

	switch ((enum node_type)n->type) {
	case NT_CALL:
		json_string(j, "call", trace_call_name((unsigned)n->b));
		write_frame(c, j, n->a);
		break;
	case NT_SYSCALL:
		json_string(j, "call", n->b ? syscall_name((uint16_t)(n->b - 1)) : NULL);
		break;
	case NT_WAIT:
		write_place(c, j, n->b);
		break;
	case NT_TASK:
	case NT_HOLDER:
	case NT_SPAWNER:
	case NT_HELD:
		write_kind(c, j, "family", n->a);
		json_u64(j, "longest_task", n->longest_task);
		break;
	case NT_OUTSIDE:
		t = trace_reader_thread(c->reader, n->a);
		json_string(j, "thread", t ? t->name : NULL);
		break;
	case NT_RAN:
		write_neighbour(c, j, n);
		break;
	case NT_UNKNOWN:
		json_string(j, "reason", words_reason(n->a));
		break;
	default:
		break;
	}
}

static void write_node(const struct causes *c, struct json *j, const struct shown_tree *s,
		       uint32_t node)
{
	const struct node *n = &s->tree->nodes[node];
	const struct node_sums *sums = &n->sums[s->type];
	const struct cell slow = s->cells[node];

	json_object(j, node ? NULL : "tree");
	json_string(j, "cause", words_type(s->tree, node));
	write_what(c, j, n);
	json_u64(j, "count", sums->n);
	json_hist(j, "ns", &sums->ns);
	json_object(j, "slowest");
	json_u64(j, "count", slow.n);
	json_u64(j, "units", slow.n_units);
	json_u64(j, "sum", slow.ns);
	json_u64(j, "max", slow.max_ns);
	json_end_object(j);
	json_array(j, "below");
	/* Those below a node come after it. */
	for (uint32_t i = node + 1; i < s->tree->n_nodes; i++)
		if (s->tree->nodes[i].parent == node && s->tree->nodes[i].sums[s->type].ns.count)
			write_node(c, j, s, i);
	json_end_array(j);
	json_end_object(j);
}

void causes_json(const struct causes *c, struct json *j)
{
	static const char *const units[UNIT_N] = {
		[UNIT_TASK] = "task", [UNIT_ROUND] = "round", [UNIT_PART] = "part of a task"};

	json_array(j, "causes");
	for (size_t i = 0; i < c->n_shown; i++) {
		const struct shown_tree *s = &c->shown[i];
		const struct unit_sums *u = &s->tree->units[s->type];

		json_object(j, NULL);
		write_kind(c, j, "family", s->tree->kind);
		write_kind(c, j, "handler", s->tree->handler);
		json_string(j, "unit", units[s->type]);
		json_hist(j, "length_ns", &u->length);
		json_u64(j, "longest_task", u->longest_task);
		json_u64(j, "left_out", u->n_left_out);
		json_object(j, "slowest");
		json_double(j, "part", c->opt.slowest);
		json_u64(j, "units", s->slow.n);
		json_u64(j, "sum", s->slow.ns);
		json_u64(j, "from_ns", s->slow.from_ns);
		json_end_object(j);
		write_node(c, j, s, 0);
		json_end_object(j);
	}
	json_end_array(j);
}
