/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The importers' common end. Hits pass the order (a window of hits, since recordings are nearly
 * sorted) and then src/runtime/providers.h, which knows what probes mean; system calls, samples and
 * losses are passed through it, so that each thread's events stay in their order. Rounds are ended
 * by number of events: a hit that waits for its meaning is never older than a watermark.
 */
#include "import/sink.h"

#include "base/error.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Hits that wait to be put in order: some seconds of an idle program, 10 ms of the busiest. */
#define ORDER_HITS 65536u
#define HITS_PER_DRAIN 4096u
/* Times that do not advance would make the providers wait for ever. */
#define MAX_UNDRAINED (1u << 20)
#define EVENTS_PER_ROUND (1u << 17)
#define MAX_STRING_BYTES ((size_t)8 << 20)
/* A thread is some hundred bytes: what has more of them is no recording. */
#define MAX_THREADS (1u << 18)

static int failed(struct sink *s, int code)
{
	if (code < 0 && !s->code)
		s->code = code;
	return s->code;
}

/* ---- what providers report ---- */

static int on_runtime(void *ctx, const struct trace_runtime *runtime, uint32_t *ret_index)
{
	struct sink *s = ctx;
	return trace_writer_runtime(s->writer, runtime, ret_index);
}

static int on_kind(void *ctx, const struct trace_kind *kind, uint32_t *ret_index)
{
	struct sink *s = ctx;
	return trace_writer_kind(s->writer, kind, ret_index);
}

static int on_event(void *ctx, const struct trace_event *ev)
{
	struct sink *s = ctx;
	s->n_events++;
	return trace_writer_events(s->writer, ev->thread, ev, 1);
}

static const struct providers_sink from_providers = {
	.runtime = on_runtime, .kind = on_kind, .event = on_event};

int sink_init(struct sink *s, struct trace_writer *w, bool rounds, struct error *err)
{
	*s = (struct sink){.writer = w, .rounds = rounds, .first_ns = UINT64_MAX};
	frames_init(&s->frames, w);
	names_init(&s->strings, MAX_STRING_BYTES);
	order_init(&s->order, sizeof(struct sink_item), ORDER_HITS);
	s->providers = providers_new(&from_providers, s);
	if (!s->providers) {
		sink_done(s);
		return error_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

void sink_done(struct sink *s)
{
	const struct map_entry *e;

	for (size_t pos = 0; (e = map_next(&s->threads, &pos));) {
		free(((struct import_thread *)e->value)->user);
		free(e->value);
	}
	for (size_t pos = 0; (e = map_next(&s->processes, &pos));) {
		free(((struct import_process *)e->value)->exe);
		free(e->value);
	}
	free(s->active);
	map_done(&s->away);
	map_done(&s->threads);
	map_done(&s->processes);
	providers_free(s->providers);
	frames_done(&s->frames);
	names_done(&s->strings);
	order_done(&s->order);
	diagnostics_done(&s->diagnostics);
}

void sink_machine(struct sink *s, const char *name, size_t len)
{
	len = strnlen(name, len < sizeof(s->machine) ? len : sizeof(s->machine) - 1);
	bool same = len == 6 && !memcmp(name, "x86_64", 6);
	memset(s->machine, 0, sizeof(s->machine));
	if (!same)
		memcpy(s->machine, name, len);
}

/* ---- who ---- */

struct import_process *sink_process(struct sink *s, uint32_t pid, const char *exe, size_t len)
{
	struct import_process *p = map_get_or_new(&s->processes, pid, 0, sizeof(*p));

	if (!p) {
		failed(s, -ENOMEM);
		return NULL;
	}
	p->pid = pid;
	if (exe && len && !p->declared) {
		char *copy = strndup(exe, len);
		if (copy) {
			free(p->exe);
			p->exe = copy;
		}
	}
	return p;
}

static int emit_process(struct sink *s, struct import_process *p)
{
	const struct trace_process record = {
		.pid = p->pid, .exe = p->exe ? p->exe : s->input, .cmdline = ""};
	int r = trace_writer_process(s->writer, &record, &p->index);
	p->declared = r == 0;
	return r;
}

static struct import_thread *new_thread(struct sink *s, uint32_t pid, uint32_t tid)
{
	struct import_process *p = sink_process(s, pid, NULL, 0);
	struct import_thread *t = NULL;

	if (s->n_threads >= MAX_THREADS)
		failed(s, -E2BIG);
	else if (p)
		t = map_new(&s->threads, pid, tid, sizeof(*t));
	if (!t) {
		failed(s, -ENOMEM);
		return NULL;
	}
	t->process = p;
	t->tid = tid;
	t->syscall = SINK_NO_SYSCALL;
	s->n_threads++;
	return t;
}

static int emit_thread(struct sink *s, struct import_thread *t)
{
	struct import_process *p = t->process;

	if (!p->exe && t->comm_len)
		p->exe = strdup(t->comm);
	int r = p->declared ? 0 : emit_process(s, p);
	if (r < 0)
		return failed(s, r);
	const struct trace_thread record = {.process = p->index, .tid = t->tid, .name = t->comm};
	r = trace_writer_thread(s->writer, &record, &t->index);
	t->declared = r == 0;
	s->n_emitted += t->declared;
	return failed(s, r);
}

static void set_comm(struct sink *s, struct import_thread *t, const char *comm, size_t len)
{
	len = len < SINK_COMM_BYTES ? len : SINK_COMM_BYTES - 1;
	if (!len || (t->comm_len == len && !memcmp(t->comm, comm, len)))
		return;
	memcpy(t->comm, comm, len);
	t->comm[len] = 0;
	t->comm_len = (uint32_t)len;
	if (t->declared)
		failed(s, trace_writer_thread_name(s->writer, t->index, t->comm));
}

struct import_thread *sink_thread(struct sink *s, uint32_t pid, uint32_t tid, const char *comm,
				  size_t len)
{
	struct import_thread *t = map_get(&s->threads, pid, tid);

	if (!t)
		t = new_thread(s, pid, tid);
	if (!t)
		return NULL;
	set_comm(s, t, comm, len);
	return t->declared || emit_thread(s, t) == 0 ? t : NULL;
}

int sink_comm(struct sink *s, uint32_t pid, uint32_t tid, const char *comm, size_t len)
{
	struct import_thread *t = map_get(&s->threads, pid, tid);

	if (!t)
		t = new_thread(s, pid, tid);
	if (!t)
		return s->code;
	set_comm(s, t, comm, len);
	return s->code;
}

void sink_forget(struct sink *s, uint32_t pid, uint32_t tid)
{
	struct import_thread *t = map_get(&s->threads, pid, tid);

	if (!t || t->declared)
		return;
	map_remove(&s->threads, pid, tid);
	free(t->user);
	free(t);
	s->n_threads--;
}

const char *sink_keep(struct sink *s, const char *text, size_t len)
{
	char copy[1024];

	len = strnlen(text, len < sizeof(copy) ? len : sizeof(copy) - 1);
	memcpy(copy, text, len);
	copy[len] = 0;
	return names_keep(&s->strings, copy, len + 1);
}

/* ---- out ---- */

int sink_event(struct sink *s, struct trace_event *ev)
{
	if (ev->time < s->first_ns)
		s->first_ns = ev->time;
	if (ev->time > s->last_ns)
		s->last_ns = ev->time;
	s->n_events++;
	return failed(s, trace_writer_events(s->writer, ev->thread, ev, 1));
}

static int put_round(struct sink *s, uint64_t watermark_ns)
{
	if (!s->rounds || s->n_events - s->round_events < EVENTS_PER_ROUND)
		return s->code;
	s->round_events = s->n_events;
	return failed(s, trace_writer_round(s->writer, watermark_ns));
}

static int drain(struct sink *s)
{
	uint64_t before = s->given_ns > PROVIDERS_WAIT_NS ? s->given_ns - PROVIDERS_WAIT_NS : 0;

	if (before >= s->drain_mark_ns + PROVIDERS_WAIT_NS) {
		s->drain_mark_ns = before;
		s->n_undrained = 0;
	} else if (s->n_undrained >= MAX_UNDRAINED) {
		before = s->given_ns;
		s->n_undrained = 0;
	}
	int r = providers_drain(s->providers, before);
	if (r < 0)
		return failed(s, r);
	return put_round(s, before);
}

static struct trace_event event_of(const struct sink_item *h, enum trace_event_type type)
{
	return (struct trace_event){.time = h->order.time,
				    .thread = h->thread->index,
				    .type = (uint16_t)type,
				    .kind = TRACE_KIND_NONE};
}

static int pass(struct sink *s, const struct trace_event *ev)
{
	return providers_pass(s->providers, ev);
}

static int give_probe(struct sink *s, const struct sink_item *h)
{
	struct provider_hit p = {
		.probe = h->probe,
		.time = h->order.time,
		.process = h->thread->process->index,
		.thread = h->thread->index,
		.file = h->file,
		.name = h->name,
	};
	memcpy(p.args, h->args, sizeof(p.args));
	int r = providers_feed(s->providers, &p);
	if (r < 0 || !h->stack || h->probe->type != PW_SPAWN)
		return r;
	struct trace_event ev = event_of(h, TE_SAMPLE);
	ev.arg = TM_SPAWN;
	ev.task = 1;
	ev.value = h->stack;
	return pass(s, &ev);
}

/* Numbers of system calls are x86-64's in a trace; those of other machines have no name. */
static bool is_named(const struct sink *s, const struct sink_item *h)
{
	return !h->detail || !s->machine[0];
}

static int give_sys_exit(struct sink *s, const struct sink_item *h)
{
	struct import_thread *t = h->thread;
	uint32_t number = (uint32_t)h->args[0];

	if (t->syscall == SINK_NO_SYSCALL || t->syscall != number) {
		/* The first that is seen of a thread is the end of what it was made by. */
		s->n_inconsistent_syscalls += t->syscall != SINK_NO_SYSCALL;
		t->syscall = SINK_NO_SYSCALL;
		return 0;
	}
	struct trace_event ev = event_of(h, TE_SYSCALL);
	ev.arg = is_named(s, h) ? (uint16_t)number : UINT16_MAX;
	s->n_unnamed_syscalls += !is_named(s, h);
	ev.task = h->args[1];
	ev.value = ev.time - t->syscall_ns;
	t->syscall = SINK_NO_SYSCALL;
	return pass(s, &ev);
}

/* ---- times off CPU ---- */

/* As in recordings by pollux they are a stream apart from the thread's other events: importers may
 * have read the thread's calls to their end before. */
static int report_aux(struct sink *s, struct import_thread *t, struct trace_event *ev)
{
	if (!t->stream) {
		const struct trace_thread record = {.process = t->process->index,
						    .tid = t->tid,
						    .stream_of = t->index + 1,
						    .name = ""};
		int r = trace_writer_thread(s->writer, &record, &ev->thread);
		if (r < 0)
			return failed(s, r);
		t->stream = ev->thread + 1;
	}
	ev->thread = t->stream - 1;
	return sink_event(s, ev);
}

static int give_on_cpu(struct sink *s, struct import_thread *t, uint64_t time)
{
	struct trace_event ev = {.time = time,
				 .type = TE_OFF_CPU,
				 .kind = TRACE_KIND_NONE,
				 .arg = t->off_why,
				 .task = t->off_syscall,
				 .value = time - t->off_ns};
	/* Of two records of the same switch the second adds nothing. */
	if (!t->off_ns || time < t->off_ns)
		return 0;
	t->off_ns = 0;
	s->n_off_cpu++;
	return report_aux(s, t, &ev);
}

static int leave_cpu(struct sink *s, const struct sink_item *h)
{
	struct import_thread *t = h->thread;
	uint64_t number = h->args[0];

	/* The kernel's records of switches have each return to the CPU, the tracepoint may be
	 * recorded of some threads only. */
	if (t->off_ns && !number)
		return 0;
	s->n_never_back += t->off_ns != 0;
	t->off_ns = h->detail < TX_N ? h->order.time : 0;
	t->off_why = h->detail;
	bool named = t->syscall != SINK_NO_SYSCALL && t->syscall_named;
	t->off_syscall = named ? t->syscall + 1 : 0;
	if (!number)
		return 0;
	map_remove(&s->away, number, 0);
	return t->off_ns ? map_put(&s->away, number, 0, t) : 0;
}

static int give_off_cpu(struct sink *s, const struct sink_item *h)
{
	int r = h->thread ? leave_cpu(s, h) : 0;
	struct import_thread *other =
		r == 0 && h->args[1] ? map_remove(&s->away, h->args[1], 0) : NULL;
	return other ? give_on_cpu(s, other, h->order.time) : r;
}

/* Who came and who left is not known now. */
static void forget_switches(struct sink *s)
{
	for (size_t i = 0; i < s->n_active; i++)
		s->active[i]->off_ns = 0;
	map_done(&s->away);
}

static int give_lost_switches(struct sink *s, const struct sink_item *h)
{
	struct trace_event ev = {.time = h->order.time,
				 .type = TE_LOST,
				 .kind = TRACE_KIND_NONE,
				 .value = h->args[0]};
	forget_switches(s);
	s->n_lost += ev.value;
	return report_aux(s, h->thread, &ev);
}

/* ---- losses ---- */

/* perf loses what its buffer of a processor can't hold, whatever threads ran there, and names the
 * one that ran when there was room again. So the state of all is in doubt; the number is written
 * once.
 */
static int give_lost(struct sink *s, const struct sink_item *h)
{
	struct trace_event ev = event_of(h, TE_LOST);
	int r = 0;

	ev.value = h->args[0];
	forget_switches(s);
	s->n_lost += ev.value;
	r = pass(s, &ev);
	ev.value = 0;
	while (r == 0 && s->n_active) {
		struct import_thread *t = s->active[--s->n_active];
		t->active = false;
		t->syscall = SINK_NO_SYSCALL;
		ev.thread = t->index;
		if (t != h->thread)
			r = pass(s, &ev);
	}
	return r;
}

static int make_active(struct sink *s, struct import_thread *t)
{
	if (!GROW(s->active, s->n_active, s->active_cap))
		return -ENOMEM;
	s->active[s->n_active++] = t;
	t->active = true;
	return 0;
}

static int give(struct sink *s, const struct sink_item *h)
{
	struct trace_event ev;

	if (h->thread && !h->thread->active && make_active(s, h->thread) < 0)
		return -ENOMEM;

	switch (h->type) {
	case HIT_PROBE:
		return give_probe(s, h);
	case HIT_SYS_ENTER:
		s->n_inconsistent_syscalls += h->thread->syscall != SINK_NO_SYSCALL;
		h->thread->syscall = (uint32_t)h->args[0];
		h->thread->syscall_named = is_named(s, h);
		h->thread->syscall_ns = h->order.time;
		return 0;
	case HIT_SYS_EXIT:
		return give_sys_exit(s, h);
	case HIT_SAMPLE:
		ev = event_of(h, TE_SAMPLE);
		ev.arg = h->detail;
		ev.task = h->args[0];
		ev.value = h->stack;
		return pass(s, &ev);
	case HIT_LOST:
		return give_lost(s, h);
	case HIT_EXIT:
		ev = event_of(h, TE_THREAD_END);
		return pass(s, &ev);
	case HIT_EXEC:
		return providers_forget(s->providers, h->thread->process->index);
	case HIT_OFF_CPU:
		return give_off_cpu(s, h);
	case HIT_ON_CPU:
		return give_on_cpu(s, h->thread, h->order.time);
	case HIT_LOST_SWITCHES:
		return give_lost_switches(s, h);
	}
	return 0;
}

/*
 * perf record writes a buffer up to what it holds, but goes on from where its end was a moment
 * before (tools/perf/util/mmap.c, perf_mmap__push() asks twice): what came between the two is in
 * the recording twice, adjacent in order of time. Only a wake can come twice in one microsecond,
 * which is the resolution of most texts.
 */
static bool is_duplicate(const struct sink_item *h)
{
	if (!h->thread)
		return false;
	struct sink_item *last = &h->thread->last;
	bool same = last->order.time == h->order.time && last->type == h->type &&
		    last->detail == h->detail && last->probe == h->probe &&
		    last->stack == h->stack && !memcmp(last->args, h->args, sizeof(h->args));
	*last = *h;
	bool wake = h->probe && (h->probe->type == PW_WAKE || h->probe->type == PW_SCHEDULE);
	return same && !(wake && h->order.time % 1000 == 0);
}

/* The first of the order. What comes later than the window is moved up to what was given. */
static int give_first(struct sink *s)
{
	struct sink_item h;

	if (!order_next(&s->order, UINT64_MAX, &h))
		return 0;

	bool twice = is_duplicate(&h);

	if (h.order.time < s->given_ns) {
		s->n_late++;
		h.order.time = s->given_ns;
	}
	s->given_ns = h.order.time;
	if (h.order.time < s->first_ns)
		s->first_ns = h.order.time;
	if (h.order.time > s->last_ns)
		s->last_ns = h.order.time;
	s->n_hits++;
	s->n_undrained++;
	s->n_twice += twice;
	int r = twice ? 0 : give(s, &h);
	if (r < 0)
		return failed(s, r);
	return s->n_hits % HITS_PER_DRAIN ? 0 : drain(s);
}

int sink_hit(struct sink *s, const struct sink_item *hit)
{
	if (s->code)
		return s->code;
	if (order_full(&s->order))
		TRY(give_first(s));
	return failed(s, order_put(&s->order, hit));
}

int sink_flush(struct sink *s)
{
	while (!s->code && order_n(&s->order))
		give_first(s);
	if (!s->code)
		failed(s, providers_drain(s->providers, UINT64_MAX));
	/* Another file may begin earlier. */
	s->given_ns = 0;
	return failed(s, s->frames.code);
}

/* ---- what is said about it ---- */

void sink_diagnose(struct sink *s, const char *reason, const char *detail, size_t len, uint64_t at)
{
	diagnostics_add(&s->diagnostics, reason, detail, len, at);
}

int sink_cover(struct sink *s, const char *item, uint64_t seen, uint64_t total, const char *note)
{
	const struct trace_coverage c = {.item = item, .seen = seen, .total = total, .note = note};
	return failed(s, trace_writer_coverage(s->writer, &c));
}
