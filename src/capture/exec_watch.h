/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that we started and in which there is nothing to record, so far: it may be a shell, or
 * cargo, that executes one in which there is. Each source looks at it in its own way; when to do so
 * is the same for all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct exec_watch {
	const char *name; /* NULL: none is awaited */
	uint64_t code_hash, since_ns, next_look_ns, wait_ns;
	uint64_t without_ns; /* there was nothing to record then; 0: not known */
};

/* Awaits one from now on; `name` is kept as it is. */
void exec_watch_start(struct exec_watch *p, const char *name);
/* Whether it is time to look at process `pid`: its code has changed since the last look. The longer
 * it has had nothing the less often that is asked. */
bool exec_watch_changed(struct exec_watch *p, pid_t pid, uint64_t now_ns);
/* The look came too early: the next one comes even if nothing changes. */
void exec_watch_unsure(struct exec_watch *p);
/* How long until then: sleep no longer. */
uint64_t exec_watch_wait(const struct exec_watch *p);
