/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * When threads left their CPUs and came back. A folder has a file of records of
 * <linux/perf_event.h> for each processor, every one with pid, tid and time at its end; a thread
 * comes back on another processor than it left, so the files are read at once. In the text one
 * processor's lines follow the other's, so all of them are kept to the end, up to a number. Source:
 * uftrace's utils/perf.c.
 */
#include "import/uftrace_switches.h"

#include "import/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <string.h>

#define MAX_KEPT (1u << 20)

/* ---- a folder ---- */

struct trailer {
	uint32_t pid, tid;
	uint64_t time;
};
_Static_assert(sizeof(struct trailer) == 16, "PERF_SAMPLE_TID and PERF_SAMPLE_TIME");

static int one_record(struct sink *sink, const struct perf_event_header *r, const uint8_t *bytes,
		      const struct trailer *t)
{
	struct sink_item h = {.order.time = t->time};

	switch (r->type) {
	case PERF_RECORD_SWITCH:
		h.type = r->misc & PERF_RECORD_MISC_SWITCH_OUT ? HIT_OFF_CPU : HIT_ON_CPU;
		h.detail =
			r->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT ? TX_PREEMPTED : TX_SLEEPING;
		break;
	case PERF_RECORD_LOST: /* id, number */
		if (r->size < sizeof(*r) + 16 + sizeof(*t))
			return 0;
		h.type = HIT_LOST_SWITCHES;
		memcpy(&h.args[0], bytes + sizeof(*r) + 8, 8);
		break;
	default: /* names, begins and ends of threads: nothing that is needed */
		return 0;
	}
	h.thread = sink_thread(sink, t->pid, t->tid, "", 0);
	return h.thread ? sink_hit(sink, &h) : sink->code;
}

/* 1; 0: the file has no more. */
static int next_record(struct sink *sink, struct folder_part *f)
{
	struct perf_event_header r;
	struct trailer t;
	const uint8_t *p = input_peek(&f->in, sizeof(r));

	f->done = true;
	if (!p)
		return f->in.code ? f->in.code : input_left(&f->in) ? -EBADMSG : 0;
	memcpy(&r, p, sizeof(r));
	if (r.size < sizeof(r) + sizeof(t) || !(p = input_bytes(&f->in, r.size)))
		return f->in.code ? f->in.code : -EBADMSG;
	f->done = false;
	memcpy(&t, p + r.size - sizeof(t), sizeof(t));
	if (t.time > f->reached_ns)
		f->reached_ns = t.time;
	sink->n_items++;
	return one_record(sink, &r, p, &t);
}

int uftrace_switches_read(struct sink *sink, struct input *folder, struct error *err)
{
	struct file_parts files;
	struct folder_part *f;
	int r = parts_open(folder, "perf-cpu", ".dat", &files, err);

	if (r < 0)
		return r;
	while (r >= 0 && (f = parts_next(&files))) {
		r = next_record(sink, f);
		if (r == -EBADMSG) {
			sink_diagnose(sink, "the broken end of", f->name, strlen(f->name),
				      sink->n_items);
			r = 0;
		} else if (r < 0 && r == f->in.code) {
			error_sys(err, r, "cannot read %s/%s", folder->path, f->name);
		}
	}
	parts_close(&files);
	return r < 0 ? r : sink_flush(sink);
}

/* ---- a text ---- */

struct kept {
	struct order_item order;
	struct import_thread *thread;
	uint16_t type, reason;
};

void uftrace_switches_init(struct uftrace_switches *s, struct sink *sink)
{
	s->sink = sink;
	order_init(&s->order, sizeof(struct kept), MAX_KEPT);
}

void uftrace_switches_done(struct uftrace_switches *s)
{
	order_done(&s->order);
}

bool uftrace_switches_known(const struct perf_text *name)
{
	return perf_text_starts(name, "linux:sched-in") ||
	       perf_text_starts(name, "linux:sched-out");
}

int uftrace_switches_add(struct uftrace_switches *s, struct import_thread *thread, uint64_t time,
			 const struct perf_text *name, uint64_t at)
{
	bool out = perf_text_starts(name, "linux:sched-out");
	bool preempted = perf_text_starts(name, "linux:sched-out (pre-empted)");
	const struct kept k = {.order.time = time,
			       .thread = thread,
			       .type = out ? HIT_OFF_CPU : HIT_ON_CPU,
			       .reason = preempted ? TX_PREEMPTED : TX_SLEEPING};

	if (order_full(&s->order)) {
		sink_diagnose(s->sink, "a context switch more than are kept", NULL, 0, at);
		return 0;
	}
	return order_put(&s->order, &k);
}

int uftrace_switches_give(struct uftrace_switches *s)
{
	struct kept k;
	int r = 0;

	while (r == 0 && order_next(&s->order, UINT64_MAX, &k)) {
		const struct sink_item h = {.order.time = k.order.time,
					    .thread = k.thread,
					    .type = k.type,
					    .detail = k.reason};

		r = sink_hit(s->sink, &h);
	}
	return r < 0 ? r : sink_flush(s->sink);
}
