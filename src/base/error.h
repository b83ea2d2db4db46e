/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Errors as values that carry a story. A library function returns 0 or a negative errno and never
 * prints; on the way up each level adds one sentence, so that the command prints once:
 *
 *     cannot attach to 4242: ptrace is forbidden by yama ptrace_scope=1: run as root, or ...
 */
#pragma once

/* One of several steps, each of which needs the ones before: returns the step's error from the
 * function. What the function holds is released by cleanup.h. */
#define TRY(step)                                                                                  \
	do {                                                                                       \
		int try_rc = (step);                                                               \
                                                                                                   \
		if (try_rc < 0)                                                                    \
			return try_rc;                                                             \
	} while (0)

struct error {
	int code;	 /* negative errno of the first cause, 0 if none */
	char text[1024]; /* outermost sentence first, joined by ": "; cut at the end if too long */
};

/* Sets the first cause. `code` is a negative errno. Returns code, so `return error_set(...)`. `err`
 * may be NULL: then only the code survives. */
int error_set(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Like error_set, with ": " and strerror(-code) after the text. */
int error_sys(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts one sentence in front of the text. Returns err->code (-EIO if err is NULL). */
int error_add(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
