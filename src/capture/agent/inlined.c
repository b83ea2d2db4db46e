/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An optimiser makes the polls of most futures a part of their awaiter's poll: there is no call
 * that could be hooked. But they lie in their awaiter's memory, and the agent records the state of
 * each when a poll with a function of its own begins and when it ends. From the two lists their
 * polls are inferred:
 *
 *     before   a -- b -- c
 *     after    a -- b -- d
 *
 * All of `before` were polled at once, because an awaiter polls its awaitee first. a and b are
 * still pending: their polls end with it. c got ready at some time in it, d was polled since, at
 * some time before its end. So a, b and c have the poll's own times, and d a poll of no length at
 * its end. Concurrent branches (join!, select!) have polls of no length at the end, one after the
 * other: when and for how long each was polled isn't known. What begins and ends within one poll is
 * never seen. docs/futures.md explains the same to users.
 *
 * Such a future is named by the address of its state: at its own address there may be the first of
 * those that it polls, which would be taken for its successor there if that is polled first.
 *
 * Of the futures with a poll function of their own some are requests (docs/places.md): the outermost in
 * the poll of a task that serves. Such a poll is written twice, the other time as that of the request's
 * kind, around the first.
 */
#include "capture/agent/inlined.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "runtime/futures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INNER 64u
#define MAX_POLLS 64u /* open on a thread; of those further in nothing is inferred */

#define NONE UINT32_MAX

/* A suspended future, or a pointer that leads to what follows. */
struct open_item {
	uint32_t point;
	uint32_t parent; /* the innermost of those before it in which it lies; NONE: none */
	uint64_t addr;	 /* of a pointer: where it leads to */
	uint64_t where;	 /* as addr, of a pointer: its own address */
	uint32_t origin; /* among those that are recorded: which of all it is */
	bool hidden;	 /* not recorded: unwanted, a pointer, or recorded by its function */
	bool borrowed;	 /* not to be dropped by those in which it lies */
	bool open;	 /* its begin is recorded */
};

struct future_snapshot {
	uint32_t n;
	uint32_t half; /* the number of a pointer whose own address is known, 0: none */
	uint64_t half_where;
	struct open_item items[AGENT_LIST_MAX];
};

/* An open poll with a function of its own. */
struct inlined_poll {
	uint32_t kind;
	uint64_t task, time;
	struct future_snapshot begin;
	bool task_itself;
	bool unseen;	  /* its begin, and what was polled inside it */
	uint32_t request; /* 1 + the kind as which its begin was written before it, 0: none was */
	uint64_t place;	  /* own_place() of what ended pending in it last, 0: none */
	/* What was polled inside it by a separate function: the events of that cover all
	 * inside. */
	uint32_t n_inner;
	struct polled_range {
		uint64_t addr, size;
		uint32_t type_kind;
	} inner[MAX_INNER];
};

struct inlined_thread {
	struct inlined_poll *polls; /* MAX_POLLS, NULL until there is one */
	uint32_t n;		    /* may be more than MAX_POLLS */
	bool begun;		    /* the innermost has just begun: its list is still coming */
	uint64_t last_ns;	    /* time of the last event */
	struct future_snapshot current, departed;
};

static void kind_free(struct inlined_kind *k)
{
	free(k->name);
	free(k->full_name);
}

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
		kind_free(&s->inlined_kinds[i]);
	free(s->inlined_kinds);
	map_done(&s->own_places);
	s->inlined = NULL;
	s->inlined_kinds = NULL;
	s->n_inlined_kinds = 0;
}

/* ---- kinds ---- */

static int add_kind(struct source *s, const struct place_future *f, uint32_t index)
{
	struct inlined_kind *kind;

	if (!GROW_ONE(s->inlined_kinds, s->n_inlined_kinds))
		return -ENOMEM;
	kind = &s->inlined_kinds[s->n_inlined_kinds++];
	*kind = (struct inlined_kind){
		.kind = index, .name = strdup(f->name), .full_name = strdup(f->full_name)};
	return kind->name && kind->full_name ? 0 : -ENOMEM;
}

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
	uint32_t index;

	for (size_t i = 0; i < s->n_inlined_kinds; i++) {
		if (!strcmp(s->inlined_kinds[i].full_name, f->full_name)) {
			*ret_kind = s->inlined_kinds[i].kind;
			return 0;
		}
	}
	*ret_kind = TRACE_KIND_NONE;
	/* Polled by its own function here, as a part of another's poll there. */
	if (f->type_kind && f->type_kind <= s->n_kinds)
		index = s->kinds[f->type_kind - 1].index;
	else if (!futures_want(s->futures, f->name, f->full_name))
		return 0;
	else
		TRY(trace_writer_kind(d->writer, &kind, &index));
	TRY(add_kind(s, f, index));
	*ret_kind = index;
	return 0;
}

int inlined_points(struct drain *d, struct source *s, const struct place_program *p)
{
	_cleanup_free_ uint32_t *kinds = NULL;

	if (!s->inlined || !p->points)
		return 0;
	kinds = calloc(p->n_futures + 1, sizeof(*kinds));
	if (!kinds)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_futures; i++)
		TRY(kind_of(d, s, &p->futures[i], &kinds[i]));
	for (size_t i = 0; i < p->n_places; i++) {
		struct await_point *point = &s->points.v[p->first + i];
		uint32_t future = point->info.future;

		if (point->info.kind == POINT_AWAIT && p->places[i].flags & TRACE_PLACE_OWN)
			TRY(map_put(&s->own_places, point->place, 0, s));
		if (future >= p->n_futures)
			continue;
		point->future = kinds[future];
		point->by_state = !p->futures[future].type_kind;
	}
	if (p->size) {
		s->kinds[p->kind].size = p->size;
		s->kinds[p->kind].type_kind = p->type_kind;
	}
	return 0;
}

/* ---- lists ---- */

static const struct await_point *point_of(const struct source *s, const struct open_item *item)
{
	return &s->points.v[item->point];
}

static const struct place_point *info_of(const struct source *s, const struct open_item *item)
{
	return &point_of(s, item)->info;
}

static bool is_pointer(const struct place_point *p)
{
	return p->kind == POINT_BOX || p->kind == POINT_BORROW;
}

/* The innermost of those before it in which an item lies. */
static uint32_t parent_of(const struct source *s, const struct future_snapshot *l,
			  const struct open_item *item)
{
	for (uint32_t k = l->n; k-- > 0;)
		if (item->where - l->items[k].addr < info_of(s, &l->items[k])->size)
			return k;
	return NONE;
}

static void clear(struct future_snapshot *l)
{
	l->n = 0;
	l->half = 0;
}

/* Those of a list that are recorded, with parents among each other. Returns how many of them are
 * nested, without siblings; only those that are surely not polled by a function of their own,
 * unless `below`. */
static uint32_t recorded_items(const struct source *s, const struct future_snapshot *l, bool below,
			       struct future_snapshot *ret)
{
	uint32_t to[AGENT_LIST_MAX], n_children[AGENT_LIST_MAX + 1] = {0}, n = 0;

	clear(ret);
	for (uint32_t i = 0; i < l->n; i++) {
		struct open_item item = l->items[i];
		uint32_t parent = item.parent == NONE ? NONE : to[item.parent];

		to[i] = item.hidden ? parent : ret->n;
		if (item.hidden)
			continue;
		item.parent = parent;
		item.origin = i;
		n_children[parent + 1]++; /* 0: in none */
		ret->items[ret->n++] = item;
	}
	while (n < ret->n && n_children[n] == 1 && !info_of(s, &ret->items[n])->concurrent &&
	       (below || !info_of(s, &ret->items[n])->hooked_parent))
		n++;
	return n;
}

static bool same(const struct source *s, const struct open_item *a, const struct open_item *b)
{
	return a->addr == b->addr && point_of(s, a)->future == point_of(s, b)->future;
}

/* Its item in another list, or that it has returned; NULL: it isn't there. */
static const struct open_item *find(const struct source *s, const struct future_snapshot *l,
				    const struct open_item *item)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (!is_pointer(info_of(s, &l->items[i])) && same(s, &l->items[i], item))
			return &l->items[i];
	return NULL;
}

/* What the agent says of one, after those before it. */
static void add_item(const struct source *s, struct future_snapshot *l, uint32_t point,
		     uint64_t state)
{
	const struct await_point *named = &s->points.v[point];
	const struct place_point *p = &named->info;
	struct open_item item = {.point = point, .addr = state - (uint64_t)p->state_offset};
	bool pointer = is_pointer(p);

	if (pointer && l->half != point) {
		l->half = point;
		l->half_where = state;
		return;
	}
	item.where = pointer ? l->half_where : item.addr;
	item.hidden = p->kind != POINT_AWAIT || named->future == TRACE_KIND_NONE;
	l->half = 0;
	/* Two ways may lead to one. */
	if (l->n == AGENT_LIST_MAX || (!pointer && find(s, l, &item)))
		return;
	item.parent = parent_of(s, l, &item);
	item.borrowed =
		p->kind == POINT_BORROW || (item.parent != NONE && l->items[item.parent].borrowed);
	/* The one whose poll is hooked is recorded by the hook. */
	item.hidden = item.hidden || (!l->n && p->self);
	l->items[l->n++] = item;
}

static bool is_live(const struct source *s, const struct open_item *item)
{
	return item && info_of(s, item)->kind != POINT_RETURNED;
}

static bool is_inner(const struct source *s, const struct inlined_poll *o,
		     const struct open_item *item)
{
	uint32_t parent = info_of(s, item)->hooked_parent;
	bool itself = parent && parent <= s->n_kinds &&
		      point_of(s, item)->future == s->kinds[parent - 1].index;
	bool yes = false;

	if (o->unseen)
		return parent;
	for (uint32_t i = 0; parent && i < o->n_inner && !yes; i++)
		yes = parent == o->inner[i].type_kind &&
		      item->where - o->inner[i].addr < (itself ? 1 : o->inner[i].size);
	return yes;
}

/* The name under which it is recorded. */
static uint64_t name_of(const struct source *s, const struct open_item *item)
{
	const struct await_point *p = point_of(s, item);

	return item->addr + (p->by_state ? (uint64_t)p->info.state_offset : 0);
}

/* Is it being polled as a part of a poll around this one? No poll is inside itself: such a list
 * contradicts the one of the poll around, and its ends would end what is open there. */
static bool open_around(const struct source *s, const struct inlined_thread *t,
			const struct inlined_poll *o, const struct open_item *item)
{
	for (const struct inlined_poll *around = t->polls; around < o; around++) {
		for (uint32_t i = 0; i < around->begin.n; i++) {
			const struct open_item *open = &around->begin.items[i];

			if (open->open && point_of(s, open)->future == point_of(s, item)->future &&
			    name_of(s, open) == name_of(s, item))
				return true;
		}
	}
	return false;
}

static void leave_open_out(const struct source *s, const struct inlined_thread *t,
			   const struct inlined_poll *o, struct future_snapshot *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		l->items[i].hidden = l->items[i].hidden || open_around(s, t, o, &l->items[i]);
}

/* What was polled by a function of its own has recorded itself and what is inside it. */
static void mask_hooked_children(const struct source *s, const struct inlined_poll *o,
				 struct future_snapshot *l)
{
	bool inner[AGENT_LIST_MAX] = {false};

	for (uint32_t i = 0; i < l->n; i++) {
		struct open_item *item = &l->items[i];

		inner[i] = (item->parent != NONE && inner[item->parent]) || is_inner(s, o, item);
		item->hidden = item->hidden || (inner[i] && !item->open);
	}
}

static void add_inner(const struct source *s, struct inlined_thread *t, uint32_t kind,
		      uint64_t addr)
{
	const struct source_kind *k = map_get(&s->by_index, kind, 0);

	for (uint32_t i = 0; k && k->size && i < t->n && i < MAX_POLLS; i++) {
		struct inlined_poll *o = &t->polls[i];
		bool known = false;

		for (uint32_t n = 0; n < o->n_inner && !known; n++)
			known = o->inner[n].addr == addr && o->inner[n].type_kind == k->type_kind;
		if (!known && o->n_inner < MAX_INNER)
			o->inner[o->n_inner++] = (struct polled_range){addr, k->size, k->type_kind};
	}
}

/* ---- events ---- */

static int emit(struct drain *d, const struct source *s, const struct trace_event *at,
		const struct open_item *item, uint16_t type, enum trace_outcome outcome)
{
	const struct await_point *p = point_of(s, item);
	struct trace_event e = {
		.time = at->time,
		.thread = at->thread,
		.type = type,
		.kind = p->future,
		.task = name_of(s, item),
	};

	if (type == TE_FUTURE_END) {
		e.arg = (uint16_t)outcome;
		e.value = outcome == TO_PENDING ? (uint64_t)p->place + 1 : 0;
	}
	return drain_put(d, &e);
}

/* The end of something that isn't open: who is ready was polled. Who isn't may have been dropped
 * unpolled; and which of several has panicked isn't known. */
static int emit_short(struct drain *d, const struct source *s, const struct trace_event *at,
		      const struct open_item *item, enum trace_outcome outcome)
{
	if (outcome == TO_PANICKED)
		outcome = TO_UNKNOWN;
	if (outcome == TO_READY)
		TRY(emit(d, s, at, item, TE_FUTURE_BEGIN, 0));
	return emit(d, s, at, item, TE_FUTURE_END, outcome);
}

/* The list of the innermost poll's begin is whole: what lies in line in it is polled from now. */
static int open_line(struct drain *d, const struct source *s, struct inlined_thread *t,
		     uint32_t thread)
{
	struct inlined_poll *o = &t->polls[t->n - 1];
	const struct trace_event at = {.time = o->time, .thread = thread};
	struct future_snapshot line;
	uint32_t n_open;

	t->begun = false;
	o->begin.n = t->current.n;
	memcpy(o->begin.items, t->current.items, t->current.n * sizeof(*t->current.items));
	clear(&t->current);
	if (!o->begin.n)
		return 0; /* as in most */
	leave_open_out(s, t, o, &o->begin);
	n_open = recorded_items(s, &o->begin, false, &line);
	for (uint32_t i = 0, n = 0; i < o->begin.n && n < n_open; i++)
		n += o->begin.items[i].open = !o->begin.items[i].hidden;
	for (uint32_t i = 0; i < n_open; i++)
		TRY(emit(d, s, &at, &line.items[i], TE_FUTURE_BEGIN, 0));
	return 0;
}

/* A poll that ends. */
struct ending {
	const struct source *s;
	const struct inlined_poll *open;
	const struct future_snapshot *current, *departed;
	const struct trace_event *event;
};

/* The await point of the future whose poll it is; 0: none. */
static uint64_t place_of_self(const struct source *s, const struct future_snapshot *now,
			      const struct trace_event *e)
{
	if (now->n && info_of(s, &now->items[0])->self)
		return (uint64_t)point_of(s, &now->items[0])->place + 1;
	return e->type == TE_FUTURE_END ? e->value : 0;
}

/* How one has ended that `by` awaited when the poll began, by how that ended. */
static enum trace_outcome ended_by(const struct ending *e, const struct open_item *item,
				   const struct open_item *by);

/* How a future ended that was there before and no longer is. */
static enum trace_outcome ended(const struct ending *e, const struct open_item *item)
{
	const struct future_snapshot *was = &e->open->begin;
	const struct open_item *left = find(e->s, e->departed, item);
	uint32_t parent = item->parent;

	if (e->event->arg == TO_PANICKED)
		return TO_PANICKED;
	if (!left)
		left = find(e->s, e->current, item);
	if (left)
		return is_live(e->s, left) ? TO_CANCELLED : TO_READY;
	while (parent != NONE && is_pointer(info_of(e->s, &was->items[parent])))
		parent = was->items[parent].parent;
	if (parent != NONE)
		return ended_by(e, item, &was->items[parent]);
	return e->open->task_itself && e->event->arg == TO_READY &&
			       info_of(e->s, item)->proof >= READY_IF_MOVED_ON
		       ? TO_READY
		       : TO_UNKNOWN;
}

static enum trace_outcome ended_by(const struct ending *e, const struct open_item *item,
				   const struct open_item *by)
{
	const struct await_point *p = point_of(e->s, by);
	const struct open_item *now = find(e->s, e->current, by);
	enum ready_proof proof = info_of(e->s, item)->proof;
	bool behind = &e->open->begin.items[item->parent] != by; /* a pointer */
	bool there = false, on = false;

	if (!is_live(e->s, now)) {
		now = find(e->s, e->departed, by);
		if (is_live(e->s, now) && behind) /* no pointer is followed there */
			return TO_UNKNOWN;
	}
	if (is_live(e->s, now)) {
		there = point_of(e->s, now)->place == p->place;
		on = !there;
	} else if (p->info.self && by == e->open->begin.items) {
		uint64_t place = place_of_self(e->s, e->current, e->event);

		there = place == (uint64_t)p->place + 1;
		on = (place && !there) || e->event->arg == TO_READY;
	} else {
		on = ended(e, by) == TO_READY;
	}
	return (there && proof >= READY_IF_GONE) || (on && proof >= READY_IF_MOVED_ON) ? TO_READY
										       : TO_UNKNOWN;
}

/* Those of `now` from `first` on, in each other as they lie, all still pending. */
static int emit_tree(struct drain *d, const struct source *s, const struct trace_event *at,
		     const struct future_snapshot *now, uint32_t first)
{
	uint32_t stack[AGENT_LIST_MAX], n = 0;

	for (uint32_t i = first; i < now->n; i++) {
		while (n && stack[n - 1] != now->items[i].parent)
			TRY(emit(d, s, at, &now->items[stack[--n]], TE_FUTURE_END, TO_PENDING));
		TRY(emit(d, s, at, &now->items[i], TE_FUTURE_BEGIN, 0));
		stack[n++] = i;
	}
	while (n)
		TRY(emit(d, s, at, &now->items[stack[--n]], TE_FUTURE_END, TO_PENDING));
	return 0;
}

/* Counts the ends, of which it isn't known how they were. */
static enum trace_outcome count(struct source *s, const struct ending *e,
				const struct open_item *item)
{
	enum trace_outcome how = ended(e, &e->open->begin.items[item->origin]);

	/* It need not have ended. */
	if (how == TO_UNKNOWN && (item->borrowed || info_of(s, item)->hooked_parent))
		return how;
	s->n_inlined_ends++;
	if (how != TO_UNKNOWN)
		return how;
	s->n_inlined_unknown++;
	for (size_t i = 0; i < s->n_inlined_kinds; i++)
		if (s->inlined_kinds[i].kind == point_of(s, item)->future)
			s->inlined_kinds[i].n_unknown++;
	return how;
}

static int close_poll(struct drain *d, struct source *s, struct inlined_thread *t,
		      struct inlined_poll *o, struct future_snapshot *all,
		      const struct future_snapshot *left, const struct trace_event *e)
{
	const struct ending ending = {s, o, all, left, e};
	struct future_snapshot was, now;
	uint32_t n_open = 0, line, common = 0;

	if (!o->begin.n && !all->n)
		return 0; /* as in most */
	mask_hooked_children(s, o, &o->begin);
	mask_hooked_children(s, o, all);
	leave_open_out(s, t, o, all);
	recorded_items(s, &o->begin, false, &was);
	line = recorded_items(s, all, false, &now);
	while (n_open < was.n && was.items[n_open].open)
		n_open++;

	while (common < n_open && common < line && same(s, &was.items[common], &now.items[common]))
		common++;
	/* Side by side before, and not there any more. */
	for (uint32_t i = n_open; i < was.n; i++) {
		const struct open_item *item = &was.items[i];
		enum trace_outcome how;

		if (is_live(s, find(s, all, item)))
			continue;
		how = count(s, &ending, item);
		/* One with a poll function of its own is recorded by that when it is called. */
		if (how != TO_UNKNOWN || !info_of(s, item)->hooked_parent)
			TRY(emit_short(d, s, e, item, how));
	}
	for (uint32_t i = n_open; i-- > common;) {
		enum trace_outcome how = count(s, &ending, &was.items[i]);

		/* In a block_on's poll whose end was not observed, neither were theirs. */
		if (how == TO_UNKNOWN && e->arg == TO_UNSEEN)
			how = TO_UNSEEN;
		TRY(emit(d, s, e, &was.items[i], TE_FUTURE_END, how));
	}
	TRY(emit_tree(d, s, e, &now, common));
	for (uint32_t i = common; i-- > 0;)
		TRY(emit(d, s, e, &now.items[i], TE_FUTURE_END, TO_PENDING));
	return 0;
}

/* ---- requests ---- */

/* Whether the poll that begins, of a future of this kind, is a request's: 1 + its kind as such. */
static uint32_t request_of(const struct source *s, const struct inlined_thread *t, uint32_t kind)
{
	const struct source_kind *k = map_get(&s->by_index, kind, 0), *around;

	if (!k || !k->request)
		return 0;
	for (uint32_t i = t->n < MAX_POLLS ? t->n : MAX_POLLS; i-- > 0;) {
		const struct inlined_poll *o = &t->polls[i];

		around = map_get(&s->by_index, o->kind, 0);
		if (o->task_itself)
			return around && around->serves ? k->request : 0;
		if (o->request || (around && around->boxed))
			return 0;
	}
	return 0;
}

/* The event of a future's poll as that of a request's, which is a future whatever a damaged ring says. */
static int put_request(struct drain *d, uint32_t request, const struct trace_event *e)
{
	const bool begins = e->type == TE_POLL_BEGIN || e->type == TE_FUTURE_BEGIN;
	struct trace_event copy = *e;

	copy.type = begins ? TE_FUTURE_BEGIN : TE_FUTURE_END;
	copy.kind = request - 1;
	return request ? drain_put(d, &copy) : 0;
}

/* The innermost poll is over, since another one ends that is not open: so is what is open inside. */
static int give_up(struct drain *d, const struct source *s, const struct inlined_poll *o,
		   const struct trace_event *e)
{
	struct trace_event end = {.time = e->time,
				  .thread = e->thread,
				  .type = TE_FUTURE_END,
				  .arg = TO_UNKNOWN,
				  .task = o->task};

	for (uint32_t i = o->begin.n; i-- > 0;)
		if (o->begin.items[i].open)
			TRY(emit(d, s, e, &o->begin.items[i], TE_FUTURE_END, TO_UNKNOWN));
	return put_request(d, o->request, &end);
}

/* The await point of the poll that ends: a future's own, of a task the innermost of the program. */
static uint64_t place_of(const struct source *s, const struct future_snapshot *now,
			 const struct trace_event *e)
{
	struct future_snapshot line;
	uint64_t place = 0;

	if (e->type == TE_FUTURE_END)
		return place_of_self(s, now, e);
	for (uint32_t i = 0, n = recorded_items(s, now, true, &line); i < n; i++)
		if (info_of(s, &line.items[i])->own)
			place = (uint64_t)point_of(s, &line.items[i])->place + 1;
	return place;
}

static bool is_own_place(const struct source *s, uint64_t place)
{
	return place && map_get(&s->own_places, (uint32_t)(place - 1), 0);
}

/* The innermost await point in the program's own code at which a poll ends: what it waits for lies in
 * what was polled in it last. 0: there is none. */
static uint64_t own_place(const struct source *s, const struct inlined_poll *o,
			  const struct future_snapshot *now, const struct trace_event *e)
{
	struct future_snapshot line;
	uint64_t place = o->place;

	if (e->arg != TO_PENDING || place)
		return place;
	for (uint32_t i = recorded_items(s, now, true, &line); i-- > 0 && !place;) {
		uint64_t one = (uint64_t)point_of(s, &line.items[i])->place + 1;

		place = is_own_place(s, one) ? one : 0;
	}
	if (!place && is_own_place(s, e->value))
		place = e->value;
	return place;
}

static int open_poll(struct inlined_thread *t, const struct trace_event *e)
{
	struct inlined_poll *o;

	if (!t->polls)
		t->polls = calloc(MAX_POLLS, sizeof(*t->polls));
	if (!t->polls)
		return -ENOMEM;
	if (t->n++ >= MAX_POLLS)
		return 0;
	o = &t->polls[t->n - 1];
	o->kind = e->kind;
	o->task = e->task;
	o->time = e->time;
	o->task_itself = e->type == TE_POLL_BEGIN;
	o->unseen = false;
	o->request = 0;
	o->place = 0;
	clear(&o->begin);
	o->n_inner = 0;
	return 0;
}

static bool is_block_on(const struct source *s, uint32_t kind)
{
	const struct source_kind *k = map_get(&s->by_index, kind, 0);

	return k && k->block_on;
}

static struct inlined_poll *open_root(const struct source *s, struct inlined_thread *t)
{
	struct inlined_poll *o = t->n && t->n <= MAX_POLLS ? &t->polls[t->n - 1] : NULL;

	return o && is_block_on(s, o->kind) ? o : NULL;
}

/* The block_on may have returned since, or not: when its last poll ended isn't known. What was
 * inside it waited up to that poll. */
static int end_root(struct drain *d, struct source *s, struct inlined_thread *t,
		    struct inlined_poll *o, uint32_t thread)
{
	const struct future_snapshot left = {.n = 0};
	struct future_snapshot now = {.n = 0};
	const struct trace_event end = {
		.time = t->last_ns,
		.thread = thread,
		.type = TE_FUTURE_END,
		.arg = TO_UNSEEN,
		.kind = o->kind,
		.task = o->task,
	};

	TRY(close_poll(d, s, t, o, &now, &left, &end));
	t->n--;
	return drain_put(d, &end);
}

int inlined_thread_end(struct drain *d, struct source *s, uint32_t ring, uint32_t thread)
{
	struct inlined_thread *t = &s->inlined[ring];
	struct inlined_poll *o;

	if (t->begun)
		TRY(open_line(d, s, t, thread));
	o = open_root(s, t);
	return o ? end_root(d, s, t, o, thread) : 0;
}

/*
 * Of a block_on's future neither the begin of its first poll is seen nor that it was left. So an
 * open one is over when another begins, at the last thing that was seen on the thread; and a poll
 * that ends without a begin is recorded as such.
 */
static int settle_root(struct drain *d, struct source *s, struct inlined_thread *t,
		       const struct trace_event *e)
{
	bool of_future = e->type == TE_FUTURE_BEGIN || e->type == TE_FUTURE_END;
	bool root = of_future && is_block_on(s, e->kind);
	struct inlined_poll *o = open_root(s, t);
	bool its_end =
		root && o && o->kind == e->kind && o->task == e->task && e->type == TE_FUTURE_END;

	if (o && !its_end && (root || e->type == TE_ROOT_ENTER))
		TRY(end_root(d, s, t, o, e->thread));
	if (root && e->type == TE_FUTURE_END && !its_end) {
		struct trace_event begin = *e;

		begin.type = TE_FUTURE_BEGIN;
		begin.arg = 0;
		begin.value = 0;
		TRY(open_poll(t, &begin));
		if (t->n <= MAX_POLLS)
			t->polls[t->n - 1].unseen = true;
		TRY(drain_put(d, &begin));
	}
	return 0;
}

int inlined_event(struct drain *d, struct source *s, uint32_t ring, const struct trace_event *event)
{
	struct inlined_thread *t = &s->inlined[ring];
	struct trace_event e = *event;
	uint32_t ended = 0; /* the request whose poll ends */

	if (t->begun)
		TRY(open_line(d, s, t, e.thread));
	TRY(settle_root(d, s, t, &e));
	t->last_ns = e.time;
	if (e.type == TE_POLL_BEGIN || e.type == TE_FUTURE_BEGIN) {
		clear(&t->current);
		clear(&t->departed);
		t->begun = t->n < MAX_POLLS;
		uint32_t request = t->begun ? request_of(s, t, e.kind) : 0;
		TRY(open_poll(t, &e));
		if (t->begun)
			t->polls[t->n - 1].request = request;
		TRY(put_request(d, request, &e));
	} else if ((e.type == TE_POLL_END || e.type == TE_FUTURE_END) && t->n) {
		struct inlined_poll *o = t->n <= MAX_POLLS ? &t->polls[t->n - 1] : NULL;

		if (e.arg == TO_PENDING && !e.value)
			e.value = place_of(s, &t->current, &e);
		if (o && o->kind == e.kind && o->task == e.task) {
			uint64_t place = own_place(s, o, &t->current, &e);

			TRY(close_poll(d, s, t, o, &t->current, &t->departed, &e));
			ended = o->request;
			if (e.arg != TO_PENDING)
				place = 0;
			else if (t->n > 1)
				t->polls[t->n - 2].place = place;
			if (o->task_itself && place)
				e.value = place;
		} else if (o) {
			TRY(give_up(d, s, o, &e));
		}
		t->n--;
		clear(&t->current);
		clear(&t->departed);
		if (e.type == TE_FUTURE_END)
			add_inner(s, t, e.kind, e.task);
	}
	TRY(drain_put(d, &e));
	return put_request(d, ended, &e);
}

int inlined_add_snapshot_item(struct drain *d, struct source *s, uint32_t ring,
			      const struct agent_event *raw, uint32_t thread)
{
	struct inlined_thread *t = &s->inlined[ring];
	uint32_t point = (uint32_t)(raw->word1 >> 48);
	uint64_t state = raw->word1 & ((1ull << 48) - 1);
	unsigned type = raw->word0 & 0xff;
	int rc = 0;

	if (t->begun && type != AE_FUTURE_SNAPSHOT_BEGIN)
		rc = open_line(d, s, t, thread);
	/* Those of a begin that is there; a block_on's may be unseen when it ends. */
	if (points_get(&s->points, point) && (type != AE_FUTURE_SNAPSHOT_BEGIN || t->begun))
		add_item(s, type == AE_FUTURE_SNAPSHOT_PREV ? &t->departed : &t->current, point,
			 state);
	return rc;
}

void inlined_forget(struct source *s, uint32_t ring)
{
	s->inlined[ring].n = 0;
	s->inlined[ring].begun = false;
	clear(&s->inlined[ring].current);
	clear(&s->inlined[ring].departed);
}

/* ---- coverage ---- */

#define MAX_NAMED 12

static int emit_unknown(struct drain *d, const struct source *s, struct capture_stats *stats)
{
	_cleanup_buf_ struct buf note = BUF_INIT;
	struct trace_coverage c = {.process = s->process,
				   .item = "ends of inlined futures",
				   .seen = s->n_inlined_ends - s->n_inlined_unknown,
				   .total = s->n_inlined_ends};
	size_t n = 0;

	if (s->n_inlined_unknown)
		buf_str(&note, "it is unknown whether they were ready or dropped (in a select!, a "
			       "timeout, another wrapper)");
	for (size_t i = 0; i < s->n_inlined_kinds; i++) {
		const struct inlined_kind *k = &s->inlined_kinds[i];

		if (k->n_unknown && n++ < MAX_NAMED)
			buf_printf(&note, "%s %s", n == 1 ? ":" : ",", k->name);
	}
	if (n > MAX_NAMED)
		buf_str(&note, ", ...");
	buf_char(&note, '\0');
	if (buf_failed(&note))
		return -ENOMEM;
	c.note = note.data;
	return capture_emit_coverage(d->writer, stats, &c);
}

int inlined_end(struct drain *d, const struct source *s, struct capture_stats *stats)
{
	const struct trace_coverage loops = {
		.process = s->process,
		.item = "inlined futures",
		.note = "one that ends and starts again at the same place within one poll, as a "
			"loop around one .await makes them, counts as one that continues"};

	if (s->n_inlined_ends)
		TRY(emit_unknown(d, s, stats));
	if (s->n_inlined_kinds)
		TRY(capture_emit_coverage(d->writer, stats, &loops));
	return 0;
}
