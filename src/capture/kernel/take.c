/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One record becomes events.
 *
 * Here is what is the same for all programs: which process and thread it is about, the thread's
 * begin and end, system calls by which it parks or blocks, losses; and hits of known probes, which
 * the table of runtime/providers.h turns into events. In a program that is recorded by them all
 * events go through there, so that they keep their order.
 */
#include "capture/kernel/calls.h"
#include "base/error.h"
#include "capture/kernel/kernel.h"
#include "capture/samples/stacks.h"
#include "capture/threads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- to the trace ---- */

int kernel_flush(struct capture *c)
{
	struct kernel_out *out = &c->out;
	size_t n = out->n;

	out->n = 0;
	if (!n)
		return 0;
	return trace_writer_events(c->shared->writer, out->thread, out->events, n);
}

static int put(struct capture *c, const struct trace_event *e)
{
	struct kernel_out *out = &c->out;
	int rc = 0;

	if (out->n &&
	    (out->thread != e->thread || out->n == sizeof(out->events) / sizeof(out->events[0])))
		rc = kernel_flush(c);
	out->thread = e->thread;
	out->events[out->n++] = *e;
	return rc;
}

int kernel_put(struct capture *c, const struct kernel_process *p, const struct trace_event *e)
{
	return p->providers ? providers_pass(c->providers, e) : put(c, e);
}

int kernel_emit_loss(struct capture *c, struct kernel_process *p, struct kernel_track *t,
		     uint64_t time, uint64_t n, uint64_t first_ns)
{
	const struct trace_event e = {.time = time,
				      .thread = t->index,
				      .type = TE_LOST,
				      .kind = TRACE_KIND_NONE,
				      .value = n};

	capture_loss_add(&c->lost, n, first_ns, time);
	t->wake = 0;
	return kernel_put(c, p, &e);
}

/* ---- threads ---- */

static void read_name(const struct kernel_process *p, uint32_t tid, char name[static 16])
{
	char file[32], text[64];
	ssize_t n;

	snprintf(file, sizeof(file), "task/%u/comm", tid);
	n = process_read_file(&p->process, file, text, sizeof(text));
	if (n > 0 && text[n - 1] == '\n')
		n--;
	if (n < 0)
		n = 0;
	if (n > 15)
		n = 15;
	memcpy(name, text, (size_t)n);
	name[n] = 0;
}

struct kernel_track *kernel_track(struct capture *c, struct kernel_process *p, uint32_t tid,
				  const char *name, uint64_t time)
{
	struct kernel_track *t = map_get(&c->tracks, p->index, tid);
	const struct capture_thread *thread;
	char own_name[16];

	if (t)
		return t;
	if (!*name) {
		read_name(p, tid, own_name);
		name = own_name;
	}
	thread = capture_threads_get(c->shared->threads, p->index, tid, name);
	t = thread ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return NULL;
	t->process = p;
	t->tid = tid;
	t->index = thread->index;
	const struct trace_event e = {
		.time = time, .thread = t->index, .type = TE_THREAD_BEGIN, .kind = TRACE_KIND_NONE};
	if (map_put(&c->tracks, p->index, tid, t) < 0) {
		free(t);
		return NULL;
	}
	return kernel_put(c, p, &e) < 0 ? NULL : t;
}

int kernel_track_end(struct capture *c, struct kernel_track *t, uint64_t time)
{
	struct kernel_process *p = t->process;
	const struct trace_event e = {
		.time = time, .thread = t->index, .type = TE_THREAD_END, .kind = TRACE_KIND_NONE};
	int rc = kernel_tasks_end(c, p, t, time);
	struct capture_thread *thread;

	if (rc == 0)
		rc = kernel_put(c, p, &e);
	map_remove(&c->tracks, p->index, t->tid);
	thread = capture_threads_find(c->shared->threads, p->index, t->tid);
	if (thread)
		capture_threads_end(thread);
	free(t);
	return rc;
}

/* ---- for those who watch ---- */

void kernel_poll_begins(struct kernel_track *t, uint64_t time)
{
	t->poll_begin_ns = time;
	t->poll_number++;
}

void kernel_poll_ends(struct capture *c, struct kernel_track *t, uint64_t time)
{
	struct capture_thread *thread;

	t->poll_begin_ns = 0;
	if (!c->shared->options->long_poll_ns)
		return; /* no source watches */
	thread = capture_threads_find(c->shared->threads, t->process->index, t->tid);
	if (thread && thread->watched == t->poll_number)
		thread->watched_end_ns = time;
}

void kernel_emit_polls(struct capture *c)
{
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&c->tracks, &pos))) {
		const struct kernel_track *t = e->value;
		struct capture_thread *thread =
			capture_threads_find(c->shared->threads, t->process->index, t->tid);

		if (!thread)
			continue;
		thread->poll_begin_ns = t->poll_begin_ns;
		thread->poll_number = t->poll_number;
	}
}

/* ---- system calls ---- */

static bool is_inside(const struct kernel_track *t)
{
	return t->process->providers ? t->open > 0 : kernel_in_poll(t);
}

static bool is_epoll(uint16_t call)
{
	return call >= TB_EPOLL_WAIT && call <= TB_EPOLL_PWAIT2;
}

/* Only files, pipes and sockets can be non-blocking. */
static bool through_descriptor(uint16_t call)
{
	return call >= TB_READ && call <= TB_CONNECT;
}

/* A call that was not reported at its begin; `args` as in the record. */
static int put_block(struct capture *c, struct kernel_process *p, const struct kernel_track *t,
		     uint16_t call, uint64_t begin_ns, uint64_t end_ns, uint64_t args)
{
	struct trace_event e = {.time = end_ns,
				.thread = t->index,
				.type = TE_BLOCK,
				.arg = call,
				.kind = TRACE_KIND_NONE,
				.value = end_ns - begin_ns};

	if (e.value < KERNEL_CALL_MIN_NS || (p->parks && !is_inside(t)))
		return 0;
	if (through_descriptor(call) &&
	    !descriptors_may_wait(&p->descriptors, &p->process, call, (uint32_t)(args >> 32),
				  (uint32_t)args, e.value, end_ns))
		e.arg |= TRACE_CALL_NONBLOCKING;
	return kernel_put(c, p, &e);
}

static int take_call(struct capture *c, struct kernel_process *p, struct kernel_track *t,
		     const struct kernel_record *r)
{
	struct trace_event e = {.time = r->time,
				.thread = t->index,
				.type = TE_PARK,
				.arg = kernel_call_of(r->header),
				.kind = TRACE_KIND_NONE};

	t->wake = 0;
	if (r->type == KR_CALL_BEGIN) {
		if (is_inside(t) || p->parks)
			return 0;
		t->parked = true;
		return kernel_put(c, p, &e);
	}
	if (!t->parked)
		return put_block(c, p, t, e.arg, r->sp, r->time, r->words[0]);
	t->parked = false;
	e.type = TE_UNPARK;
	if (is_epoll(e.arg) && !r->words[1])
		e.arg |= TRACE_CALL_IDLE;
	return kernel_put(c, p, &e);
}

int kernel_emit_open_call(struct capture *c, struct kernel_process *p, const struct kernel_track *t,
			  const struct kernel_thread *in_kernel, uint64_t end_ns)
{
	if (!is_inside(t) || in_kernel->call_ns >= end_ns)
		return 0;
	return put_block(c, p, t, kernel_call_of(in_kernel->call - 1), in_kernel->call_ns, end_ns,
			 in_kernel->call_args);
}

/* ---- known probes ---- */

static int on_runtime(void *ctx, const struct trace_runtime *runtime, uint32_t *ret_index)
{
	const struct capture *c = ctx;

	return trace_writer_runtime(c->shared->writer, runtime, ret_index);
}

static int on_kind(void *ctx, const struct trace_kind *kind, uint32_t *ret_index)
{
	const struct capture *c = ctx;

	return trace_writer_kind(c->shared->writer, kind, ret_index);
}

static int on_event(void *ctx, const struct trace_event *e)
{
	return put(ctx, e);
}

int kernel_providers_begin(struct capture *c)
{
	static const struct providers_sink sink = {
		.runtime = on_runtime, .kind = on_kind, .event = on_event};

	if (!c->providers)
		c->providers = providers_new(&sink, c);
	return c->providers ? 0 : -ENOMEM;
}

static void follow(struct capture *c, struct kernel_track *t, uint8_t what, uint64_t time)
{
	if (what == PW_POLL_BEGIN || what == PW_BLOCKING_BEGIN) {
		if (what == PW_POLL_BEGIN && !t->open)
			kernel_poll_begins(t, time);
		t->open++;
	} else if (what == PW_POLL_END || what == PW_POLL_END_TOLD || what == PW_BLOCKING_END) {
		if (t->open && !--t->open)
			kernel_poll_ends(c, t, time);
	}
}

static int take_probe(struct capture *c, struct kernel_process *p, struct kernel_track *t,
		      const struct kernel_probe_record *r, const struct kernel_text_record *texts)
{
	const struct kernel_hook *h = &c->hooks.table[r->hook];
	const struct kernel_place *place = &c->hooks.places[r->hook];
	char text[KERNEL_MAX_TEXTS][KERNEL_TEXT_BYTES + 1];
	struct provider_hit hit = {
		.probe = place->row, .time = r->time, .process = p->index, .thread = t->index};

	if (!p->providers || !place->row)
		return 0;
	for (uint32_t i = 0; i < h->probe.n_args && i < PROVIDER_MAX_ARGS; i++) {
		if (r->flags & 1u << i)
			continue;
		hit.args[i] = place->probe ? probe_arg_extend(&place->probe->args[i], r->args[i])
					   : r->args[i];
	}
	for (uint32_t k = 0; texts && k < KERNEL_MAX_TEXTS; k++) {
		uint32_t arg = h->probe.texts[k].arg;
		int32_t len = texts->len[k];

		if (!arg || len < 0 || len > (int32_t)KERNEL_TEXT_BYTES)
			continue;
		memcpy(text[k], texts->text[k], (size_t)len);
		text[k][len] = 0;
		if (place->row->args[arg - 1] == PV_FILE)
			hit.file = text[k];
		else
			hit.name = text[k];
	}
	follow(c, t, place->row->type, r->time);
	return providers_feed(c->providers, &hit);
}

/* ---- stacks of spawns ---- */

static int take_stack(struct capture *c, const struct kernel_process *p, struct kernel_track *t,
		      const struct kernel_stack_record *r, size_t len)
{
	struct trace_event e = {.time = r->time,
				.type = TE_SAMPLE,
				.arg = TM_SPAWN,
				.kind = TRACE_KIND_NONE,
				.task = 1};
	struct capture_thread *thread = capture_threads_find(c->shared->threads, p->index, t->tid);

	if (!thread)
		return 0;
	if (!t->stream_known) {
		TRY(capture_threads_stream(c->shared->threads, thread, &t->stream));
		t->stream_known = true;
	}
	e.thread = t->stream;
	return capture_stacks_put_copy(c->shared->stacks, &e, p->index, &r->stack,
				       len - offsetof(struct kernel_stack_record, stack));
}

/* ---- one record ---- */

int kernel_take(void *context, const void *record, size_t len)
{
	const struct kernel_record *r = record;
	const struct kernel_probe_record *probe = record;
	const struct kernel_text_record *texts = record;
	struct capture *c = context;
	struct kernel_process *p;
	struct kernel_track *t;
	char name[sizeof(r->words) + 1] = "";
	int rc = kernel_process_of(c, r->tgid, &p);

	if (rc < 0 || !p)
		return rc;
	if (r->type == KR_THREAD)
		memcpy(name, r->words, sizeof(r->words));
	if (r->type == KR_EXIT) {
		t = map_get(&c->tracks, p->index, r->tid);
		return t ? kernel_track_end(c, t, r->time) : 0;
	}
	t = kernel_track(c, p, r->tid, name, r->time);
	if (!t)
		return -ENOMEM;
	switch (r->type) {
	case KR_LOST:
		return kernel_emit_loss(c, p, t, r->time, r->header, r->sp);
	case KR_CALL_BEGIN:
	case KR_CALL_END:
		return take_call(c, p, t, r);
	case KR_HOOK:
	case KR_RETURN:
		if (r->hook >= c->hooks.n || p->providers)
			return 0;
		return kernel_task(c, p, t, &c->hooks.places[r->hook], r);
	case KR_PROBE:
		return r->hook < c->hooks.n && len >= sizeof(*probe)
			       ? take_probe(c, p, t, probe, NULL)
			       : 0;
	case KR_TEXTS:
		return r->hook < c->hooks.n && len >= KERNEL_ONE_TEXT_BYTES
			       ? take_probe(c, p, t, probe, texts)
			       : 0;
	case KR_STACK:
		return len > offsetof(struct kernel_stack_record, stack)
			       ? take_stack(c, p, t, record, len)
			       : 0;
	default:
		return 0;
	}
}
