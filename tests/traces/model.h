/*
 * A stream of events as an echo server makes it, for tests and measurements of the trace file: some
 * worker threads share some hundred connections' tasks; a worker parks in epoll_wait, wakes a few
 * tasks, polls a few others, now and then one sends to the network or another task is woken twice.
 */
#pragma once

#include "trace/event.h"

#include <stddef.h>
#include <stdint.h>

#define MODEL_MAX_THREADS 64u
#define MODEL_TASKS 200u

struct model {
	uint32_t n_threads;
	uint64_t random;
	uint64_t now[MODEL_MAX_THREADS];
};

static inline uint32_t model_random(struct model *m, uint32_t below)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return (uint32_t)(m->random >> 11) % below;
}

static inline void model_init(struct model *m, uint32_t n_threads)
{
	*m = (struct model){.n_threads = n_threads, .random = 88172645463325252ULL};
	for (uint32_t i = 0; i < n_threads; i++)
		m->now[i] = 5000000000000ULL + i * 1000;
}

/* The thread that is furthest behind: whose turn it is. */
static inline uint32_t model_thread(const struct model *m)
{
	uint32_t first = 0;
	for (uint32_t i = 1; i < m->n_threads; i++)
		if (m->now[i] < m->now[first])
			first = i;
	return first;
}

/* One turn of a thread's loop: up to 64 events into ev; how many. */
static inline size_t model_turn(struct model *m, uint32_t thread, struct trace_event *ev)
{
	uint64_t now = m->now[thread];
	size_t n = 0;
#define MODEL_ADD(gap, ...)                                                                        \
	(now += (gap), ev[n++] = (struct trace_event){.time = now, .thread = thread, __VA_ARGS__})

	MODEL_ADD(300 + model_random(m, 200), .type = TE_PARK, .arg = TB_EPOLL_WAIT,
		  .kind = TRACE_KIND_NONE);
	MODEL_ADD(5000 + model_random(m, 40000), .type = TE_UNPARK, .arg = TB_EPOLL_WAIT,
		  .kind = TRACE_KIND_NONE);
	uint32_t n_wakes = 1 + model_random(m, 6), n_polls = 1 + model_random(m, 6);
	for (uint32_t i = 0; i < n_wakes; i++)
		MODEL_ADD(200 + model_random(m, 300), .type = TE_WAKE, .kind = 3,
			  .arg = model_random(m, 16) ? TW_SCHEDULED : TW_NOOP,
			  .task = 40 + model_random(m, MODEL_TASKS));
	for (uint32_t i = 0; i < n_polls; i++) {
		uint64_t task = 40 + model_random(m, MODEL_TASKS);
		MODEL_ADD(150 + model_random(m, 400), .type = TE_POLL_BEGIN, .kind = 3,
			  .task = task);
		if (!model_random(m, 10)) {
			uint32_t took = 2000 + model_random(m, 9000);
			MODEL_ADD(took + model_random(m, 2000), .type = TE_BLOCK, .arg = TB_SEND,
				  .kind = TRACE_KIND_NONE, .value = took);
		}
		MODEL_ADD(1500 + model_random(m, 9000), .type = TE_POLL_END, .kind = 3,
			  .task = task, .arg = TO_PENDING);
	}
#undef MODEL_ADD
	m->now[thread] = now;
	return n;
}
