/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A trace whose names are chosen to break what shows them: `hostile FILE`. Each is markup, JSON, SQL, a
 * formula, a path, control characters or no UTF-8; and two futures have one short name.
 */
#include "base/error.h"
#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>

#define MARKUP "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
#define SQL "'); DROP TABLE polls; --"
#define JSON "\",\"x\":{\"y\":[\\"
#define FORMULA "=cmd|' /C calc'!A0"
#define CONTROLS "a\nb\tc\x1b[31m\x07;d\xff\xc0\xaf\xe2\x80\xae,\"e\""

enum { START = 1000000 };

static struct trace_writer *writer;

static void check(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "hostile: cannot write (%d)\n", r);
	exit(1);
}

static void write_names(void)
{
	static const char *const tasks[] = {MARKUP, SQL, JSON, FORMULA, CONTROLS};
	static const char *const sites[] = {"../../../../etc/" MARKUP ":1"};
	const struct trace_process process = {.pid = 7, .exe = "/tmp/" MARKUP, .cmdline = CONTROLS};
	const struct trace_runtime runtime = {.name = JSON, .version = SQL, .object = MARKUP};
	const struct trace_thread thread = {.tid = 8, .name = MARKUP};
	const struct trace_place place = {
		.function = CONTROLS, .file = "../" MARKUP, .awaits = JSON, .line = 3};
	const struct trace_frame frame = {
		.function = MARKUP ";x", .object = FORMULA, .file = SQL, .line = 1};
	const struct trace_stack stack = {0};
	uint32_t index;

	check(trace_writer_process(writer, &process, &index));
	check(trace_writer_runtime(writer, &runtime, &index));
	check(trace_writer_thread(writer, &thread, &index));
	for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++)
		check(trace_writer_kind(writer,
					&(struct trace_kind){.name = tasks[i],
							     .full_name = tasks[i],
							     .sites = sites,
							     .site_addrs = &(uint64_t){1},
							     .n_sites = 1},
					&index));
	for (unsigned i = 0; i < 2; i++)
		check(trace_writer_kind(
			writer,
			&(struct trace_kind){.role = TR_FUTURE,
					     .name = i ? "app::get<B>" : "app::get<A>",
					     .full_name = i ? "app::get<B>" : "app::get<A>",
					     .address_named = 1},
			&index));
	check(trace_writer_place(writer, &place, &index));
	check(trace_writer_frame(writer, &frame, &index));
	check(trace_writer_stack(writer, &stack, &index));
}

static void write_events(void)
{
	struct trace_event ev[] = {
		{.type = TE_POLL_BEGIN, .task = 1},
		{.type = TE_FUTURE_BEGIN, .kind = 5, .task = 0x10},
		{.type = TE_SAMPLE, .kind = TRACE_KIND_NONE, .task = 1000, .value = 1},
		{.type = TE_BLOCK, .arg = TB_READ, .kind = TRACE_KIND_NONE, .value = 300},
		{.type = TE_FUTURE_END, .kind = 5, .task = 0x10, .value = 1},
		{.type = TE_FUTURE_BEGIN, .kind = 6, .task = 0x20},
		{.type = TE_FUTURE_END, .kind = 6, .task = 0x20, .value = 1},
		{.type = TE_POLL_END, .task = 1, .value = 1},
		{.type = TE_WAKE, .task = 1},
		{.type = TE_POLL_BEGIN, .task = 1},
		{.type = TE_POLL_END, .task = 1, .value = 1},
	};
	const size_t n = sizeof(ev) / sizeof(ev[0]);
	uint64_t now = START;

	for (uint32_t kind = 0; kind < 5; kind++) {
		struct trace_event of[sizeof(ev) / sizeof(ev[0])];

		for (size_t i = 0; i < n; i++) {
			of[i] = ev[i];
			of[i].time = now += 1000;
			if (of[i].type <= TE_WAKE)
				of[i].kind = kind;
			if (of[i].type <= TE_WAKE)
				of[i].task = kind + 1;
			if (of[i].type == TE_FUTURE_BEGIN || of[i].type == TE_FUTURE_END)
				of[i].task += 0x100 * kind;
		}
		check(trace_writer_events(writer, 0, of, n));
	}
}

int main(int argc, char **argv)
{
	struct error err = {0};

	if (argc != 2) {
		fprintf(stderr, "usage: hostile FILE\n");
		return 2;
	}
	if (trace_writer_open(argv[1], &writer, &err) < 0) {
		fprintf(stderr, "hostile: %s\n", err.text);
		return 1;
	}
	write_names();
	write_events();
	if (trace_writer_close(writer, &err) < 0) {
		fprintf(stderr, "hostile: %s\n", err.text);
		return 1;
	}
	return 0;
}
