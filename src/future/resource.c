/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The addresses are those that `pollux tree` shows of the same leaves (leaf.c).
 * Source: Tokio 1.23 to 1.54 (sync, net, io/split.rs, runtime/task/join.rs), futures-channel 0.3,
 * async-task 4, async-io 1 and 2, async-lock 2 and 3, async-channel 1 and 2.
 */
#include "future/resource.h"

#include "future/await.h"

#include <string.h>

enum { MAX_DEPTH = 32, FIND_DEPTH = 12, POINTER_BYTES = 8 };

struct resource_row {
	const char *prefix; /* of the type's full name */
	enum trace_resource type;
	const char *member; /* a pointer */
	const char *beyond; /* the member of what that leads to; NULL: that is the resource */
};

static const struct resource_row rows[] = {
	{"tokio::sync::batch_semaphore::Acquire", TRACE_RESOURCE_SEMAPHORE, "semaphore", NULL},
	{"tokio::sync::oneshot::Receiver<", TRACE_RESOURCE_CHANNEL, "inner", NULL},
	{"futures_channel::oneshot::Receiver<", TRACE_RESOURCE_CHANNEL, "inner", NULL},
	{"tokio::sync::mpsc::bounded::Receiver<", TRACE_RESOURCE_CHANNEL, "inner", NULL},
	{"tokio::sync::mpsc::unbounded::UnboundedReceiver<", TRACE_RESOURCE_CHANNEL, "inner", NULL},
	{"tokio::sync::mpsc::chan::Rx<", TRACE_RESOURCE_CHANNEL, "inner", NULL},
	{"tokio::sync::broadcast::Recv<", TRACE_RESOURCE_CHANNEL, "receiver", "shared"},
	{"tokio::sync::notify::Notified", TRACE_RESOURCE_NOTIFY, "notify", NULL},
	{"tokio::sync::notify::OwnedNotified", TRACE_RESOURCE_NOTIFY, "notify", NULL},
	{"tokio::runtime::task::join::JoinHandle<", TRACE_RESOURCE_TASK, "raw", NULL},
	{"tokio::runtime::io::scheduled_io::Readiness", TRACE_RESOURCE_IO, "scheduled_io", NULL},
	{"tokio::io::driver::scheduled_io::Readiness", TRACE_RESOURCE_IO, "scheduled_io", NULL},
	{"tokio::net::tcp::split_owned::Owned", TRACE_RESOURCE_IO, "inner", NULL},
	{"tokio::net::unix::split_owned::Owned", TRACE_RESOURCE_IO, "inner", NULL},
	{"tokio::net::", TRACE_RESOURCE_IO, "shared", NULL},
	{"tokio::io::split::", TRACE_RESOURCE_IO, "inner", NULL},
	{"async_task::task::Task<", TRACE_RESOURCE_TASK, "ptr", NULL},
	{"async_io::reactor::", TRACE_RESOURCE_IO, "handle", NULL},
	{"async_lock::mutex::Lock<", TRACE_RESOURCE_MUTEX, "mutex", NULL},
	{"async_lock::rwlock::futures::", TRACE_RESOURCE_RWLOCK, "lock", NULL},
	{"async_lock::semaphore::Acquire", TRACE_RESOURCE_SEMAPHORE, "semaphore", NULL},
	{"async_channel::Recv<", TRACE_RESOURCE_CHANNEL, "receiver", "channel"},
	{"async_channel::Send<", TRACE_RESOURCE_CHANNEL, "sender", "channel"},
};

static const struct resource_row *row_of(const struct dw_type *t)
{
	for (size_t i = 0; await_is_leaf(t) && i < sizeof(rows) / sizeof(*rows); i++)
		if (await_starts(t->full_name, rows[i].prefix))
			return &rows[i];
	return NULL;
}

/* By value; NULL: there is none of this name, or it has no room for a pointer. */
static const struct dw_type *find_member(struct debug *d, const struct dw_type *t, const char *name,
					 unsigned depth, uint64_t *at)
{
	const struct dw_member *m = t->class == DC_STRUCT ? dw_find_member(t, name) : NULL;

	if (t->class != DC_STRUCT || depth > FIND_DEPTH)
		return NULL;
	if (m && m->offset + POINTER_BYTES <= t->size) {
		*at += m->offset;
		return dw_member_type(d, m);
	}
	for (size_t i = 0; i < t->n_members; i++) {
		const struct dw_type *inner = dw_member_type(d, &t->members[i]), *found;
		uint64_t inner_at = *at + t->members[i].offset;

		found = inner ? find_member(d, inner, name, depth + 1, &inner_at) : NULL;
		if (!found)
			continue;
		*at = inner_at;
		return found;
	}
	return NULL;
}

/* What a pointer, or an Arc, a Ref, a NonNull, leads to. */
static const struct dw_type *target_of(struct debug *d, const struct dw_type *t)
{
	for (unsigned i = 0; t && t->class == DC_STRUCT && i < FIND_DEPTH; i++)
		t = t->n_members ? dw_member_type(d, &t->members[0]) : NULL;
	return t && t->class == DC_POINTER ? dw_type_of(d, t->target_ref) : NULL;
}

/* `at` is where the leaf lies: from the awaited future, or from where ret->offset leads. */
static bool take(struct debug *d, const struct dw_type *t, const struct resource_row *row,
		 uint64_t at, struct resource_path *ret)
{
	const struct dw_type *pointer = find_member(d, t, row->member, 0, &at), *target;

	ret->type = row->type;
	if (!pointer) { /* the leaf itself is the resource */
		row = ret->indirect ? row : NULL;
		ret->indirect = false;
		return row;
	}
	if (ret->indirect) {
		ret->target_offset = at;
		return true;
	}
	ret->offset = at;
	target = row->beyond ? target_of(d, pointer) : NULL;
	at = 0;
	if (target && find_member(d, target, row->beyond, 0, &at)) {
		ret->indirect = true;
		ret->target_offset = at;
	}
	return true;
}

/* The timer of a timeout is not what is waited for. */
static bool is_timer(const struct dw_type *t)
{
	return await_starts(t->full_name, "tokio::time::sleep::Sleep") ||
	       await_starts(t->full_name, "async_io::Timer");
}

/* The one member that holds a future; NULL: there are several, or none. */
static const struct dw_member *only_future(struct debug *d, const struct dw_type *t)
{
	const struct dw_member *only = NULL;

	for (size_t i = 0; i < t->n_members; i++) {
		const struct dw_type *m = dw_member_type(d, &t->members[i]);

		if (!m || is_timer(m) || !await_can_hold(d, m))
			continue;
		if (only)
			return NULL;
		only = &t->members[i];
	}
	return only;
}

bool resource_find(struct debug *d, const struct dw_type *awaited, struct resource_path *ret)
{
	const struct dw_type *t = awaited;
	uint64_t at = 0;

	*ret = (struct resource_path){0};
	for (unsigned depth = 0; t && depth < MAX_DEPTH; depth++) {
		const struct resource_row *row = row_of(t);

		if (row)
			return take(d, t, row, at, ret);
		if (t->class == DC_POINTER) {
			if (ret->indirect)
				return false;
			ret->indirect = true;
			ret->offset = at;
			at = 0;
			t = dw_type_of(d, t->target_ref);
			continue;
		}
		if (t->class != DC_STRUCT || t->has_variants || dw_is_coroutine(t) ||
		    await_is_leaf(t))
			return false;
		const struct dw_member *m = only_future(d, t);
		if (!m)
			return false;
		at += m->offset;
		t = dw_member_type(d, m);
	}
	return false;
}

enum trace_resource resource_user(const char *function)
{
	static const struct {
		const char *prefix;
		enum trace_resource type;
	} users[] = {
		{"tokio::sync::mutex::", TRACE_RESOURCE_MUTEX},
		{"tokio::sync::rwlock::", TRACE_RESOURCE_RWLOCK},
		{"tokio::sync::mpsc::", TRACE_RESOURCE_CHANNEL},
		{"tokio::sync::watch::", TRACE_RESOURCE_CHANNEL},
	};

	for (size_t i = 0; i < sizeof(users) / sizeof(*users); i++)
		if (await_starts(function, users[i].prefix))
			return users[i].type;
	return TRACE_RESOURCE_OTHER;
}
