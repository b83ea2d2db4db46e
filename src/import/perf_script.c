/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The text of `perf script`: Tokio2Chrome's recordings (seven probes, system calls, samples with
 * call chains), async-std's five events, and whatever else has probes that src/runtime/providers.h
 * knows. One line is one event, frames of its stack follow on lines of their own, innermost first,
 * up to an empty line. Frames of events that keep no stack are not even looked at.
 */
#include "base/vec.h"
#include "import/input.h"
#include "import/perf_events.h"
#include "import/perf_switch.h"
#include "import/sink.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "binary/names.h"

#include <errno.h>
#include <string.h>

#define MAX_EVENT_NAMES ((size_t)1 << 20)
#define MAX_FRAME_KEY 2048u

struct script {
	struct input *in;
	struct sink *sink;
	struct import_names names; /* of events */
	struct perf_event *events;
	uint32_t n_events;

	/* the event whose stack is being read */
	struct sink_item hit;
	bool open, keeps_stack;
	uint32_t frames[FRAMES_MAX_DEPTH];
	size_t n_frames;
	bool cut; /* the outermost frame is one that perf could not get beyond */
	bool in_stack;

	uint64_t n_heads;
};

static void doubt(struct script *s, const char *reason, const struct perf_text *detail)
{
	sink_diagnose(s->sink, reason, detail ? detail->p : NULL, detail ? detail->len : 0,
		      s->in->n_lines);
}

/* ---- stacks ---- */

static char *frame_name(const struct perf_text *function)
{
	_cleanup_free_ char *text = strndup(function->p, function->len);
	if (!text)
		return NULL;
	_cleanup_free_ char *plain = name_demangle(text);
	return name_shorten(plain ? plain : text);
}

static uint32_t add_frame(struct script *s, const struct perf_frame *f, const char *key, size_t len)
{
	_cleanup_free_ char *name = f->function.len ? frame_name(&f->function) : NULL;
	_cleanup_free_ char *object = strndup(f->object.p ? f->object.p : "", f->object.len);
	const struct trace_frame frame = {
		.process = s->hit.thread->process->index,
		.addr = f->function.len ? 0 : f->addr,
		.object = object,
		.function = name,
	};
	return frames_add(&s->sink->frames, key, len, &frame);
}

/* What makes a frame another one: its function and object, of unknown functions the address. Only
 * the beginnings of very long names count. */
static size_t frame_key(const struct perf_frame *f, char key[MAX_FRAME_KEY])
{
	size_t max = MAX_FRAME_KEY / 2 - 16;
	size_t function = f->function.len < max ? f->function.len : max;
	size_t object = f->object.len < max ? f->object.len : max;

	memcpy(key, f->function.p, function);
	key[function] = 0;
	if (object)
		memcpy(key + function + 1, f->object.p, object);
	size_t n = function + 1 + object;
	if (!function) {
		memcpy(key + n, &f->addr, sizeof(f->addr));
		n += sizeof(f->addr);
	}
	return n;
}

static void stack_line(struct script *s, const char *line, size_t len)
{
	struct perf_frame f;
	char key[MAX_FRAME_KEY];

	if (!s->keeps_stack)
		return;
	if (!perf_frame_parse(line, len, &f)) {
		doubt(s, "a line that is neither an event nor a frame of a stack", NULL);
		return;
	}
	if (s->n_frames == FRAMES_MAX_DEPTH) {
		s->cut = true;
		return;
	}
	/* Where perf lost its way it leaves an address that can't be one. */
	if (f.addr == UINT64_MAX && !f.function.len) {
		s->cut = true;
		return;
	}
	size_t n = frame_key(&f, key);
	uint32_t frame = frames_find(&s->sink->frames, key, n);
	if (frame == UINT32_MAX)
		frame = add_frame(s, &f, key, n);
	s->frames[s->n_frames++] = frame;
}

/* The event that was read is complete. */
static int finish(struct script *s)
{
	if (!s->open)
		return 0;
	s->open = false;
	if (s->n_frames)
		s->hit.stack = frames_stack(&s->sink->frames, s->frames, s->n_frames,
					    s->cut ? TRACE_STACK_CUT : 0);
	return sink_hit(s->sink, &s->hit);
}

/* ---- events ---- */

static struct perf_event *event_of(struct script *s, const struct perf_text *name)
{
	bool is_new;
	uint32_t number = names_get(&s->names, name->p, name->len, &is_new);

	if (number == UINT32_MAX)
		return NULL;
	if (!is_new)
		return &s->events[number];
	if (!GROW_ONE(s->events, number)) {
		s->sink->code = -ENOMEM;
		return NULL;
	}
	s->n_events = number + 1;
	perf_event_classify(name->p, name->len, &s->events[number]);
	return &s->events[number];
}

/* "(55ea9c1284a4) arg1=7 arg2=1": false, and reported, if they are not what the probe has. */
static bool probe_args(struct script *s, const struct perf_event *e, struct perf_text rest)
{
	struct perf_field fields[PROVIDER_MAX_ARGS], f;
	size_t n = 0;

	while (n < PROVIDER_MAX_ARGS && perf_field_next(&rest, &f))
		if (f.is_number || f.is_string)
			fields[n++] = f;
	const struct provider_probe *probe = perf_event_probe(e, n);
	if (!probe) {
		doubt(s, "a probe without the arguments that it should have:",
		      &(struct perf_text){e->name, strlen(e->name)});
		return false;
	}
	s->hit.type = HIT_PROBE;
	s->hit.probe = probe;
	for (size_t i = 0; i < n && i < PROVIDER_MAX_ARGS; i++) {
		s->hit.args[i] = fields[i].value;
		if (!fields[i].is_string)
			continue;
		const char *text = sink_keep(s->sink, fields[i].text.p, fields[i].text.len);
		if (probe->args[i] == PV_FILE)
			s->hit.file = text;
		else if (probe->args[i] == PV_NAME)
			s->hit.name = text;
	}
	s->keeps_stack = probe->type == PW_SPAWN;
	return true;
}

/* "NR 12 (0, 7ffc19581bac, 0)", "NR 12 = 94632077967360"; of named ones "fd: 0x5" and "0x10". */
static bool syscall_args(struct script *s, const struct perf_event *e, struct perf_text rest)
{
	uint64_t number = (uint64_t)e->syscall, result = 0;
	bool is_exit = e->type == PE_SYS_EXIT;

	if (e->syscall < 0) {
		if (!perf_text_starts(&rest, "NR ")) {
			doubt(s, "a system call without its number", NULL);
			return false;
		}
		rest.p += 3;
		rest.len -= 3;
		if (!perf_number(&rest, &number)) {
			doubt(s, "a system call without its number", NULL);
			return false;
		}
		if (is_exit && perf_text_starts(&rest, " = ")) {
			rest.p += 3;
			rest.len -= 3;
		}
	}
	if (is_exit && !perf_number(&rest, &result)) {
		doubt(s, "the end of a system call without its result", NULL);
		return false;
	}
	/* -1: the kernel was asked for one that it does not have. */
	if (number > UINT16_MAX)
		number = UINT16_MAX;
	s->hit.type = is_exit ? HIT_SYS_EXIT : HIT_SYS_ENTER;
	s->hit.detail = e->syscall < 0;
	s->hit.args[0] = number;
	s->hit.args[1] = result;
	return true;
}

static bool sample(struct script *s, const struct perf_event *e, const struct perf_head *h)
{
	s->hit.type = HIT_SAMPLE;
	s->hit.detail = (uint16_t)e->sample;
	s->hit.args[0] = h->period ? h->period : 1;
	s->keeps_stack = true;
	/* Without call chains the one frame is on the same line. */
	if (h->rest.len)
		stack_line(s, h->rest.p, h->rest.len);
	return true;
}

/* "PERF_RECORD_LOST lost 5", "PERF_RECORD_EXIT(12:13):(12:12)", "PERF_RECORD_SWITCH OUT preempt":
 * what perf script prints of records that are no samples, if it was asked to. */
static bool is_other_record(const struct perf_head *h)
{
	const struct perf_text *event = &h->event;
	return perf_text_starts(event, "PERF_RECORD_LOST") ||
	       perf_text_starts(event, "PERF_RECORD_EXIT") ||
	       (perf_text_starts(event, "PERF_RECORD_SWITCH") && perf_is_thread(h->tid));
}

static bool other_record(struct script *s, const struct perf_head *h)
{
	struct perf_text rest = h->rest;

	if (perf_text_starts(&h->event, "PERF_RECORD_LOST")) {
		const char *word = memmem(rest.p, rest.len, "lost ", 5);
		if (word)
			rest = (struct perf_text){word + 5,
						  (size_t)(rest.p + rest.len - (word + 5))};
		s->hit.type = HIT_LOST;
		if (word && perf_number(&rest, &s->hit.args[0]))
			return true;
		doubt(s, "lost events without their number", NULL);
		return false;
	}
	if (perf_text_starts(&h->event, "PERF_RECORD_EXIT")) {
		s->hit.type = HIT_EXIT;
		return true;
	}
	bool out = perf_text_starts(&rest, "OUT");
	if (!out && !perf_text_starts(&rest, "IN")) {
		doubt(s, "a context switch that does not say whether the thread left or returned",
		      NULL);
		return false;
	}
	s->hit.type = out ? HIT_OFF_CPU : HIT_ON_CPU;
	s->hit.detail = perf_text_starts(&rest, "OUT preempt") ? TX_PREEMPTED : TX_SLEEPING;
	return true;
}

/* "PERF_RECORD_MMAP2 8/8: [0x55d0(0x1000) @ 0 fe:00 5 0]: r-xp /home/u/app": the first code that a
 * process maps is its own. */
static void mmap_record(struct script *s, const struct perf_head *h)
{
	const char *path = memmem(h->rest.p, h->rest.len, "]: r-xp /", 9);

	if (!path || !perf_text_starts(&h->event, "PERF_RECORD_MMAP"))
		return;
	path += 8;
	struct import_process *p = sink_process(s->sink, h->pid, NULL, 0);
	if (p && !p->exe)
		sink_process(s->sink, h->pid, path, (size_t)(h->rest.p + h->rest.len - path));
}

static int switch_line(struct script *s, const struct perf_head *h)
{
	struct import_thread *t = NULL;
	struct perf_switch sw;

	if (!perf_switch_parse(&h->rest, &sw)) {
		doubt(s, "a context switch that does not name the thread", NULL);
		return 0;
	}
	if (perf_is_thread(h->tid))
		t = sink_thread(s->sink, h->pid, h->tid, h->comm.p, h->comm.len);
	return s->sink->code ? s->sink->code : perf_switch_hit(s->sink, t, h->time, &sw);
}

static int head_line(struct script *s, const struct perf_head *h)
{
	bool is_record = perf_text_starts(&h->event, "PERF_RECORD_");
	const struct perf_event *e = NULL;

	TRY(finish(s));
	s->n_heads++;
	s->in_stack = true;
	s->keeps_stack = false;
	s->n_frames = 0;
	s->cut = false;
	if (is_record) {
		mmap_record(s, h);
		if (!is_other_record(h))
			return s->sink->code;
	} else {
		e = event_of(s, &h->event);
		if (!e)
			return s->sink->code;
		if (e->type == PE_UNKNOWN) {
			doubt(s, "an event without a meaning here:", &h->event);
			return 0;
		}
		if (e->type == PE_SWITCH)
			return switch_line(s, h);
	}
	struct import_thread *thread = sink_thread(s->sink, h->pid, h->tid, h->comm.p, h->comm.len);
	if (!thread)
		return s->sink->code;
	s->hit = (struct sink_item){.order.time = h->time, .thread = thread};
	if (is_record)
		s->open = other_record(s, h);
	else if (e->type == PE_PROBE)
		s->open = probe_args(s, e, h->rest);
	else if (e->type == PE_SAMPLE)
		s->open = sample(s, e, h);
	else
		s->open = syscall_args(s, e, h->rest);
	return 0;
}

/* "# arch : aarch64" */
static void header_line(struct script *s, const char *line, size_t len)
{
	static const char arch[] = "# arch : ";
	const struct perf_text t = {line, len};

	if (perf_text_starts(&t, arch))
		sink_machine(s->sink, line + sizeof(arch) - 1, len - (sizeof(arch) - 1));
}

static int one_line(struct script *s, const char *line, size_t len)
{
	struct perf_head h;

	if (s->in->cut) {
		doubt(s, "a line of more than 64 KiB", NULL);
		return 0;
	}
	if (!len) {
		s->in_stack = false;
		return finish(s);
	}
	if (line[0] == '#') {
		header_line(s, line, len);
		return 0;
	}
	if (line[0] == '\t' && s->in_stack) {
		stack_line(s, line, len);
		return 0;
	}
	if (perf_head_parse(line, len, &h))
		return head_line(s, &h);
	if (s->in_stack && line[0] == ' ') {
		/* Frames of other versions, and source lines below frames. */
		struct perf_frame f;
		if (perf_frame_parse(line, len, &f))
			stack_line(s, line, len);
		return 0;
	}
	doubt(s, "no event of perf script", NULL);
	return 0;
}

static int read_script(struct input *in, struct sink *sink, struct error *err)
{
	_cleanup_free_ struct script *s = calloc(1, sizeof(*s));
	const char *line;
	size_t len;
	int r;

	if (!s)
		return error_set(err, -ENOMEM, "out of memory");
	s->in = in;
	s->sink = sink;
	names_init(&s->names, MAX_EVENT_NAMES);
	while ((r = input_line(in, &line, &len)) > 0) {
		r = one_line(s, line, len);
		if (r < 0 || sink->code)
			break;
	}
	sink->n_items += in->n_lines;
	if (r < 0 && in->code)
		error_sys(err, in->code, "cannot read %s", in->path);
	if (r >= 0)
		r = finish(s);
	if (r >= 0)
		r = sink_flush(sink);
	if (r >= 0 && !s->n_heads)
		r = error_set(
			err, -EBADMSG,
			"%s: no line of it is an event as perf script prints it, with thread, "
			"time and event",
			in->path);
	names_done(&s->names);
	free(s->events);
	return r < 0 ? r : 0;
}

static bool recognise(const struct import_head *head)
{
	const char *p = (const char *)head->bytes, *end = p + head->len;
	struct perf_head h;

	while (!head->directory && p < end) {
		const char *line_end = memchr(p, '\n', (size_t)(end - p));
		if (!line_end)
			line_end = end;
		if (perf_head_parse(p, (size_t)(line_end - p), &h))
			return true;
		p = line_end + 1;
	}
	return false;
}

const struct import_ops import_perf_script = {
	.name = "perf-script",
	.description = "the text that perf script prints",
	.item = "line",
	.takes = IMPORT_FILE,
	.recognise = recognise,
	.read = read_script,
};
