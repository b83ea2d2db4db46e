/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * trace: events of several threads that have one time come in the order of their tasks' lives
 * (src/trace/ties.c).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "trace/ties.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 88172645463325252ULL;

static uint64_t rnd(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

/* "1(a 2)a": thread 1 begins to poll a, thread 2 ends its poll of it, pending. Also } ready, +
 * spawn of the kind, s named spawn, ! wake, ~ wake while running, q schedule, x cancel, - drop, .
 * something else. */
static size_t parse(const char *text, struct trace_event *ret)
{
	static const struct {
		char sign;
		uint8_t type, arg;
	} signs[] = {{'(', TE_POLL_BEGIN, 0},
		     {')', TE_POLL_END, TO_PENDING},
		     {'}', TE_POLL_END, TO_READY},
		     {'+', TE_SPAWN, 0},
		     {'s', TE_SPAWN, TRACE_SPAWN_NAMED},
		     {'!', TE_WAKE, TW_SCHEDULED},
		     {'~', TE_WAKE, TW_RUNNING},
		     {'q', TE_SCHEDULE, 0},
		     {'x', TE_CANCEL, 0},
		     {'-', TE_DROP, 0},
		     {'.', TE_PARK, 0}};
	size_t n = 0;

	for (; *text; text += text[3] ? 4 : 3) {
		struct trace_event *e = &ret[n++];

		*e = (struct trace_event){.time = 7, .thread = (uint32_t)(text[0] - '0')};
		for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++) {
			if (signs[i].sign == text[1]) {
				e->type = signs[i].type;
				e->arg = signs[i].arg;
			}
		}
		e->kind = e->type == TE_PARK ? TRACE_KIND_NONE : 0;
		e->task = e->type == TE_SPAWN && !e->arg ? 0 : (uint64_t)text[2];
		e->value = (uint64_t)text[1] << 8 | (uint8_t)text[2];
	}
	return n;
}

static void expect(const char *given, const char *expected)
{
	struct trace_event run[64];
	char text[256] = "";
	size_t n = parse(given, run), len = 0;

	ties_order(run, n);
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u%c%c", i ? " " : "",
					run[i].thread, (char)(run[i].value >> 8),
					(char)run[i].value);
	assert_string_equal(text, expected);
}

static void test_lives(void **state)
{
	(void)state;
	expect("1(a 2!a", "2!a 1(a");
	expect("1(a 2qa", "2qa 1(a");
	expect("1(a 2+a", "2+a 1(a");
	expect("1(a 2sa", "2sa 1(a");
	expect("1(a 2sb", "1(a 2sb"); /* another's */
	expect("1(a 2)a", "2)a 1(a"); /* its poll before */
	expect("1!a 2)a", "2)a 1!a");
	expect("1~a 2(a", "2(a 1~a");
	expect("1}a 2~a", "2~a 1}a");
	expect("1(a 1)a 2~a", "1(a 2~a 1)a");
	expect("1xa 2)a", "2)a 1xa");
	expect("1-a 2)a", "2)a 1-a");
	expect("1-a 2xa", "2xa 1-a");
	expect("1-a 2!a", "2!a 1-a");
	expect("1-a 2}a 3~a", "3~a 2}a 1-a");
}

static void test_threads_keep_their_order(void **state)
{
	(void)state;
	/* with what is before it on its thread */
	expect("1(b 1!a 2(a 3!b", "3!b 1(b 1!a 2(a");
	expect("1(a 2(b 2!a 3)b", "3)b 2(b 2!a 1(a");
	expect("1(a 2.. 2!a", "2.. 2!a 1(a");
	expect("1(a 1)a 2(a 2)a", "1(a 1)a 2(a 2)a");
	expect("1(a 1)a 1(a 1)a 2!a 2!a", "2!a 1(a 1)a 2!a 1(a 1)a");
	/* a whole poll goes before one that lasts */
	expect("1(a 2(a 2)a", "2(a 2)a 1(a");
	expect("1)a 1(a 2(a 2)a", "1)a 2(a 2)a 1(a");
	/* what is right stays */
	expect("1!a 2(a 3(b 1..", "1!a 2(a 3(b 1..");
	expect("3(b 1!a 2(a", "3(b 1!a 2(a");
}

/* A spawn's claim on all of its kind yields to what is known of the task. */
static void test_contradictions(void **state)
{
	(void)state;
	expect("1(a 1+b 2!a", "2!a 1(a 1+b");
	expect("1(a 1!b 2(b 2!a", "1(a 1!b 2(b 2!a");
}

enum { N_THREADS = 6, N_TASKS = 5, TICK = 12 };

static struct life {
	bool woken, polled;
	bool emitted_begin, emitted_wake, emitted_old_end; /* in this tick */
	uint32_t thread;
} lives[N_TASKS], read_lives[N_TASKS];

/* Does the event fit its task's life? Then it is lived. */
static bool live(struct life *l, const struct trace_event *e)
{
	bool fits = false;

	if (e->type == TE_WAKE && e->arg == TW_SCHEDULED)
		fits = !l->woken && !l->polled;
	else if (e->type == TE_WAKE)
		fits = l->polled;
	else if (e->type == TE_POLL_BEGIN)
		fits = l->woken && !l->polled;
	else if (e->type == TE_POLL_END)
		fits = l->polled && l->thread == e->thread;
	if (!fits)
		return false;
	l->woken = e->type == TE_WAKE ? l->woken || e->arg == TW_SCHEDULED
				      : l->woken && e->type != TE_POLL_BEGIN;
	l->polled = e->type == TE_POLL_BEGIN || (l->polled && e->type != TE_POLL_END);
	if (e->type == TE_POLL_BEGIN)
		l->thread = e->thread;
	return true;
}

static int by_thread(const void *a, const void *b)
{
	const struct trace_event *x = a, *y = b;

	return x->thread != y->thread ? (x->thread > y->thread) - (x->thread < y->thread)
				      : (x->value > y->value) - (x->value < y->value);
}

/* Lives as they were, in which each moment is known, then with ticks of a dozen moments. In one
 * tick a task is polled only once, so the poll in which it was woken is known. */
static void test_random_lives(void **state)
{
	(void)state;
	for (int tick = 0; tick < 20000; tick++) {
		struct trace_event run[TICK];
		size_t n = 0;

		for (size_t i = 0; i < N_TASKS; i++)
			lives[i].emitted_begin = lives[i].emitted_wake = lives[i].emitted_old_end =
				false;
		for (uint64_t moment = 0; moment < TICK; moment++) {
			struct life *l = &lives[rnd(N_TASKS)];
			const uint16_t types[] = {TE_WAKE, TE_WAKE, TE_POLL_BEGIN, TE_POLL_END};
			uint64_t what = rnd(4);
			struct trace_event e = {
				.thread = what == 3 && l->polled ? l->thread
								 : (uint32_t)rnd(N_THREADS),
				.type = types[what],
				.arg = what == 1 ? TW_RUNNING : TW_SCHEDULED,
				.task = (uint64_t)(l - lives),
				.value = moment,
			};

			if (what == 0 && l->emitted_begin)
				continue;
			if (what == 1 && l->emitted_begin && l->emitted_old_end)
				continue;
			if (what == 2 && l->emitted_wake)
				continue;
			if (!live(l, &e))
				continue;
			l->emitted_begin = l->emitted_begin || what == 2;
			l->emitted_wake = l->emitted_wake || what == 1;
			l->emitted_old_end = l->emitted_old_end || (what == 3 && !l->emitted_begin);
			run[n++] = e;
		}
		qsort(run, n, sizeof(*run), by_thread);
		ties_order(run, n);
		for (size_t i = 0; i < n; i++)
			assert_true(live(&read_lives[run[i].task], &run[i]));
	}
}

/* Whatever a file says: all events come, each thread's in order; also in runs longer than any. */
static void test_any_events(void **state)
{
	enum { N = 1000 };
	static struct trace_event run[N];
	uint64_t seen[N_THREADS];

	(void)state;
	for (int round = 0; round < 200; round++) {
		size_t n = rnd(N), sum = 0;
		uint64_t n_of[N_THREADS] = {0};

		for (size_t i = 0; i < n; i++) {
			uint32_t thread = (uint32_t)rnd(N_THREADS);

			run[i] = (struct trace_event){.thread = thread,
						      .type = (uint16_t)rnd(TE_N_TYPES + 2),
						      .arg = (uint16_t)rnd(4),
						      .kind = (uint32_t)rnd(2),
						      .task = rnd(3),
						      .value = n_of[thread]++};
		}
		ties_order(run, n);
		memset(seen, 0, sizeof(seen));
		for (size_t i = 0; i < n; i++)
			assert_true(run[i].value == seen[run[i].thread]++);
		for (size_t i = 0; i < N_THREADS; i++)
			sum += seen[i];
		assert_int_equal(sum, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lives),
		cmocka_unit_test(test_threads_keep_their_order),
		cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_random_lives),
		cmocka_unit_test(test_any_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
