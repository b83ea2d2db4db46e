/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * capture: rings read as untrusted memory. A well-behaved writer's events come out once, in order,
 * over any number of turns of the ring; a hostile one's heads, sizes and counts lead to bounded
 * work.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "capture/agent/ring_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N_RINGS 3u
#define RING_BYTES 4096u
#define N_EVENTS (RING_BYTES / sizeof(struct agent_event))

static struct ring_area *new_area(void)
{
	size_t bytes = sizeof(struct ring_area) + N_RINGS * (sizeof(struct ring) + RING_BYTES);
	/* Of this very length: the sanitizer reports a byte too far. */
	struct ring_area *area = aligned_alloc(64, bytes);

	memset(area, 0, bytes);
	return area;
}

static void write_event(struct ring_set *s, uint32_t i, uint64_t value)
{
	struct ring *r = ring_set_at(s, i);
	uint64_t run;
	struct agent_event *event =
		(struct agent_event *)((char *)(r + 1) + ring_place(r->head, r->far_begin,
								    r->far_end, RING_BYTES, &run));

	*event = (struct agent_event){value, ~value};
	r->head += sizeof(*event);
}

static size_t take(struct ring_set *s, uint32_t i, uint64_t limit, struct agent_event *out)
{
	size_t n = ring_set_copy(s, i, limit, out);

	ring_set_give(s, i, n);
	return n;
}

static void test_in_order(void **state)
{
	static struct agent_event out[RING_BATCH];
	struct ring_area *area = new_area();
	struct ring_set s;
	uint64_t written = 0, taken = 0;
	bool damaged = false;

	assert_int_equal(ring_set_init(&s, area, N_RINGS, RING_BYTES), 0);
	area->n_used = 2;
	assert_int_equal(ring_set_used(&s), 2);
	ring_set_at(&s, 1)->far_end = UINT64_MAX; /* the whole ring */
	for (int turn = 0; turn < 1000; turn++) {
		unsigned n = (unsigned)turn * 7 % (N_EVENTS + 1);

		for (unsigned k = 0; k < n; k++)
			write_event(&s, 1, written++);
		uint64_t head = ring_set_head(&s, 1, &damaged);
		size_t got = take(&s, 1, head, out);
		assert_int_equal(got, n);
		for (size_t k = 0; k < got; k++, taken++) {
			assert_int_equal(out[k].word0, taken);
			assert_int_equal(out[k].word1, ~taken);
		}
		assert_int_equal(ring_set_at(&s, 1)->tail, ring_set_at(&s, 1)->head);
	}
	assert_false(damaged);
	assert_true(taken > 10 * N_EVENTS);
	ring_set_done(&s);
	free(area);
}

/* What is not given back is copied again. */
static void test_part_of_it(void **state)
{
	static struct agent_event out[RING_BATCH];
	struct ring_area *area = new_area();
	struct ring_set s;
	bool damaged = false;

	assert_int_equal(ring_set_init(&s, area, N_RINGS, RING_BYTES), 0);
	for (unsigned k = 0; k < 5; k++)
		write_event(&s, 0, k);
	assert_int_equal(ring_set_copy(&s, 0, ring_set_head(&s, 0, &damaged), out), 5);
	ring_set_give(&s, 0, 2);
	assert_int_equal(ring_set_at(&s, 0)->tail, 2 * sizeof(struct agent_event));
	assert_int_equal(ring_set_copy(&s, 0, ring_set_head(&s, 0, &damaged), out), 3);
	assert_int_equal(out[0].word0, 2);
	ring_set_done(&s);
	free(area);
}

static void test_hostile_count(void **state)
{
	struct ring_area *area = new_area();
	struct ring_set s;

	assert_int_equal(ring_set_init(&s, area, N_RINGS, RING_BYTES), 0);
	area->n_used = UINT32_MAX;
	assert_int_equal(ring_set_used(&s), N_RINGS);
	assert_ptr_equal(ring_set_at(&s, 2),
			 (char *)(area + 1) + 2 * (sizeof(struct ring) + RING_BYTES));
	ring_set_done(&s);
	free(area);
}

static void test_hostile_heads(void **state)
{
	static const uint64_t heads[] = {
		1,
		8,
		RING_BYTES + 16,
		UINT64_MAX,
		UINT64_MAX - 15,
		1ull << 63,
		RING_BYTES + 1,
		1ull << 32,
	};
	static struct agent_event out[RING_BATCH];
	struct ring_area *area = new_area();
	struct ring_set s;

	assert_int_equal(ring_set_init(&s, area, N_RINGS, RING_BYTES), 0);
	area->n_used = N_RINGS;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct ring *r = ring_set_at(&s, 2);
		bool damaged = false;

		r->head = s.cursors[2].tail + heads[i];
		uint64_t head = ring_set_head(&s, 2, &damaged);
		assert_true(damaged);
		assert_int_equal(s.cursors[2].tail, head); /* nothing is there to be taken */
		assert_int_equal(head % sizeof(struct agent_event), 0);
		assert_int_equal(take(&s, 2, head, out), 0);

		/* And from there on it works again. */
		r->head = head;
		damaged = false;
		for (unsigned k = 0; k < N_EVENTS; k++)
			write_event(&s, 2, k);
		head = ring_set_head(&s, 2, &damaged);
		assert_false(damaged);
		assert_int_equal(take(&s, 2, head, out), N_EVENTS);
		assert_int_equal(out[N_EVENTS - 1].word0, N_EVENTS - 1);
	}
	/* A tail that the target wrote is the reader's again after the next taking. */
	ring_set_at(&s, 2)->tail = 12345;
	bool damaged = false;
	write_event(&s, 2, 1);
	assert_int_equal(take(&s, 2, ring_set_head(&s, 2, &damaged), out), 1);
	assert_int_equal(ring_set_at(&s, 2)->tail, s.cursors[2].tail);
	ring_set_done(&s);
	free(area);
}

static void test_empty(void **state)
{
	static struct agent_event out[RING_BATCH];
	struct ring_area *area = new_area();
	struct ring_set s;
	bool damaged = false;

	assert_int_equal(ring_set_init(&s, area, N_RINGS, RING_BYTES), 0);
	assert_true(ring_set_empty(&s, 0));
	write_event(&s, 0, 5);
	assert_false(ring_set_empty(&s, 0));
	take(&s, 0, ring_set_head(&s, 0, &damaged), out);
	assert_true(ring_set_empty(&s, 0));
	ring_set_done(&s);
	free(area);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order),      cmocka_unit_test(test_part_of_it),
		cmocka_unit_test(test_hostile_count), cmocka_unit_test(test_hostile_heads),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
