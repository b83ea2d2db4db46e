/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Following a program that we started from exec to exec, while there is nothing in it to record: a
 * shell, env, cargo. It stays traced, so that what it executes is stopped until pollux has examined
 * it.
 */
#pragma once

#include "process/threads.h"

struct follow;

enum follow_state {
	FOLLOW_RUNS,
	FOLLOW_EXEC,  /* it is stopped, at the begin of another program */
	FOLLOW_ENDED, /* and was reaped */
	FOLLOW_LOST,  /* it is not traced any more */
};

/* Lets a program run that is traced by `tracer`, and stopped there, and follows it. Takes the
 * tracer if it succeeds. */
int follow_stopped(struct tracer *tracer, pid_t pid, struct follow **ret_follow);
/* Follows a child that runs. */
int follow_running(pid_t pid, struct follow **ret_follow);
enum follow_state follow_look(const struct follow *f);
/* Whether it runs another program than when that began: if it is still traced it is, or will be,
 * stopped at the begin of that. */
bool follow_has_executed(const struct follow *f);
/* FOLLOW_EXEC: the tracer to which it belongs, and which is the caller's now. Frees f. */
struct tracer *follow_take(struct follow *f);
/* Lets it go, whatever it does. FOLLOW_ENDED: it was reaped, *ret_status is waitpid's (NULL: not
 * wanted). Frees f; NULL is fine. */
enum follow_state follow_end(struct follow *f, int *ret_status);
