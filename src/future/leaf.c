/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The ends of await trees: what a known leaf waits for, read from its memory. One row per type;
 * paths go by member names, searched, since the ways to them differ between versions and features.
 * Source: Tokio 1.23 to 1.54 (time, sync, net, runtime/task/join.rs), async-io, async-task.
 */
#include "future/await.h"

#include "base/text.h"
#include "base/units.h"
#include "future/held.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct leaf {
	const char *prefix; /* of the type's full name */
	const char *name;   /* for people */
	enum await_wait wait;
	void (*read)(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_node *n);
};

static void detail(struct await_node *n, struct buf *b)
{
	n->detail = buf_steal(b);
}

/* Timespec of CLOCK_MONOTONIC somewhere below `deadline`. */
static void read_sleep(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_node *n)
{
	const struct dw_type *deadline, *ts, *x;
	struct buf b = BUF_INIT;
	uint64_t at, ts_at, sec_at, nsec_at, sec;
	uint64_t nsec = 0;

	if (!await_find_member(w, t, addr, "deadline", &deadline, &at) &&
	    !await_find_member(w, t, addr, "when", &deadline, &at))
		return;
	if (!await_find_member(w, deadline, at, "tv_sec", &x, &sec_at))
		return;
	if (!await_find_member(w, deadline, at, "tv_nsec", &ts, &ts_at))
		return;
	nsec_at = ts_at;
	if (!mem_u64(w->ctx->mem, sec_at, &sec) || !mem_uint(w->ctx->mem, nsec_at, 4, &nsec) ||
	    sec > 1ULL << 33 || nsec >= NSEC_PER_SEC)
		return;
	n->value = sec * NSEC_PER_SEC + nsec;
	if (!w->ctx->now_ns) { /* a core has no time of its own */
		buf_str(&b, "until ");
		text_duration(&b, n->value);
		buf_str(&b, " of the monotonic clock");
	} else if (n->value >= w->ctx->now_ns) {
		text_duration(&b, n->value - w->ctx->now_ns);
		buf_str(&b, " left");
	} else {
		buf_str(&b, "due for ");
		text_duration(&b, w->ctx->now_ns - n->value);
	}
	detail(n, &b);
}

/* Interval { delay: Pin<Box<Sleep>>, .. } */
static void read_interval(struct walk *w, const struct dw_type *t, uint64_t addr,
			  struct await_node *n)
{
	const struct dw_type *x;
	uint64_t at, sleep;

	if (!await_find_member(w, t, addr, "delay", &x, &at))
		return;
	while (x && x->class == DC_STRUCT && x->n_members == 1 && await_steps(w, 1))
		x = dw_member_type(w->dwarf, &x->members[0]);
	if (x && x->class == DC_POINTER && mem_u64(w->ctx->mem, at, &sleep))
		read_sleep(w, dw_type_of(w->dwarf, x->target_ref), sleep, n);
}

/* Tokio's own async fns around a semaphore or a Notify show what it is used for; the outermost one
 * is what the program called. */
static void name_by_user(struct walk *w, struct await_node *n)
{
	static const struct {
		const char *prefix, *name;
		enum await_wait wait;
	} users[] = {
		{"tokio::sync::mutex::", "Mutex::lock", AW_MUTEX},
		{"tokio::sync::rwlock::", "RwLock", AW_RWLOCK},
		{"tokio::sync::mpsc::", "mpsc send (channel full)", AW_CHANNEL_SEND},
		{"tokio::sync::once_cell::", "OnceCell", AW_SEMAPHORE},
		{"tokio::sync::barrier::", "Barrier::wait", AW_NOTIFY},
		{"tokio::sync::watch::", "watch changed", AW_CHANNEL_RECV},
		{"tokio::task::local::", "LocalSet", AW_NOTIFY},
	};

	for (unsigned i = w->n_outer < 64 ? w->n_outer : 64; i-- > 0;) {
		for (size_t k = 0; k < sizeof(users) / sizeof(*users); k++) {
			if (!await_starts(w->outer[i]->full_name, users[k].prefix))
				continue;
			n->name = users[k].name;
			n->wait = users[k].wait;
		}
		/* the program's own code: nothing further out says more */
		if (!await_starts(w->outer[i]->full_name, "tokio::"))
			return;
	}
}

/* batch_semaphore::Acquire: which lock, how many permits are missing. */
static void read_acquire(struct walk *w, const struct dw_type *t, uint64_t addr,
			 struct await_node *n)
{
	const struct dw_type *x, *sem_type;
	uint64_t at, sem = 0, permits = 0, wanted = 0, missing, queued;
	struct buf b = BUF_INIT;

	if (!await_find_member(w, t, addr, "semaphore", &x, &at) || !mem_u64(w->ctx->mem, at, &sem))
		return;
	n->resource = sem;
	if (await_find_member(w, t, addr, "num_permits", &x, &at))
		mem_uint(w->ctx->mem, at, (unsigned)x->size, &wanted);
	n->value = wanted;
	sem_type = x = NULL;
	if (await_find_member(w, t, addr, "semaphore", &x, &at))
		sem_type = dw_type_of(w->dwarf, x->target_ref);
	if (sem_type && await_find_member(w, sem_type, sem, "permits", &x, &at) &&
	    mem_u64(w->ctx->mem, at, &permits))
		permits >>= 1;
	name_by_user(w, n);
	if (n->wait == AW_RWLOCK)
		n->name = wanted > 1 ? "RwLock::write" : "RwLock::read";
	if (!n->name)
		n->name = "Semaphore::acquire";
	if (await_find_member(w, t, addr, "state", &x, &at) && mem_u64(w->ctx->mem, at, &missing) &&
	    !missing && await_find_member(w, t, addr, "queued", &x, &at) &&
	    mem_uint(w->ctx->mem, at, 1, &queued) && queued) {
		n->granted = true;
		await_add_hold(n, sem);
		buf_str(&b, "granted, ");
	}
	buf_printf(&b, "semaphore %#lx", (unsigned long)sem);
	if (n->wait == AW_SEMAPHORE)
		buf_printf(&b, ", wants %lu, %lu free", (unsigned long)wanted,
			   (unsigned long)permits);
	detail(n, &b);
}

static uint64_t first_pointer(struct walk *w, const struct dw_type *t, uint64_t addr)
{
	uint64_t v = 0;

	return t->size >= 8 && mem_u64(w->ctx->mem, addr, &v) ? v : 0;
}

/* What is waited for, shown as "channel 0x7f..", or without `what` only kept. */
static void note_resource(struct walk *w, const struct dw_type *t, uint64_t addr,
			  struct await_node *n, const char *what)
{
	struct buf b = BUF_INIT;

	n->resource = first_pointer(w, t, addr);
	if (!what)
		return;
	buf_printf(&b, "%s %#lx", what, (unsigned long)n->resource);
	detail(n, &b);
}

/* The same by a member; false: there is none of this name. */
static bool member_resource(struct walk *w, const struct dw_type *t, uint64_t addr,
			    struct await_node *n, const char *name, const char *what)
{
	const struct dw_type *x;
	uint64_t at;

	if (!await_find_member(w, t, addr, name, &x, &at))
		return false;
	note_resource(w, x, at, n, what);
	return true;
}

static void read_join(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_node *n)
{
	member_resource(w, t, addr, n, "raw", NULL);
}

/* The tasks of one of a JoinSet's lists become leaves below it. */
static void join_list(struct walk *w, const struct dw_type *lists, uint64_t addr, const char *name,
		      struct await_node *n)
{
	const struct dw_type *list, *head, *entry, *x;
	uint64_t at, node, next;

	if (!await_find_member(w, lists, addr, name, &list, &at) ||
	    !await_find_member(w, list, at, "head", &head, &at) || !mem_u64(w->ctx->mem, at, &node))
		return;
	entry = await_pointee(w, head);
	for (unsigned i = 0; entry && node && i < 4096; i++, node = next) {
		struct await_node *child = await_child(w, n, AN_LEAF, "join handle", node);

		if (!child)
			return;
		child->wait = AW_TASK;
		if (await_find_member(w, entry, node, "raw", &x, &at))
			child->resource = first_pointer(w, x, at);
		if (!await_find_member(w, entry, node, "next", &x, &at) ||
		    !mem_u64(w->ctx->mem, at, &next))
			return;
	}
}

static void read_join_set(struct walk *w, const struct dw_type *t, uint64_t addr,
			  struct await_node *n)
{
	const struct dw_type *x, *lists;
	struct buf b = BUF_INIT;
	uint64_t at, length, lists_at;

	if (await_find_member(w, t, addr, "length", &x, &at) && mem_u64(w->ctx->mem, at, &length)) {
		buf_printf(&b, "%lu tasks", (unsigned long)length);
		detail(n, &b);
	}
	if (!await_find_member(w, t, addr, "lists", &x, &at) || !(lists = await_pointee(w, x)) ||
	    !mem_u64(w->ctx->mem, at, &lists_at))
		return;
	join_list(w, lists, lists_at, "notified", n);
	join_list(w, lists, lists_at, "idle", n);
}

static void read_async_task(struct walk *w, const struct dw_type *t, uint64_t addr,
			    struct await_node *n)
{
	member_resource(w, t, addr, n, "ptr", NULL);
}

static void read_channel(struct walk *w, const struct dw_type *t, uint64_t addr,
			 struct await_node *n)
{
	if (!member_resource(w, t, addr, n, "inner", "channel"))
		member_resource(w, t, addr, n, "chan", "channel");
}

static void read_notified(struct walk *w, const struct dw_type *t, uint64_t addr,
			  struct await_node *n)
{
	if (member_resource(w, t, addr, n, "notify", "Notify"))
		name_by_user(w, n);
}

static void read_socket(struct walk *w, const struct dw_type *t, uint64_t addr,
			struct await_node *n)
{
	const struct dw_type *x, *whole;
	struct buf b = BUF_INIT;
	uint64_t at, fd;

	/* a half refers to the whole */
	if (strstr(t->name, "Half") && await_find_member(w, t, addr, "inner", &x, &at) &&
	    (whole = await_pointee(w, x)) && mem_u64(w->ctx->mem, at, &addr))
		t = whole;
	if (!await_find_type(w, t, addr, "std::os::fd::owned::OwnedFd", &x, &at) ||
	    !mem_uint(w->ctx->mem, at, 4, &fd) || fd > 1u << 30)
		return;
	n->value = fd;
	buf_printf(&b, "fd %lu", (unsigned long)fd);
	detail(n, &b);
}

/* Readiness knows no fd: a socket among the references of the coroutines around it does. */
static void read_readiness(struct walk *w, const struct dw_type *t, uint64_t addr,
			   struct await_node *n)
{
	static const char *const sockets[] = {"tokio::net::",
					      "tokio::io::poll_evented::PollEvented<"};
	uint64_t interest, at;
	const struct dw_type *x;

	if (await_find_member(w, t, addr, "interest", &x, &at) &&
	    mem_uint(w->ctx->mem, at, x->size == 8 ? 8 : 1, &interest)) {
		n->name = interest & 1	 ? "socket readable"
			  : interest & 2 ? "socket writable"
					 : "socket ready";
	}
	for (unsigned i = w->n_outer < 64 ? w->n_outer : 64; i-- > 0;) {
		const struct dw_type *locals = w->outer[i];

		for (size_t k = 0; k < locals->n_members; k++) {
			const struct dw_type *m = dw_member_type(w->dwarf, &locals->members[k]);
			const struct dw_type *target;
			uint64_t p;

			if (!m || m->class != DC_POINTER ||
			    !(target = dw_type_of(w->dwarf, m->target_ref)))
				continue;
			for (size_t s = 0; s < 2; s++)
				if (await_starts(target->full_name, sockets[s]) &&
				    mem_u64(w->ctx->mem,
					    w->outer_addr[i] + locals->members[k].offset, &p)) {
					read_socket(w, target, p, n);
					if (n->detail)
						return;
				}
		}
	}
}

/* async-io's Readable(Ready { handle: &Async { io, .. }, .. }): the I/O object has the fd. */
static void read_async_ready(struct walk *w, const struct dw_type *t, uint64_t addr,
			     struct await_node *n)
{
	const struct dw_type *x, *handle;
	uint64_t at, target;

	if (await_find_member(w, t, addr, "handle", &x, &at) && (handle = await_pointee(w, x)) &&
	    mem_u64(w->ctx->mem, at, &target))
		read_socket(w, handle, target, n);
}

/* async-lock's Lock { mutex: &Mutex, .. }, async-channel's Recv { receiver: &Receiver { channel:
 * Arc } } */
static void read_async_lock(struct walk *w, const struct dw_type *t, uint64_t addr,
			    struct await_node *n)
{
	member_resource(w, t, addr, n, "mutex", "mutex");
}

/* async-lock's RwLock: RawRwLock is the lock, under `lock` of the raw future; its Semaphore. */
static void read_async_raw(struct walk *w, const struct dw_type *t, uint64_t addr,
			   struct await_node *n)
{
	const char *name = n->wait == AW_SEMAPHORE ? "semaphore" : "lock";

	member_resource(w, t, addr, n, name, name);
}

static void read_async_channel(struct walk *w, const struct dw_type *t, uint64_t addr,
			       struct await_node *n)
{
	const struct dw_type *x;
	uint64_t at, end;

	if ((!await_find_member(w, t, addr, "receiver", &x, &at) &&
	     !await_find_member(w, t, addr, "sender", &x, &at)) ||
	    !mem_u64(w->ctx->mem, at, &end))
		return;
	if (x->class == DC_POINTER) {
		const struct dw_type *owner = dw_type_of(w->dwarf, x->target_ref);

		if (!owner || !await_find_member(w, owner, end, "channel", &x, &at))
			return;
	}
	note_resource(w, x, at, n, "channel");
}

static const struct leaf leaves[] = {
	{"tokio::time::sleep::Sleep", "sleep", AW_SLEEP, read_sleep},
	{"tokio::time::interval::Interval", "interval", AW_SLEEP, read_interval},
	{"tokio::sync::batch_semaphore::Acquire", NULL, AW_SEMAPHORE, read_acquire},
	{"tokio::sync::oneshot::Receiver<", "oneshot receive", AW_ONESHOT, read_channel},
	{"futures_channel::oneshot::Receiver<", "oneshot receive", AW_ONESHOT, read_channel},
	{"tokio::sync::mpsc::bounded::Receiver<", "mpsc receive", AW_CHANNEL_RECV, read_channel},
	{"tokio::sync::mpsc::unbounded::UnboundedReceiver<", "mpsc receive", AW_CHANNEL_RECV,
	 read_channel},
	{"tokio::sync::mpsc::chan::Rx<", "mpsc receive", AW_CHANNEL_RECV, read_channel},
	{"tokio::sync::notify::Notified", "notified", AW_NOTIFY, read_notified},
	{"tokio::sync::notify::OwnedNotified", "notified", AW_NOTIFY, read_notified},
	{"tokio::sync::broadcast::Recv<", "broadcast receive", AW_CHANNEL_RECV, NULL},
	{"futures_channel::mpsc::Receiver<", "channel receive", AW_CHANNEL_RECV, read_channel},
	{"futures_channel::mpsc::UnboundedReceiver<", "channel receive", AW_CHANNEL_RECV,
	 read_channel},
	{"tokio::runtime::task::join::JoinHandle<", "join handle", AW_TASK, read_join},
	{"tokio::task::join_set::JoinSet<", "JoinSet", AW_TASK, read_join_set},
	{"tokio::runtime::io::scheduled_io::Readiness", "socket ready", AW_SOCKET, read_readiness},
	{"tokio::io::driver::scheduled_io::Readiness", "socket ready", AW_SOCKET, read_readiness},
	{"tokio::net::tcp::stream::TcpStream", "TcpStream", AW_SOCKET, read_socket},
	{"tokio::net::tcp::listener::TcpListener", "TcpListener", AW_SOCKET, read_socket},
	{"tokio::net::unix::stream::UnixStream", "UnixStream", AW_SOCKET, read_socket},
	{"tokio::net::unix::listener::UnixListener", "UnixListener", AW_SOCKET, read_socket},
	{"tokio::net::udp::UdpSocket", "UdpSocket", AW_SOCKET, read_socket},
	{"tokio::net::tcp::split_owned::OwnedReadHalf", "TcpStream read half", AW_SOCKET,
	 read_socket},
	{"tokio::net::tcp::split_owned::OwnedWriteHalf", "TcpStream write half", AW_SOCKET,
	 read_socket},
	{"tokio::net::unix::split_owned::OwnedReadHalf", "UnixStream read half", AW_SOCKET,
	 read_socket},
	{"tokio::net::unix::split_owned::OwnedWriteHalf", "UnixStream write half", AW_SOCKET,
	 read_socket},
	{"tokio::io::split::ReadHalf<", "read half", AW_SOCKET, read_socket},
	{"tokio::io::split::WriteHalf<", "write half", AW_SOCKET, read_socket},
	{"async_task::task::Task<", "task", AW_TASK, read_async_task},
	{"async_io::Timer", "timer", AW_SLEEP, read_sleep},
	{"async_io::reactor::Readable", "socket readable", AW_SOCKET, read_async_ready},
	{"async_io::reactor::Writable", "socket writable", AW_SOCKET, read_async_ready},
	{"async_io::reactor::Ready<", "socket ready", AW_SOCKET, read_async_ready},
	{"async_lock::mutex::Lock<", "Mutex::lock", AW_MUTEX, read_async_lock},
	{"async_lock::rwlock::futures::Read<", "RwLock::read", AW_RWLOCK, read_async_raw},
	{"async_lock::rwlock::futures::UpgradableRead<", "RwLock::upgradable_read", AW_RWLOCK,
	 read_async_raw},
	{"async_lock::rwlock::futures::Write<", "RwLock::write", AW_RWLOCK, read_async_raw},
	{"async_lock::semaphore::Acquire", "Semaphore::acquire", AW_SEMAPHORE, read_async_raw},
	{"async_channel::Recv<", "channel receive", AW_CHANNEL_RECV, read_async_channel},
	{"async_channel::Send<", "channel send (channel full)", AW_CHANNEL_SEND,
	 read_async_channel},
};

static const struct leaf *leaf_of(const struct dw_type *t)
{
	if (t->class != DC_STRUCT)
		return NULL;
	for (size_t i = 0; i < sizeof(leaves) / sizeof(*leaves); i++)
		if (await_starts(t->full_name, leaves[i].prefix))
			return &leaves[i];
	return NULL;
}

bool await_is_leaf(const struct dw_type *t)
{
	return leaf_of(t) != NULL;
}

bool await_leaf(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_node *n)
{
	const struct leaf *l = leaf_of(t);

	if (!l)
		return false;
	n->wait = l->wait;
	if (l->name)
		n->name = l->name;
	if (l->read)
		l->read(w, t, addr, n);
	if (n->wait == AW_CHANNEL_RECV || n->wait == AW_CHANNEL_SEND || n->wait == AW_ONESHOT)
		held_by_leaf(w, t, addr, n);
	if (!n->name)
		n->name = "unknown";
	return true;
}
