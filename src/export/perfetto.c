/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Perfetto's own format: a sequence of TracePackets (perfetto_trace.proto of version 59), a pen of
 * draw.h.
 *
 *     process track per traced program    its threads; counters of ready tasks and busy workers
 *     below it a track per family         a track per task, or packed
 *
 * A slice is a pair of packets, begin and end, written when it ends. The trace processor sorts all
 * packets by time and keeps the order of the file where times are equal; for that to nest, what is
 * inside begins later than what is around it (draw.h), and slices that touch come in their order.
 * All times are of CLOCK_MONOTONIC, one clock for all packets, so the order of the file is free.
 *
 * Names are sent once, in the packet that needs them first, and have numbers after that. A flow is
 * one wake that led to a poll: a moment on the lane that it came from, and the poll's begin, have
 * its number; each wake has one of its own, for a flow can't fork.
 */
#include "export/cpu_switches.h"
#include "export/draw.h"
#include "export/formats.h"
#include "export/out.h"
#include "export/proto.h"
#include "export/slice_text.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>

/* Fields, by message. */
enum { TRACE_PACKET = 1 };
enum {
	PACKET_FTRACE = 1,
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13, /* 1: begins a sequence again, 2: needs what it has sent */
	PACKET_DEFAULTS = 59,
	PACKET_TRACK = 60,
	PACKET_PERF_SAMPLE = 66,
	PACKET_FIRST = 87, /* of its sequence */
};
enum { CLOCK_ID = 1, CLOCK_TIME = 2, SNAPSHOT_CLOCK = 1, SNAPSHOT_PRIMARY = 2 };
enum { DEFAULTS_CLOCK = 58, DEFAULTS_PERF_SAMPLE = 12 };
enum {
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	TRACK_CHILDREN = 11, /* 3: by rank */
	TRACK_RANK = 12,
	TRACK_DESCRIPTION = 14,
	TRACK_MERGE = 15, /* 2: with none */
};
enum { PROCESS_PID = 1, PROCESS_CMDLINE = 2, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { COUNTER_UNIT = 3 }; /* 2: a count */
enum {
	EVENT_CATEGORY = 3,
	EVENT_NOTE = 4,
	EVENT_TYPE = 9, /* 1: begin, 2: end, 3: a moment, 4: a counter */
	EVENT_NAME_IID = 10,
	EVENT_TRACK = 11,
	EVENT_NAME = 23,
	EVENT_DOUBLE = 44,
	EVENT_FLOW = 47,
	EVENT_FLOW_END = 48,
};
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_MOMENT = 3, TYPE_COUNTER = 4 };
enum { NOTE_NAME_IID = 1, NOTE_UINT = 3, NOTE_INT = 4, NOTE_STRING = 6 };
enum {
	INTERNED_CATEGORIES = 1,
	INTERNED_NAMES = 2,
	INTERNED_NOTE_NAMES = 3,
	INTERNED_FUNCTIONS = 5,
	INTERNED_FRAMES = 6,
	INTERNED_STACKS = 7,
	INTERNED_PATHS = 17,
	INTERNED_SOURCES = 18,
	INTERNED_MAPPINGS = 19,
};
enum { ITEM_IID = 1, ITEM_TEXT = 2 };
enum { MAPPING_START = 4, MAPPING_END = 5, MAPPING_PATHS = 7 };
enum { FRAME_FUNCTION = 2, FRAME_MAPPING = 3, FRAME_PC = 4, FRAME_SOURCE = 5, FRAME_LINE = 6 };
enum { STACK_FRAMES = 2 };
enum { SAMPLE_PID = 2, SAMPLE_TID = 3, SAMPLE_STACK = 4, SAMPLE_COUNT = 6 };

enum { BUNDLE_CPU = 1, BUNDLE_EVENT = 2 };
enum { FTRACE_TIME = 1, FTRACE_TID = 2, FTRACE_SWITCH = 4, FTRACE_WAKING = 20 };
enum {
	SWITCH_PREV_NAME = 1,
	SWITCH_PREV_TID = 2,
	SWITCH_PREV_PRIORITY = 3,
	SWITCH_PREV_STATE = 4, /* the kernel's: 0 can run, 1 sleeps, 2 can't be interrupted */
	SWITCH_NEXT_NAME = 5,
	SWITCH_NEXT_TID = 6,
	SWITCH_NEXT_PRIORITY = 7,
};
enum {
	WAKING_NAME = 1,
	WAKING_TID = 2,
	WAKING_PRIORITY = 3,
	WAKING_SUCCESS = 4,
	WAKING_CPU = 5,
};

enum { CLOCK_REALTIME_ID = 1, CLOCK_MONOTONIC_ID = 3, CLOCK_BOOTTIME_ID = 6 };
enum { SEQUENCE_SLICES = 1, SEQUENCE_SAMPLES = 2, SEQUENCE_SWITCHES = 3 };

/* That of a thread without a wish; recordings do not have it. */
#define PRIORITY 120
#define BUNDLE_EVENTS 512u

/* The first packet: sequence 1 begins. */
#define PERFETTO_BEGIN "\x0a\x07\x50\x01\x68\x01\xb8\x05\x01"

#define MAX_STACK 256u
/* Numbers of tracks: lanes have their index + 1, so that those in every packet are short. */
#define TRACK_OF_GROUP (1ull << 33)
#define TRACK_OF_PROCESS (1ull << 34)
#define TRACK_OF_COUNTER (1ull << 35)

static const struct limits perfetto_limits = {
	.max_slices = 5000000, /* the interface in a browser opens them in a minute */
	.max_lanes = 2000,
	.ceiling_bytes = 500000000, /* a browser opens these, and no 1 GB */
	.ceiling_lanes = 10000,
	.slice_bytes = 80,
	.flow_bytes = 50,
	.lane_bytes = 80,
	.flows = true,
	.requests = true,
	.futures = true,
	.viewer = "Perfetto",
};

struct perfetto {
	struct draw draw;
	struct out out;
	struct buf packet, fresh; /* fresh: interned data that the next packet brings */
	struct map names;	  /* slice_key to number */
	struct map paths;	  /* (hash, field) to number */
	bool *stacks_sent, *frames_sent;
	uint32_t n_stacks_sent, n_frames_sent;
	uint64_t sampled; /* sum of weights; 0: no sample yet */
	bool samples_begun;
	uint64_t family_parent; /* track of the group written last */
	unsigned counter;
	struct cpu_switches switches;
};

/* ---- packets ---- */

static size_t packet_begin(struct perfetto *p, unsigned sequence, unsigned flags)
{
	buf_clear(&p->packet);
	size_t packet = proto_begin(&p->packet, TRACE_PACKET);

	proto_u64(&p->packet, PACKET_SEQUENCE, sequence);
	if (flags)
		proto_u64(&p->packet, PACKET_FLAGS, flags);
	return packet;
}

static int packet_end(struct perfetto *p, size_t packet)
{
	if (p->fresh.len) {
		proto_bytes(&p->packet, PACKET_INTERNED, p->fresh.data, p->fresh.len);
		buf_clear(&p->fresh);
	}
	proto_end(&p->packet, packet);
	if (buf_failed(&p->packet) || buf_failed(&p->fresh))
		return -ENOMEM;
	out_write(&p->out, p->packet.data, p->packet.len);
	return p->out.error;
}

/* A text with a number, for the next packet. */
static void intern(struct perfetto *p, unsigned field, uint64_t iid, const char *text)
{
	size_t item = proto_begin(&p->fresh, field);

	proto_u64(&p->fresh, ITEM_IID, iid);
	proto_text(&p->fresh, ITEM_TEXT, text);
	proto_end(&p->fresh, item);
}

/* ---- the head ---- */

static void put_clock(struct buf *b, unsigned id, uint64_t ns)
{
	size_t clock = proto_begin(b, SNAPSHOT_CLOCK);

	proto_u64(b, CLOCK_ID, id);
	proto_u64(b, CLOCK_TIME, ns);
	proto_end(b, clock);
}

/* All begins here: which clock times are of, and the names of categories and fields. */
static int write_begin(struct perfetto *p)
{
	const struct trace_process *tp = trace_reader_process(p->draw.reader, 0);
	struct buf *b = &p->packet;
	size_t packet = packet_begin(p, SEQUENCE_SLICES, 1);

	proto_u64(b, PACKET_FIRST, 1);
	TRY(packet_end(p, packet)); /* alike in all our files: PERFETTO_BEGIN */
	packet = packet_begin(p, SEQUENCE_SLICES, 0);
	size_t snapshot = proto_begin(b, PACKET_CLOCK_SNAPSHOT);
	uint64_t ns = tp ? tp->start_ns : p->draw.sel.base_ns;

	put_clock(b, CLOCK_BOOTTIME_ID, ns);
	put_clock(b, CLOCK_MONOTONIC_ID, ns);
	put_clock(b, CLOCK_REALTIME_ID, tp ? tp->start_realtime_ns : 0);
	proto_u64(b, SNAPSHOT_PRIMARY, CLOCK_MONOTONIC_ID);
	proto_end(b, snapshot);
	TRY(packet_end(p, packet));

	packet = packet_begin(p, SEQUENCE_SLICES, 0);
	size_t defaults = proto_begin(b, PACKET_DEFAULTS);
	proto_u64(b, DEFAULTS_CLOCK, CLOCK_MONOTONIC_ID);
	proto_end(b, defaults);
	for (enum draw_type type = 0; type < DRAW_N_TYPES; type++)
		intern(p, INTERNED_CATEGORIES, type + 1, slice_category(type));
	for (enum note_key key = 0; key < NOTE_N; key++)
		intern(p, INTERNED_NOTE_NAMES, key + 1, note_types[key].name);
	return packet_end(p, packet);
}

/* ---- tracks ---- */

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ? path : "";
}

static uint64_t process_track(uint32_t pid)
{
	return TRACK_OF_PROCESS + pid;
}

/* The process that a family's tasks are in. */
static uint64_t family_process(const struct perfetto *p, const struct lane_family *f)
{
	const struct trace_kind *k = trace_reader_kind(p->draw.reader, f->kind);
	const struct trace_process *tp = trace_reader_process(p->draw.reader, k ? k->process : 0);

	return tp ? process_track(tp->pid) : 0;
}

static void put_process(struct buf *b, const struct trace_process *tp)
{
	size_t process = proto_begin(b, TRACK_PROCESS);

	proto_u64(b, PROCESS_PID, tp->pid);
	proto_text(b, PROCESS_CMDLINE, tp->cmdline ? tp->cmdline : "");
	proto_text(b, PROCESS_NAME, base_name(tp->exe));
	proto_end(b, process);
}

static int on_group(void *ctx, const struct draw_group *group)
{
	struct perfetto *p = ctx;
	struct buf *b = &p->packet;
	size_t packet = packet_begin(p, SEQUENCE_SLICES, 0);
	size_t track = proto_begin(b, PACKET_TRACK);

	if (group->type == GROUP_THREADS) {
		proto_u64(b, TRACK_UUID, process_track(group->pid));
		put_process(b, group->process);
	} else {
		uint64_t parent = group->family ? family_process(p, group->family) : 0;

		p->family_parent = TRACK_OF_GROUP + group->rank;
		proto_u64(b, TRACK_UUID, p->family_parent);
		proto_text(b, TRACK_NAME, group->name);
		if (parent)
			proto_u64(b, TRACK_PARENT, parent);
		if (group->site)
			proto_text(b, TRACK_DESCRIPTION, group->site);
		proto_u64(b, TRACK_RANK, group->rank);
		proto_u64(b, TRACK_MERGE, 2);
	}
	proto_u64(b, TRACK_CHILDREN, 3);
	proto_end(b, track);
	TRY(packet_end(p, packet));
	if (group->type != GROUP_CUT)
		return 0;

	/* What was cut, impossible to miss: a slice over all of the window. */
	for (unsigned type = TYPE_BEGIN; type <= TYPE_END; type++) {
		packet = packet_begin(p, SEQUENCE_SLICES, 2);
		proto_u64(b, PACKET_TIMESTAMP,
			  type == TYPE_BEGIN ? p->draw.sel.from_ns : p->draw.sel.to_ns);
		size_t event = proto_begin(b, PACKET_TRACK_EVENT);
		proto_u64(b, EVENT_TYPE, type);
		proto_u64(b, EVENT_TRACK, p->family_parent);
		if (type == TYPE_BEGIN)
			proto_text(b, EVENT_NAME, group->name);
		proto_end(b, event);
		TRY(packet_end(p, packet));
	}
	return 0;
}

static int on_lane(void *ctx, const struct draw_lane *lane)
{
	struct perfetto *p = ctx;
	struct buf *b = &p->packet;
	size_t packet = packet_begin(p, SEQUENCE_SLICES, 0);
	size_t track = proto_begin(b, PACKET_TRACK);

	proto_u64(b, TRACK_UUID, lane->at.index + 1);
	if (lane->thread) {
		size_t thread = proto_begin(b, TRACK_THREAD);

		proto_u64(b, THREAD_PID, lane->at.pid);
		proto_u64(b, THREAD_TID, lane->at.tid);
		proto_text(b, THREAD_NAME, lane->name);
		proto_end(b, thread);
	} else {
		proto_text(b, TRACK_NAME, lane->name);
		proto_u64(b, TRACK_PARENT, p->family_parent);
		proto_u64(b, TRACK_MERGE, 2);
	}
	proto_u64(b, TRACK_RANK, lane->rank);
	proto_end(b, track);
	return packet_end(p, packet);
}

/* ---- slices ---- */

/* The number of a slice's name, 0 when out of memory. */
static uint64_t name_of(struct perfetto *p, const struct draw_slice *s)
{
	struct slice_key key = slice_key(s);
	uint64_t iid = (uintptr_t)map_get(&p->names, key.a, key.b);
	_cleanup_buf_ struct buf name = BUF_INIT;

	if (iid)
		return iid;
	iid = p->names.n + 1;
	slice_name(&p->draw, s, &name);
	if (buf_failed(&name) || map_put(&p->names, key.a, key.b, (void *)(uintptr_t)iid) < 0)
		return 0;
	intern(p, INTERNED_NAMES, iid, name.data ? name.data : "");
	return iid;
}

static void put_note(struct buf *b, const struct slice_note *n)
{
	size_t note = proto_begin(b, EVENT_NOTE);

	proto_u64(b, NOTE_NAME_IID, n->key + 1);
	if (n->text)
		proto_text(b, NOTE_STRING, n->text);
	else
		proto_u64(b, n->key == NOTE_RESULT ? NOTE_INT : NOTE_UINT, n->number);
	proto_end(b, note);
}

static int on_slice(void *ctx, const struct draw_slice *s)
{
	struct perfetto *p = ctx;
	struct buf *b = &p->packet;
	struct slice_note notes[SLICE_MAX_NOTES];

	if (s->type == DRAW_WAKE) /* on_flow() draws all wakes alike */
		return 0;
	uint64_t name = name_of(p, s);
	if (!name)
		return -ENOMEM;
	unsigned n_notes = slice_notes(&p->draw, s, notes);

	size_t packet = packet_begin(p, SEQUENCE_SLICES, 2);
	proto_u64(b, PACKET_TIMESTAMP, s->begin_ns);
	size_t event = proto_begin(b, PACKET_TRACK_EVENT);
	proto_u64(b, EVENT_TYPE, TYPE_BEGIN);
	proto_u64(b, EVENT_TRACK, s->at.index + 1);
	proto_u64(b, EVENT_CATEGORY, s->type + 1);
	proto_u64(b, EVENT_NAME_IID, name);
	for (unsigned i = 0; i < n_notes; i++)
		put_note(b, &notes[i]);
	if (s->flow)
		proto_fixed64(b, EVENT_FLOW_END, s->flow);
	proto_end(b, event);
	TRY(packet_end(p, packet));

	packet = packet_begin(p, SEQUENCE_SLICES, 0);
	proto_u64(b, PACKET_TIMESTAMP, s->end_ns);
	event = proto_begin(b, PACKET_TRACK_EVENT);
	proto_u64(b, EVENT_TYPE, TYPE_END);
	proto_u64(b, EVENT_TRACK, s->at.index + 1);
	proto_end(b, event);
	return packet_end(p, packet);
}

/* A moment on a lane; `stack` may be NULL. */
static int moment(struct perfetto *p, struct draw_at at, uint64_t ns, enum draw_type category,
		  const char *name, const char *stack, uint64_t flow)
{
	struct buf *b = &p->packet;
	size_t packet = packet_begin(p, SEQUENCE_SLICES, 2);

	proto_u64(b, PACKET_TIMESTAMP, ns);
	size_t event = proto_begin(b, PACKET_TRACK_EVENT);
	proto_u64(b, EVENT_TYPE, TYPE_MOMENT);
	proto_u64(b, EVENT_TRACK, at.index + 1);
	proto_u64(b, EVENT_CATEGORY, category + 1);
	proto_text(b, EVENT_NAME, name);
	if (stack)
		put_note(b, &(struct slice_note){.key = NOTE_STACK, .text = stack});
	if (flow)
		proto_fixed64(b, EVENT_FLOW, flow);
	proto_end(b, event);
	return packet_end(p, packet);
}

static int on_flow(void *ctx, const struct draw_flow *flow)
{
	return moment(ctx, flow->from, flow->from_ns, DRAW_WAKE, "wake", NULL, flow->number);
}

static int on_long_poll(void *ctx, const struct tl_sample *sample, struct draw_at at)
{
	struct perfetto *p = ctx;
	_cleanup_buf_ struct buf stack = BUF_INIT;

	draw_stack_text(&p->draw, sample, &stack);
	if (buf_failed(&stack))
		return -ENOMEM;
	return moment(p, at, sample->time_ns, DRAW_STACK,
		      sample->type == TM_LONG_BLOCKED ? "long poll, blocked" : "long poll, running",
		      stack.data, 0);
}

/* ---- samples ---- */

/* The number of a text in one of the tables of paths, which it gets when new. */
static uint64_t path_of(struct perfetto *p, unsigned field, const char *path)
{
	uint64_t hash = hash_string(0, path);
	uint64_t iid = (uintptr_t)map_get(&p->paths, hash, field);

	if (iid)
		return iid;
	iid = p->paths.n + 1;
	if (map_put(&p->paths, hash, field, (void *)(uintptr_t)iid) < 0)
		return 0;
	intern(p, field, iid, path);
	if (field ==
	    INTERNED_PATHS) { /* all code of a file is one mapping, with the path's number */
		size_t mapping = proto_begin(&p->fresh, INTERNED_MAPPINGS);

		proto_u64(&p->fresh, ITEM_IID, iid);
		proto_u64(&p->fresh, MAPPING_START, 0);
		proto_u64(&p->fresh, MAPPING_END, INT64_MAX);
		proto_u64(&p->fresh, MAPPING_PATHS, iid);
		proto_end(&p->fresh, mapping);
	}
	return iid;
}

static int send_frame(struct perfetto *p, uint32_t frame)
{
	const struct trace_frame *f = trace_reader_frame(p->draw.reader, frame);
	_cleanup_buf_ struct buf name = BUF_INIT;

	if (!GROW_ZERO(p->frames_sent, frame, p->n_frames_sent))
		return -ENOMEM;
	if (p->frames_sent[frame])
		return 0;
	p->frames_sent[frame] = true;
	trace_frame_name(&name, f);
	uint64_t mapping = path_of(p, INTERNED_PATHS, f && f->object ? f->object : "");
	uint64_t source = f && f->file && *f->file ? path_of(p, INTERNED_SOURCES, f->file) : 0;
	if (buf_failed(&name) || !mapping)
		return -ENOMEM;
	intern(p, INTERNED_FUNCTIONS, frame + 1ull, name.data ? name.data : "");
	size_t item = proto_begin(&p->fresh, INTERNED_FRAMES);
	proto_u64(&p->fresh, ITEM_IID, frame + 1ull);
	proto_u64(&p->fresh, FRAME_FUNCTION, frame + 1ull);
	proto_u64(&p->fresh, FRAME_MAPPING, mapping);
	proto_u64(&p->fresh, FRAME_PC, f ? f->addr : 0);
	if (source)
		proto_u64(&p->fresh, FRAME_SOURCE, source);
	if (source && f->line)
		proto_u64(&p->fresh, FRAME_LINE, f->line);
	proto_end(&p->fresh, item);
	return 0;
}

static int send_stack(struct perfetto *p, uint32_t stack)
{
	const struct trace_stack *s = trace_reader_stack(p->draw.reader, stack);
	uint32_t frames[MAX_STACK];
	unsigned n = 0;

	if (!GROW_ZERO(p->stacks_sent, stack, p->n_stacks_sent))
		return -ENOMEM;
	if (p->stacks_sent[stack])
		return 0;
	p->stacks_sent[stack] = true;
	for (; s && n < MAX_STACK;
	     s = s->parent ? trace_reader_stack(p->draw.reader, s->parent - 1) : NULL)
		frames[n++] = s->frame;
	for (unsigned i = 0; i < n; i++)
		TRY(send_frame(p, frames[i]));
	size_t item = proto_begin(&p->fresh, INTERNED_STACKS);
	proto_u64(&p->fresh, ITEM_IID, stack + 1ull);
	while (n-- > 0) /* outermost first */
		proto_u64(&p->fresh, STACK_FRAMES, frames[n] + 1ull);
	proto_end(&p->fresh, item);
	return 0;
}

static int begin_samples(struct perfetto *p, const struct tl_sample *sample)
{
	enum {
		TIMEBASE = 1,
		PERIOD = 1,
		COUNTER = 4,
		CPU_CLOCK = 1,
		CYCLES = 10,
		INSTRUCTIONS = 11
	};
	struct buf *b = &p->packet;
	size_t packet = packet_begin(p, SEQUENCE_SAMPLES, 1);
	size_t defaults = proto_begin(b, PACKET_DEFAULTS);

	p->samples_begun = true;
	proto_u64(b, DEFAULTS_CLOCK, CLOCK_MONOTONIC_ID);
	size_t perf = proto_begin(b, DEFAULTS_PERF_SAMPLE);
	size_t timebase = proto_begin(b, TIMEBASE);
	proto_u64(b, PERIOD, sample->weight ? sample->weight : 1);
	proto_u64(b, COUNTER,
		  sample->type == TM_CYCLES	    ? CYCLES
		  : sample->type == TM_INSTRUCTIONS ? INSTRUCTIONS
						    : CPU_CLOCK);
	proto_end(b, timebase);
	proto_end(b, perf);
	proto_end(b, defaults);
	return packet_end(p, packet);
}

static int on_sample(void *ctx, const struct tl_sample *sample, struct draw_at at)
{
	struct perfetto *p = ctx;
	struct buf *b = &p->packet;

	if (!p->samples_begun)
		TRY(begin_samples(p, sample));
	TRY(send_stack(p, (uint32_t)(sample->stack - 1)));
	p->sampled += sample->weight;
	size_t packet = packet_begin(p, SEQUENCE_SAMPLES, 2);
	proto_u64(b, PACKET_TIMESTAMP, sample->time_ns);
	size_t perf = proto_begin(b, PACKET_PERF_SAMPLE);
	proto_u64(b, SAMPLE_PID, at.pid);
	proto_u64(b, SAMPLE_TID, at.tid);
	proto_u64(b, SAMPLE_STACK, sample->stack);
	proto_u64(b, SAMPLE_COUNT, p->sampled);
	proto_end(b, perf);
	return packet_end(p, packet);
}

/* ---- what CPUs ran ---- */

static int on_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct perfetto *p = ctx;

	return cpu_switches_add(&p->switches, p->draw.reader, off);
}

/* An ftrace event of a type, to be filled; proto_end() of *ret_event, too. */
static size_t ftrace_begin(struct buf *b, unsigned type, uint64_t time_ns, uint32_t tid,
			   size_t *ret_event)
{
	*ret_event = proto_begin(b, BUNDLE_EVENT);
	proto_u64(b, FTRACE_TIME, time_ns);
	proto_u64(b, FTRACE_TID, tid);
	return proto_begin(b, type);
}

static void put_switch(struct buf *b, const struct cpu_switch *s)
{
	size_t event, body = ftrace_begin(b, FTRACE_SWITCH, s->time_ns, s->prev.tid, &event);

	proto_text(b, SWITCH_PREV_NAME, s->prev.name);
	proto_u64(b, SWITCH_PREV_TID, s->prev.tid);
	proto_u64(b, SWITCH_PREV_PRIORITY, PRIORITY);
	proto_u64(b, SWITCH_PREV_STATE, s->known && s->prev_runs ? 0 : s->prev_deep ? 2 : 1);
	proto_text(b, SWITCH_NEXT_NAME, s->next.name);
	proto_u64(b, SWITCH_NEXT_TID, s->next.tid);
	proto_u64(b, SWITCH_NEXT_PRIORITY, PRIORITY);
	proto_end(b, body);
	proto_end(b, event);
}

static void put_waking(struct buf *b, const struct cpu_waking *w)
{
	size_t event, body = ftrace_begin(b, FTRACE_WAKING, w->time_ns, w->waker.tid, &event);

	proto_text(b, WAKING_NAME, w->woken.name);
	proto_u64(b, WAKING_TID, w->woken.tid);
	proto_u64(b, WAKING_PRIORITY, PRIORITY);
	proto_u64(b, WAKING_SUCCESS, 1);
	proto_u64(b, WAKING_CPU, w->cpu);
	proto_end(b, body);
	proto_end(b, event);
}

/* The next packet: switches and wakings of one CPU in order of time. */
static int put_bundle(struct perfetto *p, size_t *at, size_t *waking)
{
	const struct cpu_switches *c = &p->switches;
	const struct cpu_switch *s = *at < c->n ? &c->items[*at] : NULL;
	const struct cpu_waking *w = *waking < c->n_wakings ? &c->wakings[*waking] : NULL;
	uint32_t cpu = s && (!w || s->cpu <= w->cpu) ? s->cpu : w->cpu;
	size_t packet = packet_begin(p, SEQUENCE_SWITCHES, 0);
	size_t bundle = proto_begin(&p->packet, PACKET_FTRACE);

	proto_u64(&p->packet, BUNDLE_CPU, cpu);
	for (unsigned n = 0; n < BUNDLE_EVENTS; n++) {
		s = *at < c->n && c->items[*at].cpu == cpu ? &c->items[*at] : NULL;
		w = *waking < c->n_wakings && c->wakings[*waking].cpu == cpu ? &c->wakings[*waking]
									     : NULL;
		if (w && (!s || w->time_ns <= s->time_ns)) {
			put_waking(&p->packet, w);
			++*waking;
		} else if (s) {
			put_switch(&p->packet, s);
			++*at;
		} else {
			break;
		}
	}
	proto_end(&p->packet, bundle);
	return packet_end(p, packet);
}

static int put_switches(struct perfetto *p)
{
	size_t at = 0, waking = 0;

	TRY(cpu_switches_finish(&p->switches));
	while (at < p->switches.n || waking < p->switches.n_wakings)
		TRY(put_bundle(p, &at, &waking));
	return 0;
}

/* ---- counters ---- */

static int put_value(void *ctx, uint64_t at_ns, double value)
{
	struct perfetto *p = ctx;
	struct buf *b = &p->packet;
	size_t packet = packet_begin(p, SEQUENCE_SLICES, 2);

	proto_u64(b, PACKET_TIMESTAMP, at_ns);
	size_t event = proto_begin(b, PACKET_TRACK_EVENT);
	proto_u64(b, EVENT_TYPE, TYPE_COUNTER);
	proto_u64(b, EVENT_TRACK, TRACK_OF_COUNTER + p->counter);
	proto_double(b, EVENT_DOUBLE, value);
	proto_end(b, event);
	return packet_end(p, packet);
}

static int on_counter(void *ctx, const char *name, const struct gauge *gauge)
{
	struct perfetto *p = ctx;
	struct buf *b = &p->packet;
	const struct trace_process *tp = trace_reader_process(p->draw.reader, 0);
	size_t packet = packet_begin(p, SEQUENCE_SLICES, 0);
	size_t track = proto_begin(b, PACKET_TRACK);

	p->counter++;
	proto_u64(b, TRACK_UUID, TRACK_OF_COUNTER + p->counter);
	proto_text(b, TRACK_NAME, name);
	if (tp && trace_reader_n_processes(p->draw.reader) == 1)
		proto_u64(b, TRACK_PARENT, process_track(tp->pid));
	size_t counter = proto_begin(b, TRACK_COUNTER);
	proto_u64(b, COUNTER_UNIT, 2);
	proto_end(b, counter);
	proto_end(b, track);
	TRY(packet_end(p, packet));
	return gauge_each(gauge, put_value, p);
}

/* ---- the file ---- */

static const struct pen perfetto_pen = {
	.group = on_group,
	.lane = on_lane,
	.slice = on_slice,
	.flow = on_flow,
	.long_poll = on_long_poll,
	.sample = on_sample,
	.off_cpu = on_off_cpu,
	.counter = on_counter,
};

static int write_all(struct perfetto *p, const struct export_options *opt, FILE *file,
		     struct error *err)
{
	int r = out_init(&p->out, file);

	if (r == 0)
		r = write_begin(p);
	if (r == 0)
		r = draw_names(&p->draw);
	if (r == -ENOMEM)
		return error_set(err, r, "out of memory");
	if (r == 0)
		r = draw_run(&p->draw, opt, err);
	if (r == 0)
		r = put_switches(p);
	if (r == -ENOMEM)
		error_set(err, r, "out of memory");
	return out_end(&p->out, r, err);
}

static int perfetto_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
			  struct export_summary *ret_summary, struct error *err)
{
	struct perfetto p = {0};
	int r = draw_init(&p.draw, reader, opt, &perfetto_limits, &perfetto_pen, &p, err);

	if (r == 0) {
		r = write_all(&p, opt, file, err);
		draw_summary(&p.draw, p.out.bytes, ret_summary);
	}
	buf_done(&p.packet);
	buf_done(&p.fresh);
	map_done(&p.names);
	map_done(&p.paths);
	cpu_switches_done(&p.switches);
	free(p.stacks_sent);
	free(p.frames_sent);
	out_done(&p.out);
	draw_done(&p.draw);
	return r;
}

const struct export_ops export_perfetto = {
	.name = "perfetto",
	.extension = ".pftrace",
	.viewers = "Perfetto (ui.perfetto.dev), its trace processor",
	.reads = "perfetto",
	.begin = PERFETTO_BEGIN,
	.findings = true,
	.lanes = true,
	.write = perfetto_write,
};
