/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Context switches, which uftrace records with the kernel's perf events besides the calls. Private
 * to this module.
 */
#pragma once

#include "import/input.h"
#include "import/perf_line.h"
#include "import/sink.h"

/* The files perf-cpuN.dat of a folder, if it has some. */
int uftrace_switches_read(struct sink *sink, struct input *folder, struct error *err);

/* Those of a text, where each processor's follow the other's. */
struct uftrace_switches {
	struct sink *sink;
	struct order order;
};

void uftrace_switches_init(struct uftrace_switches *s, struct sink *sink);
void uftrace_switches_done(struct uftrace_switches *s);
/* Of "linux:sched-out (pre-empted)(200007)". False: it is another event, without a meaning here. */
bool uftrace_switches_known(const struct perf_text *name);
int uftrace_switches_add(struct uftrace_switches *s, struct import_thread *thread, uint64_t time,
			 const struct perf_text *name, uint64_t at);
/* All that were added, in order of time. */
int uftrace_switches_give(struct uftrace_switches *s);
