/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Firefox Profiler's processed profile, version 60, as docs-developer/CHANGELOG-formats.md of
 * github.com/firefox-devtools/profiler describes it; newer profilers upgrade it. A pen of draw.h:
 * lanes are threads, slices are markers with a schema for each kind of slice, wakes are markers
 * with a flow id that the woken poll's marker has too, CPU samples are samples.
 *
 * A thread's markers are one list per column, while slices of all lanes come mixed. So each lane's
 * slices are spilled, and walked once per column in the end. Texts are numbers in one list at the
 * end of the file; after them come those of the flows.
 */
#include "export/draw.h"
#include "export/formats.h"
#include "export/out.h"
#include "export/slice_text.h"
#include "export/spill.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "base/units.h"
#include "base/vec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define MAX_STACK 256u

static const struct limits firefox_limits = {
	.max_slices = 1500000,
	.max_lanes = 500,
	.ceiling_bytes = 500000000, /* 512 MiB of text: nothing is shown */
	.ceiling_lanes = 10000,	    /* 5 s, 1 GB of memory */
	.slice_bytes = 190,
	.flow_bytes = 130,
	.lane_bytes = 700,
	.flows = true,
	.requests = true,
	.futures = true,
	.viewer = "Firefox Profiler",
};

/* Fields that are no notes. */
enum { FIELD_FLOW = NOTE_N, FIELD_FLOW_END, FIELD_STACK };
enum { MAX_FIELDS = 11 };

struct marker {
	uint64_t begin_ns, end_ns;
	uint32_t name;
	uint8_t type; /* enum draw_type */
	uint8_t n_fields;
	uint8_t keys[MAX_FIELDS];
	uint64_t values[MAX_FIELDS]; /* texts: their numbers */
};

struct sample {
	uint64_t time_ns, weight, stack; /* stack: number in the file's table */
};

struct firefox_lane {
	struct draw_at at;
	char *name, *group; /* group: of the process that it is shown in */
	bool thread;
	struct spill markers, samples;
	uint64_t n_markers, n_samples;
};

struct firefox {
	struct draw draw;
	struct out out;
	struct spill_file file;
	struct firefox_lane *lanes; /* by index */
	uint32_t n_lanes;
	char *group;	    /* written last */
	struct buf strings; /* of the file's list, with commas */
	uint32_t n_strings;
	struct map by_key, by_text; /* names of slices; texts: number + 1 */
	struct buf stack_frames, stack_prefixes, frame_funcs, frame_lines, func_names, func_files,
		func_resources, sources, resources;		    /* columns */
	struct map by_stack, by_frame, by_func, by_file, by_object; /* number + 1 */
	bool weighed;						    /* samples: of the CPU's time */
};

/* ---- texts, functions, stacks ---- */

static void comma(struct buf *b)
{
	if (b->len)
		buf_char(b, ',');
}

static int add_string(struct firefox *f, const char *text, uint32_t *ret)
{
	comma(&f->strings);
	json_quote_shown(&f->strings, text);
	*ret = f->n_strings++;
	return buf_failed(&f->strings) ? -ENOMEM : 0;
}

static int string_of(struct firefox *f, const char *text, uint32_t *ret)
{
	uint64_t hash = hash_string(0, text), again = hash_string(1, text);
	uintptr_t known = (uintptr_t)map_get(&f->by_text, hash, again);

	*ret = (uint32_t)known - 1;
	if (known)
		return 0;
	TRY(add_string(f, text, ret));
	return map_put(&f->by_text, hash, again, (void *)(uintptr_t)(*ret + 1ull));
}

/* A row of a table with the columns of which this is the first: its number by the key that it is
 * found by, and whether it is new. */
static int row_of(struct map *rows, uint64_t a, uint64_t b, uint32_t *ret_row, bool *ret_new)
{
	uintptr_t known = (uintptr_t)map_get(rows, a, b);

	*ret_new = !known;
	*ret_row = known ? (uint32_t)(known - 1) : (uint32_t)rows->n;
	return known ? 0 : map_put(rows, a, b, (void *)(uintptr_t)(*ret_row + 1ull));
}

/* A number, and the commas before it. */
static void cell(struct buf *column, uint64_t v)
{
	comma(column);
	buf_u64(column, v);
}

static void cell_or_null(struct buf *column, bool known, uint64_t v)
{
	comma(column);
	if (known)
		buf_u64(column, v);
	else
		buf_str(column, "null");
}

static int func_of(struct firefox *f, const struct trace_frame *frame, uint32_t *ret)
{
	_cleanup_buf_ struct buf name = BUF_INIT;
	const char *object = frame && frame->object ? frame->object : "";
	const char *file = frame && frame->file ? frame->file : "";
	uint32_t text, source = 0, resource = 0;
	bool new;

	trace_frame_name(&name, frame);
	if (buf_failed(&name))
		return -ENOMEM;
	const char *function = name.data ? name.data : "";
	TRY(row_of(&f->by_func, hash_string(0, function), hash_string(0, object), ret, &new));
	if (!new)
		return 0;
	TRY(string_of(f, function, &text));
	cell(&f->func_names, text);
	if (*file) {
		TRY(string_of(f, file, &text));
		TRY(row_of(&f->by_file, text, 0, &source, &new));
		if (new)
			cell(&f->sources, text);
	}
	cell_or_null(&f->func_files, *file, source);
	TRY(string_of(f, object, &text));
	TRY(row_of(&f->by_object, text, 0, &resource, &new));
	if (new)
		cell(&f->resources, text);
	cell(&f->func_resources, resource);
	return 0;
}

static int frame_of(struct firefox *f, uint32_t index, uint32_t *ret)
{
	const struct trace_frame *frame = trace_reader_frame(f->draw.reader, index);
	uint32_t func;
	bool new;

	TRY(func_of(f, frame, &func));
	TRY(row_of(&f->by_frame, func, frame ? frame->line : 0, ret, &new));
	if (new) {
		cell(&f->frame_funcs, func);
		cell_or_null(&f->frame_lines, frame && frame->line, frame ? frame->line : 0);
	}
	return 0;
}

/* The stack's row; those of its callers come before it. */
static int stack_of(struct firefox *f, uint64_t stack, uint32_t *ret)
{
	uint32_t frames[MAX_STACK], n = 0, row = 0;
	const struct trace_stack *s = trace_reader_stack(f->draw.reader, (uint32_t)(stack - 1));
	bool inner = false, new;

	for (; s && n < MAX_STACK;
	     s = s->parent ? trace_reader_stack(f->draw.reader, s->parent - 1) : NULL)
		frames[n++] = s->frame;
	while (n-- > 0) {
		uint32_t frame, caller = row;

		TRY(frame_of(f, frames[n], &frame));
		TRY(row_of(&f->by_stack, frame, inner ? caller + 1ull : 0, &row, &new));
		if (new) {
			cell(&f->stack_frames, frame);
			cell_or_null(&f->stack_prefixes, inner, caller);
		}
		inner = true;
	}
	*ret = row;
	return inner ? 0 : -ENODATA;
}

/* ---- slices, onto the lanes' spills ---- */

static int on_group(void *ctx, const struct draw_group *group)
{
	struct firefox *f = ctx;

	free(f->group);
	f->group = strdup(group->name);
	return f->group ? 0 : -ENOMEM;
}

static int on_lane(void *ctx, const struct draw_lane *lane)
{
	struct firefox *f = ctx;
	uint32_t i = lane->at.index;

	if (!GROW_ZERO(f->lanes, i, f->n_lanes))
		return -ENOMEM;
	struct firefox_lane *l = &f->lanes[i];
	*l = (struct firefox_lane){.at = lane->at, .thread = lane->thread != NULL};
	l->name = strdup(lane->name);
	l->group = strdup(f->group);
	spill_init(&l->markers, &f->file, sizeof(struct marker));
	spill_init(&l->samples, &f->file, sizeof(struct sample));
	return l->name && l->group ? 0 : -ENOMEM;
}

static void add_field(struct marker *m, unsigned key, uint64_t value)
{
	if (m->n_fields == MAX_FIELDS)
		return;
	m->keys[m->n_fields] = (uint8_t)key;
	m->values[m->n_fields++] = value;
}

static int push(struct firefox *f, struct draw_at at, const struct marker *m)
{
	f->lanes[at.index].n_markers++;
	return spill_push(&f->lanes[at.index].markers, m);
}

static int on_slice(void *ctx, const struct draw_slice *s)
{
	struct firefox *f = ctx;
	struct slice_key key = slice_key(s);
	uintptr_t name = (uintptr_t)map_get(&f->by_key, key.a, key.b);
	struct slice_note notes[SLICE_MAX_NOTES];
	struct marker m = {.begin_ns = s->begin_ns, .end_ns = s->end_ns, .type = (uint8_t)s->type};

	if (s->type == DRAW_WAKE) /* on_flow() shows all wakes alike */
		return 0;
	if (!name) {
		_cleanup_buf_ struct buf text = BUF_INIT;

		slice_name(&f->draw, s, &text);
		if (buf_failed(&text))
			return -ENOMEM;
		TRY(string_of(f, text.data ? text.data : "", &m.name));
		TRY(map_put(&f->by_key, key.a, key.b, (void *)(uintptr_t)(m.name + 1ull)));
	} else {
		m.name = (uint32_t)(name - 1);
	}
	unsigned n = slice_notes(&f->draw, s, notes);
	for (unsigned i = 0; i < n; i++) {
		uint32_t text;

		if (notes[i].text)
			TRY(string_of(f, notes[i].text, &text));
		add_field(&m, notes[i].key, notes[i].text ? text : notes[i].number);
	}
	if (s->flow)
		add_field(&m, FIELD_FLOW_END, s->flow);
	return push(f, s->at, &m);
}

static int on_flow(void *ctx, const struct draw_flow *flow)
{
	struct firefox *f = ctx;
	struct marker m = {.begin_ns = flow->from_ns, .end_ns = flow->from_ns, .type = DRAW_WAKE};

	TRY(string_of(f, "wake", &m.name));
	add_field(&m, FIELD_FLOW, flow->number);
	return push(f, flow->from, &m);
}

static int on_long_poll(void *ctx, const struct tl_sample *sample, struct draw_at at)
{
	struct firefox *f = ctx;
	struct marker m = {
		.begin_ns = sample->time_ns, .end_ns = sample->time_ns, .type = DRAW_STACK};
	uint32_t stack;

	TRY(string_of(f,
		      sample->type == TM_LONG_BLOCKED ? "long poll, blocked" : "long poll, running",
		      &m.name));
	if (sample->stack) {
		int r = stack_of(f, sample->stack, &stack);

		if (r < 0 && r != -ENODATA)
			return r;
		if (r == 0)
			add_field(&m, FIELD_STACK, stack);
	}
	return push(f, at, &m);
}

static int on_sample(void *ctx, const struct tl_sample *sample, struct draw_at at)
{
	struct firefox *f = ctx;
	struct firefox_lane *l = &f->lanes[at.index];
	uint32_t stack;
	int r = stack_of(f, sample->stack, &stack);

	if (r < 0)
		return r == -ENODATA ? 0 : r;
	f->weighed = f->weighed || sample->type == TM_CPU_CLOCK;
	l->n_samples++;
	return spill_push(&l->samples, &(struct sample){.time_ns = sample->time_ns,
							.weight = sample->weight,
							.stack = stack});
}

/* ---- the file ---- */

/* ns as ms with six decimals. */
static char *put_ms(char *p, uint64_t ns)
{
	uint64_t rest = ns % NSEC_PER_MSEC;

	p = put_u64(p, ns / NSEC_PER_MSEC);
	*p++ = '.';
	for (unsigned unit = 10000; unit; unit /= 100)
		p = put_mem(p, put_pairs + rest / unit % 100 * 2, 2);
	return p;
}

static uint64_t since_base(const struct firefox *f, uint64_t ns)
{
	return ns > f->draw.sel.base_ns ? ns - f->draw.sel.base_ns : 0;
}

static const char *const schema_names[] = {
	[DRAW_TASK] = "Task",
	[DRAW_REQUEST] = "Request",
	[DRAW_POLL] = "Poll",
	[DRAW_WAIT] = "Wait",
	[DRAW_WAKE] = "Wake",
	[DRAW_BLOCK] = "Block",
	[DRAW_SECTION] = "BlockInPlace",
	[DRAW_PARK] = "Park",
	[DRAW_LOSS] = "Loss",
	[DRAW_SYSCALL] = "Syscall",
	[DRAW_OFF_CPU] = "OffCpu",
	[DRAW_FUTURE_POLL] = "FuturePoll",
	[DRAW_INSTANCE] = "Future",
	[DRAW_INSTANCE_POLL] = "InstancePoll",
	[DRAW_INSTANCE_WAIT] = "InstanceWait",
	[DRAW_STACK] = "LongPoll",
	[DRAW_FINDING] = "Finding",
};

static const char *const colours[] = {
	[DRAW_TASK] = "grey",
	[DRAW_REQUEST] = "purple",
	[DRAW_POLL] = "green",
	[DRAW_WAIT] = "lightblue",
	[DRAW_WAKE] = "blue",
	[DRAW_BLOCK] = "orange",
	[DRAW_SECTION] = "yellow",
	[DRAW_PARK] = "grey",
	[DRAW_LOSS] = "red",
	[DRAW_SYSCALL] = "brown",
	[DRAW_OFF_CPU] = "darkgrey",
	[DRAW_FUTURE_POLL] = "green",
	[DRAW_INSTANCE] = "grey",
	[DRAW_INSTANCE_POLL] = "green",
	[DRAW_INSTANCE_WAIT] = "lightblue",
	[DRAW_STACK] = "red",
	[DRAW_FINDING] = "magenta",
};

/* What the marker table and the chart say of a marker. */
static const char *table_label(enum draw_type type)
{
	switch (type) {
	case DRAW_POLL:
		return "{marker.name}, task {marker.data.task}: {marker.data.outcome}";
	case DRAW_TASK:
		return "{marker.name} #{marker.data.task}: {marker.data.end}";
	case DRAW_FINDING:
		return "{marker.data.text}";
	case DRAW_WAIT:
		return "{marker.name} for {marker.data.awaits}";
	default:
		return "{marker.name}";
	}
}

static void schema_field(struct json *j, const char *key, const char *label, const char *format)
{
	json_object(j, NULL);
	json_string(j, "key", key);
	json_string(j, "label", label);
	json_string(j, "format", format);
	json_end_object(j);
}

static void write_schemas(struct json *j)
{
	json_array(j, "markerSchema");
	for (enum draw_type type = 0; type < DRAW_N_TYPES; type++) {
		json_object(j, NULL);
		json_string(j, "name", schema_names[type]);
		json_string(j, "chartLabel", "{marker.name}");
		json_string(j, "tooltipLabel", "{marker.name}");
		json_string(j, "tableLabel", table_label(type));
		json_array(j, "display");
		json_string(j, NULL, "marker-chart");
		json_string(j, NULL, "marker-table");
		if (type == DRAW_POLL || type == DRAW_BLOCK || type == DRAW_REQUEST)
			json_string(j, NULL, "timeline-overview");
		json_end_array(j);
		json_array(j, "fields");
		for (enum note_key key = 0; key < NOTE_N; key++) {
			const struct note_type *t = &note_types[key];

			schema_field(j, t->name, t->label,
				     t->text ? "unique-string"
				     : t->ns ? "duration"
					     : "integer");
		}
		if (type == DRAW_WAKE)
			schema_field(j, "flow", "wakes", "flow-id");
		if (type == DRAW_POLL)
			schema_field(j, "woken_by", "woken by", "terminating-flow-id");
		json_end_array(j);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_meta(struct firefox *f, struct json *j)
{
	const struct trace_process *tp = trace_reader_process(f->draw.reader, 0);
	const char *exe = tp && tp->exe ? tp->exe : "trace", *slash = strrchr(exe, '/');
	uint64_t base_ns = f->draw.sel.base_ns;
	bool cut = *f->draw.sel.notice; /* write_notice() */
	double start_ms =
		tp ? ((double)tp->start_realtime_ns + ((double)base_ns - (double)tp->start_ns)) /
				1e6
		   : 0;

	json_object(j, "meta");
	json_double(j, "interval", 1);
	json_double(j, "startTime", start_ms > 0 ? start_ms : 0);
	json_u64(j, "processType", 0);
	json_string(j, "product", slash ? slash + 1 : exe);
	json_string(j, "importedFrom", "pollux " POLLUX_VERSION);
	json_string(j, "arguments", tp && tp->cmdline ? tp->cmdline : "");
	json_u64(j, "stackwalk", 1);
	json_u64(j, "version", 27);
	json_u64(j, "preprocessedProfileVersion", 60);
	json_bool(j, "symbolicated", true);
	json_bool(j, "symbolicationNotSupported", true);
	json_bool(j, "usesOnlyOneStackType", true);
	json_bool(j, "sourceCodeIsNotOnSearchfox", true);
	json_bool(j, "keepProfileThreadOrder", true);
	if (*f->draw.sel.notice)
		json_string(j, "misc", f->draw.sel.notice);
	json_array(j, "initialVisibleThreads");
	for (uint32_t i = 0; i < f->draw.n_lanes + cut; i++)
		json_u64(j, NULL, i);
	json_end_array(j);
	json_array(j, "initialSelectedThreads");
	json_u64(j, NULL, cut && f->draw.n_lanes ? 1 : 0);
	json_end_array(j);
	json_array(j, "categories");
	for (enum draw_type type = 0; type < DRAW_N_TYPES; type++) {
		json_object(j, NULL);
		json_string(j, "name", schema_names[type]);
		json_string(j, "color", colours[type]);
		json_array(j, "subcategories");
		json_string(j, NULL, "Other");
		json_end_array(j);
		json_end_object(j);
	}
	json_end_array(j);
	write_schemas(j);
	json_end_object(j);
}

/* ---- columns of a lane ---- */

enum column { COLUMN_DATA, COLUMN_NAME, COLUMN_BEGIN, COLUMN_END, COLUMN_PHASE, COLUMN_CATEGORY };

struct column_walk {
	struct firefox *f;
	enum column column;
	bool more;
};

static char *put_field(char *p, const struct firefox *f, unsigned key, uint64_t value)
{
	*p++ = ',';
	*p++ = '"';
	if (key == FIELD_FLOW || key == FIELD_FLOW_END) {
		p = key == FIELD_FLOW ? put_lit(p, "flow\":") : put_lit(p, "woken_by\":");
		return put_u64(p, f->n_strings + value - 1);
	}
	if (key == FIELD_STACK) {
		p = put_lit(p, "cause\":{\"stack\":");
		p = put_u64(p, value);
		*p++ = '}';
		return p;
	}
	p = put_mem(p, note_types[key].name, strlen(note_types[key].name));
	p = put_lit(p, "\":");
	if (note_types[key].ns)
		return put_ms(p, value);
	if (key == NOTE_RESULT && (int64_t)value < 0) {
		*p++ = '-';
		value = -value;
	}
	return put_u64(p, value);
}

static char *put_data(char *p, const struct firefox *f, const struct marker *m)
{
	p = put_lit(p, "\n{\"type\":\"");
	p = put_mem(p, schema_names[m->type], strlen(schema_names[m->type]));
	*p++ = '"';
	for (unsigned i = 0; i < m->n_fields; i++)
		p = put_field(p, f, m->keys[i], m->values[i]);
	*p++ = '}';
	return p;
}

static bool is_moment(const struct marker *m)
{
	return m->type == DRAW_WAKE || m->type == DRAW_STACK;
}

static int put_marker(void *ctx, const void *record)
{
	struct column_walk *w = ctx;
	const struct marker *m = record;
	char *p = out_room(&w->f->out);

	if (w->more)
		*p++ = ',';
	w->more = true;
	switch (w->column) {
	case COLUMN_DATA:
		p = put_data(p, w->f, m);
		break;
	case COLUMN_NAME:
		p = put_u64(p, m->name);
		break;
	case COLUMN_BEGIN:
		p = put_ms(p, since_base(w->f, m->begin_ns));
		break;
	case COLUMN_END:
		p = is_moment(m) ? put_lit(p, "null") : put_ms(p, since_base(w->f, m->end_ns));
		break;
	case COLUMN_PHASE: /* 0: a moment, 1: an interval */
		*p++ = is_moment(m) ? '0' : '1';
		break;
	case COLUMN_CATEGORY:
		p = put_u64(p, m->type);
		break;
	}
	out_used(&w->f->out, p);
	return w->f->out.error;
}

static void text(struct firefox *f, const char *s)
{
	out_write(&f->out, s, strlen(s));
}

static int write_markers(struct firefox *f, const struct firefox_lane *l)
{
	static const char *const names[] = {"data",    "name",	"startTime",
					    "endTime", "phase", "category"};
	_cleanup_buf_ struct buf end = BUF_INIT;

	text(f, "\"markers\":{");
	for (enum column c = 0; c <= COLUMN_CATEGORY; c++) {
		struct column_walk w = {.f = f, .column = c};

		text(f, c ? ",\"" : "\"");
		text(f, names[c]);
		text(f, "\":[");
		TRY(spill_each(&l->markers, put_marker, &w));
		text(f, "]");
	}
	buf_printf(&end, ",\"length\":%" PRIu64 "}", l->n_markers);
	if (buf_failed(&end))
		return -ENOMEM;
	text(f, end.data);
	return 0;
}

enum sample_column { SAMPLE_STACK, SAMPLE_TIME, SAMPLE_WEIGHT };

static int put_sample(void *ctx, const void *record)
{
	struct column_walk *w = ctx;
	const struct sample *s = record;
	char *p = out_room(&w->f->out);

	if (w->more)
		*p++ = ',';
	w->more = true;
	switch ((enum sample_column)w->column) {
	case SAMPLE_STACK:
		p = put_u64(p, s->stack);
		break;
	case SAMPLE_TIME:
		p = put_ms(p, since_base(w->f, s->time_ns));
		break;
	case SAMPLE_WEIGHT:
		p = w->f->weighed ? put_ms(p, s->weight) : put_u64(p, s->weight);
		break;
	}
	out_used(&w->f->out, p);
	return w->f->out.error;
}

/* Without samples a thread has no tabs: it gets two of nothing, at the window's begin and end. */
static int write_samples(struct firefox *f, const struct firefox_lane *l)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	uint64_t from = since_base(f, f->draw.sel.from_ns), to = since_base(f, f->draw.sel.to_ns);
	static const char *const names[] = {"stack", "time", "weight"};

	if (!l->n_samples) {
		buf_printf(
			&b,
			"\"samples\":{\"weightType\":\"samples\",\"weight\":null,\"stack\":[null,"
			"null],\"time\":[%.6f,%.6f],\"length\":2},",
			(double)from / 1e6, (double)to / 1e6);
		if (buf_failed(&b))
			return -ENOMEM;
		text(f, b.data);
		return 0;
	}
	text(f, f->weighed ? "\"samples\":{\"weightType\":\"tracing-ms\""
			   : "\"samples\":{\"weightType\":\"samples\"");
	for (unsigned c = SAMPLE_STACK; c <= SAMPLE_WEIGHT; c++) {
		struct column_walk w = {.f = f, .column = (enum column)c};

		text(f, ",\"");
		text(f, names[c]);
		text(f, "\":[");
		TRY(spill_each(&l->samples, put_sample, &w));
		text(f, "]");
	}
	buf_printf(&b, ",\"length\":%" PRIu64 "},", l->n_samples);
	if (buf_failed(&b))
		return -ENOMEM;
	text(f, b.data);
	return 0;
}

static int write_thread(struct firefox *f, const struct firefox_lane *l)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	buf_str(&b, "\n{\"processType\":\"default\",\"processStartupTime\":0,"
		    "\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,"
		    "\"pausedRanges\":[],\"showMarkersInTimeline\":true,\"isMainThread\":false,"
		    "\"name\":");
	json_quote_shown(&b, l->name);
	buf_str(&b, ",\"processName\":");
	json_quote_shown(&b, l->group);
	buf_printf(&b, ",\"pid\":\"%" PRIu32 "\",", l->at.pid);
	if (l->thread)
		buf_printf(&b, "\"tid\":%" PRIu32 ",", l->at.tid);
	else
		buf_printf(&b, "\"tid\":\"%" PRIu32 ".%" PRIu32 "\",", l->at.pid, l->at.tid);
	if (buf_failed(&b))
		return -ENOMEM;
	out_write(&f->out, b.data, b.len);
	TRY(write_samples(f, l));
	TRY(write_markers(f, l));
	text(f, "}");
	return f->out.error;
}

/* What was cut, or that there is nothing: a thread without anything, on top. */
static int write_notice(struct firefox *f)
{
	struct firefox_lane l = {.name = f->draw.sel.notice};

	l.group = strdup(f->draw.n_lanes ? "cut" : "nothing");
	if (!l.group)
		return -ENOMEM;
	int r = write_thread(f, &l);
	free(l.group);
	return r;
}

/* ---- tables ---- */

static void write_column(struct firefox *f, const char *name, const struct buf *column)
{
	text(f, "\"");
	text(f, name);
	text(f, "\":[");
	out_write(&f->out, column->data, column->len);
	text(f, "],");
}

/* A column of which all rows are alike. */
static void write_constant(struct firefox *f, const char *name, const char *value, size_t n)
{
	text(f, "\"");
	text(f, name);
	text(f, "\":[");
	for (size_t i = 0; i < n; i++) {
		text(f, i ? "," : "");
		text(f, value);
	}
	text(f, "],");
}

static void write_length(struct firefox *f, size_t n, const char *after)
{
	char *p = out_room(&f->out);

	p = put_lit(p, "\"length\":");
	p = put_u64(p, n);
	*p++ = '}';
	out_used(&f->out, p);
	text(f, after);
}

static void write_tables(struct firefox *f)
{
	size_t n_frames = f->by_frame.n, n_funcs = f->by_func.n, n_objects = f->by_object.n;

	text(f, "\n\"stackTable\":{");
	write_column(f, "frame", &f->stack_frames);
	write_column(f, "prefix", &f->stack_prefixes);
	write_length(f, f->by_stack.n, ",\n\"frameTable\":{");
	write_constant(f, "address", "-1", n_frames);
	write_constant(f, "inlineDepth", "0", n_frames);
	write_constant(f, "category", "2", n_frames); /* of polls */
	write_constant(f, "subcategory", "0", n_frames);
	write_column(f, "func", &f->frame_funcs);
	write_constant(f, "nativeSymbol", "null", n_frames);
	write_constant(f, "innerWindowID", "null", n_frames);
	write_column(f, "line", &f->frame_lines);
	write_constant(f, "column", "null", n_frames);
	write_length(f, n_frames, ",\n\"funcTable\":{");
	write_column(f, "name", &f->func_names);
	write_constant(f, "isJS", "false", n_funcs);
	write_constant(f, "relevantForJS", "false", n_funcs);
	write_column(f, "resource", &f->func_resources);
	write_column(f, "source", &f->func_files);
	write_constant(f, "lineNumber", "null", n_funcs);
	write_constant(f, "columnNumber", "null", n_funcs);
	write_length(f, n_funcs, ",\n\"resourceTable\":{");
	write_constant(f, "lib", "null", n_objects);
	write_column(f, "name", &f->resources);
	write_constant(f, "host", "null", n_objects);
	write_constant(f, "type", "1", n_objects); /* a library */
	write_length(f, n_objects,
		     ",\n\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],"
		     "\"functionSize\":[],\"length\":0},\n\"sources\":{");
	write_constant(f, "uuid", "null", f->by_file.n);
	write_column(f, "filename", &f->sources);
	write_length(f, f->by_file.n, ",\n\"stringArray\":[");
	out_write(&f->out, f->strings.data, f->strings.len);
	for (uint64_t i = 1; i <= f->draw.n_flows; i++) {
		char hex[32];

		snprintf(hex, sizeof(hex), "%s\"%" PRIx64 "\"", i > 1 || f->strings.len ? "," : "",
			 i);
		text(f, hex);
	}
	text(f, "]");
}

static bool tables_failed(const struct firefox *f)
{
	return buf_failed(&f->stack_frames) || buf_failed(&f->stack_prefixes) ||
	       buf_failed(&f->frame_funcs) || buf_failed(&f->frame_lines) ||
	       buf_failed(&f->func_names) || buf_failed(&f->func_files) ||
	       buf_failed(&f->func_resources) || buf_failed(&f->sources) ||
	       buf_failed(&f->resources) || buf_failed(&f->strings);
}

static int write_file(struct firefox *f)
{
	_cleanup_buf_ struct buf head = BUF_INIT;
	struct json j;

	json_init(&j, &head, false);
	j.shown = true;
	json_object(&j, NULL);
	json_string(&j, "exporter", "pollux " POLLUX_VERSION);
	write_meta(f, &j);
	json_array(&j, "libs");
	json_end_array(&j);
	json_array(&j, "threads");
	if (buf_failed(&head) || tables_failed(f))
		return -ENOMEM;
	out_write(&f->out, head.data, head.len);
	if (*f->draw.sel.notice)
		TRY(write_notice(f));
	for (uint32_t i = 0; i < f->draw.n_lanes; i++) {
		text(f, i || *f->draw.sel.notice ? "," : "");
		TRY(write_thread(f, &f->lanes[i]));
	}
	text(f, "],\"shared\":{");
	write_tables(f);
	text(f, "}}\n");
	return f->out.error;
}

static const struct pen firefox_pen = {
	.group = on_group,
	.lane = on_lane,
	.slice = on_slice,
	.flow = on_flow,
	.long_poll = on_long_poll,
	.sample = on_sample,
};

static int draw_all(struct firefox *f, const struct export_options *opt, FILE *file,
		    struct error *err)
{
	int drawn, r = out_init(&f->out, file);

	if (r == 0)
		r = draw_names(&f->draw);
	if (r < 0)
		return error_set(err, r, "out of memory");
	drawn = draw_run(&f->draw, opt, err);
	/* A trace that broke off is shown up to there. */
	r = write_file(f);
	if (r == -ENOMEM)
		return error_set(err, r, "out of memory");
	r = out_end(&f->out, r, err);
	return r < 0 ? r : drawn;
}

static void firefox_done(struct firefox *f)
{
	struct buf *columns[] = {&f->strings,	  &f->stack_frames,   &f->stack_prefixes,
				 &f->frame_funcs, &f->frame_lines,    &f->func_names,
				 &f->func_files,  &f->func_resources, &f->sources,
				 &f->resources};
	struct map *maps[] = {&f->by_key,  &f->by_text, &f->by_stack, &f->by_frame,
			      &f->by_func, &f->by_file, &f->by_object};

	for (uint32_t i = 0; i < f->n_lanes; i++) {
		spill_done(&f->lanes[i].markers);
		spill_done(&f->lanes[i].samples);
		free(f->lanes[i].name);
		free(f->lanes[i].group);
	}
	free(f->lanes);
	free(f->group);
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		buf_done(columns[i]);
	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		map_done(maps[i]);
	spill_file_done(&f->file);
	out_done(&f->out);
	draw_done(&f->draw);
}

static int firefox_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
			 struct export_summary *ret_summary, struct error *err)
{
	struct firefox f = {0};

	spill_file_init(&f.file);
	int r = draw_init(&f.draw, reader, opt, &firefox_limits, &firefox_pen, &f, err);
	if (r == 0) {
		r = draw_all(&f, opt, file, err);
		draw_summary(&f.draw, f.out.bytes, ret_summary);
	}
	firefox_done(&f);
	return r;
}

const struct export_ops export_firefox = {
	.name = "firefox",
	.extension = ".firefox.json",
	.viewers = "Firefox Profiler (profiler.firefox.com)",
	.reads = "firefox",
	.begin = "{\"exporter\":\"pollux ",
	.findings = true,
	.lanes = true,
	.write = firefox_write,
};
