/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How fast is the trace file? Writes modelled events (tests/traces/model.h) to a file, reads them
 * back merged, and prints events per second of each way and bytes per event. The time to invent the
 * events is measured apart and not counted.
 *
 *     trace_speed [millions of events [threads [file]]]
 */
#include "base/clock.h"
#include "tests/traces/model.h"
#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUND_NS 100000000ull
#define LOT 4096u

static void check(int r, const struct error *err)
{
	if (r < 0) {
		fprintf(stderr, "trace_speed: %s (%d)\n", err->text, r);
		exit(1);
	}
}

/* Events of each thread in lots, as a capture hands them over; at the end of a lot to the writer.
 */
static uint64_t write_events(const char *path, uint64_t n, uint32_t n_threads, uint64_t *ret_bytes)
{
	static struct trace_event lots[MODEL_MAX_THREADS][LOT + 64];
	size_t n_lot[MODEL_MAX_THREADS] = {0};
	struct error err = {0};
	struct trace_writer *w;
	struct model m;
	uint64_t total = 0, spent = 0;

	model_init(&m, n_threads);
	check(trace_writer_open(path, &w, &err), &err);
	for (uint32_t i = 0; i < n_threads; i++) {
		uint32_t index;
		struct trace_thread thread = {.tid = 100 + i, .name = "tokio-runtime-w"};
		check(trace_writer_thread(w, &thread, &index), &err);
	}
	uint64_t round = m.now[0] + ROUND_NS;
	while (total < n) {
		uint32_t t = model_thread(&m);
		if (m.now[t] >= round || n_lot[t] >= LOT) {
			bool is_round = m.now[t] >= round;
			uint64_t begin = clock_cpu_ns();
			for (uint32_t i = 0; i < n_threads; i++) {
				if (!is_round && i != t)
					continue;
				check(trace_writer_events(w, i, lots[i], n_lot[i]), &err);
				total += n_lot[i];
				n_lot[i] = 0;
			}
			if (is_round)
				check(trace_writer_round(w, round), &err);
			spent += clock_cpu_ns() - begin;
			round += is_round ? ROUND_NS : 0;
		}
		n_lot[t] += model_turn(&m, t, lots[t] + n_lot[t]);
	}
	uint64_t begin = clock_cpu_ns();
	check(trace_writer_round(w, round), &err);
	*ret_bytes = trace_writer_bytes(w);
	check(trace_writer_close(w, &err), &err);
	spent += clock_cpu_ns() - begin;
	printf("write: %6.1f M events/s\n", (double)total / (double)spent * 1e3);
	return total;
}

static void read_events(const char *path, uint64_t n)
{
	struct error err = {0};
	struct trace_reader *r;
	struct trace_event ev;
	const char *story;
	uint64_t count = 0, last = 0, sum = 0, backwards = 0;
	int code;

	uint64_t begin = clock_cpu_ns();
	check(trace_reader_open(path, &r, &err), &err);
	while ((code = trace_reader_next(r, &ev, &err)) > 0) {
		count++;
		sum += ev.task;
		backwards += ev.time < last;
		last = ev.time;
	}
	check(code, &err);
	uint64_t spent = clock_cpu_ns() - begin;
	if (count != n || backwards || trace_reader_truncated(r, &story)) {
		fprintf(stderr, "trace_speed: read %llu of %llu events, %llu out of order\n",
			(unsigned long long)count, (unsigned long long)n,
			(unsigned long long)backwards);
		exit(1);
	}
	trace_reader_free(r);
	printf("read:  %6.1f M events/s, merged (%llx)\n", (double)count / (double)spent * 1e3,
	       (unsigned long long)sum);
}

int main(int argc, char **argv)
{
	uint64_t n = (argc > 1 ? strtoull(argv[1], NULL, 10) : 10) * 1000000;
	uint32_t n_threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 8;
	const char *path = argc > 3 ? argv[3] : "trace_speed.plx";
	uint64_t bytes;

	if (!n || !n_threads || n_threads > MODEL_MAX_THREADS) {
		fprintf(stderr, "usage: trace_speed [millions of events [threads [file]]]\n");
		return 2;
	}
	uint64_t total = write_events(path, n, n_threads, &bytes);
	printf("size:  %6.2f bytes/event (%.1f M events, %u threads)\n",
	       (double)bytes / (double)total, (double)total * 1e-6, n_threads);
	read_events(path, total);
	if (argc <= 3)
		unlink(path);
	return 0;
}
