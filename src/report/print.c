/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A form is parsed once into pieces: text, or a field with a width. The names of events in the
 * default form are those of tokio-dtrace's probes where it has one, so that what reads the output
 * of its script reads this: a poll's end that is the task's own also prints as task-terminate,
 * before the task-poll-end, as there.
 */
#include "report/print.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "base/units.h"
#include "base/vec.h"
#include "trace/labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WIDTH 200

enum field {
	F_TEXT = 0,
	F_TIME,
	F_CLOCK,
	F_PID,
	F_TID,
	F_THREAD,
	F_EVENT,
	F_PROBE,
	F_TASK,
	F_KIND,
	F_ROLE,
	F_OUTCOME,
	F_PLACE,
	F_CALL,
	F_NS,
	F_SITE,
	F_STACK,
	F_CPU,
	F_NEIGHBOUR,
	F_N
};

static const char *const field_names[F_N] = {
	[F_TIME] = "time",   [F_CLOCK] = "clock",     [F_PID] = "pid",
	[F_TID] = "tid",     [F_THREAD] = "thread",   [F_EVENT] = "event",
	[F_PROBE] = "probe", [F_TASK] = "task",	      [F_KIND] = "kind",
	[F_ROLE] = "role",   [F_OUTCOME] = "outcome", [F_PLACE] = "place",
	[F_CALL] = "call",   [F_NS] = "ns",	      [F_SITE] = "site",
	[F_STACK] = "stack", [F_CPU] = "cpu",	      [F_NEIGHBOUR] = "neighbour",
};

const char printer_fields[] =
	"{time} seconds since the first event, {clock} of CLOCK_MONOTONIC; {pid}, {tid}, {thread} "
	"(its name); {event} as pollux calls it, {probe} as tokio-dtrace does; {task} its id or "
	"address (of a resource its address), {kind} its type, {role}; {outcome} of a poll or "
	"wake; {place} await point; "
	"{call} blocking or system call; {ns} how long; {site} of the kind's spawns; {stack} of a "
	"sample; {cpu} that a thread left or got, {neighbour} the thread that had it then";

struct piece {
	enum field field;
	char *text;
	int width;
};

struct printer {
	struct piece *pieces;
	size_t n;
	bool plain, json;
	bool begun;
	uint64_t base_ns;
};

static const char *probe_name(const struct trace_event *ev)
{
	static const char *const names[TE_N_TYPES] = {
		[TE_SPAWN] = "task-spawn",
		[TE_POLL_BEGIN] = "task-poll-start",
		[TE_POLL_END] = "task-poll-end",
		[TE_WAKE] = "waker-wake",
		[TE_SCHEDULE] = "task-schedule",
		[TE_CANCEL] = "task-terminate",
		[TE_DROP] = "task-drop",
		[TE_PARK] = "worker-thread-park",
		[TE_UNPARK] = "worker-thread-unpark",
		[TE_BLOCK] = "blocking-call",
		[TE_THREAD_BEGIN] = "worker-thread-start",
		[TE_THREAD_END] = "worker-thread-stop",
		[TE_LOST] = "lost",
		[TE_ROOT_ENTER] = "block-on",
		[TE_ROOT_WAKE] = "block-on-wake",
		[TE_SYSCALL] = "system-call",
		[TE_OFF_CPU] = "off-cpu",
		[TE_SAMPLE] = "sample",
		[TE_FUTURE_BEGIN] = "future-poll-start",
		[TE_FUTURE_END] = "future-poll-end",
		[TE_MACHINE] = "machine",
		[TE_RESOURCE] = "resource",
		[TE_LEFT_CPU] = "left-cpu",
		[TE_GOT_CPU] = "got-cpu",
		[TE_WOKEN] = "woken",
		[TE_RAN_INSTEAD] = "ran-instead",
	};
	return ev->type < TE_N_TYPES && names[ev->type] ? names[ev->type] : "?";
}

bool printer_is_event(const char *name, unsigned type)
{
	const struct trace_event ev = {.type = (uint16_t)type};
	return !strcmp(name, trace_event_type_name(type)) || !strcmp(name, probe_name(&ev));
}

/* ---- what an event knows ---- */

static bool of_task(const struct trace_event *ev)
{
	return ev->kind != TRACE_KIND_NONE && ev->type != TE_ROOT_ENTER;
}

/* A spawn may not know the new task's name: what it holds then is a hint. */
static bool task_known(const struct trace_event *ev)
{
	return of_task(ev) && (ev->type != TE_SPAWN || ev->arg & TRACE_SPAWN_NAMED);
}

static const struct trace_kind *kind_of(const struct trace_reader *r, const struct trace_event *ev)
{
	return ev->kind != TRACE_KIND_NONE ? trace_reader_kind(r, ev->kind) : NULL;
}

static const char *outcome(const struct trace_event *ev)
{
	switch (ev->type) {
	case TE_POLL_END:
	case TE_FUTURE_END:
		return trace_outcome_name(ev->arg);
	case TE_CANCEL:
		return trace_outcome_name(ev->arg ? ev->arg : TO_CANCELLED);
	case TE_WAKE:
		return trace_wake_name(ev->arg);
	case TE_OFF_CPU:
		return trace_off_cpu_name(ev->arg);
	case TE_SAMPLE:
		return trace_sample_name(ev->arg);
	case TE_MACHINE:
		return trace_machine_name(ev->arg);
	case TE_RESOURCE:
		return trace_resource_name(ev->arg);
	default:
		return "";
	}
}

static const struct trace_place *place(const struct trace_reader *r, const struct trace_event *ev)
{
	bool has = (ev->type == TE_POLL_END || ev->type == TE_FUTURE_END) && ev->value &&
		   ev->value <= UINT32_MAX;
	return has ? trace_reader_own_place(r, (uint32_t)(ev->value - 1), NULL) : NULL;
}

static void call(const struct trace_event *ev, struct buf *out)
{
	uint64_t number = ev->type == TE_SYSCALL ? ev->arg : ev->task - 1;
	if (ev->type == TE_PARK || ev->type == TE_UNPARK || ev->type == TE_BLOCK) {
		buf_str(out, trace_call_name(ev->arg));
	} else if (ev->type == TE_SYSCALL || (ev->type == TE_OFF_CPU && ev->task)) {
		const char *name = number <= UINT16_MAX ? syscall_name((unsigned)number) : NULL;
		if (name)
			buf_str(out, name);
		else
			buf_printf(out, "%llu", (unsigned long long)number);
	}
}

static bool has_length(const struct trace_event *ev)
{
	return ev->type == TE_BLOCK || ev->type == TE_SYSCALL || ev->type == TE_OFF_CPU ||
	       ev->type == TE_WOKEN || ev->type == TE_RAN_INSTEAD;
}

/* The CPU + 1; 0: none. */
static uint64_t cpu_of(const struct trace_event *ev)
{
	return ev->type == TE_LEFT_CPU || ev->type == TE_GOT_CPU ? ev->value : 0;
}

static const struct trace_neighbour *neighbour(const struct trace_reader *r,
					       const struct trace_event *ev)
{
	bool has = ev->type >= TE_LEFT_CPU && ev->type <= TE_RAN_INSTEAD && ev->task &&
		   ev->task <= UINT32_MAX;
	return has ? trace_reader_neighbour(r, (uint32_t)(ev->task - 1)) : NULL;
}

/* "main;app::serve;read": outermost first, as flame graphs want it */
static void stack(const struct trace_reader *r, const struct trace_event *ev, struct buf *out)
{
	const struct trace_frame *frames[256];
	size_t n = 0;
	bool has = ev->type == TE_SAMPLE && ev->value && ev->value <= UINT32_MAX;
	const struct trace_stack *s = has ? trace_reader_stack(r, (uint32_t)(ev->value - 1)) : NULL;
	while (s && n < sizeof(frames) / sizeof(frames[0])) {
		frames[n++] = trace_reader_frame(r, s->frame);
		s = s->parent ? trace_reader_stack(r, s->parent - 1) : NULL;
	}
	while (n-- > 0) {
		const struct trace_frame *f = frames[n];
		if (f && f->function && *f->function)
			text_safe(out, f->function);
		else
			buf_printf(out, "0x%llx", (unsigned long long)(f ? f->addr : 0));
		buf_str(out, n ? ";" : "");
	}
}

/* What a panic says; NULL: that is not known, or it is another event. */
static const char *message(const struct trace_reader *r, const struct trace_event *ev)
{
	bool has =
		ev->type == TE_SAMPLE && ev->arg == TM_PANIC && ev->task && ev->task <= UINT32_MAX;

	return has ? trace_reader_message(r, (uint32_t)(ev->task - 1)) : NULL;
}

static void task_name(const struct trace_reader *r, const struct trace_event *ev, struct buf *out)
{
	const struct trace_kind *k = kind_of(r, ev);
	if (ev->type == TE_RESOURCE)
		buf_printf(out, "0x%llx", (unsigned long long)ev->task);
	if (!of_task(ev))
		return;
	bool address = (k && k->address_named) || ev->type == TE_FUTURE_BEGIN ||
		       ev->type == TE_FUTURE_END || ev->type == TE_ROOT_WAKE;
	if (!task_known(ev))
		buf_char(out, '?');
	else
		buf_printf(out, address ? "0x%llx" : "%llu", (unsigned long long)ev->task);
}

/* A kind's name; of a handler that of the program's function. */
static void kind_text(const struct trace_kind *k, struct buf *out)
{
	_cleanup_free_ char *handler = k && k->flags & TRACE_KIND_HANDLER ? handler_name(k) : NULL;

	buf_str(out, handler ? handler : k && k->name ? k->name : "");
}

static void field_text(const struct printer *p, const struct trace_reader *r,
		       const struct trace_event *ev, enum field field, struct buf *out)
{
	const struct trace_thread *t = trace_reader_thread(r, ev->thread);
	const struct trace_process *process = t ? trace_reader_process(r, t->process) : NULL;
	const struct trace_kind *k = kind_of(r, ev);
	uint64_t since = ev->time > p->base_ns ? ev->time - p->base_ns : 0;
	_cleanup_buf_ struct buf text = BUF_INIT;

	switch (field) {
	case F_TIME:
		buf_printf(out, "%llu.%09llu", (unsigned long long)(since / NSEC_PER_SEC),
			   (unsigned long long)(since % NSEC_PER_SEC));
		break;
	case F_CLOCK:
		buf_u64(out, ev->time);
		break;
	case F_PID:
		buf_u64(out, process ? process->pid : 0);
		break;
	case F_TID:
		buf_u64(out, t ? t->tid : 0);
		break;
	case F_THREAD:
		text_safe(out, t && t->name ? t->name : "");
		break;
	case F_EVENT:
		buf_str(out, trace_event_type_name(ev->type));
		break;
	case F_PROBE:
		buf_str(out, probe_name(ev));
		break;
	case F_TASK:
		task_name(r, ev, out);
		break;
	case F_KIND:
		kind_text(k, &text);
		text_safe(out, text.data ? text.data : "");
		break;
	case F_ROLE:
		buf_str(out, k ? trace_role_name(k->role) : "");
		break;
	case F_OUTCOME:
		buf_str(out, outcome(ev));
		break;
	case F_PLACE:
		if (place(r, ev))
			trace_place_text(out, place(r, ev));
		break;
	case F_CALL:
		call(ev, out);
		break;
	case F_NS:
		if (has_length(ev))
			buf_u64(out, ev->value);
		break;
	case F_SITE:
		if (ev->type == TE_SPAWN && k && k->n_sites == 1 && k->sites)
			text_safe(out, k->sites[0]);
		break;
	case F_STACK:
		stack(r, ev, out);
		break;
	case F_CPU:
		if (cpu_of(ev))
			buf_u64(out, cpu_of(ev) - 1);
		break;
	case F_NEIGHBOUR:
		if (neighbour(r, ev))
			text_safe(out, neighbour(r, ev)->name);
		break;
	default:
		break;
	}
}

/* ---- lines ---- */

static void plain_line(const struct printer *p, const struct trace_reader *r,
		       const struct trace_event *ev, const char *name, struct buf *out)
{
	const struct trace_thread *t = trace_reader_thread(r, ev->thread);
	buf_printf(out, "thread[%4u] %s(", t ? t->tid : 0, name);
	if (of_task(ev)) {
		buf_str(out, "task=");
		field_text(p, r, ev, F_TASK, out);
	} else if (ev->type == TE_RESOURCE) {
		buf_printf(out, "%s=", trace_resource_name(ev->arg));
		field_text(p, r, ev, F_TASK, out);
	}
	buf_str(out, ")\n");
}

static void json_line(const struct printer *p, const struct trace_reader *r,
		      const struct trace_event *ev, struct buf *out)
{
	const struct trace_thread *t = trace_reader_thread(r, ev->thread);
	const struct trace_place *at = place(r, ev);
	struct json j;

	json_init(&j, out, false);
	json_object(&j, NULL);
	json_u64(&j, "time_ns", ev->time > p->base_ns ? ev->time - p->base_ns : 0);
	json_string(&j, "event", trace_event_type_name(ev->type));
	json_u64(&j, "tid", t ? t->tid : 0);
	json_string(&j, "thread", t ? t->name : "");
	if (task_known(ev))
		json_u64(&j, "task", ev->task);
	if (of_task(ev)) {
		const struct trace_kind *k = kind_of(r, ev);
		json_string(&j, "kind", k ? k->name : "");
		json_string(&j, "role", k ? trace_role_name(k->role) : "");
	}
	if (*outcome(ev))
		json_string(&j, "outcome", outcome(ev));
	_cleanup_buf_ struct buf text = BUF_INIT;
	call(ev, &text);
	if (text.len)
		json_string(&j, "call", text.data);
	if (ev->type == TE_BLOCK && ev->arg & TRACE_CALL_NONBLOCKING)
		json_bool(&j, "nonblocking", true);
	if (ev->type == TE_SYSCALL)
		json_i64(&j, "result", (int64_t)ev->task);
	if (has_length(ev))
		json_u64(&j, "ns", ev->value);
	if (cpu_of(ev))
		json_u64(&j, "cpu", cpu_of(ev) - 1);
	if (neighbour(r, ev)) {
		json_object(&j, "neighbour");
		json_u64(&j, "pid", neighbour(r, ev)->pid);
		json_u64(&j, "tid", neighbour(r, ev)->tid);
		json_string(&j, "name", neighbour(r, ev)->name);
		json_bool(&j, "idle", neighbour(r, ev)->flags & TRACE_NEIGHBOUR_IDLE);
		json_end_object(&j);
	}
	if (ev->type == TE_SAMPLE && ev->arg != TM_PANIC)
		json_u64(&j, "weight", ev->task);
	if (message(r, ev))
		json_string(&j, "message", message(r, ev));
	if (ev->type == TE_RESOURCE)
		json_u64(&j, "address", ev->task);
	if (ev->type == TE_LOST)
		json_u64(&j, "events", ev->value);
	if (at) {
		json_string(&j, "function", at->function);
		json_string(&j, "file", at->file);
		json_u64(&j, "line", at->line);
		json_string(&j, "awaits", at->awaits);
	}
	buf_clear(&text);
	stack(r, ev, &text);
	if (text.len)
		json_string(&j, "stack", text.data);
	json_end_object(&j);
	buf_char(out, '\n');
}

static void form_line(const struct printer *p, const struct trace_reader *r,
		      const struct trace_event *ev, struct buf *out)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct piece *x = &p->pieces[i];
		if (x->field == F_TEXT) {
			buf_str(out, x->text);
			continue;
		}
		_cleanup_buf_ struct buf text = BUF_INIT;
		field_text(p, r, ev, x->field, &text);
		buf_printf(out, "%*s", x->width, text.data ? text.data : "");
	}
	buf_char(out, '\n');
}

void printer_begin(struct printer *p, const struct trace_event *ev)
{
	if (p->begun)
		return;
	p->begun = true;
	p->base_ns = ev->time;
}

void printer_event(struct printer *p, const struct trace_reader *r, const struct trace_event *ev,
		   struct buf *out)
{
	printer_begin(p, ev);
	if (p->json) {
		json_line(p, r, ev, out);
	} else if (p->plain) {
		if (ev->type == TE_POLL_END && ev->arg >= TO_READY && ev->arg <= TO_CANCELLED)
			plain_line(p, r, ev, "task-terminate", out);
		plain_line(p, r, ev, probe_name(ev), out);
	} else {
		form_line(p, r, ev, out);
	}
}

/* ---- forms ---- */

static int add_piece(struct printer *p, enum field field, const char *text, size_t len, int width)
{
	if (!GROW_ONE(p->pieces, p->n))
		return -ENOMEM;
	p->pieces[p->n] = (struct piece){.field = field, .width = width};
	if (field == F_TEXT && !(p->pieces[p->n].text = strndup(text, len)))
		return -ENOMEM;
	p->n++;
	return 0;
}

/* "{tid:4}" at *form, which moves past it. */
static int parse_field(struct printer *p, const char **form, struct error *err)
{
	const char *name = *form + 1, *end = strchr(name, '}');
	size_t len = end ? (size_t)(end - name) : 0;
	const char *colon = end ? memchr(name, ':', len) : NULL;
	long width = 0;

	if (!end)
		return error_set(err, -EINVAL, "'%s' has no closing brace", *form);
	if (colon) {
		char *stop;
		width = strtol(colon + 1, &stop, 10);
		if (stop != end || stop == colon + 1 || labs(width) > MAX_WIDTH)
			return error_set(err, -EINVAL, "'%.*s' is no width from -%d to %d",
					 (int)(end - colon - 1), colon + 1, MAX_WIDTH, MAX_WIDTH);
		len = (size_t)(colon - name);
	}
	*form = end + 1;
	for (int f = 1; f < F_N; f++)
		if (strlen(field_names[f]) == len && !memcmp(field_names[f], name, len))
			return add_piece(p, f, NULL, 0, (int)width) < 0
				       ? error_set(err, -ENOMEM, "out of memory")
				       : 0;
	return error_set(err, -EINVAL, "there is no field {%.*s}; there are %s", (int)len, name,
			 printer_fields);
}

/* A stretch of text without fields; braces are doubled, \n and \t are what they are in C. */
static int parse_text(struct printer *p, const char **form, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	const char *at = *form;
	while (*at && (*at != '{' || at[1] == '{')) {
		bool doubled = (*at == '{' || *at == '}') && at[1] == *at;
		bool escaped = *at == '\\' && (at[1] == 'n' || at[1] == 't' || at[1] == '\\');
		buf_char(&text, escaped ? (at[1] == 'n' ? '\n' : at[1] == 't' ? '\t' : '\\') : *at);
		at += 1 + (doubled || escaped);
	}
	*form = at;
	if (buf_failed(&text) || add_piece(p, F_TEXT, text.data, text.len, 0) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

int printer_new(const char *form, bool json, struct printer **ret_printer, struct error *err)
{
	struct printer *p = calloc(1, sizeof(*p));
	if (!p)
		return error_set(err, -ENOMEM, "out of memory");
	p->json = json;
	p->plain = !form;
	int r = 0;
	while (form && *form && r == 0)
		r = *form == '{' && form[1] != '{' ? parse_field(p, &form, err)
						   : parse_text(p, &form, err);
	if (r < 0) {
		printer_free(p);
		return r;
	}
	*ret_printer = p;
	return 0;
}

void printer_free(struct printer *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		free(p->pieces[i].text);
	free(p->pieces);
	free(p);
}
