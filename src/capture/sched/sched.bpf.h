/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Off-CPU time and system calls of the target processes, inside the kernel: what both forms of
 * the programs share, the one for kernels that describe their types (sched.bpf.c) and the one for
 * those that don't (sched_plain.bpf.c).
 *
 * Everything is reported when it is over: a system call when it returns, a time off the CPU when
 * the thread runs again. What began before the recording has no known beginning, so it is not
 * reported. All programs of one thread run one after the other, in the order of what happens to it,
 * so what is kept of a thread needs no lock and its events are in the ring in order.
 *
 * The ring never wakes its reader, which polls it. What finds no room is counted with its thread
 * and reported by the thread's next event.
 */
#pragma once

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_helpers.h>

#include "arch/pt_regs.h"
#include "capture/samples/user_stack.h"

#include "capture/sched/event.h"

/* Set before the programs are loaded. */
const volatile struct sched_settings settings = {.stacks_of = -1};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32); /* tgid, as pollux sees it */
	__type(value, __u32);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct sched_thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set before it is made: the CPUs that there may be */
	__type(key, __u32);
	__type(value, struct sched_cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* set before it is made */
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sched_lost);
} losses SEC(".maps");

static __always_inline struct sched_lost *lost(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&losses, &zero);
}

/* What is kept of a target's thread; made if there is nothing yet. NULL: no room. */
static __always_inline struct sched_thread *keep(__u32 key, __u32 tgid, __u32 tid)
{
	struct sched_thread *t = bpf_map_lookup_elem(&threads, &key);
	struct sched_lost *l;

	if (t && t->tgid == tgid)
		return t;
	l = t ? lost() : 0; /* of one that had this tid before */
	if (l)
		l->of_gone += t->lost;
	struct sched_thread fresh = {.tgid = tgid, .tid = tid};
	bpf_map_update_elem(&threads, &key, &fresh, BPF_ANY);
	t = bpf_map_lookup_elem(&threads, &key);
	l = t ? 0 : lost();
	if (l)
		l->of_untracked++;
	return t;
}

static __always_inline void fill(struct sched_event *e, const struct sched_thread *t, __u64 now,
				 __u16 type, __u16 arg, __u64 value, __s64 result, __u32 number)
{
	e->time = now;
	e->value = value;
	e->result = result;
	e->tgid = t->tgid;
	e->tid = t->tid;
	e->lost = 0;
	e->type = type;
	e->arg = arg;
	e->number = number;
	e->reserved = 0;
}

static __always_inline void emit(struct sched_thread *t, __u64 now, __u16 type, __u16 arg,
				 __u64 value, __s64 result, __u32 number)
{
	struct sched_event *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);

	if (!e) {
		t->lost++;
		return;
	}
	fill(e, t, now, type, arg, value, result, number);
	e->lost = t->lost;
	t->lost = 0;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/* A word of the registers with which a thread entered the kernel. */
static __always_inline __u64 user_reg(const void *regs, unsigned int word)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), regs + word * 8);
	return value;
}

/* What finds no room for its stack goes without. */
static __always_inline void emit_stack(const struct sched_thread *t, const void *regs, __u64 time)
{
	struct sched_stack *s = bpf_ringbuf_reserve(&ring, sizeof(*s), 0);

	if (!s)
		return;
	fill(&s->event, t, time, SCHED_STACK, 0, 0, 0, t->number);
	s->stack.ip = user_reg(regs, REG_PC);
	s->stack.sp = user_reg(regs, REG_SP);
	s->stack.bp = user_reg(regs, REG_FP);
	user_stack_copy(&s->stack);
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
}

static __always_inline void keep_run(struct sched_cpu *c, const struct sched_who *who, __u64 end_ns)
{
	struct sched_run *run = &c->runs[c->n_runs % SCHED_RUNS];

	run->begin_ns = c->since_ns;
	run->end_ns = end_ns;
	run->who = *who;
	c->n_runs++;
	c->since_ns = end_ns;
}

/* Whether the thread that leaves this CPU is not the one that came last, as far as was seen. */
static __always_inline bool is_another(const struct sched_cpu *c, __u32 key)
{
	return c->since_ns && c->key != key;
}

/*
 * The kernel does not report every switch (on 6.18, in a virtual machine, one in some hundred was
 * missing; perf has not got those either). Then the thread that leaves this CPU now, `prev`, is not the one that
 * came last: it has run for `ran_ns`, and the one that came up to then. 0: that is not known, and so
 * neither is what the CPU ran.
 */
static __always_inline void missed_switch(struct sched_cpu *c, const struct sched_who *prev,
					  __u64 ran_ns, __u64 now)
{
	bool known = ran_ns && now - c->since_ns > ran_ns;

	if (known)
		keep_run(c, &c->now, now - ran_ns);
	c->now = *prev;
	if (!known)
		c->now.flags = 0;
}

/* This CPU runs another thread from now on: what it ran is kept. */
static __always_inline void next_run(struct sched_cpu *c, const struct sched_who *next, __u32 key,
				     __u64 now)
{
	keep_run(c, &c->now, now);
	c->now = *next;
	c->key = key;
}

static __always_inline void leave_cpu(struct sched_thread *t, __u32 why, __u32 number, __u32 cpu,
				      __u32 run, const struct sched_who *next, __u64 now)
{
	if (t->ended)
		return;
	t->off_reason = why;
	t->off_number = number;
	t->left_cpu = cpu + 1;
	t->left_run = run;
	t->next = *next;
	t->woken_ns = 0;
	t->off_ns = now;
}

static __always_inline void wake(struct sched_thread *t, const struct sched_who *waker)
{
	if (!t->off_ns || t->woken_ns)
		return;
	t->waker = *waker;
	t->woken_ns = bpf_ktime_get_ns();
}

/* The last ones. The same CPU's: it runs them one after the other. Another CPU's: it may change them
 * meanwhile, so their times are looked at again when they are read. */
static __always_inline void copy_runs(struct sched_switch *s, const struct sched_cpu *c, __u32 same,
				      __u32 n_runs)
{
	__u32 first = c->n_runs - n_runs;

	for (__u32 i = 0; i < n_runs; i++)
		s->runs[i] = c->runs[(first + i) % SCHED_RUNS];
	if (same)
		return;
	/* In place of the oldest: what it runs still. */
	s->runs[0] = (struct sched_run){c->since_ns, s->event.time, c->now};
}

static __always_inline void fill_switch(struct sched_switch *s, struct sched_thread *t, __u64 off,
					__u64 now, __u64 ready, __u32 cpu,
					const struct sched_who *before)
{
	fill(&s->event, t, now, SCHED_OFF_CPU, t->off_reason, now - off, 0, t->off_number);
	s->event.lost = t->lost;
	t->lost = 0;
	s->ready_ns = ready;
	s->left_cpu = t->left_cpu;
	s->got_cpu = cpu + 1;
	s->next = t->next;
	s->before = *before;
	if (t->woken_ns)
		s->waker = t->waker;
	else
		s->waker = (struct sched_who){0};
}

/* False: there is no room. */
static __always_inline bool emit_switch(struct sched_thread *t, __u64 off, __u64 now, __u64 ready,
					__u32 cpu, const struct sched_who *before,
					const struct sched_cpu *c, __u32 same, const __u32 n_runs)
{
	struct sched_switch *s = bpf_ringbuf_reserve(
		&ring, offsetof(struct sched_switch, runs) + n_runs * sizeof(struct sched_run), 0);

	if (!s)
		return false;
	fill_switch(s, t, off, now, ready, cpu, before);
	if (n_runs)
		copy_runs(s, c, same, n_runs);
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	return true;
}

static __always_inline void enter_cpu(struct sched_thread *t, __u32 cpu,
				      const struct sched_who *before, __u64 now)
{
	bool preempted = t->off_reason == SCHED_PREEMPTED, emitted = false;
	__u64 off = t->off_ns, ready = preempted ? off : t->woken_ns;
	__u32 other = preempted ? t->left_cpu - 1 : cpu;
	struct sched_cpu *c = 0;

	if (!off)
		return;
	t->off_ns = 0;
	if (ready && now - ready >= SCHED_WAIT_NS)
		c = bpf_map_lookup_elem(&cpus, &other);
	if (c) {
		/* The last runs since then, and one for what another CPU runs still. */
		__u32 n = c->n_runs - (preempted ? t->left_run : c->n_runs - SCHED_SOME_RUNS) + 1;

		if (n <= SCHED_FEW_RUNS)
			emitted = emit_switch(t, off, now, ready, cpu, before, c, other == cpu,
					      SCHED_FEW_RUNS);
		else if (n <= SCHED_SOME_RUNS + 1)
			emitted = emit_switch(t, off, now, ready, cpu, before, c, other == cpu,
					      SCHED_SOME_RUNS);
		else
			emitted = emit_switch(t, off, now, ready, cpu, before, c, other == cpu,
					      SCHED_RUNS);
	}
	if (!emitted && !emit_switch(t, off, now, ready, cpu, before, 0, 0, 0))
		t->lost++;
}

static __always_inline void enter_syscall(struct sched_thread *t, __u32 number)
{
	if (t->ended)
		return;
	t->number = number;
	t->enter_ns = bpf_ktime_get_ns();
}

static __always_inline void leave_syscall(struct sched_thread *t, const void *regs, __s64 result)
{
	__u64 now, enter = t->enter_ns;

	if (!enter)
		return;
	t->enter_ns = 0;
	now = bpf_ktime_get_ns();
	/* A moment before the call's end, so that it is known by then. */
	if ((__s32)t->number == settings.stacks_of && now - enter > SCHED_LOCK_NS)
		emit_stack(t, regs, now - 1);
	emit(t, now, SCHED_SYSCALL, 0, now - enter, result, t->number);
}

/* A thread that ends; `exec`: it lives on in another program, which is not recorded. */
static __always_inline void leave(__u32 key, __u16 exec)
{
	struct sched_thread *t = bpf_map_lookup_elem(&threads, &key);

	if (!t || t->ended)
		return;
	t->ended = 1;
	t->off_ns = t->enter_ns = 0;
	emit(t, bpf_ktime_get_ns(), SCHED_EXIT, exec, 0, 0, 0);
	if (t->lost)
		t->lost--; /* its end is none of what the recording is about */
}

/* The thread is gone for good. Its notes stay if they have losses, which found no room even at its
 * end: they are read at the end of the recording. */
static __always_inline void forget(__u32 key)
{
	struct sched_thread *t = bpf_map_lookup_elem(&threads, &key);

	if (t && !t->lost)
		bpf_map_delete_elem(&threads, &key);
}
