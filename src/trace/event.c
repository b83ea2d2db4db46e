/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The words for what events say, by the enums of event.h. */
#include "trace/event.h"

#include "base/text.h"

#include <inttypes.h>

#define LOOK_UP(table, i)                                                                          \
	((i) < sizeof(table) / sizeof((table)[0]) && (table)[i] ? (table)[i] : "?")

const char *trace_event_type_name(unsigned type)
{
	static const char *const names[TE_N_TYPES] = {
		[TE_NONE] = "none",
		[TE_SPAWN] = "spawn",
		[TE_POLL_BEGIN] = "poll_begin",
		[TE_POLL_END] = "poll_end",
		[TE_WAKE] = "wake",
		[TE_SCHEDULE] = "schedule",
		[TE_CANCEL] = "cancel",
		[TE_DROP] = "drop",
		[TE_PARK] = "park",
		[TE_UNPARK] = "unpark",
		[TE_BLOCK] = "block",
		[TE_THREAD_BEGIN] = "thread_begin",
		[TE_THREAD_END] = "thread_end",
		[TE_LOST] = "lost",
		[TE_ROOT_ENTER] = "root_enter",
		[TE_ROOT_WAKE] = "root_wake",
		[TE_SYSCALL] = "syscall",
		[TE_OFF_CPU] = "off_cpu",
		[TE_SAMPLE] = "sample",
		[TE_FUTURE_BEGIN] = "future_begin",
		[TE_FUTURE_END] = "future_end",
		[TE_MACHINE] = "machine",
		[TE_RESOURCE] = "resource",
		[TE_LEFT_CPU] = "left_cpu",
		[TE_GOT_CPU] = "got_cpu",
		[TE_WOKEN] = "woken",
		[TE_RAN_INSTEAD] = "ran_instead",
	};
	return LOOK_UP(names, type);
}

const char *trace_outcome_name(unsigned outcome)
{
	static const char *const names[TO_N] = {
		[TO_PENDING] = "pending",   [TO_READY] = "ready",
		[TO_PANICKED] = "panicked", [TO_CANCELLED] = "cancelled",
		[TO_UNKNOWN] = "unknown",   [TO_ABORTED] = "cancelled unpolled",
		[TO_UNSEEN] = "unseen",
	};
	return LOOK_UP(names, outcome);
}

const char *trace_wake_name(unsigned wake)
{
	static const char *const names[TW_N] = {
		[TW_SCHEDULED] = "scheduled",
		[TW_RUNNING] = "running",
		[TW_NOOP] = "noop",
		[TW_UNKNOWN] = "unknown",
	};
	return LOOK_UP(names, wake);
}

const char *trace_call_name(unsigned call)
{
	static const char *const names[TB_N] = {
		[TB_NONE] = "none",
		[TB_FUTEX] = "futex",
		[TB_EPOLL_WAIT] = "epoll_wait",
		[TB_EPOLL_PWAIT] = "epoll_pwait",
		[TB_EPOLL_PWAIT2] = "epoll_pwait2",
		[TB_POLL] = "poll",
		[TB_PPOLL] = "ppoll",
		[TB_SELECT] = "select",
		[TB_NANOSLEEP] = "nanosleep",
		[TB_CLOCK_NANOSLEEP] = "clock_nanosleep",
		[TB_USLEEP] = "usleep",
		[TB_SLEEP] = "sleep",
		[TB_READ] = "read",
		[TB_PREAD] = "pread",
		[TB_READV] = "readv",
		[TB_WRITE] = "write",
		[TB_PWRITE] = "pwrite",
		[TB_WRITEV] = "writev",
		[TB_RECV] = "recv",
		[TB_RECVFROM] = "recvfrom",
		[TB_RECVMSG] = "recvmsg",
		[TB_SEND] = "send",
		[TB_SENDTO] = "sendto",
		[TB_SENDMSG] = "sendmsg",
		[TB_ACCEPT] = "accept",
		[TB_ACCEPT4] = "accept4",
		[TB_CONNECT] = "connect",
		[TB_FSYNC] = "fsync",
		[TB_FDATASYNC] = "fdatasync",
		[TB_FLOCK] = "flock",
		[TB_WAITPID] = "waitpid",
		[TB_WAITID] = "waitid",
		[TB_PTHREAD_JOIN] = "pthread_join",
		[TB_PTHREAD_MUTEX_LOCK] = "pthread_mutex_lock",
		[TB_PTHREAD_COND_WAIT] = "pthread_cond_wait",
		[TB_PTHREAD_COND_TIMEDWAIT] = "pthread_cond_timedwait",
		[TB_GETADDRINFO] = "getaddrinfo",
		[TB_SCHED_YIELD] = "sched_yield",
	};
	call &= TRACE_CALL_NUMBER;
	return LOOK_UP(names, call);
}

bool trace_call_waits_for_lock(unsigned call)
{
	call &= TRACE_CALL_NUMBER;
	return call == TB_FUTEX || call == TB_PTHREAD_MUTEX_LOCK;
}

bool trace_call_waits_for_cpu(unsigned call)
{
	return (call & TRACE_CALL_NUMBER) == TB_SCHED_YIELD;
}

const char *trace_cover_name(unsigned cover)
{
	static const char *const names[TRACE_COVER_N] = {
		[TRACE_COVER_OTHER] = "other",
		[TRACE_COVER_PANICS] = "panics",
		[TRACE_COVER_SPAWNS] = "patched_spawn_sites",
		[TRACE_COVER_SPAWN_SITES] = "spawn_sites",
		[TRACE_COVER_CALLS] = "blocking_calls",
		[TRACE_COVER_TASK_HEADERS] = "task_headers",
		[TRACE_COVER_HANDLERS] = "handlers",
	};
	return cover < TRACE_COVER_N ? names[cover] : names[TRACE_COVER_OTHER];
}

const char *trace_off_cpu_name(unsigned why)
{
	static const char *const names[TX_N] = {
		[TX_PREEMPTED] = "preempted",
		[TX_SLEEPING] = "sleeping",
		[TX_UNINTERRUPTIBLE] = "uninterruptible",
		[TX_OTHER] = "other",
	};
	return LOOK_UP(names, why);
}

const char *trace_sample_name(unsigned sample)
{
	static const char *const names[TM_N] = {
		[TM_CPU_CLOCK] = "cpu-clock",
		[TM_CYCLES] = "cycles",
		[TM_INSTRUCTIONS] = "instructions",
		[TM_BLOCKED] = "blocked",
		[TM_LONG_RUNNING] = "long poll, running",
		[TM_LONG_BLOCKED] = "long poll, blocked",
		[TM_SPAWN] = "spawn",
		[TM_PANIC] = "panic",
	};
	return LOOK_UP(names, sample);
}

const char *trace_resource_name(unsigned what)
{
	static const char *const names[TRACE_RESOURCE_N] = {
		[TRACE_RESOURCE_OTHER] = "other",     [TRACE_RESOURCE_SEMAPHORE] = "semaphore",
		[TRACE_RESOURCE_MUTEX] = "mutex",     [TRACE_RESOURCE_RWLOCK] = "rwlock",
		[TRACE_RESOURCE_CHANNEL] = "channel", [TRACE_RESOURCE_NOTIFY] = "notify",
		[TRACE_RESOURCE_TASK] = "task",	      [TRACE_RESOURCE_IO] = "io",
	};
	return LOOK_UP(names, what);
}

const char *trace_machine_name(unsigned machine)
{
	static const char *const names[TC_N] = {
		[TC_STARTING] = "starting",
		[TC_TASK_LOCAL] = "task local",
		[TC_TASK_GLOBAL] = "task global",
		[TC_BLOCKED] = "blocked",
	};
	return LOOK_UP(names, machine);
}

const char *trace_role_name(unsigned role)
{
	static const char *const names[TR_N] = {
		[TR_TASK] = "task", [TR_BLOCKING] = "blocking", [TR_WORKER] = "worker",
		[TR_ROOT] = "root", [TR_FUTURE] = "future",
	};
	return LOOK_UP(names, role);
}

void trace_frame_name(struct buf *out, const struct trace_frame *f)
{
	if (!f)
		buf_str(out, "?");
	else if (f->function && *f->function)
		buf_str(out, f->function);
	else
		buf_printf(out, "0x%" PRIx64 " %s", f->addr, f->object ? f->object : "");
}

void trace_place_text(struct buf *out, const struct trace_place *p)
{
	if (p->file && *p->file) {
		text_safe(out, text_short_file(p->file));
		if (p->line)
			buf_printf(out, ":%u", p->line);
		buf_char(out, ' ');
	}
	text_safe(out, p->function && *p->function ? p->function : "?");
}
