/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parts of a report from other sources than task events, each in a file of its own. They
 * allocate nothing, and write nothing, in reports of traces without such events. The adders return
 * 0 or -ENOMEM. */
#pragma once

#include "base/json.h"
#include "report/data.h"

/* samples.c: CPU by function, spawns by stack */
int samples_add(struct report *rep, const struct tl_sample *sample);
int samples_sort(struct report *rep);
void samples_done(struct report *rep);
void samples_text(const struct report *rep, struct buf *out);
void samples_json(const struct report *rep, struct json *j);

/* system.c: off the CPU, and system calls, inside polls */
int system_off_cpu(struct report *rep, const struct tl_off_cpu *off);
int system_call(struct report *rep, const struct tl_syscall *call);
int system_blocked(struct report *rep, const struct tl_sample *sample);
int system_sort(struct report *rep);
void system_done(struct report *rep);
void system_text(const struct report *rep, struct buf *out);
void system_json(const struct report *rep, struct json *j);

/* futures.c: the futures inside tasks */
int futures_poll(struct report *rep, const struct tl_future_poll *poll);
int futures_end(struct report *rep, struct tl_future *future);
int futures_sort(struct report *rep);
void futures_done(struct report *rep);
void futures_text(const struct report *rep, struct buf *out);
void futures_json(const struct report *rep, struct json *j);
