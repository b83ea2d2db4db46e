/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Families, their lanes, and the packing of tasks into them. The free lanes of a family are bits in
 * words, so that the lowest one is found in a few steps also when ten thousand tasks live at once.
 * A lane remembers since when it is free: a spawn is known only with its task's first event, so a
 * task can begin earlier than the end of one that was reported before it.
 */
#include "export/lanes.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void pack_done(struct pack *p)
{
	free(p->free_ns);
	free(p->free_bits);
	*p = (struct pack){0};
}

void pack_clear(struct pack *p)
{
	if (p->free_bits)
		memset(p->free_bits, 0, p->cap / 64 * sizeof(*p->free_bits));
	p->n = 0;
}

static int pack_grow(struct pack *p)
{
	if (p->cap > UINT32_MAX / 2)
		return -ENOMEM;
	uint32_t cap = p->cap ? p->cap * 2 : 64;
	uint64_t *ns = realloc(p->free_ns, cap * sizeof(*ns));
	if (!ns)
		return -ENOMEM;
	p->free_ns = ns;
	uint64_t *bits = realloc(p->free_bits, cap / 64 * sizeof(*bits));
	if (!bits)
		return -ENOMEM;
	memset(bits + p->cap / 64, 0, (cap - p->cap) / 64 * sizeof(*bits));
	p->free_bits = bits;
	p->cap = cap;
	return 0;
}

int pack_take(struct pack *p, uint64_t begin_ns, uint32_t *ret_lane)
{
	for (uint32_t word = 0; word * 64 < p->n; word++) {
		for (uint64_t bits = p->free_bits[word]; bits; bits &= bits - 1) {
			uint32_t lane = word * 64 + (uint32_t)__builtin_ctzll(bits);
			if (p->free_ns[lane] > begin_ns)
				continue;
			p->free_bits[word] &= ~(bits & -bits);
			*ret_lane = lane;
			return 0;
		}
	}
	if (p->n == p->cap)
		TRY(pack_grow(p));
	*ret_lane = p->n++;
	return 0;
}

void pack_give(struct pack *p, uint32_t lane, uint64_t end_ns)
{
	p->free_ns[lane] = end_ns;
	p->free_bits[lane / 64] |= 1ULL << lane % 64;
}

void lanes_done(struct lanes *l)
{
	for (size_t i = 0; i < l->n_families; i++) {
		pack_done(&l->families[i]->pack);
		free(l->families[i]->lanes);
		free(l->families[i]->short_name);
		free(l->families[i]->label);
		free(l->families[i]);
	}
	free(l->families);
	for (uint32_t i = 0; i < l->n_threads; i++)
		stack_lane_done(&l->threads[i].stack);
	free(l->threads);
	map_done(&l->by_kind);
	map_done(&l->chosen);
	*l = (struct lanes){0};
}

char *lanes_label(const char *name)
{
	_cleanup_buf_ struct buf whole = BUF_INIT, quoted = BUF_INIT;
	size_t len = strlen(name), max = LABEL_MAX / 6 - 3; /* a byte becomes 6 at worst */

	if (len > max)
		while (max > 0 && ((unsigned char)name[max] & 0xc0) == 0x80)
			max--;
	buf_add(&whole, name, len > max ? max : len);
	buf_str(&whole, len > max ? "\xe2\x80\xa6" : "");
	if (buf_failed(&whole))
		return NULL;
	json_quote_shown(&quoted, whole.data ? whole.data : "");
	if (buf_failed(&quoted))
		return NULL;
	quoted.data[quoted.len - 1] = 0;
	return strdup(quoted.data + 1);
}

static struct lane_family *new_family(struct lanes *l, uint32_t kind, bool of_futures)
{
	if (!GROW(l->families, l->n_families, l->cap_families))
		return NULL;
	struct lane_family *f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;

	const struct trace_kind *k = l->kind(l->kind_ctx, kind);
	f->kind = kind;
	f->role = of_futures ? TR_FUTURE : k ? k->role : TR_ROOT;
	f->name = k && k->name && *k->name ? k->name : k ? "(no name)" : "block_on";
	if (of_futures && !k)
		f->name = "no task";
	f->short_name = strdup(f->name);
	f->label = lanes_label(f->name);
	if (!f->short_name || !f->label || map_put(&l->by_kind, kind, of_futures, f) < 0) {
		free(f->short_name);
		free(f->label);
		free(f);
		return NULL;
	}
	f->label_len = strlen(f->label);
	f->index = (uint32_t)l->n_families;
	l->families[l->n_families++] = f;
	return f;
}

/* Distinct within a role: where two would have one, the latter has its whole name. 0 or -ENOMEM. */
static int shorten(struct map *taken, const struct trace_reader *r,
		   const struct kind_labels *labels, struct lane_family *f)
{
	static char there;

	free(f->short_name);
	f->short_name = kind_short(labels, r, f->kind);
	if (f->short_name && map_get(taken, hash_string(0, f->short_name), f->role)) {
		free(f->short_name);
		f->short_name = strdup(f->name);
	}
	return f->short_name ? map_put(taken, hash_string(0, f->short_name), f->role, &there)
			     : -ENOMEM;
}

int lanes_relabel(struct lanes *l, const struct trace_reader *r, const struct kind_labels *labels)
{
	struct map taken = {0};
	int rc = 0;

	for (size_t i = 0; i < l->n_families && rc == 0; i++) {
		struct lane_family *f = l->families[i];
		char *label;

		if (f->kind < labels->n && labels->labels[f->kind])
			f->name = labels->labels[f->kind];
		if (f->kind != TRACE_KIND_NONE)
			rc = shorten(&taken, r, labels, f);
		label = rc == 0 ? lanes_label(f->short_name) : NULL;
		if (!label) {
			rc = -ENOMEM;
			break;
		}
		free(f->label);
		f->label = label;
		f->label_len = strlen(label);
	}
	map_done(&taken);
	return rc;
}

bool request_goes_on(struct request_span *r, const struct tl_round *round, bool poll,
		     uint64_t begin_ns, uint64_t end_ns, struct request_span *ret_over)
{
	bool other = r->round.serial != round->serial, over = other && r->round.serial;

	if (over)
		*ret_over = *r;
	if (other)
		*r = (struct request_span){.round = *round, .begin_ns = begin_ns};
	r->end_ns = end_ns;
	r->n_polls += poll;
	return over;
}

/* The family of a kind, made when new; NULL when out of memory. */
static struct lane_family *family_of(struct lanes *l, uint32_t kind)
{
	if (l->last && l->last->kind == kind)
		return l->last;
	struct lane_family *f = map_get(&l->by_kind, kind, 0);
	if (!f)
		f = new_family(l, kind, false);
	l->last = f;
	return f;
}

struct thread_lane *lanes_thread(struct lanes *l, uint32_t thread)
{
	return GROW_ZERO(l->threads, thread, l->n_threads) ? &l->threads[thread] : NULL;
}

static int lanes_grow(struct lane_family *f, uint32_t lane)
{
	if (!GROW_ZERO(f->lanes, lane, f->cap_lanes))
		return -ENOMEM;
	if (lane >= f->n_lanes)
		f->n_lanes = lane + 1;
	return 0;
}

int lanes_task_begin(struct lanes *l, const struct tl_task *task, struct lane_slot *ret_placed)
{
	struct lane_family *f = family_of(l, task->kind);
	if (!f)
		return -ENOMEM;

	struct lane_slot p = {.family = f,
			      .counts = f->role != TR_WORKER,
			      .begin_ns = task->spawn_ns,
			      .last_ns = task->spawn_ns};
	if (!p.counts) {
		/* The threads' own lanes show what workers do. */
	} else if (l->by_task) {
		uintptr_t lane = (uintptr_t)map_get(&l->chosen, task->serial, 0);
		p.shown = lane > 0;
		p.lane = lane ? (uint32_t)(lane - 1) : 0;
	} else {
		int r = pack_take(&f->pack, task->spawn_ns, &p.lane);
		if (r == 0)
			r = lanes_grow(f, p.lane);
		if (r < 0)
			return r;
		p.shown = p.lane < f->n_shown;
	}
	*ret_placed = p;
	return 0;
}

void lanes_task_end(struct lanes *l, const struct lane_slot *p, uint64_t end_ns)
{
	/* One that lives at the end of the trace leaves its lane to none whose life is only reported then. */
	if (p->counts && !l->by_task)
		pack_give(&p->family->pack, p->lane, end_ns ? end_ns : UINT64_MAX);
}

static int future_take(struct lanes *l, struct pool *pool, struct tl_future *future,
		       struct lane_future **ret)
{
	uint32_t kind = future->task ? future->task->kind : TRACE_KIND_NONE;
	struct lane_family *f = map_get(&l->by_kind, kind, 1);
	if (!f)
		f = new_family(l, kind, true);
	struct lane_future *p = f ? pool_get(pool) : NULL;
	if (!p)
		return -ENOMEM;
	p->family = f;
	p->begin_ns = p->last_ns = future->begin_ns;
	future->user = *ret = p;
	int r = pack_take(&f->pack, future->begin_ns, &p->lane);
	if (r == 0)
		r = lanes_grow(f, p->lane);
	p->shown = p->lane < f->n_shown;
	return r;
}

int lanes_future_poll(struct lanes *l, struct pool *placed, struct tl_future *future,
		      enum trace_outcome outcome, struct lane_future **ret_placed)
{
	struct tl_future *around[256];
	size_t n = 0;
	int r = 0;

	*ret_placed = future->user;
	/* A request is on its task's lane. */
	if (future->user || !l->futures || tl_is_round(future) ||
	    (outcome == TO_READY && future->n_polls == 1))
		return 0;
	for (struct tl_future *f = future->parent; f && n < 256; f = f->parent)
		if (!f->user && !f->end_ns && !tl_is_round(f))
			around[n++] = f;
	while (n-- > 0 && r == 0)
		r = future_take(l, placed, around[n], ret_placed);
	return r < 0 ? r : future_take(l, placed, future, ret_placed);
}

void lanes_future_end(const struct lane_future *p, uint64_t end_ns)
{
	pack_give(&p->family->pack, p->lane, end_ns > p->last_ns ? end_ns : p->last_ns);
}

void lanes_restart(struct lanes *l)
{
	for (size_t i = 0; i < l->n_families; i++)
		pack_clear(&l->families[i]->pack);
}

void lanes_forget(struct lanes *l)
{
	for (size_t i = 0; i < l->n_families; i++) {
		struct lane_family *f = l->families[i];
		pack_clear(&f->pack);
		if (f->lanes)
			memset(f->lanes, 0, f->cap_lanes * sizeof(*f->lanes));
		f->n_lanes = f->n_shown = f->pid = 0;
		f->n_tasks = f->n_slices = f->shown_tasks = 0;
		f->poll_ns = f->wait_ns = f->sched_ns = 0;
	}
	for (uint32_t i = 0; i < l->n_threads; i++)
		stack_lane_done(&l->threads[i].stack);
	if (l->threads)
		memset(l->threads, 0, l->n_threads * sizeof(*l->threads));
	map_done(&l->chosen);
	l->by_task = false;
}
