/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The agent: polls, wakes, ends and await points of made-up tasks of tokio's shape. */
#include "agent_tasks.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* ---- tokio's polls ---- */

static void to_ready(struct tokio_task *t)
{
	run_then(t, COMPLETE, 0, -1);
}

static void to_ready_unowned(struct tokio_task *t)
{
	/* Nobody else knows the task: handle dropped, released by its owner. */
	assert_int_equal(t->state / REF, 4);
	run_then(t, COMPLETE, JOIN, -3);
}

static void aborted_pending(struct tokio_task *t)
{
	t->state |= CANCELLED;
	store_join_error(t, false, false);
}

static void aborted_pending_id_first(struct tokio_task *t)
{
	t->state |= CANCELLED;
	store_join_error(t, false, true);
}

static void aborted_ready(struct tokio_task *t)
{
	to_ready(t);
	t->state |= CANCELLED | NOTIFIED;
}

/* Between our look and tokio's: to run it clears NOTIFIED, and finds it cancelled. */
static void aborted_unpolled(struct tokio_task *t)
{
	t->state = (t->state & ~(uint64_t)NOTIFIED) | CANCELLED;
	store_join_error(t, false, false);
}

static void panics_id_first(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	store_join_error(t, true, true);
}

/* The output is another JoinError: the one of a task that was awaited. */
static void catches_a_panic_awaits_another(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	t->stage[0] = t->id;
	t->stage[1] = 0x6000;
	t->stage[2] = (uint64_t)vtable;
	to_ready(t);
}

/* The one who waits for the task takes the output before we come to it. */
static void panics_output_taken(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	store_join_error(t, true, false);
	call(root_wake_hook, t);
	memset(t->stage, 0xa5, sizeof(t->stage));
}

/* The same without being woken: it asked for the output just then. */
static uint64_t handed[4];

static void read_output(struct tokio_task *t)
{
	void (*read)(void *, uint64_t *, uint64_t) =
		(void (*)(void *, uint64_t *, uint64_t))area_stub(&area, read_hook);

	memset(handed, 0, sizeof(handed));
	read(t, handed, 12);
}

static void aborted_output_read(struct tokio_task *t)
{
	t->state |= CANCELLED;
	store_join_error(t, false, false);
	read_output(t);
}

static void panics_output_read(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	store_join_error(t, true, true);
	read_output(t);
}

/* It asks, and waits; the task had come to its natural end. */
static void aborted_asked_ready(struct tokio_task *t)
{
	t->state |= CANCELLED;
	read_output(t);
	to_ready(t);
	t->state |= 16 | NOTIFIED; /* a waker is set */
}

static void pending_output_asked_for(struct tokio_task *t)
{
	read_output(t);
	aborted_pending(t);
}

/* It asks, and in that moment the task is complete: what is handed out is all that there is. */
static void hand_out_panic(struct tokio_task *t, uint64_t *dst)
{
	t->state = (t->state | COMPLETE) - REF;
	dst[1] = t->id;
	dst[2] = PAYLOAD;
	dst[3] = (uint64_t)vtable;
}

static void hand_out_value(struct tokio_task *t, uint64_t *dst)
{
	t->state = (t->state | COMPLETE) - REF;
	dst[1] = 5;
}

static void read_while_it_ends(struct tokio_task *t, void (*how)(struct tokio_task *, uint64_t *))
{
	call(panic_hook, rust_exception);
	on_read = how;
	read_output(t);
	on_read = NULL;
}

static void panics_while_asked(struct tokio_task *t)
{
	read_while_it_ends(t, hand_out_panic);
}

static void catches_while_asked(struct tokio_task *t)
{
	read_while_it_ends(t, hand_out_value);
}

/* The same, and a waker is set since it asked before. */
static void panics_while_asked_again(struct tokio_task *t)
{
	t->state |= 16;
	panics_while_asked(t);
}

/* It asks, and waits; then a panic is caught, and Tokio has taken the waker back. */
static void catches_after_asked(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	read_output(t);
	t->stage[0] = 5;
	to_ready(t);
}

/* Another thread asks, and tokio has handed the output out to it, but it is still in tokio. */
static sem_t is_taken, may_go_on;
static void (*handing)(struct tokio_task *, uint64_t *);

static void hand_out_slowly(struct tokio_task *t, uint64_t *dst)
{
	handing(t, dst);
	memset(t->stage, 0xa5, sizeof(t->stage));
	sem_post(&is_taken);
	sem_wait(&may_go_on);
}

static void *read_slowly(void *t)
{
	read_output(t);
	return NULL;
}

static pthread_t read_elsewhere(struct tokio_task *t, void (*how)(struct tokio_task *, uint64_t *))
{
	pthread_t reads;

	sem_init(&is_taken, 0, 0);
	sem_init(&may_go_on, 0, 0);
	call(panic_hook, rust_exception);
	handing = how;
	on_read = hand_out_slowly;
	assert_int_equal(pthread_create(&reads, NULL, read_slowly, t), 0);
	sem_wait(&is_taken);
	return reads;
}

static void read_on(pthread_t reads)
{
	sem_post(&may_go_on);
	pthread_join(reads, NULL);
	on_read = NULL;
}

static pthread_t reading;

static void panics_being_read(struct tokio_task *t)
{
	reading = read_elsewhere(t, hand_out_panic);
}

static void catches_being_read(struct tokio_task *t)
{
	reading = read_elsewhere(t, hand_out_value);
}

/* Its end wakes somebody meanwhile, and the reader has read it before the end of the poll. */
static void panics_and_wakes_being_read(struct tokio_task *t)
{
	pthread_t reads = read_elsewhere(t, hand_out_panic);

	call(root_wake_hook, t);
	read_on(reads);
}

/* Complete, with its output stored; then its runtime is shut down. */
static void ready_then_shut_down(struct tokio_task *t)
{
	t->state |= COMPLETE;
	t->stage[0] = t->id;
	t->stage[1] = 0;
	call(shutdown_hook, t);
}

static void catches_a_panic(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	to_ready(t);
}

static void panics_detached(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	run_then(t, COMPLETE, JOIN, -1);
}

static void aborted_detached(struct tokio_task *t)
{
	run_then(t, COMPLETE | CANCELLED | NOTIFIED, JOIN, -1);
}

static void catches_and_pends(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	to_pending(t);
}

static void test_poll_outcomes(void **state)
{
	static const struct {
		void (*how)(struct tokio_task *);
		int type;
	} cases[] = {
		{to_pending, AE_POLL_PENDING},
		{to_ready, AE_POLL_READY},
		{aborted_pending, AE_POLL_CANCELLED},
		{aborted_pending_id_first, AE_POLL_CANCELLED},
		{aborted_ready, AE_POLL_READY},
		{aborted_unpolled, AE_POLL_ABORTED},
		{panics, AE_POLL_PANICKED},
		{panics_id_first, AE_POLL_PANICKED},
		{catches_a_panic, AE_POLL_READY},
		{catches_a_panic_awaits_another, AE_POLL_READY},
		{ready_then_shut_down, AE_POLL_READY},
		{panics_detached, AE_POLL_PANICKED}, /* the output is gone: taken for granted */
		{aborted_detached, AE_POLL_CANCELLED},
		{catches_and_pends, AE_POLL_PENDING},
		{to_pending, AE_POLL_PENDING}, /* nothing sticks */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		poll_as(cases[i].how);
		if (!i)
			expect_thread();
		expect(AE_POLL_BEGIN, tokio_ref());
		expect(cases[i].type, tokio_ref());
		expect_nothing();
		assert_int_equal(task.state / REF, 2);
		assert_int_equal(n_deallocs, 0);
	}
	assert_int_equal(area.state->registered, 2);
}

/* ---- where a panic starts ---- */

/* drop, size, alignment */
static const uint64_t str_vtable[] = {0, 16, 8}, string_vtable[] = {0, 24, 8},
		      byte_vtable[] = {0, 1, 1};
static uint64_t payload[3], raised[7];

static void raises(struct tokio_task *t)
{
	call(panic_hook, raised);
	to_pending(t);
}

static void poll_that_raises(const uint64_t *of, uint64_t first, uint64_t second, uint64_t third)
{
	memcpy(payload, (uint64_t[]){first, second, third}, sizeof(payload));
	memcpy(raised, rust_exception, sizeof(raised));
	raised[5] = (uint64_t)payload;
	raised[6] = (uint64_t)of;
	((struct agent_private *)area.state)->no_raise_until = 0;
	poll_as(raises);
}

/* Of what the poll wrote, up to its end: how many words of a stack, the text, whether it raised. */
static unsigned read_raise(char text[AGENT_TEXT_BYTES + 1], unsigned *ret_n_raised)
{
	struct ring *r = area_my_ring(&area);
	struct agent_event e;
	unsigned n = 0;

	memset(text, 0, AGENT_TEXT_BYTES + 1);
	*ret_n_raised = 0;
	while (area_next(&area, r, &e) && (e.word0 & 255) != AE_POLL_PENDING) {
		n += (e.word0 & 255) == AE_STACK;
		*ret_n_raised += (e.word0 & 255) == AE_RAISE;
		if ((e.word0 & 255) == AE_TEXT) {
			uint64_t which = e.word1 >> 48;

			assert_true(which * AGENT_TEXT_WORD_BYTES < AGENT_TEXT_BYTES);
			memcpy(text + which * AGENT_TEXT_WORD_BYTES, &e.word1,
			       AGENT_TEXT_WORD_BYTES);
		}
	}
	return n;
}

static void test_panic_text(void **state)
{
	const size_t page = 4096;
	char *last =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const char *says = "attempt to divide by zero";
	char text[AGENT_TEXT_BYTES + 1], longer[600];
	uint64_t at = (uint64_t)says, n = strlen(says);
	unsigned n_raised;

	(void)state;
	mprotect(last + page, page, PROT_NONE);
	memset(longer, 'x', sizeof(longer));
	memcpy(last + page - 4, "full", 4);
	const struct {
		const uint64_t *vtable;
		uint64_t words[3];
		const char *text;
		size_t length;
	} rows[] = {
		{str_vtable, {at, n}, says, n},
		{string_vtable, {32, at, n}, says, n},
		{string_vtable, {at, 32, n}, says, n},
		{str_vtable, {(uint64_t)longer, sizeof(longer)}, longer, AGENT_TEXT_BYTES},
		{str_vtable, {(uint64_t)last + page - 4, 4}, "full", 4},
		/* It goes on where nothing can be read; there is nothing; no text; no payload of that size. */
		{str_vtable, {(uint64_t)last + page - 4, 5}, "", 0},
		{str_vtable, {(uint64_t)last + page, 4}, "", 0},
		{str_vtable, {8, 4}, "", 0},
		{str_vtable, {at, 0}, "", 0},
		{str_vtable, {at, 1ull << 40}, "", 0},
		/* Of a list the number of its numbers, not of bytes. */
		{string_vtable, {3, (uint64_t)(const uint32_t[]){65, 66, 67}, 3}, "", 0},
		{byte_vtable, {at, n}, "", 0},
		{(const uint64_t *)0x4000, {at, n}, "", 0},
	};
	area.state->stacks = AGENT_STACKS_PANICS;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		poll_that_raises(rows[i].vtable, rows[i].words[0], rows[i].words[1],
				 rows[i].words[2]);
		assert_true(read_raise(text, &n_raised) > 3);
		assert_int_equal(n_raised, 1);
		assert_int_equal(strlen(text), rows[i].length);
		assert_memory_equal(text, rows[i].text, rows[i].length);
	}
	/* Right after one there is none, unless this thread has no CPU in between; nor where they aren't
	 * wanted. */
	unsigned n_words = 1;
	for (unsigned i = 0; i < 1000 && n_words; i++) {
		poll_that_raises(str_vtable, at, n, 0);
		assert_true(read_raise(text, &n_raised) > 3);
		poll_as(raises);
		n_words = read_raise(text, &n_raised);
	}
	assert_int_equal(n_words, 0);
	area.state->stacks = AGENT_STACKS_CALLS;
	poll_that_raises(str_vtable, at, n, 0);
	assert_int_equal(read_raise(text, &n_raised), 0);
	assert_int_equal(n_raised, 0);
	munmap(last, 2 * page);
}

static char *flickering;
static atomic_bool flickers;

static void *flicker(void *page)
{
	while (atomic_load(&flickers)) {
		mprotect(page, 4096, PROT_NONE);
		mprotect(page, 4096, PROT_READ);
	}
	return NULL;
}

/* What looks like a text may go away while it is read. */
static void test_panic_text_goes_away(void **state)
{
	char text[AGENT_TEXT_BYTES + 1];
	unsigned n_raised;
	pthread_t other;

	(void)state;
	flickering = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(flickering, 'x', 4096);
	area.state->stacks = AGENT_STACKS_PANICS;
	atomic_store(&flickers, true);
	assert_int_equal(pthread_create(&other, NULL, flicker, flickering), 0);
	for (unsigned i = 0; i < 20000; i++) {
		poll_that_raises(str_vtable, (uint64_t)flickering, AGENT_TEXT_BYTES, 0);
		read_raise(text, &n_raised);
		assert_int_equal(n_raised, 1);
		assert_true(!text[0] || strlen(text) == AGENT_TEXT_BYTES);
	}
	atomic_store(&flickers, false);
	pthread_join(other, NULL);
	/* Nor is there one where no call may be made. */
	mprotect(flickering, 4096, PROT_READ);
	area.state->may_call &= ~(uint32_t)AGENT_MAY_COPY;
	poll_that_raises(str_vtable, (uint64_t)flickering, 4, 0);
	assert_true(read_raise(text, &n_raised) > 3);
	assert_int_equal(strlen(text), 0);
	munmap(flickering, 4096);
}

static int setup_raise(void **state)
{
	(void)state;
	return setup_rings(1 << 18);
}

static const struct tokio_end_row *row;

static void as_row(struct tokio_task *t)
{
	if (row->raised)
		call(panic_hook, rust_exception);
	tokio_end_words(row, t->stage);
	t->state = 3 * REF | row->after;
}

/* The same rows as the kernel source's. */
static void test_tokio_ends(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_TOKIO_ENDS; i++) {
		row = &tokio_ends[i];
		poll_as(as_row);
		if (!i)
			expect_thread();
		expect(AE_POLL_BEGIN, tokio_ref());
		expect((int)agent_end_event(row->end), tokio_ref());
		expect_nothing();
	}
}

static void test_output_taken(void **state)
{
	(void)state;
	poll_as(panics_output_taken);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_ROOT_WAKE, 9ull << 48 | ((uint64_t)&task & 0xffffffffffff));
	expect(AE_POLL_PANICKED, tokio_ref());
	expect_nothing();
}

/* The poll that comes to this knows it. */
static void expect_poll(void (*how)(struct tokio_task *), int type)
{
	poll_as(how);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(type, tokio_ref());
	expect_nothing();
}

static void test_output_read(void **state)
{
	(void)state;
	poll_as(aborted_output_read);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_CANCELLED, tokio_ref());
	expect_nothing();
	assert_int_equal(read_args[0], (uint64_t)handed);
	assert_int_equal(read_args[1], 12);
	expect_poll(panics_output_read, AE_POLL_PANICKED);
}

static void test_output_asked_for_early(void **state)
{
	(void)state;
	poll_as(pending_output_asked_for);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_CANCELLED, tokio_ref());
	expect_poll(aborted_asked_ready, AE_POLL_READY);
	expect_poll(panics_while_asked, AE_POLL_PANICKED);
	expect_poll(catches_while_asked, AE_POLL_READY);
	expect_poll(panics_while_asked_again, AE_POLL_PANICKED);
	expect_poll(catches_after_asked, AE_POLL_READY);
}

/* While another thread takes the output, and can't be waited for, nothing shows what it was. */
static void test_output_being_read(void **state)
{
	(void)state;
	poll_as(catches_being_read);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_UNKNOWN, tokio_ref());
	read_on(reading);
	expect_poll(panics_being_read, AE_POLL_UNKNOWN);
	read_on(reading);
	poll_as(panics_and_wakes_being_read);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_ROOT_WAKE, 9ull << 48 | ((uint64_t)&task & 0xffffffffffff));
	expect(AE_POLL_PANICKED, tokio_ref());
	expect_nothing();
}

/* ---- await points ---- */

static uint64_t program_words[64];

static void make_program(void)
{
	struct agent_step *root = (struct agent_step *)program_words;
	struct agent_node *outer = (struct agent_node *)&program_words[1];
	struct agent_node *inner = (struct agent_node *)&program_words[8];
	struct agent_node *tag = (struct agent_node *)&program_words[16];

	memset(program_words, 0, sizeof(program_words));
	*root = (struct agent_step){.next = 1, .delta = offsetof(struct tokio_task, stage) + OUTER};
	*outer = (struct agent_node){.n = 4, .size = 1};
	outer->steps[3] = (struct agent_step){.point = 11, .next = 8, .delta = INNER - OUTER};
	*inner = (struct agent_node){.base = 1, .n = 4, .size = 2};
	inner->steps[2] = (struct agent_step){.point = 12};
	inner->steps[3] = (struct agent_step){.next = 16, .delta = TAG - INNER};
	*tag = (struct agent_node){.base = 1ull << 63, .n = 1, .size = 8};
	tag->steps[0] = (struct agent_step){.point = 13};
	tag->steps[1] = (struct agent_step){.point = 65535};
	poll_hook->program = (uint64_t)program_words;
}

static struct {
	uint8_t outer;
	uint16_t inner;
	uint64_t tag;
} stand;

static void stands_pending(struct tokio_task *t)
{
	char *future = (char *)t->stage;

	memcpy(future + OUTER, &stand.outer, sizeof(stand.outer));
	memcpy(future + INNER, &stand.inner, sizeof(stand.inner));
	memcpy(future + TAG, &stand.tag, sizeof(stand.tag));
	to_pending(t);
}

static void stands_running_elsewhere(struct tokio_task *t)
{
	stands_pending(t);
	t->state |= RUNNING;
}

static void test_await_points(void **state)
{
	static const struct {
		uint8_t outer;
		uint16_t inner;
		uint64_t tag, point;
	} cases[] = {
		{3, 3, 0, 12},		/* the innermost */
		{3, 1, 0, 11},		/* the inner one was not polled yet */
		{3, 0, 0, 11},		/* below the base */
		{3, 0x1234, 0, 11},	/* no such state: of another size it would be one */
		{3, 4, 1ull << 63, 13}, /* through the enum */
		{3, 4, (1ull << 63) + 1, 65535}, /* all its other values */
		{0, 3, 0, 0},			 /* not polled: no point */
		{200, 3, 0, 0},
	};

	(void)state;
	make_program();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		stand.outer = cases[i].outer;
		stand.inner = cases[i].inner;
		stand.tag = cases[i].tag;
		poll_as(stands_pending);
		if (!i)
			expect_thread();
		expect(AE_POLL_BEGIN, tokio_ref());
		if (cases[i].point)
			expect(AE_POLL_PENDING_AT, cases[i].point << 48 | task.id);
		else
			expect(AE_POLL_PENDING, tokio_ref());
		assert_int_equal(task.state / REF, 2);
	}
	/* Somebody polls it already: what we read may be half of this, half of that. */
	stand.outer = stand.inner = 3;
	poll_as(stands_running_elsewhere);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	/* It is over: no ring has it. */
	poll_as(to_ready);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_READY, tokio_ref());
	/* A program that leads out of the task, to where nothing is, ends there. */
	((struct agent_node *)&program_words[8])->steps[2] =
		(struct agent_step){.point = 12, .next = 16, .delta = -(1 << 30)};
	for (area.state->may_call = AGENT_MAY_ASK + 1; area.state->may_call--;) {
		poll_as(stands_pending);
		expect(AE_POLL_BEGIN, tokio_ref());
		expect(AE_POLL_PENDING_AT, 12ull << 48 | task.id);
	}
	area.state->may_call = AGENT_MAY_ASK;
	/* A program that leads in a circle ends, too. */
	((struct agent_node *)&program_words[1])->steps[3] =
		(struct agent_step){.point = 14, .next = 1, .delta = 0};
	poll_as(stands_pending);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING_AT, 14ull << 48 | task.id);
	expect_nothing();
}

/* ---- pointers in a task ---- */

enum { STATE = 0, POINTER = 8, TARGET = 16, RESOURCE = 24, BEYOND = 32 };

static struct {
	uint8_t outer, inner;
	uint64_t pointer, resource, beyond;
} led;

static void leads(struct tokio_task *t)
{
	char *future = (char *)t->stage;

	memset(future, 0, sizeof(t->stage));
	future[STATE] = (char)led.outer;
	future[TARGET] = (char)led.inner;
	memcpy(future + POINTER, &led.pointer, 8);
	memcpy(future + RESOURCE, &led.resource, 8);
	memcpy(future + BEYOND, &led.beyond, 8);
	to_pending(t);
}

/* A coroutine awaits another one by a pointer, and that what has an address in it. */
static void make_pointers(void)
{
	struct agent_step *root = (struct agent_step *)program_words;
	struct agent_node *outer = (struct agent_node *)&program_words[1];
	struct agent_node *pointer = (struct agent_node *)&program_words[8];
	struct agent_node *inner = (struct agent_node *)&program_words[12];
	struct agent_node *resource = (struct agent_node *)&program_words[20];

	memset(program_words, 0, sizeof(program_words));
	*root = (struct agent_step){.next = 1, .delta = offsetof(struct tokio_task, stage) + STATE};
	*outer = (struct agent_node){.n = 4, .size = 1};
	outer->steps[3] = (struct agent_step){.point = 21, .next = 8, .delta = POINTER - STATE};
	*pointer = (struct agent_node){.zero_bits = 7, .kind = NODE_POINTER};
	pointer->steps[0] = (struct agent_step){.next = 12};
	*inner = (struct agent_node){.n = 4, .size = 1};
	inner->steps[3] = (struct agent_step){.point = 22, .next = 20, .delta = RESOURCE - TARGET};
	*resource = (struct agent_node){.n = 1, .kind = NODE_RESOURCE, .size = 8, .resource = 2};
	poll_hook->program = (uint64_t)program_words;
}

static void test_pointers(void **state)
{
	uint64_t stage = (uint64_t)task.stage;
	uint8_t *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static uint64_t elsewhere[1024] __attribute__((aligned(4096)));
	const uint64_t nowhere = (uint64_t)gone + 64, garbage = 0xffff800000000008ull;
	const struct {
		uint64_t pointer, resource, beyond, point, wanted;
	} cases[] = {
		{stage + TARGET, stage + BEYOND, 0x7f0012345678, 22, 0x7f0012345678},
		/* The address is where nothing can be read, or in another's memory: it is the one. */
		{stage + TARGET, nowhere, 0, 22, nowhere},
		{stage + TARGET, (uint64_t)&elsewhere[16], 0, 22, (uint64_t)&elsewhere[16]},
		{stage + TARGET, stage + BEYOND, garbage, 22, 0},
		{stage + TARGET, 0, 0, 22, 0},
		/* What is not in the task is not read. */
		{nowhere, stage + BEYOND, 1, 21, 0},
		{(uint64_t)&elsewhere[16], stage + BEYOND, 1, 21, 0},
		{stage + TARGET + 1, stage + BEYOND, 1, 21, 0},
		{garbage, garbage, garbage, 21, 0},
		{0, 0, 0, 21, 0},
	};

	(void)state;
	assert_ptr_not_equal(gone, MAP_FAILED);
	memset(elsewhere, 3, sizeof(elsewhere));
	make_pointers();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		led.outer = led.inner = 3;
		led.pointer = cases[i].pointer;
		led.resource = cases[i].resource;
		led.beyond = cases[i].beyond;
		poll_as(leads);
		if (!i)
			expect_thread();
		expect(AE_POLL_BEGIN, tokio_ref());
		if (cases[i].wanted)
			expect(AE_RESOURCE,
			       (uint64_t)AGENT_LINK_OWN << 56 | 2ull << 48 | cases[i].wanted);
		expect(AE_POLL_PENDING_AT, cases[i].point << 48 | task.id);
	}
	/* From what was pointed to on nothing outside of the task is read, also where it could be. */
	((struct agent_node *)&program_words[8])->steps[0].delta =
		(int32_t)((int64_t)(uint64_t)&elsewhere[16] - (int64_t)(stage + TARGET));
	led.pointer = stage + TARGET;
	poll_as(leads);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING_AT, 21ull << 48 | task.id);
	/* Nor is a second pointer, which leads into the task again. */
	((struct agent_node *)&program_words[8])->steps[0].next = 26;
	*(struct agent_node *)&program_words[26] =
		(struct agent_node){.zero_bits = 7, .kind = NODE_POINTER};
	((struct agent_node *)&program_words[26])->steps[0].next = 12;
	elsewhere[16] = stage + TARGET;
	poll_as(leads);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING_AT, 21ull << 48 | task.id);
	expect_nothing();
	munmap(gone, 4096);
}

/* Whatever the memory holds and the program says, only what is there is read. */
static void test_hostile_pointers(void **state)
{
	uint64_t stage = (uint64_t)task.stage, numbers = 88172645463325252ull, polls = 0;
	uint8_t *gone = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t places[] = {
		0,	   stage,	   stage + TARGET,	  stage + sizeof(task.stage) - 8,
		stage - 8, (uint64_t)gone, (uint64_t)gone + 4092, ~0ull};
	struct agent_event e;

	(void)state;
	assert_ptr_not_equal(gone, MAP_FAILED);
	for (unsigned i = 0; i < 200000; i++) {
		make_pointers();
		for (unsigned k = 0; k < 5; k++) {
			numbers ^= numbers << 13, numbers ^= numbers >> 7, numbers ^= numbers << 17;
			uint64_t where = places[numbers >> 8 & 7] + (numbers >> 16 & 15);

			led.pointer = k == 0 ? where : led.pointer;
			led.resource = k == 1 ? where : led.resource;
			led.beyond = k == 2 ? where : led.beyond;
			if (k == 3)
				((struct agent_node *)&program_words[20])->target_offset = where;
			if (k == 4 && numbers >> 32 & 1)
				((struct agent_node *)&program_words[8])->steps[0].delta =
					(int32_t)(numbers >> 20);
		}
		led.outer = (uint8_t)(numbers >> 40 & 3) | 1;
		led.inner = (uint8_t)(numbers >> 42 & 3) | 1;
		poll_as(leads);
		while (area_next(&area, area_my_ring(&area), &e))
			polls += (e.word0 & 0xff) == AE_POLL_PENDING ||
				 (e.word0 & 0xff) == AE_POLL_PENDING_AT;
	}
	assert_int_equal(polls, 200000);
	munmap(gone, 8192);
}

static void test_last_reference_is_ours(void **state)
{
	(void)state;
	poll_as(to_ready_unowned);
	assert_int_equal(n_deallocs, 1);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_READY, 5ull << 48 | 77);
	expect(AE_DROP, 5ull << 48 | 77);
	expect_nothing();
}

static void not_polled(struct tokio_task *t)
{
	t->state -= REF;
}

static void cancelled_before(struct tokio_task *t)
{
	store_join_error(t, false, false);
}

static void test_poll_that_is_none(void **state)
{
	(void)state;
	/* Shut down while it was in a queue: only a reference is dropped. */
	poll_as(to_pending);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	task.state = REF * 2 | COMPLETE | NOTIFIED;
	scenario = not_polled;
	call(poll_hook, &task);
	expect_nothing();
	assert_int_equal(task.state / REF, 1);
	call(poll_hook, &task);
	expect(AE_DROP, tokio_ref());
	assert_int_equal(n_deallocs, 1);

	/* Aborted while it waited: the future is dropped, not polled. */
	task = (struct tokio_task){
		.state = REF * 3 | NOTIFIED | CANCELLED, .vtable = vtable, .id = 78};
	scenario = cancelled_before;
	call(poll_hook, &task);
	expect(AE_CANCEL, tokio_ref());
	expect_nothing();
}

static void switch_off(struct tokio_task *t)
{
	area.live->enabled = 0;
	to_ready_unowned(t);
}

static void test_switched_off_inside_a_poll(void **state)
{
	(void)state;
	poll_as(switch_off);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect_nothing();
	assert_int_equal(n_deallocs, 1); /* the reference was given back all the same */

	/* Off: nothing is recorded, held or changed. */
	n_deallocs = 0;
	task.state = REF * 3 | NOTIFIED | JOIN;
	scenario = to_pending;
	call(poll_hook, &task);
	call(schedule_hook, &task);
	call(wake_hook, &task);
	expect_nothing();
	assert_int_equal(task.state / REF, 2);
}

static void test_shutdown(void **state)
{
	(void)state;
	task.state = REF * 3;
	call(shutdown_hook, &task);
	expect_thread();
	expect(AE_CANCEL, tokio_ref());
	assert_int_equal(task.state / REF, 2);
	/* Complete already, or running elsewhere: not ended by this. */
	call(shutdown_hook, &task);
	task.state = REF * 3 | RUNNING;
	call(shutdown_hook, &task);
	expect_nothing();
	/* The last reference. */
	task.state = REF;
	call(shutdown_hook, &task);
	expect(AE_CANCEL, 5ull << 48 | 77);
	expect(AE_DROP, 5ull << 48 | 77);
	assert_int_equal(n_deallocs, 1);
	expect_nothing();
}

static void test_wakes_and_schedule(void **state)
{
	(void)state;
	task.state = REF * 3;
	call(wake_hook, &task);
	call(schedule_hook, &task); /* the wake's consequence */
	expect_thread();
	expect(AE_WAKE, tokio_ref());
	expect_nothing();
	call(schedule_hook, &task); /* something else's */
	expect(AE_SCHEDULE, tokio_ref());
	call(wake_hook, &task);
	task.id = 78;
	call(schedule_hook, &task); /* another task's */
	task.id = 77;
	expect(AE_WAKE, tokio_ref());
	expect(AE_SCHEDULE, 5ull << 48 | 78);

	task.state = REF * 3 | RUNNING;
	call(wake_hook, &task);
	expect(AE_WAKE_RUNNING, tokio_ref());
	task.state = REF * 3 | RUNNING | NOTIFIED;
	call(wake_hook, &task);
	expect(AE_WAKE_NOOP, tokio_ref());
	task.state = REF * 3 | NOTIFIED;
	call(wake_hook, &task);
	expect(AE_WAKE_NOOP, tokio_ref());
	task.state = REF * 3 | COMPLETE;
	call(wake_hook, &task);
	expect(AE_WAKE_NOOP, tokio_ref());

	/* A kind that isn't hooked. */
	task.state = REF * 3;
	vtable[0] = tokio_poll_orig;
	call(wake_hook, &task);
	expect(AE_WAKE, (uint64_t)AGENT_KIND_NONE << 48 | ((uint64_t)&task & 0xffffffffffff));

	int n = n_originals;
	call(dealloc_hook, &task);
	expect(AE_DROP, tokio_ref());
	assert_int_equal(n_deallocs, 1);
	assert_int_equal(n, 10);

	struct agent_hook *root = area_hook(&area, AH_ROOT_WAKE, 9, count_orig);
	call(root, &task);
	expect(AE_ROOT_WAKE, 9ull << 48 | ((uint64_t)&task & 0xffffffffffff));
	assert_int_equal(n_originals, n + 1);
}

static struct agent_hook *inner_hook;
static struct tokio_task inner;

static void polls_another(struct tokio_task *t)
{
	if (t != &inner) {
		call(inner_hook, &inner);
		inner.state = REF * 3 | NOTIFIED;
	}
	to_pending(t);
}

static void recurses(struct tokio_task *t)
{
	if (n_originals < 40)
		call(poll_hook, t);
}

static void test_nested_polls(void **state)
{
	(void)state;
	inner_hook = tokio_hook(AH_TOKIO_POLL, tokio_poll_orig);
	inner_hook->kind = 6;
	inner_hook->flags |= AGENT_HOOK_TASK;
	inner = (struct tokio_task){.state = REF * 3 | NOTIFIED, .vtable = vtable, .id = 1};
	poll_as(polls_another);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_BEGIN, 6ull << 48 | 1);
	expect(AE_POLL_PENDING, 6ull << 48 | 1);
	expect(AE_POLL_PENDING, tokio_ref());
	assert_int_equal(poll_hook->flags, AGENT_HOOK_WORKER | AGENT_HOOK_FRAME); /* learned */
	assert_int_equal(inner_hook->flags, AGENT_HOOK_TASK | AGENT_HOOK_FRAME);

	/* Deeper than the notes reach: passed through, counted. */
	n_originals = 0;
	poll_as(recurses);
	struct ring *r = area_my_ring(&area);
	assert_int_equal(n_originals, 40);
	uint64_t shown = (r->head - r->tail) / sizeof(struct agent_event);
	struct agent_event e;
	uint64_t lost = 0;
	while (area_next(&area, r, &e)) {
		if ((e.word0 & 255) == AE_LOST) {
			lost += e.word1;
			shown--;
		}
	}
	assert_int_equal(lost, 2 * (40 - 17));
	assert_int_equal(shown + lost, 1 + 39 * 2 + 1);
	poll_as(to_pending);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
}

int main(void)
{
#define WITH(name, up) cmocka_unit_test_setup_teardown(name, up, teardown)
	const struct CMUnitTest tests[] = {
		WITH(test_poll_outcomes, setup),
		WITH(test_tokio_ends, setup),
		WITH(test_panic_text, setup_raise),
		WITH(test_panic_text_goes_away, setup_raise),
		WITH(test_output_taken, setup),
		WITH(test_output_read, setup),
		WITH(test_output_asked_for_early, setup),
		WITH(test_output_being_read, setup),
		WITH(test_await_points, setup),
		WITH(test_pointers, setup),
		WITH(test_hostile_pointers, setup),
		WITH(test_last_reference_is_ours, setup),
		WITH(test_poll_that_is_none, setup),
		WITH(test_switched_off_inside_a_poll, setup),
		WITH(test_shutdown, setup),
		WITH(test_wakes_and_schedule, setup),
		WITH(test_nested_polls, setup),
	};
	return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
