/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Switches of CPUs from times off the CPU: see cpu_switches.h. */
#include "export/cpu_switches.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How long one is shown of whom it is known that it ran, but not for how long. */
#define SHORT_NS 1000u

/* Numbers that no thread has. */
#define NOT_RECORDED ((struct cpu_thread){INT32_MAX, "(not recorded)"})

static struct cpu_thread recorded(const struct trace_reader *r, uint32_t thread)
{
	const struct trace_thread *t = trace_reader_thread(r, thread);

	return (struct cpu_thread){t ? t->tid : 0, t && t->name ? t->name : ""};
}

static struct cpu_thread neighbour(const struct trace_reader *r, uint32_t number)
{
	const struct trace_neighbour *n = number ? trace_reader_neighbour(r, number - 1) : NULL;

	if (n && n->flags & TRACE_NEIGHBOUR_IDLE)
		return (struct cpu_thread){0, "swapper"};
	return n && n->tid ? (struct cpu_thread){n->tid, n->name ? n->name : ""} : NOT_RECORDED;
}

static int add(struct cpu_switches *c, const struct cpu_switch *s)
{
	/* To itself: another thread of the same number in between is not known. */
	if (s->prev.tid == s->next.tid)
		return 0;
	if (!GROW(c->items, c->n, c->cap))
		return -ENOMEM;
	c->items[c->n++] = *s;
	return 0;
}

static int add_waking(struct cpu_switches *c, const struct cpu_waking *w)
{
	if (!GROW(c->wakings, c->n_wakings, c->wakings_cap))
		return -ENOMEM;
	c->wakings[c->n_wakings++] = *w;
	return 0;
}

/* Whom the CPU ran that it waited for: the one that it left if it was preempted there. */
static int add_ran(struct cpu_switches *c, const struct trace_reader *r,
		   const struct tl_off_cpu *off)
{
	const struct tl_switch *how = off->how;
	uint32_t cpu = off->reason == TX_PREEMPTED ? how->left_cpu : how->got_cpu;

	for (uint32_t i = 0; cpu && i < how->n_ran; i++) {
		struct cpu_switch s = {
			.time_ns = how->ran[i].begin_ns,
			.cpu = cpu - 1,
			.prev = i ? neighbour(r, how->ran[i - 1].neighbour) : NOT_RECORDED,
			.next = neighbour(r, how->ran[i].neighbour),
		};

		TRY(add(c, &s));
	}
	return 0;
}

int cpu_switches_add(struct cpu_switches *c, const struct trace_reader *r,
		     const struct tl_off_cpu *off)
{
	const struct tl_switch *how = off->how;
	struct cpu_thread self = recorded(r, off->thread);

	if (!how)
		return 0;
	if (how->left_cpu)
		TRY(add(c, &(struct cpu_switch){.time_ns = off->begin_ns,
						.cpu = how->left_cpu - 1,
						.known = true,
						.prev_runs = off->reason == TX_PREEMPTED,
						.prev_deep = off->reason == TX_UNINTERRUPTIBLE,
						.prev = self,
						.next = neighbour(r, how->next)}));
	if (how->got_cpu)
		TRY(add(c, &(struct cpu_switch){.time_ns = off->end_ns,
						.cpu = how->got_cpu - 1,
						.prev = neighbour(r, how->before),
						.next = self}));
	if (how->woken_ns && how->got_cpu)
		TRY(add_waking(c, &(struct cpu_waking){.time_ns = how->woken_ns,
						       .cpu = how->got_cpu - 1,
						       .woken = self,
						       .waker = neighbour(r, how->waker)}));
	return add_ran(c, r, off);
}

static int by_cpu_and_time(const void *a, const void *b)
{
	const struct cpu_switch *x = a, *y = b;

	return ASCENDING(x->cpu, y->cpu) ?: ASCENDING(x->time_ns, y->time_ns);
}

static int by_time(const void *a, const void *b)
{
	const struct cpu_waking *x = a, *y = b;

	return ASCENDING(x->cpu, y->cpu) ?: ASCENDING(x->time_ns, y->time_ns);
}

/* Two records of one switch: what either knows. */
static void join(struct cpu_switch *to, const struct cpu_switch *from)
{
	if (from->known || to->prev.tid == NOT_RECORDED.tid) {
		to->prev = from->prev;
		to->known = from->known;
		to->prev_runs = from->prev_runs;
		to->prev_deep = from->prev_deep;
	}
	if (to->next.tid == NOT_RECORDED.tid)
		to->next = from->next;
}

static void join_same(struct cpu_switches *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct cpu_switch *last = n ? &c->items[n - 1] : NULL;

		if (last && last->cpu == c->items[i].cpu && last->time_ns == c->items[i].time_ns)
			join(last, &c->items[i]);
		else
			c->items[n++] = c->items[i];
	}
	c->n = n;
}

/* Another thread ran between two of a CPU. */
static int add_between(struct cpu_switches *c, const struct cpu_switch *last,
		       const struct cpu_switch *now)
{
	uint64_t room = (now->time_ns - last->time_ns) / 3;
	uint64_t step = room < SHORT_NS ? room : SHORT_NS;
	struct cpu_switch from = {.time_ns = last->time_ns + step,
				  .cpu = now->cpu,
				  .prev = last->next,
				  .next = NOT_RECORDED};
	struct cpu_switch to = {.time_ns = now->time_ns - step,
				.cpu = now->cpu,
				.prev = NOT_RECORDED,
				.next = now->prev};

	TRY(add(c, &from));
	return add(c, &to);
}

int cpu_switches_finish(struct cpu_switches *c)
{
	struct cpu_switches whole = {0};
	int rc = 0;

	if (c->n)
		qsort(c->items, c->n, sizeof(*c->items), by_cpu_and_time);
	if (c->n_wakings)
		qsort(c->wakings, c->n_wakings, sizeof(*c->wakings), by_time);
	join_same(c);
	for (size_t i = 0; i < c->n && rc == 0; i++) {
		const struct cpu_switch *now = &c->items[i], *last = i ? now - 1 : NULL;

		if (last && last->cpu != now->cpu)
			last = NULL;
		/* It is known again, and runs already. */
		if (last && now->prev.tid == NOT_RECORDED.tid && last->next.tid == now->next.tid)
			continue;
		if (last && last->next.tid != now->prev.tid)
			rc = add_between(&whole, last, now);
		if (rc == 0)
			rc = add(&whole, now);
	}
	free(c->items);
	c->items = whole.items;
	c->n = whole.n;
	c->cap = whole.cap;
	return rc;
}

void cpu_switches_done(struct cpu_switches *c)
{
	free(c->items);
	free(c->wakings);
}
