/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the agent, the programs in the kernel and the tool share about tasks (agent/runtime*.h): one
 * row per rule. Memory is read as the programs in the kernel do: what isn't there is 0.
 */
#include "agent/runtime_async_task.h"
#include "agent/runtime_tokio.h"
#include "tokio_ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* ---- Tokio: how a poll ended ---- */

#define NOTIFIED TOKIO_NOTIFIED
#define CANCELLED TOKIO_CANCELLED
#define HANDLE TOKIO_JOIN_INTEREST
#define DONE TOKIO_COMPLETE

static void test_tokio_end(void **state)
{
	static const struct {
		const char *says;
		struct tokio_poll poll;
		enum poll_end end;
	} rows[] = {
		{"nothing speaks against it", {DONE | HANDLE, 0}, END_READY},
		{"nobody awaits it", {DONE, 0}, END_READY},
		{"a runtime that is shut down marks what is complete",
		 {DONE | CANCELLED, .finished = true, .output = END_CANCELLED},
		 END_READY},
		{"freed, nobody asked", {0, .freed = true}, END_READY},
		{"freed while its runtime was shut down",
		 {0, .freed = true, .shut_down = true},
		 END_UNKNOWN},

		{"aborted before it was polled", {DONE | CANCELLED, 0}, END_UNPOLLED},
		{"shut down by who saw it in a queue",
		 {DONE | CANCELLED | NOTIFIED, .shut_queued = true},
		 END_UNPOLLED},
		{"the poll came before who saw it in a queue",
		 {DONE | CANCELLED, .shut_queued = true, .output = END_UNKNOWN},
		 END_UNKNOWN},
		{"a panic shows that it was polled",
		 {DONE | CANCELLED, .raised = true, .output = END_UNKNOWN},
		 END_PANICKED},

		{"the output says so",
		 {DONE | HANDLE, .raised = true, .output = END_PANICKED},
		 END_PANICKED},
		{"aborted, says the output",
		 {DONE | CANCELLED | NOTIFIED, .output = END_CANCELLED},
		 END_CANCELLED},
		{"aborted, but it was seen to end well",
		 {DONE | CANCELLED | NOTIFIED, .output = END_READY},
		 END_READY},
		{"the output is there and no error",
		 {DONE | CANCELLED | NOTIFIED | HANDLE, DONE | HANDLE, .output = END_UNKNOWN},
		 END_READY},
		{"a caught panic: the output is there and no error",
		 {DONE | HANDLE, DONE | HANDLE, .raised = true, .output = END_UNKNOWN},
		 END_READY},
		{"the handle was dropped meanwhile",
		 {DONE | CANCELLED | NOTIFIED | HANDLE, DONE, .output = END_UNKNOWN},
		 END_CANCELLED},
		{"somebody may have taken the output",
		 {DONE | CANCELLED | NOTIFIED | HANDLE, DONE | HANDLE, .taken = true,
		  .output = END_UNKNOWN},
		 END_UNKNOWN},
		{"a panic, and somebody may have taken the output",
		 {DONE | HANDLE, DONE | HANDLE, .raised = true, .taken = true,
		  .output = END_UNKNOWN},
		 END_UNKNOWN},
		{"no output: an abort counts as obeyed",
		 {DONE | CANCELLED | NOTIFIED, .output = END_UNKNOWN},
		 END_CANCELLED},
		{"no output: a panic counts as the end",
		 {DONE | CANCELLED | NOTIFIED, .raised = true, .output = END_UNKNOWN},
		 END_PANICKED},
		{"no output: a shutdown says nothing",
		 {DONE | CANCELLED, .shut_down = true, .output = END_UNKNOWN},
		 END_UNKNOWN},
		{"freed, somebody asked for it as cancelled",
		 {CANCELLED, .freed = true, .output = END_UNKNOWN},
		 END_CANCELLED},
		{"freed, with a panic",
		 {0, .freed = true, .raised = true, .output = END_UNKNOWN},
		 END_PANICKED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (tokio_end(&rows[i].poll) != rows[i].end)
			fail_msg("%s: %d, not %d", rows[i].says, tokio_end(&rows[i].poll),
				 rows[i].end);
}

static void test_tokio_state(void **state)
{
	(void)state;
	assert_false(tokio_is_state(0));
	assert_false(tokio_is_state(TOKIO_REFERENCE - 1));
	assert_true(tokio_is_state(TOKIO_REFERENCE));
	assert_true(tokio_is_state((uint64_t)MAX_REFERENCES * TOKIO_REFERENCE - 1));
	assert_false(tokio_is_state((uint64_t)MAX_REFERENCES * TOKIO_REFERENCE));
	assert_false(tokio_is_state(0x7fff12345678));
	assert_true(tokio_is_queued(NOTIFIED | HANDLE | TOKIO_REFERENCE));
	assert_false(tokio_is_queued(NOTIFIED | TOKIO_RUNNING));
	assert_false(tokio_is_queued(NOTIFIED | CANCELLED));
	assert_false(tokio_is_queued(HANDLE));
	assert_int_equal(tokio_wake_effect(HANDLE | TOKIO_REFERENCE), WAKE_SCHEDULES);
	assert_int_equal(tokio_wake_effect(TOKIO_RUNNING), WAKE_RUNNING);
	assert_int_equal(tokio_wake_effect(TOKIO_RUNNING | NOTIFIED), WAKE_NOOP);
	assert_int_equal(tokio_wake_effect(DONE), WAKE_NOOP);
}

/* ---- Tokio: what the output says ---- */

enum { ID = ENDS_ID, PAYLOAD = ENDS_PAYLOAD, VTABLE = ENDS_VTABLE, MANY = 40 };

static uint64_t output[MANY];
static unsigned n_outside;

static uint64_t word_of(uint64_t addr)
{
	uint64_t i = (addr - (uint64_t)output) / 8;

	n_outside += i >= MANY;
	return i < MANY ? output[i] : 0;
}

static enum poll_end said(uint32_t n, bool raised, bool cancelled)
{
	const struct tokio_error e = {
		.id = ID, .raised = raised, .payload = {{0, PAYLOAD}}, .cancelled = cancelled};

	return tokio_output(word_of, (uint64_t)output, n, MANY, &e);
}

static void put(uint64_t from, uint64_t a, uint64_t b, uint64_t c)
{
	for (unsigned i = 0; i < MANY; i++)
		output[i] = 0x1111;
	output[from] = a;
	output[from + 1] = b;
	output[from + 2] = c;
}

static void test_tokio_output(void **state)
{
	(void)state;
	for (unsigned from = 0; from + 3 <= MANY; from++) {
		/* repr, id or id, repr */
		put(from, PAYLOAD, VTABLE, ID);
		assert_int_equal(said(MANY, true, true), END_PANICKED);
		assert_int_equal(said(from + 3, true, false), END_PANICKED);
		assert_int_equal(said(from + 2, true, false), END_UNKNOWN);
		assert_int_equal(said(MANY, false, true), END_UNKNOWN);
		put(from, ID, PAYLOAD, VTABLE);
		assert_int_equal(said(from + 3, true, false), END_PANICKED);
		assert_int_equal(said(from + 2, true, false), END_UNKNOWN);
		/* "cancelled" is looked for at the begin alone */
		put(from, 0, VTABLE, ID);
		assert_int_equal(said(MANY, true, true),
				 from + 3 <= TOKIO_ERROR_WORDS ? END_CANCELLED : END_UNKNOWN);
		assert_int_equal(said(MANY, true, false), END_UNKNOWN);
		put(from, ID, 0, VTABLE);
		assert_int_equal(said(MANY, false, true),
				 from + 3 <= TOKIO_ERROR_WORDS ? END_CANCELLED : END_UNKNOWN);
		/* another task's */
		put(from, ID + 1, PAYLOAD, VTABLE);
		assert_int_equal(said(MANY, true, true), END_UNKNOWN);
	}
	put(0, ID, PAYLOAD, ID);
	for (uint32_t n = 0; n <= MANY; n++)
		said(n, true, true);
	assert_int_equal(n_outside, 0);
	assert_int_equal(tokio_output_words(40, 40 + 8 * 5), 4);
	assert_int_equal(tokio_output_words(40, 48), 0);
	assert_int_equal(tokio_output_words(40, 40), 0);
	assert_int_equal(tokio_output_words(48, 40), 0);
}

/* The same rows as the agent's and the kernel source's. */
static void test_tokio_ends(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_TOKIO_ENDS; i++) {
		const struct tokio_end_row *row = &tokio_ends[i];
		struct tokio_poll poll = {
			.after = row->after, .queried = row->after, .raised = row->raised};

		tokio_end_words(row, output);
		poll.output = said(ENDS_WORDS, row->raised, tokio_was_cancelled(&poll));
		if (tokio_end(&poll) != row->end)
			fail_msg("%s: %d, not %d", row->says, tokio_end(&poll), row->end);
	}
}

/* ---- async-task ---- */

static void test_async_end(void **state)
{
	(void)state;
	assert_int_equal(async_end(ASYNC_COMPLETED, false), END_READY);
	assert_int_equal(async_end(ASYNC_COMPLETED | ASYNC_CLOSED, false), END_READY);
	assert_int_equal(async_end(ASYNC_COMPLETED, true), END_PANICKED);
	assert_int_equal(async_end(ASYNC_CLOSED, true), END_CANCELLED);
	assert_int_equal(async_end(ASYNC_CLOSED | ASYNC_SCHEDULED, false), END_PENDING);
	assert_int_equal(async_end(ASYNC_SCHEDULED, false), END_PENDING);
	assert_int_equal(async_end(ASYNC_TASK | ASYNC_REFERENCE, true), END_PENDING);
}

static void test_async_state(void **state)
{
	(void)state;
	assert_true(async_is_state(ASYNC_FIRST_STATE));
	/* glibc's word before an allocation of 200 bytes */
	assert_false(async_is_state(0xd1));
	assert_false(async_is_state(ASYNC_SCHEDULED | ASYNC_TASK));
	assert_false(async_is_state(ASYNC_RUNNING | ASYNC_TASK));
	assert_false(async_is_state(ASYNC_FIRST_STATE | ASYNC_COMPLETED));
	assert_true(async_is_state(ASYNC_COMPLETED | ASYNC_TASK));
	assert_true(async_is_state(ASYNC_COMPLETED | ASYNC_REFERENCE));
	assert_false(async_is_state(ASYNC_COMPLETED));
	assert_false(async_is_state((uint64_t)MAX_REFERENCES * ASYNC_REFERENCE | ASYNC_TASK));
	assert_true(async_is_alone(ASYNC_RUNNING | ASYNC_REFERENCE));
	assert_false(async_is_alone(ASYNC_TASK | ASYNC_REFERENCE));
	assert_false(async_is_alone(2 * ASYNC_REFERENCE));
	assert_false(async_is_alone(0));
	assert_int_equal(async_wake_effect(ASYNC_TASK), WAKE_SCHEDULES);
	assert_int_equal(async_wake_effect(ASYNC_RUNNING), WAKE_RUNNING);
	assert_int_equal(async_wake_effect(ASYNC_RUNNING | ASYNC_SCHEDULED), WAKE_NOOP);
	assert_int_equal(async_wake_effect(ASYNC_CLOSED), WAKE_NOOP);
	assert_int_equal(async_wake_effect(ASYNC_COMPLETED), WAKE_NOOP);
}

static void test_async_state_offset(void **state)
{
	const uint64_t vtable = 0x7f1234567800, running = ASYNC_FIRST_STATE | ASYNC_RUNNING;

	(void)state;
	for (unsigned i = 0; i < ASYNC_HEADER_WORDS; i++) {
		uint64_t words[ASYNC_HEADER_WORDS] = {vtable, 0, vtable, 0};

		words[i] = ASYNC_FIRST_STATE;
		assert_int_equal(async_state_offset(words), i * 8);
		words[i] = running;
		assert_int_equal(async_state_offset(words), OFFSET_UNKNOWN);
		words[i] = ASYNC_SCHEDULED | ASYNC_TASK; /* no reference */
		assert_int_equal(async_state_offset(words), OFFSET_UNKNOWN);
	}
	/* an awaiter's word that looks like one as well */
	assert_int_equal(async_state_offset((const uint64_t[]){ASYNC_FIRST_STATE, 0, 0x101, 0}),
			 OFFSET_UNKNOWN);
}

/* ---- panics ---- */

static void test_payload(void **state)
{
	const struct panic_payload none = {{0, 0}}, one = {{0, PAYLOAD}};

	(void)state;
	assert_false(panic_is_payload(&none, 0));
	assert_false(panic_is_payload(&none, PAYLOAD));
	assert_true(panic_is_payload(&one, PAYLOAD));
	assert_false(panic_is_payload(&one, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tokio_end),	   cmocka_unit_test(test_tokio_state),
		cmocka_unit_test(test_tokio_output),	   cmocka_unit_test(test_tokio_ends),
		cmocka_unit_test(test_async_end),	   cmocka_unit_test(test_async_state),
		cmocka_unit_test(test_async_state_offset), cmocka_unit_test(test_payload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
