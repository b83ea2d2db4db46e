/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a scribbled ring may say of chains of await points: any links, any resources, of any programs.
 * Whatever it is, the places that are told are chains that end, and each event's is one that there is.
 *
 * Input: a byte for the number of points, three bytes for each, then ten bytes for each event: its
 * type and a byte of its time, and its word.
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "capture/agent/source.h"
#include "runtime/futures.h"
#include "trace/trace.h"

#include <string.h>

enum {
	N_KINDS = 4,
	MAX_POINTS = 63,
	POINT_BYTES = 3,
	EVENT_BYTES = 10,
	RING_BYTES = 1 << 16,
	MAX_CHAIN = 4096, /* of places */
};

static void add_points(struct source *s, struct trace_writer *w, const uint8_t *data, size_t n)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	struct trace_place places[MAX_POINTS] = {0};
	struct place_link links[MAX_POINTS] = {0};
	struct place_program p = {.first = 1, .n_places = n, .places = places, .links = links};

	for (size_t i = 0; i < n; i++) {
		const uint8_t *in = data + i * POINT_BYTES;

		places[i] = (struct trace_place){.function = names[in[0] % 4],
						 .file = "src/main.rs",
						 .awaits = "",
						 .line = in[1]};
		/* around it is one that comes before it, as a compiler of programs gives them */
		links[i] = (struct place_link){.outer = in[2] % (i + 1), .holds_box = in[0] & 128};
	}
	if (points_add(&s->points, &p, s->kinds[0].index, s->process, w) < 0)
		abort();
}

/* Those that need no process to be asked. */
static bool is_of_ring(uint8_t type)
{
	return type != AE_THREAD && type != AE_DESCRIPTOR;
}

static void write_events(struct source *s, uint64_t ticks, const uint8_t *data, size_t size)
{
	struct ring *r = ring_set_at(&s->rings, 0);
	uint64_t run;

	r->far_end = UINT64_MAX; /* the whole ring */
	for (; size >= EVENT_BYTES && r->head < RING_BYTES;
	     data += EVENT_BYTES, size -= EVENT_BYTES) {
		struct agent_event e = {(ticks - data[1]) << 8 | data[0] % AE_N_TYPES, 0};

		memcpy(&e.word1, data + 2, sizeof(e.word1));
		if (!is_of_ring(data[0] % AE_N_TYPES))
			continue;
		memcpy((char *)(r + 1) + ring_place(r->head, 0, UINT64_MAX, RING_BYTES, &run), &e,
		       sizeof(e));
		r->head += sizeof(e);
	}
	s->rings.area->n_used = 1;
}

static void check(int fd)
{
	struct trace_reader *r;
	struct trace_event e;

	lseek(fd, 0, SEEK_SET);
	if (trace_reader_open_fd(dup(fd), &r, NULL) < 0)
		abort();
	while (trace_reader_next(r, &e, NULL) == 1) {
		size_t n = 0;

		if (e.type != TE_POLL_END || e.arg != TO_PENDING || !e.value)
			continue;
		for (uint64_t at = e.value; at; n++) {
			const struct trace_place *p = trace_reader_place(r, (uint32_t)at - 1);

			if (!p || n == MAX_CHAIN || p->outer >= at)
				abort();
			at = p->outer;
		}
	}
	trace_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct trace_process process = {.pid = 1, .exe = "p", .cmdline = "p"};
	const struct trace_thread thread = {.tid = 1, .name = "t"};
	const struct scan_future boxed = {.name = strdup("boxed")};
	struct source_kind kinds[N_KINDS] = {0};
	struct source s = {.n_kinds = N_KINDS, .kinds = kinds, .points.deep = true};
	struct drain *d = calloc(1, sizeof(*d));
	struct ring_area *area =
		aligned_alloc(64, sizeof(*area) + sizeof(struct ring) + RING_BYTES);
	size_t n = size ? data[0] % (MAX_POINTS + 1) : 0;
	uint32_t index;
	int fd = fuzz_file(NULL, 0);

	if (!d || !area || !boxed.name || trace_writer_open_fd(dup(fd), &d->writer, NULL) < 0 ||
	    trace_writer_process(d->writer, &process, &s.process) < 0 ||
	    trace_writer_thread(d->writer, &thread, &index) < 0)
		abort();
	memset(area, 0, sizeof(*area) + sizeof(struct ring) + RING_BYTES);
	for (uint32_t i = 0; i < N_KINDS; i++) {
		const struct trace_kind kind = {
			.role = i ? TR_FUTURE : TR_TASK, .name = "k", .full_name = "k"};

		if (trace_writer_kind(d->writer, &kind, &kinds[i].index) < 0)
			abort();
		kinds[i].task = !i;
		kinds[i].boxed = i > 1 ? &boxed : NULL;
	}
	clock_map_init(&d->clock, 1000);
	d->start_ticks = d->clock.first.ticks - UINT8_MAX - 1;
	if (ring_set_init(&s.rings, area, 1, RING_BYTES) < 0 ||
	    !(d->threads = capture_threads_new(d->writer)))
		abort();
	s.rings.cursors[0].thread = index + 1;
	if (size >= 1 + n * POINT_BYTES) {
		add_points(&s, d->writer, data + 1, n);
		write_events(&s, d->clock.last.ticks, data + 1 + n * POINT_BYTES,
			     size - 1 - n * POINT_BYTES);
		if (drain_source(d, &s, NSEC_PER_SEC) < 0)
			abort();
	}
	if (trace_writer_close(d->writer, NULL) < 0)
		abort();
	check(fd);
	capture_threads_free(d->threads);
	ring_set_done(&s.rings);
	points_free(&s.points);
	map_done(&s.owners);
	free(boxed.name);
	free(area);
	close(fd);
	free(d);
	return 0;
}
