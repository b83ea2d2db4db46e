/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Off-CPU time and system calls on a kernel that describes its types (BTF): the cheap form, with
 * programs that read the kernel's structures by name.
 *
 * Only the few fields that are read are declared here; the loader finds where they lie in the
 * running kernel. Which system call a thread is in is in the registers that it entered the kernel
 * with, so --sched alone needs no program at system calls. On x86-64 that register holds -1 for
 * every other way in (asm/ptrace.h, idtentry_body, fred_entry_from_user).
 */
#include "capture/sched/sched.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct sched_entity {
	unsigned long long sum_exec_runtime, prev_sum_exec_runtime;
};

struct task_struct {
	int pid, tgid;
	int prio;
	struct sched_entity se;
	unsigned int flags;
	unsigned int __state;
	struct pid *thread_pid;
	struct task_struct *group_leader;
	char comm[16];
};

/* Until 5.13. */
struct task_struct___old {
	long state;
};

struct pt_regs {
	unsigned long ARCH_PT_REGS_CALL;
};

struct linux_binprm;

#pragma clang attribute pop

#define PF_IO_WORKER 0x10
#define PF_KTHREAD 0x200000
#define MAX_PID_NS 32
#define MAX_RT_PRIO 100

/* Of the thread that leaves its CPU. The thread's fields may belong to another CPU by now, which
 * wakes it; before 5.18 there is nothing else. */
static __always_inline __u32 state_of(const unsigned long long *ctx, struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;

	if (settings.has_state)
		return (__u32)ctx[3];
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return (__u32)BPF_CORE_READ(old, state);
}

/* A pid as the namespace of pollux numbers it; 0: it isn't in there. */
static __always_inline __u32 number_in_ns(struct pid *pid)
{
	unsigned int level = BPF_CORE_READ(pid, level);

	for (unsigned int i = 0; i < MAX_PID_NS; i++) {
		struct upid *at = (void *)pid + bpf_core_field_offset(pid->numbers) +
				  i * bpf_core_type_size(struct upid);

		if (i > level)
			break;
		if (BPF_CORE_READ(at, ns, ns.inum) == settings.pid_ns)
			return BPF_CORE_READ(at, nr);
	}
	return 0;
}

/* What is kept of a task if it is a target's; NULL if it isn't. */
static __always_inline struct sched_thread *target(struct task_struct *task)
{
	__u32 key = task->pid, tgid, tid = key;

	if (!settings.pid_ns) {
		tgid = task->tgid;
	} else {
		struct sched_thread *t = bpf_map_lookup_elem(&threads, &key);

		if (t)
			return t;
		tgid = number_in_ns(BPF_CORE_READ(task, group_leader, thread_pid));
		tid = number_in_ns(BPF_CORE_READ(task, thread_pid));
	}
	if (!bpf_map_lookup_elem(&targets, &tgid))
		return 0;
	return keep(key, tgid, tid);
}

/* Of the running task: the system call that it is in, + 1. */
static __always_inline __u32 syscall_of(struct task_struct *task)
{
	struct pt_regs *regs;
	long number;

	if (task->flags & (PF_IO_WORKER | PF_KTHREAD))
		return 0;
	regs = (void *)bpf_task_pt_regs(task);
	number = (long)BPF_CORE_READ(regs, ARCH_PT_REGS_CALL);
	return number < 0 ? 0 : (__u32)number + 1;
}

/* A thread that may be none of a target's. */
static __always_inline void name(struct sched_who *who, struct task_struct *task)
{
	__u32 key = task->pid;
	struct sched_thread *t = settings.pid_ns ? bpf_map_lookup_elem(&threads, &key) : 0;

	who->flags = key ? SCHED_KNOWN : SCHED_KNOWN | SCHED_IDLE;
	who->reserved = 0;
	if (!settings.pid_ns) {
		who->tgid = task->tgid;
		who->tid = key;
	} else {
		who->tgid = t ? t->tgid : 0;
		who->tid = t ? t->tid : 0;
	}
	bpf_core_read(who->name, sizeof(who->name), &task->comm);
}

/* How long the thread that leaves its CPU has had it; 0: not known, of a real-time thread. */
static __always_inline __u64 ran_ns(struct task_struct *task)
{
	return task->prio < MAX_RT_PRIO
		       ? 0
		       : task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct sched_thread *t = target(prev);
	__u32 key = next->pid, cpu = bpf_get_smp_processor_id();
	__u64 now = bpf_ktime_get_ns();
	struct sched_cpu *c = bpf_map_lookup_elem(&cpus, &cpu);
	struct sched_who after, before;

	name(&after, next);
	if (t) {
		__u32 state = state_of(ctx, prev), why = SCHED_OTHER;

		/* A task that is preempted on its way to sleep is still to run. */
		if (preempt || !state)
			why = SCHED_PREEMPTED;
		else if (state & 1)
			why = SCHED_SLEEPING;
		else if (state & 2)
			why = SCHED_UNINTERRUPTIBLE;
		leave_cpu(t, why, syscall_of(prev), cpu, c ? c->n_runs + 1 : 0, &after, now);
	}
	if (c) {
		if (is_another(c, prev->pid)) {
			name(&before, prev);
			missed_switch(c, &before, ran_ns(prev), now);
		}
		next_run(c, &after, key, now);
	}
	t = bpf_map_lookup_elem(&threads, &key);
	if (t) {
		name(&before, prev);
		enter_cpu(t, cpu, &before, now);
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	__u32 key = task->pid;
	struct sched_thread *t = bpf_map_lookup_elem(&threads, &key);
	struct sched_who waker;

	if (t && t->off_ns) {
		name(&waker, (void *)bpf_get_current_task_btf());
		wake(t, &waker);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	leave(task->pid, 0);
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
	forget(task->pid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	__u32 key = task->pid;
	struct sched_thread *t = bpf_map_lookup_elem(&threads, &key);

	if (t) {
		__u32 tgid = t->tgid;

		bpf_map_delete_elem(&targets, &tgid);
		leave(key, 1);
	}
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long number)
{
	struct sched_thread *t = target((void *)bpf_get_current_task_btf());

	if (t)
		enter_syscall(t, number);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long result)
{
	struct sched_thread *t = target((void *)bpf_get_current_task_btf());

	if (t)
		leave_syscall(t, regs, result);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL"; /* some helpers are for GPL-compatible programs */
