/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * OpenTelemetry, as its file exporter writes it: JSON lines, each an export request of OTLP
 * (opentelemetry.io/docs/specs/otel/protocol/file-exporter), which a collector's
 * otlpjsonfilereceiver reads, or takes by POST.
 *
 *     traces    a span per task, from its spawn to its end, the child of the task that spawned it; a
 *               span per request in it; events of it: long polls, blocking calls
 *     metrics   the time of each family by state, and its tasks
 *
 * A span is written when its task ends. Ids follow from the recording's start and the task's number,
 * so the same trace gives the same ids. All tasks that one has spawned, and those that they spawned,
 * are one trace.
 */
#include "export/formats.h"
#include "export/lanes.h"
#include "export/out.h"
#include "export/time_sums.h"
#include "timeline/pool.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define SPANS_PER_LINE 256u /* a request stays below the 4 MiB that receivers take */
#define MAX_EVENTS 8u	    /* of a span: the first ones */
#define LONG_POLL_NS NSEC_PER_MSEC
#define BEGIN                                                                                      \
	"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"telemetry.sdk.name\","      \
	"\"value\":{\"stringValue\":\"pollux\"}}"

enum { KIND_INTERNAL = 1, KIND_SERVER = 2 };
enum { STATUS_ERROR = 2 };
enum { CUMULATIVE = 2 };

struct span_event {
	uint64_t time_ns, length_ns;
	unsigned call; /* 0: a poll */
};

struct otlp_task {
	uint64_t root; /* serial of the first of its trace */
	struct request_span request;
	struct span_event events[MAX_EVENTS];
	uint64_t n_events; /* also those that are not kept */
};

struct otlp {
	struct trace_reader *reader;
	struct out out;
	struct pool tasks;
	struct map roots; /* serial of a task that is alive to that of its trace's first */
	struct kind_labels labels;
	struct buf line;
	struct json json;
	uint64_t seed, from_ns, to_ns, base_ns;
	uint64_t n_spans, n_in_line;
};

/* ---- pieces ---- */

static uint64_t unix_ns(const struct otlp *o, uint64_t ns)
{
	const struct trace_process *tp = trace_reader_process(o->reader, 0);

	return tp ? tp->start_realtime_ns + (ns - tp->start_ns) : ns;
}

/* 64-bit numbers are texts in this JSON. */
static void put_u64_text(struct json *j, const char *key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	json_string(j, key, text);
}

static void attribute_text(struct json *j, const char *key, const char *value)
{
	json_object(j, NULL);
	json_string(j, "key", key);
	json_object(j, "value");
	json_string(j, "stringValue", value);
	json_end_object(j);
	json_end_object(j);
}

static void attribute_number(struct json *j, const char *key, uint64_t value)
{
	json_object(j, NULL);
	json_string(j, "key", key);
	json_object(j, "value");
	put_u64_text(j, "intValue", value & INT64_MAX);
	json_end_object(j);
	json_end_object(j);
}

/* Never all zero, which is no id. */
static void put_id(struct json *j, const char *key, const struct otlp *o, uint64_t serial,
		   unsigned kind, bool wide)
{
	char text[33];
	const uint64_t of[2] = {serial, kind};
	uint64_t a = hash_bytes(o->seed, of, sizeof(of)) | 1, b = hash_bytes(a, of, sizeof(of)) | 1;

	if (wide)
		snprintf(text, sizeof(text), "%016" PRIx64 "%016" PRIx64, a, b);
	else
		snprintf(text, sizeof(text), "%016" PRIx64, a);
	json_string(j, key, text);
}
enum { ID_TRACE, ID_TASK, ID_REQUEST };

static void put_resource(const struct otlp *o, struct json *j)
{
	const struct trace_process *tp = trace_reader_process(o->reader, 0);
	const char *exe = tp && tp->exe ? tp->exe : "", *slash = strrchr(exe, '/');

	json_object(j, "resource");
	json_array(j, "attributes");
	attribute_text(j, "telemetry.sdk.name", "pollux");
	attribute_text(j, "telemetry.sdk.version", POLLUX_VERSION);
	attribute_text(j, "telemetry.sdk.language", "rust");
	attribute_text(j, "service.name", *exe ? slash ? slash + 1 : exe : "unknown_service");
	attribute_text(j, "process.executable.path", exe);
	attribute_number(j, "process.pid", tp ? tp->pid : 0);
	json_end_array(j);
	json_end_object(j);
}

static void put_scope(struct json *j)
{
	json_object(j, "scope");
	json_string(j, "name", "pollux");
	json_string(j, "version", POLLUX_VERSION);
	json_end_object(j);
}

/* ---- lines ---- */

static void begin_line(struct otlp *o, const char *resources, const char *scopes, const char *items)
{
	buf_clear(&o->line);
	json_init(&o->json, &o->line, false);
	json_object(&o->json, NULL);
	json_array(&o->json, resources);
	json_object(&o->json, NULL);
	put_resource(o, &o->json);
	json_array(&o->json, scopes);
	json_object(&o->json, NULL);
	put_scope(&o->json);
	json_array(&o->json, items);
}

static int end_line(struct otlp *o)
{
	struct json *j = &o->json;

	json_end_array(j);
	json_end_object(j);
	json_end_array(j);
	json_end_object(j);
	json_end_array(j);
	json_end_object(j);
	buf_char(&o->line, '\n');
	if (buf_failed(&o->line))
		return -ENOMEM;
	out_write(&o->out, o->line.data, o->line.len);
	return o->out.error;
}

static void begin_spans(struct otlp *o)
{
	begin_line(o, "resourceSpans", "scopeSpans", "spans");
	o->n_in_line = 0;
}

static int span_done(struct otlp *o)
{
	o->n_spans++;
	if (++o->n_in_line < SPANS_PER_LINE)
		return 0;
	TRY(end_line(o));
	begin_spans(o);
	return 0;
}

/* ---- spans ---- */

static const char *kind_text(const struct otlp *o, uint32_t kind)
{
	return kind_label(&o->labels, o->reader, kind);
}

static struct otlp_task *task_of(struct otlp *o, struct tl_task *task)
{
	if (task->user)
		return task->user;
	struct otlp_task *t = pool_get(&o->tasks);
	if (!t)
		return NULL;
	uintptr_t root = (uintptr_t)map_get(&o->roots, task->parent, 0);
	t->root = root ? root : task->parent ? task->parent : task->serial;
	if (map_put(&o->roots, task->serial, 0, (void *)(uintptr_t)t->root) < 0)
		return NULL;
	return task->user = t;
}

static int on_task_begin(void *ctx, struct tl_task *task)
{
	return task_of(ctx, task) ? 0 : -ENOMEM;
}

static void put_times(struct otlp *o, uint64_t begin_ns, uint64_t end_ns)
{
	put_u64_text(&o->json, "startTimeUnixNano", unix_ns(o, begin_ns));
	put_u64_text(&o->json, "endTimeUnixNano",
		     unix_ns(o, end_ns > begin_ns ? end_ns : begin_ns));
}

static int request_span(struct otlp *o, const struct tl_task *task, const struct otlp_task *t,
			const struct request_span *r)
{
	struct json *j = &o->json;

	json_object(j, NULL);
	put_id(j, "traceId", o, t->root, ID_TRACE, true);
	put_id(j, "spanId", o, r->round.serial, ID_REQUEST, false);
	put_id(j, "parentSpanId", o, task->serial, ID_TASK, false);
	json_string(j, "name", kind_text(o, r->round.kind));
	json_u64(j, "kind", KIND_SERVER);
	put_times(o, r->begin_ns, r->end_ns);
	json_array(j, "attributes");
	attribute_number(j, "pollux.task", task->number);
	attribute_number(j, "pollux.polls", r->n_polls);
	json_end_array(j);
	json_end_object(j);
	return span_done(o);
}

static int follow_request(struct otlp *o, struct tl_task *task, const struct tl_round *round,
			  bool poll, uint64_t begin_ns, uint64_t end_ns)
{
	struct otlp_task *t = task_of(o, task);
	struct request_span over;

	if (!t)
		return -ENOMEM;
	return request_goes_on(&t->request, round, poll, begin_ns, end_ns, &over)
		       ? request_span(o, task, t, &over)
		       : 0;
}

static void add_event(struct otlp_task *t, uint64_t time_ns, uint64_t length_ns, unsigned call)
{
	if (t->n_events < MAX_EVENTS)
		t->events[t->n_events] = (struct span_event){time_ns, length_ns, call};
	t->n_events++;
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct otlp *o = ctx;

	TRY(follow_request(o, poll->task, &poll->round, true, poll->begin_ns, poll->end_ns));
	if (tl_poll_measured(poll) && poll->end_ns - poll->begin_ns >= LONG_POLL_NS &&
	    poll->task->role != TR_BLOCKING)
		add_event(poll->task->user, poll->begin_ns, poll->end_ns - poll->begin_ns, 0);
	return 0;
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	return follow_request(ctx, wait->task, &wait->round, false, wait->begin_ns, wait->end_ns);
}

static int on_block(void *ctx, const struct tl_block *block)
{
	struct otlp_task *t = block->task ? task_of(ctx, block->task) : NULL;

	if (block->task && !t)
		return -ENOMEM;
	if (t && block->keeps_worker)
		add_event(t, block->begin_ns, block->end_ns - block->begin_ns, block->call);
	return 0;
}

static void put_events(struct otlp *o, const struct otlp_task *t)
{
	struct json *j = &o->json;
	uint64_t n = t->n_events < MAX_EVENTS ? t->n_events : MAX_EVENTS;

	if (!n)
		return;
	json_array(j, "events");
	for (uint64_t i = 0; i < n; i++) {
		const struct span_event *e = &t->events[i];

		json_object(j, NULL);
		put_u64_text(j, "timeUnixNano", unix_ns(o, e->time_ns));
		json_string(j, "name", e->call ? "blocking call" : "long poll");
		json_array(j, "attributes");
		attribute_number(j, "pollux.duration_ns", e->length_ns);
		if (e->call)
			attribute_text(j, "pollux.call", trace_call_name(e->call));
		json_end_array(j);
		json_end_object(j);
	}
	json_end_array(j);
	if (t->n_events > n)
		json_u64(j, "droppedEventsCount", t->n_events - n);
}

static void put_task(struct otlp *o, const struct tl_task *task, const struct otlp_task *t,
		     uint64_t end_ns)
{
	struct json *j = &o->json;

	json_object(j, NULL);
	put_id(j, "traceId", o, t->root, ID_TRACE, true);
	put_id(j, "spanId", o, task->serial, ID_TASK, false);
	if (task->parent)
		put_id(j, "parentSpanId", o, task->parent, ID_TASK, false);
	json_string(j, "name", kind_text(o, task->kind));
	json_u64(j, "kind", KIND_INTERNAL);
	put_times(o, task->spawn_ns, end_ns);
	json_array(j, "attributes");
	attribute_number(j, "pollux.task", task->number);
	attribute_text(j, "pollux.role", trace_role_name(task->role));
	attribute_text(j, "pollux.end", task->end_ns ? trace_outcome_name(task->outcome) : "alive");
	attribute_number(j, "pollux.polls", task->n_polls);
	attribute_number(j, "pollux.wakes", task->n_wakes);
	attribute_number(j, "pollux.polling_ns", task->poll_ns);
	attribute_number(j, "pollux.waiting_ns", task->wait_ns);
	attribute_number(j, "pollux.scheduled_ns", task->sched_ns);
	json_end_array(j);
	put_events(o, t);
	if (task->end_ns && task->outcome == TO_PANICKED) {
		json_object(j, "status");
		json_u64(j, "code", STATUS_ERROR);
		json_string(j, "message", "panicked");
		json_end_object(j);
	}
	json_end_object(j);
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct otlp *o = ctx;
	struct otlp_task *t = task_of(o, task);
	uint64_t end_ns = task->end_ns ? task->end_ns : o->to_ns;
	int r;

	if (!t)
		return -ENOMEM;
	r = follow_request(o, task, &(struct tl_round){0}, false, end_ns, end_ns);
	if (r == 0 && task->role != TR_WORKER) { /* a worker's loop is no task */
		put_task(o, task, t, end_ns);
		r = span_done(o);
	}
	map_remove(&o->roots, task->serial, 0);
	task->user = NULL;
	pool_put(&o->tasks, t);
	return r;
}

static const struct timeline_sink otlp_sink = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.block = on_block,
};

/* ---- metrics ---- */

static const char *const states[SUM_N] = {
	[SUM_WAITING] = "waiting",
	[SUM_SCHEDULED] = "scheduled",
	[SUM_POLLING] = "polling",
	[SUM_BLOCKED] = "blocked",
};

static void begin_metric(struct json *j, const char *name, const char *description,
			 const char *unit)
{
	json_object(j, NULL);
	json_string(j, "name", name);
	json_string(j, "description", description);
	json_string(j, "unit", unit);
	json_object(j, "sum");
	json_u64(j, "aggregationTemporality", CUMULATIVE);
	json_bool(j, "isMonotonic", true);
	json_array(j, "dataPoints");
}

static void end_metric(struct json *j)
{
	json_end_array(j);
	json_end_object(j);
	json_end_object(j);
}

/* The sum over a family and state, which come one after the other. */
static size_t put_point(struct otlp *o, const struct time_sums *s, size_t first, bool counts)
{
	const struct time_sum *of = s->sums[first];
	struct json *j = &o->json;
	uint64_t value = 0;
	size_t i = first;

	for (; i < s->n_sums && s->sums[i]->type == of->type && s->sums[i]->kind == of->kind; i++)
		value += counts ? s->sums[i]->n : s->sums[i]->value;
	if (of->type == SUM_CPU)
		return i;
	json_object(j, NULL);
	json_array(j, "attributes");
	attribute_text(j, "pollux.family", kind_label(&s->labels, o->reader, of->kind));
	attribute_text(j, "pollux.state", states[of->type]);
	json_end_array(j);
	put_u64_text(j, "startTimeUnixNano", unix_ns(o, o->from_ns));
	put_u64_text(j, "timeUnixNano", unix_ns(o, o->to_ns));
	put_u64_text(j, "asInt", value & INT64_MAX);
	json_end_object(j);
	return i;
}

static int write_metrics(struct otlp *o, const struct time_sums *s)
{
	begin_line(o, "resourceMetrics", "scopeMetrics", "metrics");
	begin_metric(&o->json, "pollux.task.time",
		     "Time of tasks by family and state; blocked is a part of polling", "ns");
	for (size_t i = 0; i < s->n_sums;)
		i = put_point(o, s, i, false);
	end_metric(&o->json);
	begin_metric(&o->json, "pollux.task.count",
		     "How often tasks were in that state, by family: polls, waits, calls", "1");
	for (size_t i = 0; i < s->n_sums;)
		i = put_point(o, s, i, true);
	end_metric(&o->json);
	return end_line(o);
}

/* ---- the file ---- */

/* First the sums, which need all of the trace; names of kinds are known then, too. */
static int write_all(struct otlp *o, const struct export_options *opt, FILE *file,
		     struct error *err)
{
	struct time_sums sums;
	int r = time_sums_make(&sums, o->reader, opt, err), made;
	const struct trace_process *tp = trace_reader_process(o->reader, 0);

	if (tp)
		o->seed = hash_string(tp->start_realtime_ns, tp->exe) ^ tp->pid;
	o->from_ns = sums.from_ns;
	o->to_ns = sums.to_ns;
	if (r == 0)
		r = trace_reader_rewind(o->reader, err);
	if (r == 0) {
		r = out_init(&o->out, file);
		if (r == 0)
			r = kind_labels_make(o->reader, &o->labels);
		if (r < 0)
			error_set(err, r, "out of memory");
	}
	if (r == 0) {
		begin_spans(o);
		made = timeline_replay(o->reader, &opt->filter, &otlp_sink, o, opt->progress,
				       opt->progress_ctx, NULL, &o->base_ns, err);
		r = made < 0 ? made : end_line(o);
		if (r == 0)
			r = write_metrics(o, &sums);
		if (r == -ENOMEM)
			error_set(err, r, "out of memory");
		r = out_end(&o->out, r, err);
	}
	time_sums_done(&sums);
	return r;
}

static int otlp_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
		      struct export_summary *ret_summary, struct error *err)
{
	struct otlp o = {.reader = reader};
	int r;

	pool_init(&o.tasks, sizeof(struct otlp_task));
	r = write_all(&o, opt, file, err);
	*ret_summary = (struct export_summary){
		.bytes = o.out.bytes, .rows = o.n_spans, .row_name = "spans"};
	pool_done(&o.tasks);
	map_done(&o.roots);
	kind_labels_done(&o.labels);
	buf_done(&o.line);
	out_done(&o.out);
	return r;
}

const struct export_ops export_otlp = {
	.name = "otlp",
	.extension = ".otlp.jsonl",
	.viewers = "OpenTelemetry collectors",
	.reads = "otel jaeger tempo",
	.begin = BEGIN,
	.write = otlp_write,
};
