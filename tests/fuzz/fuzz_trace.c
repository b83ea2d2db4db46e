/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fuzz target for the trace reader. Each input is read as it is, and once more with the checksums
 * of its header and chunks made right, since no fuzzer guesses those; each time twice over, and the
 * second pass must give what the first gave.
 */
#include "fuzz.h"

#include "moment/render.h"

#include "tests/traces/file.h"

/* Of those whose number the reader doesn't say; more than a file of a fuzzer's size has. */
#define MAX_ITEMS 4096u

static uint64_t sum_text(const char *s)
{
	return s ? strlen(s) : 0;
}

/* Touches everything that the tables point to. */
static uint64_t touch_tables(const struct trace_reader *r)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < trace_reader_n_processes(r); i++) {
		const struct trace_process *p = trace_reader_process(r, i);
		sum += p ? sum_text(p->exe) + sum_text(p->cmdline) : 0;
	}
	for (uint32_t i = 0; i < trace_reader_n_runtimes(r); i++) {
		const struct trace_runtime *rt = trace_reader_runtime(r, i);
		sum += rt ? sum_text(rt->name) + sum_text(rt->verified) : 0;
	}
	for (uint32_t i = 0; i < trace_reader_n_threads(r); i++) {
		const struct trace_thread *t = trace_reader_thread(r, i);
		sum += t ? sum_text(t->name) : 0;
	}
	for (uint32_t i = 0; i < trace_reader_n_kinds(r); i++) {
		const struct trace_kind *k = trace_reader_kind(r, i);
		for (uint32_t s = 0; k && s < k->n_sites; s++)
			sum += k->site_addrs[s] + sum_text(k->sites[s]);
		sum += k ? sum_text(k->name) : 0;
	}
	for (uint32_t i = 0; i < MAX_ITEMS; i++) {
		const struct trace_place *p = trace_reader_place(r, i);
		sum += p ? sum_text(p->function) + sum_text(p->file) + sum_text(p->awaits) : 0;
	}
	for (uint32_t i = 0; i < trace_reader_n_frames(r); i++) {
		const struct trace_frame *f = trace_reader_frame(r, i);
		sum += f ? sum_text(f->object) + sum_text(f->function) + sum_text(f->file) : 0;
	}
	for (uint32_t i = 0; i < MAX_ITEMS; i++) {
		const struct trace_stack *s = trace_reader_stack(r, i);
		if (s && s->parent > i) /* a chain of callers must come to an end */
			abort();
		sum += s ? s->frame + s->flags : 0;
	}
	for (uint32_t i = 0; i < trace_reader_n_coverage(r); i++) {
		const struct trace_coverage *c = trace_reader_coverage(r, i);
		sum += c ? sum_text(c->item) + sum_text(c->note) : 0;
	}
	if (trace_reader_cost(r))
		sum += sum_text(trace_reader_cost(r)->end_reason);
	return sum;
}

/* What is made of a moment: it may be nonsense, but it is bounded. */
static uint64_t touch_moment(const struct trace_moment *m)
{
	const struct render_options render = {.raw = true};
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct graph graph = {0};
	struct error err = {0};
	struct json j;

	json_init(&j, &out, false);
	if (graph_make(m, &graph, &err) == 0) {
		render_text(&graph, &render, &out);
		render_json(&graph, &render, &j, NULL);
	}
	graph_done(&graph);
	return out.len + m->n_threads;
}

static uint64_t touch_moments(struct trace_reader *r)
{
	enum moment_when when;
	uint64_t sum = 0;
	uint32_t process;

	for (uint32_t i = 0; trace_reader_moment_name(r, i, &process, &when); i++) {
		struct trace_moment m = {0};
		struct error err = {0};

		if (trace_reader_moment(r, process, when, &m, &err) == 1)
			sum = sum * 31 + touch_moment(&m);
		moment_done(&m);
	}
	return sum;
}

/* A number that depends on every event and its place. */
static uint64_t pass(struct trace_reader *r)
{
	struct error err = {0};
	struct trace_event ev;
	const char *story;
	uint64_t sum = 0;

	while (trace_reader_next(r, &ev, &err) > 0)
		sum = (sum + ev.time + ev.task + ev.value + ev.kind + ev.thread + ev.stream) * 31 +
		      ev.type;
	sum += touch_moments(r);
	if (trace_reader_truncated(r, &story) && !*story)
		abort();
	return sum + touch_tables(r);
}

static void read_twice(const uint8_t *data, size_t size)
{
	char path[64];
	struct error err = {0};
	struct trace_reader *r;
	int fd = fuzz_file(data, size);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (trace_reader_open(path, &r, &err) == 0) {
		uint64_t first = pass(r);
		if (trace_reader_rewind(r, &err) < 0 || pass(r) != first)
			abort();
		trace_reader_free(r);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf sealed = BUF_INIT;

	read_twice(data, size);
	if (size < sizeof(struct plx_header))
		return 0;
	file_seal(&sealed, data, size);
	read_twice((const uint8_t *)sealed.data, sealed.len);
	return 0;
}
