/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A profile of pprof (profile.proto of github.com/google/pprof): how long tasks waited, were
 * scheduled, polled, and blocked a worker in a poll, as four types of samples in ns; the samples of
 * the CPU as a fifth one if there are any. Stacks are those of time_sums.h.
 *
 * The protobuf is not compressed; all readers take that, and `gzip` makes it smaller.
 */
#include "export/formats.h"
#include "export/out.h"
#include "export/proto.h"
#include "export/time_sums.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Fields, by message. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME = 9,
	PROFILE_DURATION = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_TYPE = 14,
};
enum { TYPE_NAME = 1, TYPE_UNIT = 2 };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2 };
enum { LOCATION_ID = 1, LOCATION_LINE = 4, LINE_FUNCTION = 1, LINE_NUMBER = 2 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM_NAME = 3, FUNCTION_FILE = 4 };

/* The first two strings: "", and who wrote this. */
#define PPROF_BEGIN "\x32\x00\x32\x0cpollux pprof"

struct pprof {
	const struct time_sums *sums;
	struct out out;
	struct buf piece;			  /* one field of the profile */
	struct map strings, functions, locations; /* number + 1 by two hashes */
};

/* ---- tables ---- */

static void flush(struct pprof *p)
{
	out_write(&p->out, p->piece.data ? p->piece.data : "", p->piece.len);
	p->out.error = p->out.error ? p->out.error : buf_failed(&p->piece) ? -ENOMEM : 0;
	buf_clear(&p->piece);
}

static uint64_t row(struct map *rows, uint64_t a, uint64_t b, bool *ret_new)
{
	uintptr_t known = (uintptr_t)map_get(rows, a, b);

	*ret_new = !known;
	if (known)
		return known - 1;
	uint64_t n = rows->n;
	return map_put(rows, a, b, (void *)(uintptr_t)(n + 1)) < 0 ? UINT64_MAX : n;
}

/* The number of a text, which is written when new; UINT64_MAX when out of memory. */
static uint64_t string_of(struct pprof *p, const char *text)
{
	bool new;
	uint64_t i = row(&p->strings, hash_string(0, text), hash_string(1, text), &new);

	if (new &&i != UINT64_MAX) {
		proto_text(&p->piece, PROFILE_STRING, text);
		flush(p);
	}
	return i;
}

static uint64_t function_of(struct pprof *p, const struct sum_frame *f)
{
	uint64_t name = string_of(p, f->name), file = string_of(p, f->file);
	bool new;

	if (name == UINT64_MAX || file == UINT64_MAX)
		return UINT64_MAX;
	uint64_t i = row(&p->functions, name, file, &new);
	if (new &&i != UINT64_MAX) {
		size_t function = proto_begin(&p->piece, PROFILE_FUNCTION);

		proto_u64(&p->piece, FUNCTION_ID, i + 1);
		proto_u64(&p->piece, FUNCTION_NAME, name);
		proto_u64(&p->piece, FUNCTION_SYSTEM_NAME, name);
		proto_u64(&p->piece, FUNCTION_FILE, file);
		proto_end(&p->piece, function);
		flush(p);
	}
	return i;
}

static uint64_t location_of(struct pprof *p, const struct sum_frame *f)
{
	uint64_t function = function_of(p, f);
	bool new;

	if (function == UINT64_MAX)
		return UINT64_MAX;
	uint64_t i = row(&p->locations, function, f->line, &new);
	if (new &&i != UINT64_MAX) {
		size_t location = proto_begin(&p->piece, PROFILE_LOCATION);

		proto_u64(&p->piece, LOCATION_ID, i + 1);
		size_t line = proto_begin(&p->piece, LOCATION_LINE);
		proto_u64(&p->piece, LINE_FUNCTION, function + 1);
		proto_u64(&p->piece, LINE_NUMBER, f->line);
		proto_end(&p->piece, line);
		proto_end(&p->piece, location);
		flush(p);
	}
	return i;
}

/* ---- the profile ---- */

static const struct {
	enum time_sum_type type;
	const char *name;
} sample_types[] = {{SUM_POLLING, "polling"},
		    {SUM_SCHEDULED, "scheduled"},
		    {SUM_WAITING, "waiting"},
		    {SUM_BLOCKED, "blocked"},
		    {SUM_CPU, "cpu"}};

/* The types that this profile has. */
static unsigned n_types(const struct pprof *p)
{
	return p->sums->counts[SUM_CPU] ? 5 : 4;
}

static int write_type(struct pprof *p, unsigned field, const char *name, bool ns)
{
	uint64_t type = string_of(p, name), unit = string_of(p, ns ? "nanoseconds" : "count");

	if (type == UINT64_MAX || unit == UINT64_MAX)
		return -ENOMEM;
	size_t value = proto_begin(&p->piece, field);
	proto_u64(&p->piece, TYPE_NAME, type);
	proto_u64(&p->piece, TYPE_UNIT, unit);
	proto_end(&p->piece, value);
	flush(p);
	return 0;
}

static int write_head(struct pprof *p)
{
	const struct trace_process *tp = trace_reader_process(p->sums->reader, 0);
	uint64_t from_ns = p->sums->from_ns;

	if (string_of(p, "") != 0 || string_of(p, "pollux pprof") != 1)
		return -ENOMEM;
	for (unsigned i = 0; i < n_types(p); i++)
		TRY(write_type(p, PROFILE_SAMPLE_TYPE, sample_types[i].name,
			       sample_types[i].type != SUM_CPU || p->sums->cpu_is_time));
	/* Each ns counts: a period of 0, or none, is refused by some readers. */
	TRY(write_type(p, PROFILE_PERIOD_TYPE, "waiting", true));
	proto_u64(&p->piece, PROFILE_PERIOD, 1);
	proto_u64(&p->piece, PROFILE_DEFAULT_TYPE, string_of(p, "waiting"));
	proto_u64(&p->piece, PROFILE_TIME,
		  tp ? tp->start_realtime_ns + (from_ns - tp->start_ns) : 0);
	proto_u64(&p->piece, PROFILE_DURATION, p->sums->to_ns - from_ns);
	flush(p);
	uint64_t comment = string_of(p, "pollux " POLLUX_VERSION);
	proto_u64(&p->piece, PROFILE_COMMENT, comment);
	flush(p);
	return comment == UINT64_MAX ? -ENOMEM : p->out.error;
}

static int write_sample(struct pprof *p, const struct time_sum *sum, struct sum_stack *stack)
{
	uint64_t locations[SUM_MAX_FRAMES];

	TRY(sum_stack_make(p->sums, sum, stack));
	for (unsigned i = 0; i < stack->n; i++) {
		locations[i] = location_of(p, &stack->frames[i]);
		if (locations[i] == UINT64_MAX)
			return -ENOMEM;
	}
	size_t sample = proto_begin(&p->piece, PROFILE_SAMPLE);
	size_t packed = proto_begin(&p->piece, SAMPLE_LOCATION);
	for (unsigned i = stack->n; i-- > 0;) /* innermost first */
		proto_varint(&p->piece, locations[i] + 1);
	proto_end(&p->piece, packed);
	packed = proto_begin(&p->piece, SAMPLE_VALUE);
	for (unsigned i = 0; i < n_types(p); i++)
		proto_varint(&p->piece, sample_types[i].type == sum->type ? sum->value : 0);
	proto_end(&p->piece, packed);
	proto_end(&p->piece, sample);
	flush(p);
	return p->out.error;
}

static int write_profile(struct pprof *p)
{
	_cleanup_free_ struct sum_stack *stack = calloc(1, sizeof(*stack));
	int r = stack ? write_head(p) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < p->sums->n_sums; i++)
		r = write_sample(p, p->sums->sums[i], stack);
	if (stack)
		sum_stack_done(stack);
	return r;
}

static int pprof_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
		       struct export_summary *ret_summary, struct error *err)
{
	struct time_sums s;
	struct pprof p = {.sums = &s};
	int made = time_sums_make(&s, reader, opt, err), r = made;

	if (s.sums) {
		r = out_init(&p.out, file);
		if (r == 0)
			r = write_profile(&p);
		if (r == -ENOMEM)
			error_set(err, r, "out of memory");
		else
			r = out_end(&p.out, r < 0 ? r : made, err);
	}
	*ret_summary = (struct export_summary){
		.bytes = p.out.bytes, .rows = s.n_sums, .row_name = "stacks"};
	buf_done(&p.piece);
	map_done(&p.strings);
	map_done(&p.functions);
	map_done(&p.locations);
	out_done(&p.out);
	time_sums_done(&s);
	return r;
}

const struct export_ops export_pprof = {
	.name = "pprof",
	.extension = ".pprof",
	.viewers = "pprof, Speedscope, Pyroscope, Parca",
	.reads = "pprof go pyroscope parca",
	.begin = PPROF_BEGIN,
	.begin_len = sizeof(PPROF_BEGIN) - 1,
	.write = pprof_write,
};
