/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The five sections of async-std's report, from its own events and from polls of workers. */
#include "base/cleanup.h"
#include "report/workers.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MS 1000000ull

struct step {
	uint64_t ms;
	uint32_t thread;
	uint16_t type, arg;
	uint64_t task, value; /* task 0: none */
};

/* The report of a trace of these events, as text. */
static char *report(const struct step *steps, size_t n, unsigned rows, bool json)
{
	char path[] = "/tmp/test_machines.XXXXXX";
	struct trace_writer *w;
	struct trace_reader *r;
	struct machines *m;
	struct error err = {0};
	struct buf out = BUF_INIT;
	uint32_t index, kind;

	close(mkstemp(path));
	assert_int_equal(trace_writer_open(path, &w, &err), 0);
	trace_writer_process(w, &(struct trace_process){.pid = 1, .exe = "/bin/app"}, &index);
	trace_writer_runtime(w, &(struct trace_runtime){.name = "async-std"}, &index);
	for (uint32_t i = 0; i < 3; i++)
		trace_writer_thread(w, &(struct trace_thread){.tid = 10 + i, .name = "w"}, &index);
	trace_writer_kind(w, &(struct trace_kind){.role = TR_TASK, .name = "a task"}, &kind);
	for (size_t i = 0; i < n; i++) {
		const struct trace_event ev = {
			.time = 1000 * MS + steps[i].ms * MS,
			.thread = steps[i].thread,
			.type = steps[i].type,
			.arg = steps[i].arg,
			.kind = steps[i].task ? kind : TRACE_KIND_NONE,
			.task = steps[i].task,
			.value = steps[i].value,
		};
		assert_int_equal(trace_writer_events(w, ev.thread, &ev, 1), 0);
	}
	assert_int_equal(trace_writer_close(w, &err), 0);
	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	const struct report_options opt = {.n_families = rows};
	assert_int_equal(machines_make(r, &opt, 10 * MS, &m, &err), 0);
	if (json)
		machines_json(m, &out);
	else
		machines_text(m, &out);
	machines_free(m);
	trace_reader_free(r);
	unlink(path);
	return buf_steal(&out);
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in:\n%s", part, text);
}

/* The report without its white space, so that numbers can be looked for. */
static char *squeezed(char *text)
{
	char *to = text;
	for (const char *p = text; *p; p++)
		if (*p != ' ' && *p != '\n')
			*to++ = *p;
	*to = 0;
	return text;
}

static void machines_are_counted_as_async_std_meant_it(void **state)
{
	static const struct step steps[] = {
		{0, 0, TE_MACHINE, TC_STARTING, 0, 0xa},
		{0, 1, TE_MACHINE, TC_STARTING, 0, 0xb},
		{1, 1, TE_MACHINE, TC_BLOCKED, 0, 0xb}, /* a ghost */
		{2, 0, TE_SPAWN, TRACE_SPAWN_NAMED | TRACE_SPAWN_PARENT, 1, 0},
		{3, 0, TE_MACHINE, TC_TASK_LOCAL, 1, 0xa},
		{4, 0, TE_MACHINE, TC_TASK_LOCAL, 1, 0xa},
		{5, 0, TE_SPAWN, TRACE_SPAWN_NAMED | TRACE_SPAWN_PARENT, 2, 1},
		{6, 0, TE_MACHINE, TC_TASK_GLOBAL, 2, 0xa},
		{7, 0, TE_MACHINE, TC_BLOCKED, 0, 0xa},	   /* task 2 */
		{8, 0, TE_MACHINE, TC_TASK_LOCAL, 7, 0xa}, /* one from before */
		{1500, 0, TE_CANCEL, TO_READY, 1, 0},
		{1600, 0, TE_MACHINE, TC_TASK_LOCAL, 2, 0xa},
		{1700, 0, TE_CANCEL, TO_READY, 2, 0},
		{1800, 0, TE_MACHINE, TC_BLOCKED, 0, 0xa}, /* task 2 again, which has ended */
	};
	_cleanup_free_ char *json =
		squeezed(report(steps, sizeof(steps) / sizeof(steps[0]), 0, true));
	assert_has(json, "\"source\":\"machines\"");
	/* Seconds count: 1.498 s and 1.695 s; each task once. */
	assert_has(json,
		   "{\"name\":\"0xa\",\"tasks\":3,\"scheduled\":5,\"blockades\":2,"
		   "\"blockades_without_task\":0,\"finished\":2,\"average_run_ns\":1596500000}");
	assert_has(json, "{\"name\":\"0xb\",\"tasks\":0,\"scheduled\":0,\"blockades\":1,"
			 "\"blockades_without_task\":1,\"finished\":0}");
	assert_has(json, "{\"task\":2,\"parent\":1,\"family\":\"atask\",\"spawned_ns\":5000000,"
			 "\"finished\":true,\"run_ns\":1695000000,\"blockades\":2}");
	assert_has(json, "{\"task\":7,\"family\":\"atask\",\"finished\":false,\"blockades\":0}");
	assert_has(json, "\"parents\":[{\"task\":1,\"children\":1,\"blocked_children\":1}]");
	assert_has(json, "\"never_ran\":1,\"blockades_without_task\":1}");
}

static void workers_are_machines_elsewhere(void **state)
{
	static const struct step steps[] = {
		{0, 0, TE_SPAWN, TRACE_SPAWN_NAMED, 1, 0},
		{1, 0, TE_POLL_BEGIN, 0, 1, 0},
		{2, 0, TE_SPAWN, TRACE_SPAWN_NAMED, 2, 0},
		{12, 0, TE_POLL_END, TO_PENDING, 1, 0}, /* a blockade */
		{13, 1, TE_POLL_BEGIN, 0, 2, 0},
		{22, 1, TE_POLL_END, TO_READY, 2, 0}, /* none */
		{23, 1, TE_POLL_BEGIN, 0, 1, 0},
		{24, 1, TE_POLL_END, TO_READY, 1, 0},
	};
	_cleanup_free_ char *json =
		squeezed(report(steps, sizeof(steps) / sizeof(steps[0]), 0, true));
	assert_has(json, "\"source\":\"workers\",\"no_progress_ns\":10000000");
	assert_has(json, "{\"name\":\"w/10\",\"tasks\":1,\"polls\":1,\"blockades\":1,");
	assert_has(json, "{\"name\":\"w/11\",\"tasks\":2,\"polls\":2,\"blockades\":0,");
	assert_has(json, "{\"task\":1,\"children\":1,\"blocked_children\":0}");
	assert_has(json, "\"never_ran\":0,\"blockades_without_task\":0}");
	_cleanup_free_ char *text = report(steps, sizeof(steps) / sizeof(steps[0]), 1, false);
	assert_has(text, "A machine is a worker, a blockade a poll of at least 10.0 ms");
	assert_has(text, "and 1 more machines: -n 0 shows all");
	assert_has(text, "and 1 more tasks: -n 0 shows all");
}

static void rows_are_limited_to_the_most_blocked(void **state)
{
	enum { N = 4000 };
	struct step *steps = calloc(3 * N, sizeof(*steps));
	for (uint64_t i = 0; i < N; i++) {
		steps[3 * i] = (struct step){i * 50, 0, TE_SPAWN, TRACE_SPAWN_NAMED, i + 1, 0};
		steps[3 * i + 1] = (struct step){i * 50 + 1, 0, TE_POLL_BEGIN, 0, i + 1, 0};
		steps[3 * i + 2] = (struct step){
			i * 50 + (i == 5 ? 30 : 2), 0, TE_POLL_END, TO_READY, i + 1, 0};
	}
	_cleanup_free_ char *json = squeezed(report(steps, 3 * N, 2, true));
	assert_has(json, "\"n_tasks\":4000,\"tasks\":[{\"task\":6,");
	assert_null(strstr(json, "\"task\":3,"));
	free(steps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(machines_are_counted_as_async_std_meant_it),
		cmocka_unit_test(workers_are_machines_elsewhere),
		cmocka_unit_test(rows_are_limited_to_the_most_blocked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
