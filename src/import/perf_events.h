/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What events of perf are called and mean here, for its text and for its files. Private to this
 * room.
 */
#pragma once

#include "import/perf_line.h"
#include "import/sink.h"

enum perf_event_what {
	PE_UNKNOWN = 0, /* nothing of it has a meaning here */
	PE_PROBE,
	PE_SYS_ENTER,
	PE_SYS_EXIT,
	PE_SAMPLE,
	PE_SWITCH,
};

struct perf_event {
	enum perf_event_what type;
	enum trace_sample sample;
	int syscall; /* "syscalls:sys_enter_read": its number; -1: in the event's fields */
	char provider[64], name[64];
	/* By number of arguments, looked up once. */
	const struct provider_probe *probes[PROVIDER_MAX_ARGS + 1];
};

/* "sdt_tokio:task_poll_begin", "cycles/freq=999/", "cpu-clock:u", "sched:sched_switch". */
void perf_event_classify(const char *name, size_t len, struct perf_event *ret);
/* A probe that was hit with `n` arguments, NULL: all known ones need more. Arguments beyond those
 * that are known don't count. */
const struct provider_probe *perf_event_probe(const struct perf_event *e, size_t n_args);
