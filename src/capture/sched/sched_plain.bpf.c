/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Off-CPU time and system calls on a kernel that does not describe its types (no BTF): from the
 * tracepoints' own records, which are part of what the kernel promises, instead of its structures
 * (/sys/kernel/tracing/events/sched/sched_switch/format).
 *
 * They don't say which system call a thread is in; that is known if system calls are seen, too.
 */
#include "capture/sched/sched.bpf.h"

struct switch_record {
	__u64 common;
	char prev_comm[16];
	__s32 prev_pid, prev_prio;
	__s64 prev_state;
	char next_comm[16];
	__s32 next_pid, next_prio;
};
_Static_assert(offsetof(struct switch_record, next_pid) == 56, "as the format says");

struct waking_record {
	__u64 common;
	char comm[16];
	__s32 pid, prio;
};

/* Bits of prev_state (fs/proc/array.c, task_state_array); a preempted thread has a higher one. */
#define SLEEPING 1
#define UNINTERRUPTIBLE 2
#define PREEMPTED 0x100

/* What is kept of the running thread if it is a target's; NULL if it isn't. */
static __always_inline struct sched_thread *target(void)
{
	__u64 both = bpf_get_current_pid_tgid();
	__u32 tgid = both >> 32;

	if (!bpf_map_lookup_elem(&targets, &tgid))
		return 0;
	return keep((__u32)both, tgid, (__u32)both);
}

/* A thread that may be none of a target's; its process is known then only. */
static __always_inline void name(struct sched_who *who, __u32 tid, const char *comm)
{
	struct sched_thread *t = bpf_map_lookup_elem(&threads, &tid);

	who->flags = tid ? SCHED_KNOWN : SCHED_KNOWN | SCHED_IDLE;
	who->reserved = 0;
	who->tgid = t ? t->tgid : 0;
	who->tid = tid;
	__builtin_memcpy(who->name, comm, sizeof(who->name));
}

SEC("tracepoint/sched/sched_switch")
int on_switch(struct switch_record *r)
{
	struct sched_thread *t = target();
	__u32 key = r->next_pid, cpu = bpf_get_smp_processor_id();
	__u64 now = bpf_ktime_get_ns();
	struct sched_cpu *c = bpf_map_lookup_elem(&cpus, &cpu);
	struct sched_who after, before;

	name(&after, key, r->next_comm);
	if (t) {
		__u32 why = SCHED_OTHER;

		if (!r->prev_state || r->prev_state & PREEMPTED)
			why = SCHED_PREEMPTED;
		else if (r->prev_state & SLEEPING)
			why = SCHED_SLEEPING;
		else if (r->prev_state & UNINTERRUPTIBLE)
			why = SCHED_UNINTERRUPTIBLE;
		leave_cpu(t, why, t->enter_ns ? t->number + 1 : 0, cpu, c ? c->n_runs + 1 : 0,
			  &after, now);
	}
	if (c) {
		if (is_another(c, r->prev_pid)) {
			name(&before, r->prev_pid, r->prev_comm);
			missed_switch(c, &before, 0, now);
		}
		next_run(c, &after, key, now);
	}
	t = bpf_map_lookup_elem(&threads, &key);
	if (t) {
		name(&before, r->prev_pid, r->prev_comm);
		enter_cpu(t, cpu, &before, now);
	}
	return 0;
}

SEC("tracepoint/sched/sched_waking")
int on_waking(struct waking_record *r)
{
	__u32 key = r->pid;
	struct sched_thread *t = bpf_map_lookup_elem(&threads, &key);
	struct sched_who waker;
	char comm[16];

	if (t && t->off_ns) {
		bpf_get_current_comm(comm, sizeof(comm));
		name(&waker, (__u32)bpf_get_current_pid_tgid(), comm);
		wake(t, &waker);
	}
	return 0;
}

SEC("tracepoint/sched/sched_process_exit")
int on_exit(void *r)
{
	leave((__u32)bpf_get_current_pid_tgid(), 0);
	return 0;
}

SEC("tracepoint/sched/sched_process_exec")
int on_exec(void *r)
{
	__u64 both = bpf_get_current_pid_tgid();
	__u32 tgid = both >> 32;

	if (bpf_map_lookup_elem(&targets, &tgid)) {
		bpf_map_delete_elem(&targets, &tgid);
		leave((__u32)both, 1);
	}
	return 0;
}

SEC("raw_tracepoint/sys_enter")
int on_sys_enter(struct bpf_raw_tracepoint_args *args)
{
	struct sched_thread *t = target();

	if (t)
		enter_syscall(t, args->args[1]);
	return 0;
}

SEC("raw_tracepoint/sys_exit")
int on_sys_exit(struct bpf_raw_tracepoint_args *args)
{
	struct sched_thread *t = target();

	if (t)
		leave_syscall(t, (void *)args->args[0], args->args[1]);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL"; /* some helpers are for GPL-compatible programs */
