/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What causes are called. All text is safe for a terminal. */
#include "causes/data.h"

#include "base/cleanup.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "base/text_fit.h"

#include <string.h>

#define AWAITS_WIDTH 28
#define FAMILY_WIDTH 60

static void kind_text(const struct causes *c, struct buf *out, uint32_t kind)
{
	if (kind < c->labels.n && c->shorts && c->shorts[kind])
		text_safe(out, c->shorts[kind]);
	else
		buf_str(out, "a task");
}

void words_family(const struct causes *c, struct buf *out, const struct tree *t)
{
	const char *label = kind_label(&c->labels, c->reader, t->kind);

	if (t->handler == TRACE_KIND_NONE && text_width(label) <= FAMILY_WIDTH) {
		text_safe(out, label);
		return;
	}
	kind_text(c, out, t->kind);
	if (t->handler == TRACE_KIND_NONE)
		return;
	buf_str(out, " › ");
	kind_text(c, out, t->handler);
}

/* Of the task whose time it is. */
static enum trace_role role_of(const struct causes *c, const struct tree *t, uint32_t node)
{
	const struct trace_kind *k;
	uint32_t kind = t->kind;

	for (uint32_t n = t->nodes[node].parent; n; n = t->nodes[n].parent) {
		unsigned type = t->nodes[n].type;

		if (type == NT_TASK || type == NT_HOLDER || type == NT_SPAWNER || type == NT_HELD) {
			kind = t->nodes[n].a;
			break;
		}
	}
	k = trace_reader_kind(c->reader, kind);
	return k && k->role < TR_N ? k->role : TR_TASK;
}

static const struct trace_place *own_place(const struct causes *c, uint64_t place)
{
	return place ? trace_reader_own_place(c->reader, (uint32_t)(place - 1), c->opt.own) : NULL;
}

static void awaits_text(struct buf *out, const char *awaits)
{
	_cleanup_buf_ struct buf safe = BUF_INIT;
	static const char *const prefixes[] = {"tokio::", "sync::", "io::util::", "futures_util::"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(awaits, prefixes[i], strlen(prefixes[i])))
			awaits += strlen(prefixes[i]);
	text_safe(&safe, awaits);
	text_shorten(out, safe.data ? safe.data : "", AWAITS_WIDTH);
}

static const char *base_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash ? slash + 1 : file;
}

static void line_text(struct buf *out, const struct trace_place *p, bool brief)
{
	if (!brief || !p->file || !*p->file) {
		trace_place_text(out, p);
		return;
	}
	text_safe(out, base_name(p->file));
	buf_printf(out, ":%u", p->line);
}

/* "mutex::lock at src/main.rs:44 shop::buy", or "mutex::lock main.rs:44". */
static void place_text(const struct causes *c, struct buf *out, uint64_t place, bool brief)
{
	const struct trace_place *p = own_place(c, place);

	if (!p) {
		buf_str(out, "at a place that is not known");
		return;
	}
	if (p->awaits && *p->awaits) {
		buf_str(out, "for ");
		awaits_text(out, p->awaits);
		buf_char(out, ' ');
	}
	buf_str(out, "at ");
	line_text(out, p, brief);
}

/* " at src/main.rs:95 shop::sweep": where the program's own code is in that stack. */
static void stack_text(const struct causes *c, struct buf *out, uint32_t stack, bool brief)
{
	const struct trace_frame *f =
		stack ? trace_reader_own_frame(c->reader, stack - 1, c->opt.own) : NULL;

	if (!f)
		return;
	buf_str(out, " at ");
	line_text(out,
		  &(struct trace_place){.function = f->function, .file = f->file, .line = f->line},
		  brief);
}

static void thread_text(const struct causes *c, struct buf *out, uint32_t thread)
{
	const struct trace_thread *t = trace_reader_thread(c->reader, thread);

	if (!t || !t->name || !*t->name) {
		buf_str(out, "another thread");
		return;
	}
	buf_str(out, "thread ");
	text_safe(out, t->name);
}

const char *words_reason(uint32_t reason)
{
	static const char *const reasons[] = {
		[UR_STATE] = "events are missing",	    [UR_WINDOW] = "too long ago",
		[UR_BEFORE] = "before its first event",	    [UR_WAKE] = "its wake was not seen",
		[UR_BUDGET] = "too many events to look at",
	};

	return reason < UR_N ? reasons[reason] : "?";
}

/* Who had the CPU: "its CPU ran backup". */
static void ran_text(const struct causes *c, struct buf *out, uint32_t number)
{
	const struct trace_neighbour *n =
		number ? trace_reader_neighbour(c->reader, number - 1) : NULL;

	if (!n) {
		buf_str(out, "what its CPU ran is not known");
	} else if (n->flags & TRACE_NEIGHBOUR_IDLE) {
		buf_str(out, "its CPU was idle");
	} else {
		buf_str(out, "its CPU ran ");
		text_safe(out, n->name);
		if (c->neighbours[number - 1].thread)
			buf_str(out, " of this program");
	}
}

void words_longest(const struct causes *c, struct buf *out, const struct node *n)
{
	const struct trace_neighbour *one;

	if (!n->longest_task)
		return;
	if (n->type != NT_RAN) {
		buf_printf(out, " (longest: task %llu)", (unsigned long long)n->longest_task);
		return;
	}
	one = trace_reader_neighbour(c->reader, (uint32_t)(n->longest_task - 1));
	if (one && one->tid)
		buf_printf(out,
			   one->pid ? " (longest: thread %u of process %u)"
				    : " (longest: thread %u)",
			   one->tid, one->pid);
}

static void node_text(const struct causes *c, struct buf *out, const struct tree *t, uint32_t node,
		      bool brief)
{
	const struct node *n = &t->nodes[node];
	bool blocking = role_of(c, t, node) == TR_BLOCKING;

	switch ((enum node_type)n->type) {
	case NT_POLLED:
		buf_str(out, blocking ? "running" : "polled");
		break;
	case NT_CALL:
		buf_printf(out, "in %s", trace_call_name((unsigned)n->b));
		stack_text(c, out, n->a, brief);
		break;
	case NT_SYSCALL:
		buf_str(out, "off the CPU");
		if (n->b)
			buf_printf(out, ", in %s", syscall_name((uint16_t)(n->b - 1)));
		break;
	case NT_PREEMPTED:
		buf_str(out, "without a CPU");
		break;
	case NT_READY:
		buf_str(out, blocking ? "queued for a blocking thread" : "ready, not polled");
		break;
	case NT_WAIT:
		if (!brief)
			buf_str(out, "waiting ");
		place_text(c, out, n->b, brief);
		break;
	case NT_TASK:
		if (!brief)
			buf_str(out, "for ");
		kind_text(c, out, n->a);
		break;
	case NT_HOLDER:
		buf_str(out, "held by ");
		kind_text(c, out, n->a);
		break;
	case NT_SPAWNER:
		buf_str(out, "to be spawned by ");
		kind_text(c, out, n->a);
		break;
	case NT_HELD:
		buf_str(out, "its thread was busy with ");
		kind_text(c, out, n->a);
		break;
	case NT_RUNTIME:
		buf_str(out, "its thread was between polls");
		break;
	case NT_ASLEEP:
		buf_str(out, "its thread was parked");
		break;
	case NT_NO_CPU:
		buf_str(out, "its thread had no CPU");
		break;
	case NT_RAN:
		ran_text(c, out, n->a);
		break;
	case NT_STARTING:
		buf_str(out, "a new thread of the pool was starting");
		break;
	case NT_IO:
		buf_str(out, "for I/O");
		break;
	case NT_TIMER:
		buf_str(out, "for a timer");
		break;
	case NT_DRIVER:
		buf_str(out, "for a timer or I/O");
		break;
	case NT_UNLOOKED:
		buf_str(out, "no thread looked for timers and I/O");
		break;
	case NT_OUTSIDE:
		buf_str(out, "for ");
		thread_text(c, out, n->a);
		break;
	case NT_YIELD:
		buf_str(out, "it had yielded");
		break;
	case NT_NOT_TAKEN:
		buf_str(out, "no thread took it");
		break;
	case NT_CANCELLED:
		buf_str(out, "until it was cancelled");
		break;
	case NT_OPEN:
		buf_str(out, "still, at the end");
		break;
	case NT_FURTHER:
		buf_str(out, "for further tasks");
		break;
	case NT_UNKNOWN:
		buf_printf(out, "unknown: %s", words_reason(n->a));
		break;
	case NT_ROOT:
	case NT_N:
		break;
	}
}

void words_node(const struct causes *c, struct buf *out, const struct tree *t, uint32_t node)
{
	node_text(c, out, t, node, false);
}

void words_short(const struct causes *c, struct buf *out, const struct tree *t, uint32_t node)
{
	node_text(c, out, t, node, true);
}

const char *words_type(const struct tree *t, uint32_t node)
{
	static const char *const types[NT_N] = {
		[NT_ROOT] = "unit",
		[NT_POLLED] = "polling",
		[NT_CALL] = "blocking_call",
		[NT_SYSCALL] = "off_cpu",
		[NT_PREEMPTED] = "preempted",
		[NT_READY] = "ready",
		[NT_WAIT] = "waiting",
		[NT_TASK] = "task",
		[NT_HOLDER] = "holder",
		[NT_SPAWNER] = "spawner",
		[NT_HELD] = "worker_busy",
		[NT_RUNTIME] = "worker_between_polls",
		[NT_ASLEEP] = "worker_parked",
		[NT_NO_CPU] = "worker_preempted",
		[NT_RAN] = "ran_instead",
		[NT_STARTING] = "thread_starting",
		[NT_IO] = "io",
		[NT_TIMER] = "timer",
		[NT_DRIVER] = "timer_or_io",
		[NT_UNLOOKED] = "not_looked_for",
		[NT_OUTSIDE] = "thread",
		[NT_YIELD] = "yielded",
		[NT_NOT_TAKEN] = "not_taken",
		[NT_CANCELLED] = "cancelled",
		[NT_OPEN] = "open",
		[NT_FURTHER] = "further_tasks",
		[NT_UNKNOWN] = "unknown",
	};

	return types[t->nodes[node].type];
}
