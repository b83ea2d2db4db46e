/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The containers of which run queues are made, read from the program's memory: words that are the
 * addresses of tasks. */
#pragma once

#include "future/await.h"

struct deque_call {
	void (*one)(void *ctx, uint64_t task);
	void *ctx;
};

/* Each gives all tasks in it. False: it can't be read, or not all of it. */
/* std's VecDeque<Notified> anywhere in `t`; an Option without one is empty. */
bool deque_std(struct walk *w, const struct dw_type *t, uint64_t addr, const struct deque_call *c);
/* Tokio's list through Header.queue_next: `t` has a member `head` somewhere. */
bool deque_linked(struct walk *w, const struct dw_type *t, uint64_t addr,
		  const struct deque_call *c);
/* Tokio's queue::Inner of a worker, in an Arc. */
bool deque_worker(struct walk *w, const struct dw_type *t, uint64_t addr,
		  const struct deque_call *c);
/* concurrent_queue::ConcurrentQueue<Runnable>: the two forms that executors use. */
bool deque_concurrent(struct walk *w, const struct dw_type *t, uint64_t addr,
		      const struct deque_call *c);

/* The number in a (wrapped) member, of 1 to 8 bytes. */
bool deque_number(struct walk *w, const struct dw_type *t, uint64_t addr, const char *member,
		  uint64_t *ret);
