/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What pollux does, step by step, on stderr: for a failure at a user's site that one sentence of
 * error doesn't explain. Off unless POLLUX_DEBUG or -v asks for it; then libraries may log, which
 * otherwise never print. A domain that is off costs one load and one branch: arguments are not
 * evaluated.
 */
#pragma once

#include <stdbool.h>

enum log_domain {
	LOG_ATTACH, /* which objects, steps, hooks, and how long threads were stopped */
	LOG_FIND,   /* what was found in each object, and what was refused and why */
	LOG_DEBUG,  /* debug information: how long it took to read names from it */
	LOG_DRAIN,  /* threads that get a ring, slow passes, losses, the sums at the end */
	LOG_KERNEL, /* BPF programs and probes: which the kernel takes, which it refuses and why */
	LOG_TREE,   /* await trees: what was read, how long each part took */
	LOG_N
};

#define LOG_DOMAINS "attach, find, debug, drain, kernel, tree, all" /* for help */

extern unsigned log_domains; /* bits; changed by log_enable() only, before threads start */

/* Turns on the domains of a list, "attach,find", or "all", and no others. Returns -EINVAL, and
 * changes nothing, if it names an unknown one. Not safe once there are other threads. */
int log_enable(const char *list);

/* One line: "pollux: attach 12.345 ms: TEXT". Foreign text is made safe for terminals. */
void log_write(enum log_domain domain, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline bool log_on(enum log_domain domain)
{
	return log_domains >> domain & 1;
}

#define log_debug(domain, ...)                                                                     \
	do {                                                                                       \
		if (log_on(domain))                                                                \
			log_write(domain, __VA_ARGS__);                                            \
	} while (0)
