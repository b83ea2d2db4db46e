/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The seam between thunks_*.S and the C code: what the thunks call, and the offsets that they use.
 */
#pragma once

#define HOOK_SHIFT 6 /* log2(sizeof(struct agent_hook)) */
#define HOOK_ORIG 0
#define HOOK_KIND 34
#define HOOK_FLAGS 36
#define STATE_REGISTERED 80
#define STATE_CALL_MIN 84
#define STATE_MAY_CALL 192
#define SWITCH_NO_CLOCK 4
#define FUTURE_BYTES 64
#define FLAG_FRAME 128
#define REGISTERED 2
#define IMAGE_ABI 26
/* struct agent_private: the state, the threads, the notes. */
#define AGENT_NOTES (448 + 8192 * 32)
#define AGENT_NOTES_BYTES 1472
#define AGENT_STATE_BYTES (AGENT_NOTES + 1024 * AGENT_NOTES_BYTES)
#define CALL_FUTEX 1
#define CONFINE_PRCTL 2
#define CONFINE_SYSCALL 3
#define SYS_FUTEX 202
#define SYS_PRCTL 157
#define SYS_SECCOMP 317
#define PR_SET_SECCOMP 22
#define PR_SET_TSC 26
#define PR_TSC_SIGSEGV 2
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define SECCOMP_SET_MODE_FILTER 1 /* and 0, SECCOMP_SET_MODE_STRICT; the others only ask */
/* The FUTEX_* operations that wait: WAIT, LOCK_PI, WAIT_BITSET, LOCK_PI2. */
#define FUTEX_WAITS (1 << 0 | 1 << 6 | 1 << 9 | 1 << 13)

#ifndef __ASSEMBLER__

#include "agent/agent.h"

_Static_assert(sizeof(struct agent_hook) == 1 << HOOK_SHIFT, "thunks");
_Static_assert(offsetof(struct agent_hook, orig) == HOOK_ORIG, "thunks");
_Static_assert(offsetof(struct agent_hook, kind) == HOOK_KIND, "thunks");
_Static_assert(offsetof(struct agent_hook, flags) == HOOK_FLAGS, "thunks");
_Static_assert((int)AGENT_HOOK_FRAME == FLAG_FRAME, "thunks");
_Static_assert(offsetof(struct agent_state, registered) == STATE_REGISTERED, "thunks");
_Static_assert(offsetof(struct agent_state, call_min_ticks) == STATE_CALL_MIN, "thunks");
_Static_assert(offsetof(struct agent_state, may_call) == STATE_MAY_CALL, "thunks");
_Static_assert(offsetof(struct agent_switch, enabled) == 0, "thunks");
_Static_assert(offsetof(struct agent_switch, no_clock) == SWITCH_NO_CLOCK, "thunks");
_Static_assert((int)AGENT_CONFINE_PRCTL == CONFINE_PRCTL, "thunks");
_Static_assert((int)AGENT_CONFINE_SYSCALL == CONFINE_SYSCALL, "thunks");
_Static_assert(sizeof(struct agent_private) == AGENT_STATE_BYTES, "thunks");
_Static_assert(offsetof(struct agent_private, notes) == AGENT_NOTES, "thunks");
_Static_assert(sizeof(struct agent_notes) == AGENT_NOTES_BYTES, "thunks");
_Static_assert((int)AC_FUTEX == CALL_FUTEX, "thunks");
_Static_assert(sizeof(struct agent_future) == FUTURE_BYTES, "thunks");
_Static_assert(AGENT_ABI == IMAGE_ABI, "thunks");

struct agent_begun {
	struct agent_poll *poll; /* NULL: jump on, nothing to end */
	uint64_t held;		 /* POLL_HELD, POLL_ALONE | ring generation << 32 */
};

/* Called in place of the original, which they call. */
void agent_tokio_poll(void *header, struct agent_hook *hook);
void agent_tokio_shutdown(void *header, struct agent_hook *hook);
void agent_tokio_read(void *header, uint64_t *dst, const void *waker, struct agent_hook *hook);

/* Called before the thunk jumps to the original. */
void agent_tokio_schedule(void *header, struct agent_hook *hook);
void agent_tokio_wake(void *header, struct agent_hook *hook);
void agent_tokio_read_tail(void *header, struct agent_hook *hook);
void agent_async_schedule(void *header, struct agent_hook *hook);
void agent_async_wake(void *header, struct agent_hook *hook);
void agent_async_cancel(void *header, struct agent_hook *hook);
void agent_root_wake(void *data, struct agent_hook *hook);
void agent_drop(void *header, struct agent_hook *hook);
void agent_raise(void *exception, struct agent_hook *hook, const uint64_t *frame);

/* Called around the original, which the thunk calls. */
struct agent_begun agent_async_begin(void *header, struct agent_hook *hook);
void agent_async_end(void *header, struct agent_hook *hook, struct agent_poll *poll, uint64_t held,
		     bool woken);
void agent_async_unwound(bool forced, void *context, uint64_t from);
bool agent_future_begin(struct agent_hook *hook, struct agent_future *f, void *first, void *second);
void agent_future_end(struct agent_future *f, uint64_t first, uint64_t second);
void agent_future_unwound(bool forced, void *context, uint64_t from);
bool agent_root_park_begin(struct agent_hook *hook, struct agent_future *f);
void agent_root_park_end(struct agent_future *f, uint64_t first);
uint64_t agent_wait_begin(const struct agent_hook *hook);
void agent_wait_end(const struct agent_hook *hook, uint64_t begun, const uint64_t *frame,
		    uint64_t result);

/* Called after the original, which took `ticks`; `frame` is the thunk's frame pointer. It is
 * thunk_call's, which keeps the first and fourth argument below it. */
void agent_call_long(const struct agent_hook *hook, uint64_t ticks, const uint64_t *frame);

/* Called from a trampoline in the middle of a function. */
void agent_spawn(const struct agent_hook *hook, const uint64_t *frame);
void agent_root_enter(const struct agent_hook *hook, const uint64_t *frame);

void agent_wake(struct agent_notes *n, uint64_t type, uint64_t ref);

#endif
