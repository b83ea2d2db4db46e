/*
 * An optimiser makes the polls of most futures a part of their awaiter's poll: there is no call
 * that could be hooked. But they lie in their awaiter's memory, and the agent tells where each
 * stood when a poll with a function of its own began and where each stands when it ends. From the
 * two lists their polls are inferred:
 *
 *     before   a -- b -- c
 *     after    a -- b -- d
 *
 * All of before were polled as soon as the poll began, for whoever awaits polls what it awaits
 * first. a and b are still pending: their polls end with it. c got ready at some time in it, d was
 * polled since, at some time before its end. So a, b and c have the poll's own times, and d a poll
 * of no length at its end. What is polled side by side (join!, select!) has polls of no length at
 * the end, one after the other: when and for how long each was polled isn't known. What begins and
 * ends within one poll is never seen. docs/futures.md says the same to people.
 *
 * Such a future is named by the address of its state: at its own address there may be the first of
 * those that it polls, which would be taken for its successor there if that is polled first.
 */
#include "capture/inlined.h"

#include "runtime/futures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INNER 64u
#define MAX_POLLS 64u /* open on a thread; of those further in nothing is inferred */

/* A future that stands somewhere. */
struct item {
	uint32_t point;
	uint64_t addr;
};

struct list {
	uint32_t n;
	struct item items[AGENT_LIST_MAX];
};

/* An open poll with a function of its own. */
struct open {
	uint32_t kind;
	uint64_t task, time;
	struct list was;
	uint32_t n_open; /* of was: told to have begun */
	bool task_itself;
	bool sure; /* as await_point.sure, of where it stood itself */
	/* What was polled inside of it by a function of its own: that tells of all that lies in
	 * there. */
	uint32_t n_inner;
	struct range {
		uint64_t addr, size;
		uint32_t type_kind;
	} inner[MAX_INNER];
};

struct inlined_thread {
	struct open *polls; /* MAX_POLLS, NULL until there is one */
	uint32_t n;	    /* may be more than MAX_POLLS */
	bool begun;	    /* the innermost has just begun: its list is still coming */
	struct list now;
};

int inlined_init(struct source *s, const struct futures_wanted *wanted)
{
	s->futures = wanted;
	s->inlined = calloc(s->rings.n_rings, sizeof(*s->inlined));
	return s->inlined ? 0 : -ENOMEM;
}

void inlined_done(struct source *s)
{
	for (uint32_t i = 0; s->inlined && i < s->rings.n_rings; i++)
		free(s->inlined[i].polls);
	free(s->inlined);
	for (size_t i = 0; i < s->n_inlined_kinds; i++)
		free(s->inlined_kinds[i].full_name);
	free(s->inlined_kinds);
	map_done(&s->hooked_types);
	s->inlined = NULL;
	s->inlined_kinds = NULL;
	s->n_inlined_kinds = 0;
}

/* ---- kinds ---- */

static int kind_of(struct drain *d, struct source *s, const struct place_future *f,
		   uint32_t *ret_kind)
{
	const char *where = f->where;
	const struct trace_kind kind = {
		.process = s->process,
		.role = TR_FUTURE,
		.address_named = 1,
		.name = f->name,
		.full_name = f->full_name,
		.scheduler = "inlined",
		.n_sites = where != NULL,
		.site_addrs = &(uint64_t){0},
		.sites = &where,
	};
	struct inlined_kind *kinds;
	int rc;

	/* Polled by its own function here, as a part of another's poll there. */
	if (f->type_kind && f->type_kind <= s->n_kinds) {
		*ret_kind = s->kinds[f->type_kind - 1];
		return 0;
	}

	*ret_kind = TRACE_KIND_NONE;
	if (!futures_want(s->futures, f->name, f->full_name))
		return 0;
	for (size_t i = 0; i < s->n_inlined_kinds; i++) {
		if (!strcmp(s->inlined_kinds[i].full_name, f->full_name)) {
			*ret_kind = s->inlined_kinds[i].kind;
			return 0;
		}
	}
	kinds = reallocarray(s->inlined_kinds, s->n_inlined_kinds + 1, sizeof(*kinds));
	if (!kinds)
		return -ENOMEM;
	s->inlined_kinds = kinds;
	kinds[s->n_inlined_kinds].full_name = strdup(f->full_name);
	if (!kinds[s->n_inlined_kinds].full_name)
		return -ENOMEM;
	rc = trace_writer_kind(d->writer, &kind, &kinds[s->n_inlined_kinds].kind);
	*ret_kind = kinds[s->n_inlined_kinds++].kind;
	return rc;
}

int inlined_points(struct drain *d, struct source *s, const struct place_program *p)
{
	uint32_t *kinds;
	int rc = 0;

	if (!s->inlined || !p->points)
		return 0;
	kinds = calloc(p->n_futures + 1, sizeof(*kinds));
	if (!kinds)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_futures && rc == 0; i++)
		rc = kind_of(d, s, &p->futures[i], &kinds[i]);
	for (size_t i = 0; i < p->n_places && rc == 0; i++) {
		const struct place_point *from = &p->points[i];
		struct await_point *to = &s->points[p->first + i];

		to->future = from->future < p->n_futures ? kinds[from->future] : TRACE_KIND_NONE;
		to->size = from->future < p->n_futures ? p->futures[from->future].size : 0;
		to->state_offset = from->state_offset;
		to->by_state = from->future < p->n_futures && !p->futures[from->future].type_kind;
		to->own = from->own;
		to->self = from->self;
		to->sure = from->sure;
		to->below = from->below;
	}
	free(kinds);
	if (rc == 0 && p->size)
		rc = map_put(&s->hooked_types, s->kinds[p->kind], 0, (void *)(uintptr_t)p->size);
	if (rc == 0 && p->size)
		rc = map_put(&s->hooked_types, s->kinds[p->kind], 1,
			     (void *)(uintptr_t)p->type_kind);
	return rc;
}

/* ---- lists ---- */

static const struct await_point *point_of(const struct source *s, const struct item *item)
{
	return &s->points[item->point];
}

/* The innermost of those before it in which an item lies; UINT32_MAX: none. */
static uint32_t parent_of(const struct source *s, const struct list *l, uint32_t i)
{
	for (uint32_t k = i; k-- > 0;)
		if (l->items[i].addr - l->items[k].addr < point_of(s, &l->items[k])->size)
			return k;
	return UINT32_MAX;
}

/* How many of a list lie in each other, with nothing beside them; only those that are surely
 * not polled by a function of their own, unless `below`. */
static uint32_t in_line(const struct source *s, const struct list *l, bool below)
{
	uint32_t n_children[AGENT_LIST_MAX + 1] = {0}, n = 0;

	for (uint32_t i = 0; i < l->n; i++)
		n_children[parent_of(s, l, i) + 1]++; /* 0: in none */
	while (n < l->n && n_children[n] == 1 && (below || !point_of(s, &l->items[n])->below))
		n++;
	return n;
}

static bool same(const struct source *s, const struct item *a, const struct item *b)
{
	return a->addr == b->addr && point_of(s, a)->future == point_of(s, b)->future;
}

static bool is_in(const struct source *s, const struct list *l, const struct item *item)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (same(s, &l->items[i], item))
			return true;
	return false;
}

/* The one whose poll is hooked is told by that. */
static void leave_self_out(const struct source *s, struct list *l)
{
	if (!l->n || !point_of(s, &l->items[0])->self)
		return;
	l->n--;
	memmove(l->items, l->items + 1, l->n * sizeof(*l->items));
}

static void leave_untold_out(const struct source *s, struct list *l)
{
	uint32_t n = 0;

	leave_self_out(s, l);
	for (uint32_t i = 0; i < l->n; i++)
		if (point_of(s, &l->items[i])->future != TRACE_KIND_NONE)
			l->items[n++] = l->items[i];
	l->n = n;
}

static bool is_inner(const struct source *s, const struct open *o, const struct item *item)
{
	const struct await_point *p = point_of(s, item);
	bool itself = p->below && p->below <= s->n_kinds && p->future == s->kinds[p->below - 1];
	bool yes = false;

	for (uint32_t i = 0; p->below && i < o->n_inner && !yes; i++)
		yes = p->below == o->inner[i].type_kind &&
		      item->addr - o->inner[i].addr < (itself ? 1 : o->inner[i].size);
	return yes;
}

/* What was polled by a function of its own has told of itself and of what lies in it. */
static void leave_inner_out(const struct source *s, const struct open *o, struct list *l,
			    uint32_t first)
{
	bool inner[AGENT_LIST_MAX] = {false};
	uint32_t n = first;

	for (uint32_t i = first; i < l->n; i++) {
		uint32_t parent = parent_of(s, l, i);

		inner[i] = (parent != UINT32_MAX && inner[parent]) || is_inner(s, o, &l->items[i]);
	}
	for (uint32_t i = first; i < l->n; i++)
		if (!inner[i])
			l->items[n++] = l->items[i];
	l->n = n;
}

static void add_inner(const struct source *s, struct inlined_thread *t, uint32_t kind,
		      uint64_t addr)
{
	uint64_t size = (uintptr_t)map_get(&s->hooked_types, kind, 0);
	uint32_t type_kind = (uint32_t)(uintptr_t)map_get(&s->hooked_types, kind, 1);

	for (uint32_t i = 0; size && i < t->n && i < MAX_POLLS; i++) {
		struct open *o = &t->polls[i];
		bool known = false;

		for (uint32_t k = 0; k < o->n_inner && !known; k++)
			known = o->inner[k].addr == addr && o->inner[k].type_kind == type_kind;
		if (!known && o->n_inner < MAX_INNER)
			o->inner[o->n_inner++] = (struct range){addr, size, type_kind};
	}
}

/* ---- events ---- */

static int tell(struct drain *d, const struct source *s, const struct trace_event *at,
		const struct item *item, uint16_t type, enum trace_outcome outcome)
{
	const struct await_point *p = point_of(s, item);
	struct trace_event e = {
		.time = at->time,
		.thread = at->thread,
		.type = type,
		.kind = p->future,
		.task = p->by_state ? item->addr + p->state_offset : item->addr,
	};

	if (type == TE_FUTURE_END) {
		e.arg = (uint16_t)outcome;
		e.value = outcome == TO_PENDING ? (uint64_t)p->place + 1 : 0;
	}
	return drain_put(d, &e);
}

/* A poll of no length, of something that isn't open. */
static int tell_short(struct drain *d, const struct source *s, const struct trace_event *at,
		      const struct item *item, enum trace_outcome outcome)
{
	int rc = tell(d, s, at, item, TE_FUTURE_BEGIN, 0);

	return rc == 0 ? tell(d, s, at, item, TE_FUTURE_END, outcome) : rc;
}

/* The list of the innermost poll's begin is whole: what lies in line in it is polled from now. */
static int open_line(struct drain *d, const struct source *s, struct inlined_thread *t,
		     uint32_t thread)
{
	struct open *o = &t->polls[t->n - 1];
	const struct trace_event at = {.time = o->time, .thread = thread};
	int rc = 0;

	t->begun = false;
	o->sure = t->now.n && point_of(s, &t->now.items[0])->self &&
		  point_of(s, &t->now.items[0])->sure;
	leave_untold_out(s, &t->now);
	o->was = t->now;
	t->now.n = 0;
	o->n_open = in_line(s, &o->was, false);
	for (uint32_t i = 0; i < o->n_open && rc == 0; i++)
		rc = tell(d, s, &at, &o->was.items[i], TE_FUTURE_BEGIN, 0);
	return rc;
}

/* How what stood there before, and doesn't any more, has ended. */
static enum trace_outcome ended(const struct source *s, const struct open *o, uint32_t i,
				enum trace_outcome outcome)
{
	uint32_t parent = parent_of(s, &o->was, i);

	if (parent == UINT32_MAX ? !(o->sure || (o->task_itself && outcome == TO_READY))
				 : !point_of(s, &o->was.items[parent])->sure)
		return outcome == TO_PANICKED ? outcome : TO_UNKNOWN;
	return outcome == TO_PENDING ? TO_READY : outcome == TO_CANCELLED ? TO_UNKNOWN : outcome;
}

/* Those of `now` from `first` on, in each other as they lie, all still pending. */
static int tell_tree(struct drain *d, const struct source *s, const struct trace_event *at,
		     const struct list *now, uint32_t first)
{
	uint32_t stack[AGENT_LIST_MAX], n = 0;
	int rc = 0;

	for (uint32_t i = first; i < now->n && rc == 0; i++) {
		uint32_t parent = parent_of(s, now, i);

		while (n && stack[n - 1] != parent && rc == 0)
			rc = tell(d, s, at, &now->items[stack[--n]], TE_FUTURE_END, TO_PENDING);
		if (rc == 0)
			rc = tell(d, s, at, &now->items[i], TE_FUTURE_BEGIN, 0);
		stack[n++] = i;
	}
	while (n && rc == 0)
		rc = tell(d, s, at, &now->items[stack[--n]], TE_FUTURE_END, TO_PENDING);
	return rc;
}

static int close_poll(struct drain *d, const struct source *s, struct open *o, struct list *now,
		      const struct trace_event *e)
{
	uint32_t line, common = 0;
	int rc = 0;

	leave_inner_out(s, o, &o->was, o->n_open);
	leave_inner_out(s, o, now, 0);
	line = in_line(s, now, false);

	while (common < o->n_open && common < line &&
	       same(s, &o->was.items[common], &now->items[common]))
		common++;
	/* Side by side before, and not there any more. */
	for (uint32_t i = o->n_open; i < o->was.n && rc == 0; i++) {
		enum trace_outcome how = ended(s, o, i, e->arg);

		if (how != TO_UNKNOWN && !is_in(s, now, &o->was.items[i]))
			rc = tell_short(d, s, e, &o->was.items[i], how);
	}
	for (uint32_t i = o->n_open; i-- > common && rc == 0;)
		rc = tell(d, s, e, &o->was.items[i], TE_FUTURE_END, ended(s, o, i, e->arg));
	if (rc == 0)
		rc = tell_tree(d, s, e, now, common);
	for (uint32_t i = common; i-- > 0 && rc == 0;)
		rc = tell(d, s, e, &now->items[i], TE_FUTURE_END, TO_PENDING);
	return rc;
}

/* The await point of the poll that ends: a future's own, of a task the innermost of the program. */
static uint64_t place_of(const struct source *s, const struct list *now,
			 const struct trace_event *e)
{
	uint64_t place = 0;

	if (e->type == TE_FUTURE_END)
		return now->n && point_of(s, &now->items[0])->self
			       ? (uint64_t)point_of(s, &now->items[0])->place + 1
			       : 0;
	for (uint32_t i = 0, line = in_line(s, now, true); i < line; i++)
		if (point_of(s, &now->items[i])->own)
			place = (uint64_t)point_of(s, &now->items[i])->place + 1;
	return place;
}

int inlined_event(struct drain *d, struct source *s, uint32_t ring, const struct trace_event *event)
{
	struct inlined_thread *t = &s->inlined[ring];
	struct trace_event e = *event;
	int rc = 0;

	if (t->begun)
		rc = open_line(d, s, t, e.thread);
	if (e.type == TE_POLL_BEGIN || e.type == TE_FUTURE_BEGIN) {
		if (!t->polls)
			t->polls = calloc(MAX_POLLS, sizeof(*t->polls));
		if (!t->polls)
			return -ENOMEM;
		t->now.n = 0;
		if (t->n++ < MAX_POLLS) {
			struct open *o = &t->polls[t->n - 1];

			o->kind = e.kind;
			o->task = e.task;
			o->time = e.time;
			o->task_itself = e.type == TE_POLL_BEGIN;
			o->was.n = o->n_open = o->n_inner = 0;
			t->begun = true;
		}
	} else if ((e.type == TE_POLL_END || e.type == TE_FUTURE_END) && t->n) {
		struct open *o = t->n <= MAX_POLLS ? &t->polls[t->n - 1] : NULL;

		if (e.arg == TO_PENDING && !e.value)
			e.value = place_of(s, &t->now, &e);
		leave_untold_out(s, &t->now);
		if (o && o->kind == e.kind && o->task == e.task && rc == 0)
			rc = close_poll(d, s, o, &t->now, &e);
		t->n--;
		t->now.n = 0;
		if (e.type == TE_FUTURE_END)
			add_inner(s, t, e.kind, e.task);
	}
	return rc == 0 ? drain_put(d, &e) : rc;
}

int inlined_stands(struct drain *d, struct source *s, uint32_t ring, const struct agent_event *raw,
		   uint32_t thread)
{
	struct inlined_thread *t = &s->inlined[ring];
	uint32_t point = (uint32_t)(raw->word1 >> 48);
	uint64_t state = raw->word1 & ((1ull << 48) - 1);
	int rc = 0;

	if (t->begun && (raw->word0 & 0xff) == AE_FUTURE_AT)
		rc = open_line(d, s, t, thread);
	if (point < s->n_points && s->points[point].kind != TRACE_KIND_NONE && t->n &&
	    t->now.n < AGENT_LIST_MAX)
		t->now.items[t->now.n++] = (struct item){
			.point = point, .addr = state - s->points[point].state_offset};
	return rc;
}

void inlined_forget(struct source *s, uint32_t ring)
{
	s->inlined[ring].n = 0;
	s->inlined[ring].begun = false;
	s->inlined[ring].now.n = 0;
}
