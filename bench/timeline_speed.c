/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How fast events become tasks: synthetic workloads through the timeline alone, through a trace
 * file and the timeline, into a report, and into causes. Prints million events per second of CPU time.
 *
 *     timeline_speed [MILLION EVENTS [LOAD [STAGE]]]
 *
 * LOAD and STAGE choose rows by a part of their names.
 */
#include "base/clock.h"
#include "base/error.h"
#include "causes/causes.h"
#include "report/report.h"
#include "timeline/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_THREADS 4
#define BATCH 4096
#define QUEUED 63

/* Makes events, BATCH at a time, of one thread each. */
struct load {
	const char *name;
	uint32_t n_tasks; /* alive at a time */
	bool short_lived; /* spawn, poll, end, drop; else wake, poll, pending */
	bool chain;	  /* each task's poll wakes the next one: all wait for each other */
	bool queue;	  /* QUEUED are woken at once, then polled one after the other */
	uint64_t time, next, n_ids;
};

static const struct trace_kind kind = {.name = "app::handler", .full_name = "app::handler"};

static const struct trace_kind *the_kind(const void *ctx, uint32_t number)
{
	(void)ctx;
	return number ? NULL : &kind;
}

static void load_fill(struct load *l, struct trace_event *ev)
{
	uint32_t thread = l->next / BATCH % N_THREADS;
	memset(ev, 0, BATCH * sizeof(*ev));
	for (unsigned i = 0; i < BATCH; i++, l->next++) {
		ev[i].time = l->time += 20;
		ev[i].thread = thread;
		if (l->short_lived) {
			static const uint16_t types[] = {TE_SPAWN, TE_POLL_BEGIN, TE_POLL_END,
							 TE_DROP};
			ev[i].type = types[i % 4];
			ev[i].arg = ev[i].type == TE_POLL_END ? TO_READY : 0;
			ev[i].task = ev[i].type == TE_SPAWN ? ++l->n_ids : l->n_ids;
		} else if (l->queue) {
			uint32_t at = i % (3 * QUEUED);
			uint64_t first = l->next / BATCH * QUEUED;

			ev[i].type = at < QUEUED	    ? TE_WAKE
				     : at % 2 == QUEUED % 2 ? TE_POLL_BEGIN
							    : TE_POLL_END;
			at = at < QUEUED ? at : (at - QUEUED) / 2;
			ev[i].task = 1 + (first + at) % l->n_tasks;
		} else if (l->chain) {
			static const uint16_t types[] = {TE_POLL_BEGIN, TE_WAKE, TE_POLL_END};
			uint64_t n = l->next / 3;

			ev[i].type = types[l->next % 3];
			ev[i].task = 1 + (n + (ev[i].type == TE_WAKE)) % l->n_tasks;
		} else {
			static const uint16_t types[] = {TE_WAKE, TE_POLL_BEGIN, TE_BLOCK,
							 TE_POLL_END};
			ev[i].type = types[i % 4];
			ev[i].task = 1 + l->next / 4 * 7919 % l->n_tasks;
			ev[i].value = 10;
		}
	}
}

static const char *wanted_load = "", *wanted_stage = "";

static bool is_wanted(const char *stage)
{
	return strstr(stage, wanted_stage) != NULL;
}

static void row(const char *load, const char *what, uint64_t n, uint64_t ns)
{
	printf("%-34s %-28s %8.1f M events/s  %6.1f ns/event\n", load, what, n * 1e3 / ns,
	       (double)ns / n);
}

static int timeline_alone(struct load l, uint64_t n)
{
	struct trace_event *ev = malloc(BATCH * sizeof(*ev));
	const struct timeline_sink none = {0};
	struct timeline *tl = timeline_new(&none, NULL, the_kind, NULL);
	uint64_t spent = 0;
	int r = ev && tl ? 0 : -1;
	for (uint64_t i = 0; i < n && r >= 0; i += BATCH) {
		load_fill(&l, ev);
		uint64_t begin = clock_cpu_ns();
		for (unsigned k = 0; k < BATCH && r >= 0; k++)
			r = timeline_feed(tl, &ev[k], NULL);
		spent += clock_cpu_ns() - begin;
	}
	if (r >= 0)
		row(l.name, "timeline", n, spent);
	timeline_free(tl);
	free(ev);
	return r;
}

static int write_file(struct load l, uint64_t n, const char *path, struct error *err)
{
	struct trace_writer *w;
	int r = trace_writer_open(path, &w, err);
	if (r < 0)
		return r;
	uint32_t index;
	trace_writer_process(w, &(struct trace_process){.pid = 1, .exe = "/bin/app"}, &index);
	trace_writer_runtime(w, &(struct trace_runtime){.name = "tokio"}, &index);
	trace_writer_kind(w, &kind, &index);
	for (unsigned i = 0; i < N_THREADS; i++)
		trace_writer_thread(w, &(struct trace_thread){.tid = i + 1, .name = "worker"},
				    &index);
	struct trace_event *ev = malloc(BATCH * sizeof(*ev));
	for (uint64_t i = 0; i < n && ev && r >= 0; i += BATCH) {
		load_fill(&l, ev);
		r = trace_writer_events(w, ev[0].thread, ev, BATCH);
		if (i / BATCH % 64 == 63 && r >= 0)
			r = trace_writer_round(w, l.time);
	}
	free(ev);
	int closed = trace_writer_close(w, err);
	return r < 0 ? r : closed;
}

static int into_nothing(struct load l, uint64_t n, struct trace_reader *reader, struct error *err)
{
	const struct timeline_sink none = {0};
	uint64_t begin = clock_cpu_ns();
	int r;

	if (!is_wanted("file, timeline"))
		return 0;
	r = timeline_replay(reader, NULL, &none, NULL, NULL, NULL, NULL, NULL, err);
	row(l.name, "file, timeline", n, clock_cpu_ns() - begin);
	return r;
}

static int into_report(struct load l, uint64_t n, struct trace_reader *reader, struct error *err)
{
	struct report *rep = NULL;
	uint64_t begin = clock_cpu_ns();
	int r;

	if (!is_wanted("file, timeline, report"))
		return 0;
	r = report_make(reader, &(struct report_options){0}, &rep, err);
	row(l.name, "file, timeline, report", n, clock_cpu_ns() - begin);
	report_free(rep);
	return r;
}

static int into_causes(struct load l, uint64_t n, struct trace_reader *reader, struct error *err)
{
	if (!is_wanted("file, timeline, causes"))
		return 0;
	struct causes *c = causes_new(reader, &(struct causes_options){0});
	struct fan_out_sink to;
	uint64_t begin = clock_cpu_ns();
	int r = c ? 0 : error_set(err, -1, "out of memory");

	if (r >= 0) {
		to = causes_sink(c);
		r = timeline_replay(reader, NULL, to.sink, to.ctx, NULL, NULL, NULL, NULL, err);
	}
	if (r >= 0 && causes_judge(c) < 0)
		r = error_set(err, -1, "out of memory");
	if (r >= 0)
		row(l.name, "file, timeline, causes", n, clock_cpu_ns() - begin);
	causes_free(c);
	return r;
}

static int from_file(struct load l, uint64_t n, const char *path, struct error *err)
{
	int r = write_file(l, n, path, err);
	struct trace_reader *reader = NULL;
	if (r >= 0)
		r = trace_reader_open(path, &reader, err);
	if (r < 0)
		return r;
	static int (*const stages[])(struct load, uint64_t, struct trace_reader *,
				     struct error *) = {into_nothing, into_report, into_causes};
	for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]) && r >= 0; i++) {
		r = stages[i](l, n, reader, err);
		if (r >= 0)
			r = trace_reader_rewind(reader, err);
	}
	trace_reader_free(reader);
	return r;
}

int main(int argc, char **argv)
{
	uint64_t n = (argc > 1 ? strtoull(argv[1], NULL, 10) : 10) * 1000000 / BATCH * BATCH;
	const struct load loads[] = {
		{.name = "100 tasks, woken and polled", .n_tasks = 100},
		{.name = "100,000 tasks, woken and polled", .n_tasks = 100000},
		{.name = "short tasks", .short_lived = true},
		{.name = "100 tasks that wake each other", .n_tasks = 100, .chain = true},
		{.name = "63 tasks ready at a time", .n_tasks = QUEUED * N_THREADS, .queue = true},
	};
	char path[] = "/tmp/timeline_speed.XXXXXX";
	int fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	struct error err = {0};
	int r = 0;
	if (argc > 2)
		wanted_load = argv[2];
	if (argc > 3)
		wanted_stage = argv[3];
	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]) && r >= 0; i++) {
		if (!strstr(loads[i].name, wanted_load))
			continue;
		if (is_wanted("timeline"))
			r = timeline_alone(loads[i], n);
		if (r >= 0)
			r = from_file(loads[i], n, path, &err);
	}
	unlink(path);
	if (r < 0)
		fprintf(stderr, "timeline_speed: %s\n", err.text);
	return r < 0;
}
