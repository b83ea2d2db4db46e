/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Channels and blocking locks, read from their memory by the names of their members. Of a channel
 * one end leads to what both share: how many messages are in it, how many may be, how many senders
 * there are, whether it is closed.
 *
 * Source: Tokio 1.23 to 1.54 (sync/{mpsc/{chan,list,bounded},oneshot,broadcast,watch}.rs), async-channel
 * 1 and 2 on concurrent-queue 2, futures-channel 0.3 (mpsc/mod.rs, oneshot.rs); std's sync/poison,
 * lock_api 0.4, dashmap 5 and 6 (which use it), core/cell.rs.
 */
#include "future/held.h"

#include "base/vec.h"

#include <string.h>

/* Of one that is padded to a cache line: its first word. */
static bool number(struct walk *w, const struct dw_type *t, uint64_t addr, const char *name,
		   uint64_t *ret)
{
	const struct dw_type *x;
	uint64_t at;

	return await_find_member(w, t, addr, name, &x, &at) && x->size &&
	       mem_uint(w->ctx->mem, at, x->size < 8 ? (unsigned)x->size : 8, ret);
}

/* What the member, an Arc, leads to: its type and address. */
static const struct dw_type *shared(struct walk *w, const struct dw_type *t, uint64_t addr,
				    const char *name, uint64_t *ret_addr)
{
	const struct dw_type *x;
	uint64_t at;

	if (!await_find_member(w, t, addr, name, &x, &at) || !mem_u64(w->ctx->mem, at, ret_addr) ||
	    !*ret_addr)
		return NULL;
	return await_pointee(w, x);
}

/* ---- channels ---- */

/* Chan { tx: { tail_position }, semaphore: { bound }, tx_count, rx_fields: { list: { index }, rx_closed } }.
 * When the last sender goes, it takes a position too. */
static bool read_mpsc(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_held *h)
{
	const struct dw_type *chan = shared(w, t, addr, "inner", &h->addr), *x;
	uint64_t tail, index, closed = 0, at;

	if (!chan || !number(w, chan, h->addr, "tail_position", &tail) ||
	    !number(w, chan, h->addr, "tx_count", &h->senders) ||
	    !await_find_member(w, chan, h->addr, "rx_fields", &x, &at) ||
	    !number(w, x, at, "index", &index))
		return false;
	number(w, x, at, "rx_closed", &closed);
	h->length = tail > index ? tail - index : 0;
	if (!h->senders && h->length)
		h->length--;
	number(w, chan, h->addr, "bound", &h->capacity);
	h->closed = closed || !h->senders;
	return true;
}

/* Inner { state, .. }: bit 1 a value was sent, or its sender is gone; bit 2 the receiver has closed it. */
static bool read_oneshot(struct walk *w, const struct dw_type *t, uint64_t addr,
			 struct await_held *h)
{
	const struct dw_type *inner = shared(w, t, addr, "inner", &h->addr);
	uint64_t state;

	if (!inner || !number(w, inner, h->addr, "state", &state))
		return false;
	h->length = state >> 1 & 1;
	h->senders = !h->length;
	h->capacity = 1;
	h->closed = state >> 2 & 1;
	return true;
}

/* Inner { complete, data, .. } */
static bool read_futures_oneshot(struct walk *w, const struct dw_type *t, uint64_t addr,
				 struct await_held *h)
{
	const struct dw_type *inner = shared(w, t, addr, "inner", &h->addr);
	uint64_t complete;

	if (!inner || !number(w, inner, h->addr, "complete", &complete))
		return false;
	h->length = h->closed = complete & 1;
	h->senders = !h->closed;
	h->capacity = 1;
	return true;
}

/* Shared { buffer, tail: { pos, closed }, num_tx }; the receiver has its own `next`. */
static bool read_broadcast(struct walk *w, const struct dw_type *t, uint64_t addr,
			   struct await_held *h)
{
	const struct dw_type *all = shared(w, t, addr, "shared", &h->addr), *x;
	uint64_t next, pos, closed = 0, at;

	if (!all || !number(w, t, addr, "next", &next) ||
	    !await_find_member(w, all, h->addr, "tail", &x, &at) || !number(w, x, at, "pos", &pos))
		return false;
	number(w, x, at, "closed", &closed);
	number(w, all, h->addr, "num_tx", &h->senders);
	if (await_find_member(w, all, h->addr, "buffer", &x, &at))
		number(w, x, at, "length", &h->capacity);
	h->length = pos - next;
	h->closed = closed & 1;
	/* What it has missed is not in it any more. */
	if (h->length > h->capacity)
		h->length = h->capacity;
	return true;
}

/* Shared { state: version * 2 + closed, ref_count_tx }; the receiver has the version that it saw. */
static bool read_watch(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_held *h)
{
	const struct dw_type *all = shared(w, t, addr, "shared", &h->addr);
	uint64_t version, state;

	if (!all || !number(w, t, addr, "version", &version) ||
	    !number(w, all, h->addr, "state", &state))
		return false;
	h->length = (state | 1) != (version | 1);
	h->capacity = 1;
	h->closed = state & 1;
	if (!number(w, all, h->addr, "ref_count_tx", &h->senders))
		h->senders = !h->closed; /* before 1.3x there is one */
	return true;
}

/* concurrent_queue's Bounded { head, tail, mark_bit, buffer }, Unbounded { head, tail }: indexes of an
 * Unbounded count 32 for each block of 31, from bit 1 on; bit 0 of its tail says that it is closed. */
static bool read_queue(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_held *h)
{
	const struct dw_type *q, *x;
	uint64_t head, tail, mark, at;

	if (await_find_type(w, t, addr, "concurrent_queue::bounded::Bounded<", &q, &at)) {
		if (!number(w, q, at, "head", &head) || !number(w, q, at, "tail", &tail) ||
		    !number(w, q, at, "mark_bit", &mark) || !mark ||
		    !await_find_member(w, q, at, "buffer", &x, &addr) ||
		    !number(w, x, addr, "length", &h->capacity))
			return false;
		uint64_t first = head & (mark - 1), end = tail & (mark - 1);

		/* The program may run meanwhile: then these are of different times. */
		if (first > h->capacity || end > h->capacity)
			return false;
		h->length = first < end		     ? end - first
			    : first > end	     ? h->capacity - first + end
			    : (tail & ~mark) == head ? 0
						     : h->capacity;
		h->closed = tail & mark;
		return true;
	}
	if (await_find_type(w, t, addr, "concurrent_queue::unbounded::Unbounded<", &q, &at)) {
		if (!await_find_member(w, q, at, "head", &x, &addr) ||
		    !number(w, x, addr, "index", &head) ||
		    !await_find_member(w, q, at, "tail", &x, &addr) ||
		    !number(w, x, addr, "index", &tail))
			return false;
		h->closed = tail & 1;
		head >>= 1;
		tail >>= 1;
		/* Read while the program runs, messages may have been taken that were not there yet. */
		if (tail < head)
			tail = head;
		tail -= head / 32 * 32;
		head -= head / 32 * 32;
		h->length = tail > head ? tail - head - tail / 32 : 0;
		return true;
	}
	/* Single { state }: bit 1 it has a value, bit 2 it is closed. */
	if (!await_find_type(w, t, addr, "concurrent_queue::single::Single<", &q, &at) ||
	    !number(w, q, at, "state", &head))
		return false;
	h->capacity = 1;
	h->length = head >> 1 & 1;
	h->closed = head >> 2 & 1;
	return true;
}

static bool read_async_channel(struct walk *w, const struct dw_type *t, uint64_t addr,
			       struct await_held *h)
{
	const struct dw_type *channel = shared(w, t, addr, "channel", &h->addr);

	return channel && number(w, channel, h->addr, "sender_count", &h->senders) &&
	       read_queue(w, channel, h->addr, h);
}

/* BoundedInner { buffer, state, num_senders }, UnboundedInner { state, num_senders }: the top bit of
 * the state says that it is open, the rest counts messages. A bounded one has a slot more for each
 * sender. */
static bool read_futures_mpsc(struct walk *w, const struct dw_type *t, uint64_t addr,
			      struct await_held *h)
{
	const struct dw_type *inner = shared(w, t, addr, "inner", &h->addr);
	uint64_t state, buffer;

	if (!inner || !number(w, inner, h->addr, "state", &state) ||
	    !number(w, inner, h->addr, "num_senders", &h->senders))
		return false;
	h->closed = !(state >> 63) || !h->senders;
	h->length = state & ~(1ULL << 63);
	if (number(w, inner, h->addr, "buffer", &buffer))
		h->capacity = buffer + h->senders;
	return true;
}

static const struct channel {
	const char *prefix; /* of the receiving end's full name */
	bool (*read)(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_held *h);
} channels[] = {
	{"tokio::sync::mpsc::bounded::Receiver<", read_mpsc},
	{"tokio::sync::mpsc::unbounded::UnboundedReceiver<", read_mpsc},
	{"tokio::sync::mpsc::chan::Rx<", read_mpsc},
	{"tokio::sync::oneshot::Receiver<", read_oneshot},
	{"tokio::sync::broadcast::Receiver<", read_broadcast},
	{"tokio::sync::watch::Receiver<", read_watch},
	{"async_channel::Receiver<", read_async_channel},
	{"futures_channel::mpsc::Receiver<", read_futures_mpsc},
	{"futures_channel::mpsc::UnboundedReceiver<", read_futures_mpsc},
	{"futures_channel::oneshot::Receiver<", read_futures_oneshot},
};

/* Sending ends that lead to the same. */
static const struct channel senders[] = {
	{"tokio::sync::mpsc::bounded::Sender<", read_mpsc},
	{"async_channel::Sender<", read_async_channel},
};

static bool read_end(struct walk *w, const struct channel *table, size_t n, const struct dw_type *t,
		     uint64_t addr, struct await_held *ret_held)
{
	for (size_t i = 0; i < n; i++) {
		if (!await_starts(t->full_name, table[i].prefix))
			continue;
		*ret_held = (struct await_held){.kind = AH_CHANNEL, .type = t->full_name};
		ret_held->counted = table[i].read(w, t, addr, ret_held);
		return ret_held->addr;
	}
	return false;
}

bool held_receiver(struct walk *w, const struct dw_type *t, uint64_t addr,
		   struct await_held *ret_held)
{
	return t->class == DC_STRUCT &&
	       read_end(w, channels, sizeof(channels) / sizeof(*channels), t, addr, ret_held);
}

/* Either end, by what refers to it. */
static bool referred(struct walk *w, const struct dw_type *t, uint64_t addr,
		     struct await_held *ret_held)
{
	const struct dw_type *target =
		t && t->class == DC_POINTER ? dw_type_of(w->dwarf, t->target_ref) : NULL;
	uint64_t at;

	if (!target || target->class != DC_STRUCT || !mem_u64(w->ctx->mem, addr, &at) || !at)
		return false;
	return held_receiver(w, target, at, ret_held) ||
	       read_end(w, senders, sizeof(senders) / sizeof(*senders), target, at, ret_held);
}

void held_by_leaf(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_node *n)
{
	static const char *const members[] = {"receiver", "sender"};
	struct await_held held;
	const struct dw_type *x;
	uint64_t at;

	if (held_receiver(w, t, addr, &held)) {
		await_add_held(n, &held);
		return;
	}
	for (size_t i = 0; i < 2; i++)
		if (await_find_member(w, t, addr, members[i], &x, &at) &&
		    (referred(w, x, at, &held) || held_receiver(w, x, at, &held))) {
			await_add_held(n, &held);
			return;
		}
	for (unsigned i = w->n_outer < 64 ? w->n_outer : 64; i-- > 0;) {
		const struct dw_type *locals = w->outer[i];

		for (size_t k = 0; k < locals->n_members && await_steps(w, 1); k++)
			if (referred(w, dw_member_type(w->dwarf, &locals->members[k]),
				     w->outer_addr[i] + locals->members[k].offset, &held)) {
				await_add_held(n, &held);
				return;
			}
	}
}

/* ---- guards ---- */

/* Guards of what blocks a thread, and what refers to the lock in them. */
static const struct {
	const char *prefix, *member;
} guards[] = {
	{"std::sync::poison::mutex::MutexGuard<", "lock"},
	{"std::sync::poison::rwlock::RwLockReadGuard<", "inner_lock"},
	{"std::sync::poison::rwlock::RwLockWriteGuard<", "lock"},
	{"std::sync::mutex::MutexGuard<", "lock"},
	{"std::sync::rwlock::RwLockReadGuard<", "inner_lock"},
	{"std::sync::rwlock::RwLockWriteGuard<", "lock"},
	{"lock_api::mutex::MutexGuard<", "mutex"},
	{"lock_api::mutex::ArcMutexGuard<", "mutex"},
	{"lock_api::mutex::MappedMutexGuard<", "raw"},
	{"lock_api::rwlock::RwLockReadGuard<", "rwlock"},
	{"lock_api::rwlock::RwLockWriteGuard<", "rwlock"},
	{"lock_api::rwlock::RwLockUpgradableReadGuard<", "rwlock"},
	{"lock_api::rwlock::ArcRwLockReadGuard<", "rwlock"},
	{"lock_api::rwlock::ArcRwLockWriteGuard<", "rwlock"},
	{"lock_api::rwlock::MappedRwLockReadGuard<", "raw"},
	{"lock_api::rwlock::MappedRwLockWriteGuard<", "raw"},
	{"dashmap::lock::RwLockReadGuardDetached<", "lock"},
	{"dashmap::lock::RwLockWriteGuardDetached<", "lock"},
	{"dashmap::util::RwLockReadGuardDetached<", "lock"},
	{"dashmap::util::RwLockWriteGuardDetached<", "lock"},
	{"core::cell::Ref<", "borrow"},
	{"core::cell::RefMut<", "borrow"},
};

bool held_guard(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_held *ret_held)
{
	for (size_t i = 0; i < sizeof(guards) / sizeof(*guards); i++) {
		const struct dw_type *x, *lock;
		uint64_t at;

		if (!await_starts(t->full_name, guards[i].prefix))
			continue;
		*ret_held = (struct await_held){.kind = AH_GUARD, .type = t->full_name};
		if (!await_find_member(w, t, addr, guards[i].member, &x, &at) ||
		    !mem_u64(w->ctx->mem, at, &ret_held->addr) || !ret_held->addr)
			return false;
		lock = await_pointee(w, x);
		ret_held->bytes = lock ? lock->size : 0;
		return true;
	}
	return false;
}

void await_add_held(struct await_node *n, const struct await_held *held)
{
	for (size_t i = 0; i < n->n_held; i++)
		if (n->held[i].kind == held->kind && n->held[i].addr == held->addr)
			return;
	if (GROW_ONE(n->held, n->n_held))
		n->held[n->n_held++] = *held;
}
