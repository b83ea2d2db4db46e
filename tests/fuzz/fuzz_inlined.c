/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a scribbled ring may say of futures that are polled as a part of others: any points, any
 * lists, begins and ends of polls that don't fit together. Whatever it is, polls that are told lie
 * in each other: an end that says how a poll ended has its begin, and kinds are those that there
 * are.
 *
 * Input: a byte for the number of points, eight bytes for each, then four bytes for each event.
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "capture/agent/inlined.h"
#include "runtime/futures.h"
#include "trace/trace.h"

#include <string.h>

enum {
	N_KINDS = 4,   /* that are hooked; of the agent's numbers */
	N_FUTURES = 8, /* of which the first N_KINDS are hooked somewhere, too */
	MAX_POINTS = 63,
	POINT_BYTES = 8,
	EVENT_BYTES = 4,
	MAX_OPEN = 4096,
};

enum point_flags {
	OWN = 1,
	SELF = 2,
	SURE = 4,
	KEPT = 8,
	RETURNED = 16,
	POINTER = 32,
	LENT = 64,
	NO_FUTURE = 128,
};

static struct ring_area area;

static void add_points(struct drain *d, struct source *s, const uint8_t *data, size_t n)
{
	static const char *const names[N_FUTURES] = {"a", "b", "c", "d", "e", "f", "g", "h"};
	struct place_future futures[N_FUTURES];
	struct place_point points[MAX_POINTS] = {0};
	struct trace_place places[MAX_POINTS] = {0};
	struct place_program p = {.first = 1,
				  .n_places = n,
				  .points = points,
				  .places = places,
				  .futures = futures,
				  .n_futures = N_FUTURES,
				  .type_kind = 1,
				  .size = 64};

	for (uint32_t i = 0; i < N_FUTURES; i++)
		futures[i] = (struct place_future){.name = names[i],
						   .full_name = names[i],
						   .where = i % 2 ? "src/main.rs:1" : NULL,
						   .size = 8u << i,
						   .type_kind = i < N_KINDS ? i + 1 : 0};
	for (size_t i = 0; i < n; i++) {
		const uint8_t *in = data + i * POINT_BYTES;
		uint8_t flags = in[0], future = in[1] % N_FUTURES;

		points[i] = (struct place_point){
			.future = flags & (NO_FUTURE | POINTER) ? UINT32_MAX : future,
			/* one future, one place of its state */
			.state_offset = flags & RETURNED ? (int8_t)in[5] : future,
			.kind = flags & POINTER	   ? flags & LENT ? POINT_BORROW : POINT_BOX
				: flags & RETURNED ? POINT_RETURNED
						   : POINT_AWAIT,
			.proof = flags & SURE	? READY_IF_MOVED_ON
				 : flags & KEPT ? READY_IF_GONE
						: READY_UNPROVEN,
			.own = flags & OWN,
			.self = flags & SELF,
			.size = in[2] | (uint64_t)in[3] << (in[4] % 64),
			.hooked_parent = in[6] % (N_KINDS + 2),
		};
		places[i].flags = flags & OWN ? TRACE_PLACE_OWN : 0;
		if (!(flags & (NO_FUTURE | POINTER)))
			points[i].size = futures[future].size;
		s->points.v[1 + i] = (struct await_point){.kind = s->kinds[in[7] % N_KINDS].index,
							  .place = in[7] % 4,
							  .future = TRACE_KIND_NONE,
							  .info = points[i]};
	}
	if (inlined_points(d, s, &p) < 0)
		abort();
}

static void play(struct drain *d, struct source *s, const uint8_t *data, size_t size)
{
	static const enum agent_event_type lists[] = {
		AE_FUTURE_SNAPSHOT_BEGIN, AE_FUTURE_SNAPSHOT_END, AE_FUTURE_SNAPSHOT_PREV};
	uint64_t now = 1000;

	for (; size >= EVENT_BYTES; data += EVENT_BYTES, size -= EVENT_BYTES) {
		uint8_t what = data[0] % 8;
		uint64_t value = data[2] | (uint64_t)data[3] << 8;
		struct trace_event e = {.time = now += data[0] / 8,
					.type = (uint16_t[]){TE_POLL_BEGIN, TE_FUTURE_BEGIN,
							     TE_POLL_END, TE_FUTURE_END}[what % 4],
					.kind = s->kinds[data[1] % N_KINDS].index,
					.task = value};
		int rc = 0;

		if (what >= 2 && what < 4) {
			e.arg = data[1] / N_KINDS % TO_N;
			e.value = e.arg == TO_PENDING ? data[1] / 64 : 0;
		}
		if (what < 4) {
			rc = inlined_event(d, s, 0, &e);
		} else if (what < 7) {
			const struct agent_event raw = {lists[what - 4],
							(uint64_t)data[1] << 48 | value};

			rc = inlined_add_snapshot_item(d, s, 0, &raw, 0);
		} else {
			inlined_forget(s, 0);
		}
		if (rc < 0)
			abort();
	}
}

/* Reads back what was written: a stack of what is open. */
static void check(int fd, uint32_t n_kinds)
{
	static struct trace_event open[MAX_OPEN];
	struct trace_reader *r;
	struct trace_event e;
	size_t n = 0;

	lseek(fd, 0, SEEK_SET);
	if (trace_reader_open_fd(dup(fd), &r, NULL) < 0)
		abort();
	while (trace_reader_next(r, &e, NULL) == 1) {
		size_t at = n;

		if (e.kind >= n_kinds)
			abort();
		if (e.type == TE_FUTURE_BEGIN && n < MAX_OPEN)
			open[n++] = e;
		/* those with functions of their own come as the input has them */
		if (e.type != TE_FUTURE_END || e.kind < N_KINDS)
			continue;
		while (at && (open[at - 1].kind != e.kind || open[at - 1].task != e.task))
			at--;
		if (!at && n < MAX_OPEN && e.arg != TO_CANCELLED && e.arg != TO_UNKNOWN)
			abort();
		n = at ? at - 1 : n;
	}
	trace_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct trace_process process = {.pid = 1, .exe = "p", .cmdline = "p"};
	const struct trace_thread thread = {.tid = 1, .name = "t"};
	const struct futures_wanted wanted = {.exclude = (const char *const[]){"h", NULL}};
	struct source_kind kinds[N_KINDS] = {0};
	uint32_t index;
	struct await_point points[MAX_POINTS + 1];
	struct source s = {.n_kinds = N_KINDS, .kinds = kinds, .points = {.v = points}};
	struct capture_stats stats = {0};
	struct drain *d = calloc(1, sizeof(*d));
	size_t n = size ? data[0] % (MAX_POINTS + 1) : 0;
	int fd = fuzz_file(NULL, 0);

	if (!d || trace_writer_open_fd(dup(fd), &d->writer, NULL) < 0 ||
	    trace_writer_process(d->writer, &process, &s.process) < 0 ||
	    trace_writer_thread(d->writer, &thread, &index) < 0)
		abort();
	for (uint32_t i = 0; i < N_KINDS; i++) {
		const struct trace_kind kind = {
			.role = i ? TR_FUTURE : TR_TASK, .name = "k", .full_name = "k"};

		if (trace_writer_kind(d->writer, &kind, &kinds[i].index) < 0 ||
		    map_put(&s.by_index, kinds[i].index, 0, &kinds[i]) < 0)
			abort();
	}
	/* What is polled as the second is a request, in tasks of the first. */
	const struct trace_kind request = {.role = TR_FUTURE, .name = "r", .full_name = "r"};
	if (trace_writer_kind(d->writer, &request, &kinds[1].request) < 0)
		abort();
	kinds[1].request++;
	kinds[0].serves = kinds[0].task = true;
	memset(points, 0xff, sizeof(points));
	s.rings.n_rings = 1;
	s.rings.area = &area;
	s.points.n = n + 1;
	kinds[N_KINDS - 1].block_on = true;
	if (inlined_init(&s, &wanted) < 0)
		abort();
	if (size >= 1 + n * POINT_BYTES) {
		add_points(d, &s, data + 1, n);
		play(d, &s, data + 1 + n * POINT_BYTES, size - 1 - n * POINT_BYTES);
	}
	if (inlined_end(d, &s, &stats) < 0 || s.n_inlined_unknown > s.n_inlined_ends ||
	    drain_flush(d) < 0 || trace_writer_close(d->writer, NULL) < 0)
		abort();
	check(fd, N_KINDS + 1 + N_FUTURES);
	capture_stats_done(&stats);
	inlined_done(&s);
	map_done(&s.by_index);
	close(fd);
	free(d);
	return 0;
}
