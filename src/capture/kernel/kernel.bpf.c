/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel source, inside the kernel: what runs when a probe is hit.
 *
 * No kernel structure is read by name, so that this loads where the kernel describes no types (no
 * BTF): registers are numbers of words of what a uprobe is handed, set before the load.
 *
 * What is kept of a thread is written only by its own programs, which run one after the other.
 * Notes are kept of the polls that are open on it: at a poll's end the task is not in a register
 * any more. An entry at or above the place of an open poll's return address means that that poll is
 * over, however it was left; so a stack of notes never outgrows the stack that it is about.
 *
 * The ring never wakes its reader, which polls it. Records that find no room are counted with their
 * thread and reported before the thread's next record.
 */
#include <linux/bpf.h>

#include <stdbool.h>

#include <bpf/bpf_helpers.h>

#include "agent/runtime_async_task.h"
#include "agent/runtime_tokio.h"
#include "arch/pt_regs.h"
#include "capture/samples/user_stack.h"

#include "capture/kernel/event.h"

const volatile __u8 spawn_stacks;
/* The pid namespace of pollux, where that is not the first one. */
const volatile __u64 ns_dev, ns_ino;
const volatile struct kernel_call_rule calls[KERNEL_MAX_CALLS];

/* Of a task's output, words that a panic is looked for in. */
#define LOOK_WORDS 192u

#define FUTEX_COMMAND 127u

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, KERNEL_MAX_HOOKS);
	__type(key, __u32);
	__type(value, struct kernel_hook);
} hooks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct kernel_thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* set before it is made */
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct kernel_lost);
} losses SEC(".maps");

/* Panics that were raised in async-task's polls, by process and task: the task's memory may be
 * given back before the thread that polled it has left run(). */
struct panic_key {
	__u64 process, header;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct panic_key);
	__type(value, struct panic_payload);
} panics SEC(".maps");

struct kernel_thread fresh; /* all zero: too large for a program's stack */

static __always_inline __u64 reg(void *ctx, __u32 word)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), ctx + word * 8);
	return value;
}

static __always_inline uint64_t user_word(uint64_t addr)
{
	uint64_t value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)addr);
	return value;
}

static __always_inline struct kernel_lost *lost(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&losses, &zero);
}

#include "capture/kernel/point.bpf.h"
#include "capture/kernel/probe.bpf.h"

/* ---- records ---- */

static __always_inline void lose(struct kernel_thread *t, __u64 now, __u64 n)
{
	if (!t->lost)
		t->lost_ns = now;
	t->lost += n;
}

/* Losses are reported before anything else. */
static __always_inline bool emit_lost(struct kernel_thread *t, __u64 now)
{
	struct kernel_record *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);

	if (!r)
		return false;
	__builtin_memset(r, 0, sizeof(*r));
	r->time = now;
	r->tgid = t->tgid;
	r->tid = t->tid;
	r->type = KR_LOST;
	r->header = t->lost;
	r->sp = t->lost_ns;
	t->lost = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return true;
}

/* For the caller to fill: header, words, flags. NULL: lost, and counted. */
static __always_inline struct kernel_record *record(struct kernel_thread *t, __u64 now, __u16 type,
						    __u32 hook, __u64 sp)
{
	struct kernel_record *r = 0;

	if (!t->lost || emit_lost(t, now))
		r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
	if (!r) {
		lose(t, now, 1);
		return 0;
	}
	r->time = now;
	r->tgid = t->tgid;
	r->tid = t->tid;
	r->type = type;
	r->flags = 0;
	r->hook = hook;
	r->point = 0;
	r->sp = sp;
	return r;
}

/* ---- threads ---- */

/* The key is the kernel's own name of the thread, which needs no look at a namespace. */
static __always_inline struct kernel_thread *known_thread(void)
{
	__u64 key = bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&threads, &key);
}

static __always_inline struct kernel_thread *thread(void *ctx, __u64 now, __u32 hook)
{
	__u64 key = bpf_get_current_pid_tgid();
	struct kernel_thread *t = bpf_map_lookup_elem(&threads, &key);
	struct kernel_record *r;

	if (t)
		return t;
	bpf_map_update_elem(&threads, &key, &fresh, BPF_NOEXIST);
	t = bpf_map_lookup_elem(&threads, &key);
	if (!t) {
		struct kernel_lost *l = lost();

		if (l)
			__sync_fetch_and_add(&l->of_untracked, 1);
		return 0;
	}
	t->tgid = key >> 32;
	t->tid = (__u32)key;
	if (ns_ino) {
		struct bpf_pidns_info in_ns = {};

		if (bpf_get_ns_current_pid_tgid(ns_dev, ns_ino, &in_ns, sizeof(in_ns)) == 0) {
			t->tgid = in_ns.tgid;
			t->tid = in_ns.pid;
		}
	}
	r = record(t, now, KR_THREAD, hook, 0);
	if (r) {
		r->header = reg(ctx, REG_PC);
		bpf_get_current_comm(r->words, sizeof(r->words));
		bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	}
	return t;
}

/* Where a task is made: the registers and stack from which pollux finds the callers. */
static __always_inline void take_stack(void *ctx, const struct kernel_thread *t,
				       const struct kernel_hook *h, __u64 now, __u32 hook)
{
	struct kernel_stack_record *r;

	if (!spawn_stacks || !h->spawns)
		return;
	r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
	if (!r)
		return;
	r->time = now;
	r->tgid = t->tgid;
	r->tid = t->tid;
	r->hook = hook;
	r->type = KR_STACK;
	r->flags = 0;
	r->stack.ip = reg(ctx, REG_PC);
	r->stack.sp = reg(ctx, REG_SP);
	r->stack.bp = reg(ctx, REG_FP);
	user_stack_copy(&r->stack);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* ---- open polls ---- */

static __always_inline struct kernel_poll *poll_at(struct kernel_thread *t, __u32 i)
{
	i &= KERNEL_MAX_POLLS - 1;
	asm volatile("" : "+r"(i)); /* keeps the bound where the verifier sees it */
	return &t->polls[i];
}

static __always_inline struct kernel_poll *innermost(struct kernel_thread *t)
{
	return t->depth && t->depth <= KERNEL_MAX_POLLS ? poll_at(t, t->depth - 1) : 0;
}

/* Those that were left, as this deep on the stack none of them can be open. */
static __always_inline void drop_stale(struct kernel_thread *t, __u64 sp)
{
	for (__u32 i = 0; i < KERNEL_MAX_POLLS; i++) {
		struct kernel_poll *p = innermost(t);

		if (!p || p->sp > sp)
			break;
		t->depth--;
	}
}

static __always_inline struct kernel_poll *open_poll(struct kernel_thread *t, __u64 sp)
{
	struct kernel_poll *p;

	drop_stale(t, sp);
	if (t->depth >= KERNEL_MAX_POLLS)
		return 0;
	p = poll_at(t, t->depth);
	t->depth++;
	__builtin_memset(p, 0, sizeof(*p));
	p->sp = sp;
	return p;
}

/* The poll whose return address was at sp, with those above it gone. */
static __always_inline struct kernel_poll *close_poll(struct kernel_thread *t, __u64 sp)
{
	struct kernel_poll *p;

	drop_stale(t, sp - 1);
	p = innermost(t);
	if (!p || p->sp != sp)
		return 0;
	t->depth--;
	return p;
}

/* ---- Tokio ---- */

/* KF_PANICKED, KF_ABORTED or 0, of a task that is complete: what its output says. */
static __always_inline __u16 look(__u64 header, __u16 id_offset, __u16 trailer_offset,
				  const struct panic_payload *raised, bool cancelled)
{
	const __u64 at = header + id_offset;
	const struct tokio_error e = {.id = user_word(at),
				      .raised = raised != 0,
				      .payload = raised ? *raised : (struct panic_payload){},
				      .cancelled = cancelled};
	enum poll_end end = tokio_output(
		user_word, at + 8, tokio_output_words(id_offset, trailer_offset), LOOK_WORDS, &e);

	return end == END_PANICKED ? KF_PANICKED : end == END_CANCELLED ? KF_ABORTED : 0;
}

static __always_inline __u16 look_at_poll(const struct kernel_poll *p, __u64 state)
{
	return look(p->header, p->id_offset, p->trailer_offset,
		    p->flags & KF_RAISED ? &p->raised : 0, state & TOKIO_CANCELLED);
}

/* In the poll of a task that is complete a waker fires: the woken task may take the output, so this
 * is the last moment at which it is surely there. */
static __always_inline void settle(struct kernel_thread *t)
{
	struct kernel_poll *p = innermost(t);
	__u64 state;
	__u16 is;

	if (!p || p->is_async || p->flags & KF_OUTCOME_SAVED)
		return;
	state = user_word(p->header);
	if (!(state & TOKIO_COMPLETE) || !(state & TOKIO_JOIN_INTEREST))
		return;
	is = look_at_poll(p, state);
	p->flags |= KF_OUTCOME_SAVED | (is == KF_PANICKED  ? KF_OUTCOME_PANICKED
					: is == KF_ABORTED ? KF_OUTCOME_ABORTED
							   : 0);
	if (!(state & TOKIO_NOTIFIED))
		p->flags |= KF_UNPOLLED;
}

struct tokio_task {
	__u64 words[3]; /* state, queue_next, vtable */
	__u64 id;
	__u16 id_offset, trailer_offset;
	bool read;
};

static __always_inline void read_tokio(const struct kernel_hook *h, __u64 header,
				       struct tokio_task *ret)
{
	__u64 offsets[3] = {};

	__builtin_memset(ret, 0, sizeof(*ret));
	if (bpf_probe_read_user(ret->words, sizeof(ret->words), (void *)header))
		return;
	ret->id_offset = h->tokio.id_offset;
	ret->trailer_offset = h->tokio.trailer_offset;
	if (ret->id_offset == OFFSET_UNKNOWN) {
		if (bpf_probe_read_user(offsets, sizeof(offsets),
					(void *)(ret->words[2] + 8 * TOKIO_SLOT_TRAILER)))
			return;
		ret->trailer_offset = offsets[0] < 0xfff8 ? offsets[0] : 0xfff8;
		ret->id_offset = offsets[2];
	}
	ret->read = bpf_probe_read_user(&ret->id, sizeof(ret->id),
					(void *)(header + ret->id_offset)) == 0;
}

/* Whether the output of a task that is complete is a cancelled task's JoinError. */
static __always_inline bool was_aborted(__u64 header, const struct tokio_task *task)
{
	return task->words[0] & TOKIO_COMPLETE &&
	       look(header, task->id_offset, task->trailer_offset, 0, true);
}

/* ---- async-task ---- */

static __always_inline bool has_payload(__u64 header, const struct panic_payload *raised)
{
	for (__u32 i = ASYNC_HEADER_WORDS; i < ASYNC_OUTPUT_WORDS; i++)
		if (panic_is_payload(raised, user_word(header + i * 8)))
			return true;
	return false;
}

static __always_inline struct panic_key panic_key(__u64 header)
{
	return (struct panic_key){bpf_get_current_pid_tgid() >> 32, header};
}

static __always_inline void note_panic(const struct kernel_poll *p)
{
	struct panic_key key = panic_key(p->header);
	struct panic_payload payload = p->raised;

	bpf_map_update_elem(&panics, &key, &payload, BPF_ANY);
}

/* Of a task that is given back. */
static __always_inline bool was_panic(__u64 header)
{
	struct panic_key key = panic_key(header);
	struct panic_payload *payload = bpf_map_lookup_elem(&panics, &key);
	bool was = payload && has_payload(header, payload);

	if (payload)
		bpf_map_delete_elem(&panics, &key);
	return was;
}

/* ---- the programs ---- */

/* Begins are reported while all probes are in place: they come and go one after the other. */
volatile __u8 closed;

static __always_inline struct kernel_hook *hook_of(void *ctx, __u32 *number)
{
	if (closed)
		return 0;
	*number = (__u32)bpf_get_attach_cookie(ctx);
	return bpf_map_lookup_elem(&hooks, number);
}

/* What every probe begins with: its hook and the thread that hit it. False: nothing is recorded. */
static __always_inline bool probe_hit(void *ctx, __u64 now, struct kernel_hook **h,
				      struct kernel_thread **t, __u32 *number)
{
	*h = hook_of(ctx, number);
	if (!*h)
		return false;
	*t = thread(ctx, now, *number);
	if (!*t)
		return false;
	take_stack(ctx, *t, *h, now, *number);
	return true;
}

SEC("uprobe")
int on_function(void *ctx)
{
	__u64 now = bpf_ktime_get_ns(), sp, header, id = 0;
	struct kernel_thread *t;
	struct kernel_record *r;
	struct kernel_poll *p;
	struct kernel_hook *h;
	struct tokio_task task;
	__u16 flags = 0, point = 0;
	bool cancelled;
	__u32 number;

	if (!probe_hit(ctx, now, &h, &t, &number))
		return 0;
	sp = reg(ctx, REG_SP);
	header = reg(ctx, REG_ARG_1);

	switch (h->type) {
	case KH_TOKIO_POLL:
	case KH_TOKIO_SCHEDULE:
	case KH_TOKIO_DEALLOC:
	case KH_TOKIO_SHUTDOWN:
	case KH_TOKIO_OUTPUT_QUERY:
	case KH_TOKIO_WAKE:
		if (h->type == KH_TOKIO_WAKE)
			settle(t);
		read_tokio(h, header, &task);
		cancelled = task.read && task.words[0] & TOKIO_CANCELLED;
		if (h->type == KH_TOKIO_OUTPUT_QUERY && !cancelled)
			return 0; /* how it ends is no question */
		if ((h->type == KH_TOKIO_OUTPUT_QUERY || h->type == KH_TOKIO_DEALLOC) &&
		    cancelled && was_aborted(header, &task))
			flags |= KF_ABORTED;
		if (h->type == KH_TOKIO_POLL) {
			p = open_poll(t, sp);
			if (!p) {
				lose(t, now, 2);
				return 0;
			}
			p->header = header;
			p->id = task.id;
			p->hook = number;
			p->id_offset = task.id_offset;
			p->trailer_offset = task.trailer_offset;
		}
		r = record(t, now, KR_HOOK, number, sp);
		if (!r)
			return 0;
		r->header = header;
		r->flags = flags | (task.read ? KF_READ : 0);
		r->words[0] = task.words[0];
		r->words[1] = task.id;
		r->words[2] = task.words[2];
		r->words[3] = 0;
		bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
		return 0;
	case KH_ASYNC_RUN:
		p = open_poll(t, sp);
		if (!p) {
			lose(t, now, 2);
			return 0;
		}
		p->header = header;
		p->hook = number;
		p->is_async = 1;
		p->start = reg(ctx, REG_PC) - h->run.before;
		p->end = p->start + h->run.before + h->run.after;
		break;
	case KH_ASYNC_RETURN:
		p = close_poll(t, sp);
		if (!p)
			return 0;
		header = p->header;
		flags = p->flags;
		if (reg(ctx, REG_RESULT) & 1)
			flags |= KF_WOKEN;
		else if (flags & KF_RAISED && has_payload(header, &p->raised))
			flags |= KF_PAYLOAD;
		point = async_point(t, header);
		break;
	case KH_ASYNC_DESTROY:
		if (was_panic(header))
			flags |= KF_PAYLOAD;
		break;
	case KH_ASYNC_WAKE:
		/* Called by the function that wakes by value? */
		if (h->wake.caller_bytes &&
		    user_word(sp) - (reg(ctx, REG_PC) + (__u64)h->wake.caller) <
			    h->wake.caller_bytes)
			return 0;
		settle(t);
		break;
	case KH_ROOT_WAKE:
		settle(t);
		break;
	case KH_RAISE:
		p = innermost(t);
		if (!p)
			return 0;
		p->flags |= KF_RAISED;
		if (user_word(header) == PANIC_CLASS) {
			p->raised.words[0] = user_word(header + 8 * PANIC_PAYLOAD_WORD);
			p->raised.words[1] = user_word(header + 8 * PANIC_PAYLOAD_WORD + 8);
			if (p->is_async)
				note_panic(p);
		}
		break;
	case KH_RESUME:
		/* Only out of a run() whose poll was left by a panic. */
		p = innermost(t);
		id = user_word(sp);
		if (!p || !p->is_async || id < p->start || id >= p->end)
			return 0;
		header = p->header;
		flags = p->flags;
		t->depth--;
		break;
	case KH_SPAWN:
		if (h->spawn.next_id)
			id = user_word(reg(ctx, REG_PC) + h->spawn.next_id);
		break;
	default:
		break;
	}
	r = record(t, now, KR_HOOK, number, sp);
	if (!r)
		return 0;
	r->header = header;
	__builtin_memset(r->words, 0, sizeof(r->words));
	if (h->type >= KH_ASYNC_RUN && h->type <= KH_ASYNC_WAKE) {
		if (bpf_probe_read_user(r->words, sizeof(r->words), (void *)header) == 0)
			flags |= KF_READ;
	} else if (h->type == KH_SPAWN || h->type == KH_RESUME) {
		r->words[0] = id;
	}
	r->flags = flags;
	r->point = point;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * A poll of Tokio's returns. The time is taken when the state is read: if another thread has polled
 * the task on by then, that poll began before this one ended, and who reads can see it.
 */
SEC("uprobe")
int on_return(void *ctx)
{
	__u64 now, sp = reg(ctx, REG_SP), state = 0;
	struct kernel_thread *t = known_thread();
	struct kernel_record *r;
	struct kernel_poll *p;
	__u16 flags, point = 0;

	if (!t)
		return 0;
	/* The return address is taken from the stack by now. */
	p = close_poll(t, sp - 8);
	if (!p)
		return 0;
	flags = p->flags;
	/* Read second: the same id says that the state was still this task's. */
	if (bpf_probe_read_user(&state, sizeof(state), (void *)p->header) == 0 &&
	    (!p->id || user_word(p->header + p->id_offset) == p->id))
		flags |= KF_READ;
	now = bpf_ktime_get_ns();
	if (flags & KF_READ && state & TOKIO_COMPLETE && tokio_is_state(state) &&
	    (state & TOKIO_CANCELLED || flags & KF_RAISED))
		flags |= look_at_poll(p, state);
	if (flags & KF_READ && !(state & TOKIO_LIFECYCLE))
		point = await_point(t, user_word(p->header + TOKIO_VTABLE_OFFSET), p->header);
	r = record(t, now, KR_RETURN, p->hook, sp - 8);
	if (!r)
		return 0;
	r->header = p->header;
	r->flags = flags;
	r->point = point;
	r->words[0] = state;
	r->words[1] = 0;
	r->words[2] = user_word(p->header + TOKIO_VTABLE_OFFSET);
	r->words[3] = user_word(p->header); /* is the output still there that was looked at? */
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

/* ---- probes ---- */

SEC("uprobe")
int on_probe(void *ctx)
{
	__u64 now = bpf_ktime_get_ns(), words[MAX_WORDS];
	struct kernel_probe_record *r = 0;
	struct kernel_text_record *texts;
	struct kernel_thread *t;
	struct kernel_hook *h;
	__u32 number, bytes = REG_WORDS * 8;

	if (!probe_hit(ctx, now, &h, &t, &number))
		return 0;
	__builtin_memset(words, 0, sizeof(words));
	if (bytes > sizeof(words))
		bytes = sizeof(words);
	bpf_probe_read_kernel(words, bytes, ctx);
	if (t->lost && !emit_lost(t, now)) {
		lose(t, now, 1);
		return 0;
	}
	if (h->probe.texts[1].arg) {
		texts = bpf_ringbuf_reserve(&ring, sizeof(*texts), 0);
		if (texts) {
			fill_probe(&texts->probe, h, t, words, now, number);
			texts->probe.type = KR_TEXTS;
			read_text(texts, h, 0);
			read_text(texts, h, 1);
			bpf_ringbuf_submit(texts, BPF_RB_NO_WAKEUP);
			return 0;
		}
	} else if (h->probe.texts[0].arg) {
		texts = bpf_ringbuf_reserve(&ring, KERNEL_ONE_TEXT_BYTES, 0);
		if (texts) {
			fill_probe(&texts->probe, h, t, words, now, number);
			texts->probe.type = KR_TEXTS;
			read_text(texts, h, 0);
			texts->len[1] = -1;
			bpf_ringbuf_submit(texts, BPF_RB_NO_WAKEUP);
			return 0;
		}
	} else {
		r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
		if (r) {
			fill_probe(r, h, t, words, now, number);
			bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
			return 0;
		}
	}
	lose(t, now, 1);
	return 0;
}

/* ---- system calls, and a thread's end ---- */

static __always_inline void emit_call(struct kernel_thread *t, __u64 now, __u16 type, __u64 number,
				      __u64 result)
{
	struct kernel_record *r = record(t, now, type, 0, type == KR_CALL_END ? t->call_ns : 0);

	if (!r)
		return;
	r->header = number;
	__builtin_memset(r->words, 0, sizeof(r->words));
	if (type == KR_CALL_END) {
		r->words[0] = t->call_args;
		r->words[1] = result;
	}
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* Only of threads that have come by a probe. */
SEC("raw_tp/sys_enter")
int on_sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	struct kernel_thread *t = known_thread();
	__u64 number = ctx->args[1], op, now;
	void *regs = (void *)ctx->args[0];
	__u8 type, flags_word;

	if (!t || closed || number >= KERNEL_MAX_CALLS)
		return 0;
	type = calls[number].type;
	flags_word = calls[number].flags_word;
	if (type == KC_FUTEX) {
		op = reg(regs, REG_ARG_2) & FUTEX_COMMAND;
		if (op != 0 && op != 9) /* FUTEX_WAIT, FUTEX_WAIT_BITSET */
			type = KC_NONE;
	}
	t->call = 0;
	if (type == KC_NONE)
		return 0;
	now = bpf_ktime_get_ns();
	t->call = number + 1;
	t->call_ns = now;
	t->call_args = reg(regs, REG_ARG_1) << 32;
	if (flags_word)
		t->call_args |= (__u32)reg(regs, flags_word);
	if (type == KC_BLOCK)
		return 0;
	emit_call(t, now, KR_CALL_BEGIN, number, 0);
	return 0;
}

SEC("raw_tp/sys_exit")
int on_sys_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct kernel_thread *t = known_thread();
	__u64 now, number;

	if (!t || !t->call)
		return 0;
	number = t->call - 1;
	t->call = 0;
	now = bpf_ktime_get_ns();
	if (number < KERNEL_MAX_CALLS && calls[number].type == KC_BLOCK &&
	    now - t->call_ns < KERNEL_CALL_MIN_NS)
		return 0;
	emit_call(t, now, KR_CALL_END, number, ctx->args[1]);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct kernel_thread *t = known_thread();
	__u64 key = bpf_get_current_pid_tgid();
	struct kernel_record *r;
	struct kernel_lost *l;

	if (!t)
		return 0;
	r = record(t, bpf_ktime_get_ns(), KR_EXIT, 0, 0);
	if (r) {
		__builtin_memset(r->words, 0, sizeof(r->words));
		r->header = 0;
		bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	}
	l = t->lost ? lost() : 0;
	if (l)
		__sync_fetch_and_add(&l->of_gone, t->lost - 1); /* but the end itself */
	bpf_map_delete_elem(&threads, &key);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL"; /* some helpers are for GPL-compatible programs */
