/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the kernel's records in a perf.data file mean: mappings, names and forks change what is
 * known of the processes, samples and losses become hits. They come here in order of time. Source:
 * include/uapi/linux/perf_event.h of the kernel.
 */
#include "import/perf_data.h"
#include "import/perf_switch.h"

#include "base/cursor.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#define MAX_CHAIN 1024u
#define CONTEXT_MAX ((uint64_t)-4095)

/* ---- samples ---- */

void perf_diagnose(struct perf_data *d, const char *reason, const char *detail)
{
	sink_diagnose(d->sink, reason, detail, detail ? strlen(detail) : 0, d->number);
}

/* Numbers of frames for a call chain, innermost first; the kernel's part is one frame. */
static size_t chain_frames(struct perf_data *d, const struct perf_sample *s, uint32_t process,
			   uint32_t *frames, size_t max)
{
	uint64_t context = PERF_CONTEXT_USER;
	size_t n = 0, n_user = 0;
	bool kernel = false;

	for (size_t i = 0; i < s->n_chain && n < max; i++) {
		uint64_t addr;
		memcpy(&addr, s->chain + 8 * i, 8);
		if (addr >= CONTEXT_MAX) {
			context = addr;
			continue;
		}
		if (context != PERF_CONTEXT_USER) {
			const struct trace_frame f = {
				.process = process, .object = "[kernel]", .function = "kernel"};
			if (!kernel)
				frames[n++] = frames_add(&d->sink->frames, "\0kernel", 7, &f);
			kernel = true;
			continue;
		}
		n += perf_symbols_find(d->symbols, s->pid, process, addr, n_user > 0, frames + n,
				       max - n);
		n_user++;
	}
	return n;
}

/* --call-graph=dwarf: the program's part of the chain is unwound from a copy of the stack. */
static size_t copied_frames(struct perf_data *d, const struct perf_sample *s, uint32_t process,
			    uint32_t *frames, size_t max, bool *ret_cut)
{
	uint64_t ip = s->user_ip, sp = s->user_sp, bp = s->user_bp;
	bool caller = false;
	size_t n = 0;

	while (n < max) {
		n += perf_symbols_find(d->symbols, s->pid, process, ip, caller, frames + n,
				       max - n);
		if (!perf_symbols_step(d->symbols, s->pid, caller, s->stack, s->stack_len,
				       s->user_sp, &ip, &sp, &bp))
			break;
		caller = true;
	}
	/* The outermost function has no caller in the copy; a copy that was too short neither. */
	*ret_cut = s->stack_len && sp + 16 >= s->user_sp + s->stack_len;
	return n;
}

static uint64_t stack_of(struct perf_data *d, const struct perf_sample *s,
			 const struct import_thread *t)
{
	uint32_t frames[MAX_CHAIN];
	uint32_t process = t->process->index;
	bool cut = s->n_chain >= MAX_CHAIN;
	size_t n = s->n_chain ? chain_frames(d, s, process, frames, MAX_CHAIN) : 0;

	if (s->stack_len && s->user_ip)
		n += copied_frames(d, s, process, frames + n, MAX_CHAIN - n, &cut);
	else if (!s->n_chain && s->ip)
		n = perf_symbols_find(d->symbols, s->pid, process, s->ip, false, frames, MAX_CHAIN);
	return n ? frames_stack(&d->sink->frames, frames, n, cut ? TRACE_STACK_CUT : 0) : 0;
}

static bool is_own_field(const char *name)
{
	return !strncmp(name, "__probe_", 8);
}

static bool probe_hit(struct perf_data *d, const struct perf_sample *s, struct sink_item *h)
{
	const struct perf_format *f = s->attr->format;
	uint32_t args[PROVIDER_MAX_ARGS];
	size_t n = 0;

	for (uint32_t i = 0; i < f->n_fields && n < PROVIDER_MAX_ARGS; i++)
		if (!is_own_field(f->fields[i].name))
			args[n++] = i;
	h->type = HIT_PROBE;
	h->probe = perf_event_probe(&s->attr->event, n);
	if (!h->probe) {
		perf_diagnose(d, "a probe without the arguments that it should have:", f->name);
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		const struct perf_format_field *field = &f->fields[args[i]];
		size_t len;
		const char *text = perf_field_string(field, s->raw, s->raw_len, &len);
		if (text) {
			const char *kept = sink_keep(d->sink, text, len);
			if (h->probe->args[i] == PV_FILE)
				h->file = kept;
			else if (h->probe->args[i] == PV_NAME)
				h->name = kept;
		} else if (!perf_field_number(field, s->raw, s->raw_len, &h->args[i])) {
			perf_diagnose(d, "a sample shorter than its format:", f->name);
			return false;
		}
	}
	return true;
}

static bool syscall_hit(struct perf_data *d, const struct perf_sample *s, struct sink_item *h)
{
	const struct perf_format *f = s->attr->format;
	const struct perf_event *e = &s->attr->event;
	const struct perf_format_field *number = perf_format_field(f, "id");
	bool is_exit = e->type == PE_SYS_EXIT;

	if (!number)
		number = perf_format_field(f, "__syscall_nr");
	h->type = is_exit ? HIT_SYS_EXIT : HIT_SYS_ENTER;
	h->detail = e->syscall < 0;
	h->args[0] = (uint64_t)e->syscall;
	if ((e->syscall < 0 && !perf_field_number(number, s->raw, s->raw_len, &h->args[0])) ||
	    (is_exit &&
	     !perf_field_number(perf_format_field(f, "ret"), s->raw, s->raw_len, &h->args[1]))) {
		perf_diagnose(d, "a system call without its fields", NULL);
		return false;
	}
	if (h->args[0] > UINT16_MAX)
		h->args[0] = UINT16_MAX;
	return true;
}

static int on_sched_switch(struct perf_data *d, const struct perf_sample *s)
{
	const struct perf_format *f = s->attr->format;
	struct import_thread *t = NULL;
	struct perf_switch sw;
	uint64_t state;

	if (!perf_field_number(perf_format_field(f, "prev_pid"), s->raw, s->raw_len, &sw.prev) ||
	    !perf_field_number(perf_format_field(f, "prev_state"), s->raw, s->raw_len, &state) ||
	    !perf_field_number(perf_format_field(f, "next_pid"), s->raw, s->raw_len, &sw.next)) {
		perf_diagnose(d, "a sample shorter than its format:", f->name);
		return 0;
	}
	sw.reason = perf_switch_why(state);
	d->n_known++;
	if (perf_is_thread(s->tid))
		t = sink_thread(d->sink, s->pid, s->tid, "", 0);
	return d->sink->code ? d->sink->code : perf_switch_hit(d->sink, t, s->time, &sw);
}

static const char *event_name(const struct perf_attr *a)
{
	return a->format ? a->format->name : a->name ? a->name : "(without a name)";
}

static int on_sample(struct perf_data *d, const uint8_t *body, size_t len)
{
	struct perf_sample s;

	if (!perf_sample_parse(&d->attrs, body, len, &s)) {
		perf_diagnose(d,
			      "a sample that is broken, or of an event not described by the file",
			      NULL);
		return 0;
	}
	perf_attr_prepare(s.attr, &d->formats);
	const struct perf_event *e = &s.attr->event;
	if (e->type == PE_UNKNOWN || (e->type != PE_SAMPLE && !s.attr->format)) {
		perf_diagnose(d, "an event without a meaning here:", event_name(s.attr));
		return 0;
	}
	if (e->type == PE_SWITCH)
		return on_sched_switch(d, &s);
	struct import_thread *t = sink_thread(d->sink, s.pid, s.tid, "", 0);
	if (!t)
		return d->sink->code;
	struct sink_item h = {.order.time = s.time, .thread = t};
	bool good = true;
	if (e->type == PE_SAMPLE) {
		h.type = HIT_SAMPLE;
		h.detail = (uint16_t)e->sample;
		h.args[0] = s.period;
		h.stack = stack_of(d, &s, t);
	} else if (e->type == PE_PROBE) {
		good = probe_hit(d, &s, &h);
		/* Without a chain it would be the probe's own place. */
		if (good && h.probe->type == PW_SPAWN && (s.n_chain || s.stack_len))
			h.stack = stack_of(d, &s, t);
	} else {
		good = syscall_hit(d, &s, &h);
	}
	if (!good)
		return 0;
	d->n_known++;
	return sink_hit(d->sink, &h);
}

/* ---- other records of the kernel ---- */

static void on_mmap(struct perf_data *d, const struct perf_record_head *r, const uint8_t *body,
		    size_t len)
{
	struct perf_mapping m = {0};
	struct cursor c;
	bool exec = !(r->misc & PERF_RECORD_MISC_MMAP_DATA);

	cursor_init(&c, body, len);
	uint32_t pid = cursor_u32(&c);
	cursor_u32(&c);
	m.start = cursor_u64(&c);
	m.len = cursor_u64(&c);
	m.offset = cursor_u64(&c);
	if (r->type == PERF_RECORD_MMAP2) {
		const uint8_t *id = cursor_bytes(&c, 24);
		if (id && r->misc & PERF_RECORD_MISC_MMAP_BUILD_ID && id[0] <= PERF_BUILD_ID_MAX) {
			m.build_id = id + 4;
			m.build_id_len = id[0];
		}
		exec = cursor_u32(&c) & 4; /* PROT_EXEC */
		cursor_u32(&c);
	}
	if (!cursor_ok(&c) || !exec ||
	    (r->misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER)
		return;
	m.path = (const char *)c.at;
	m.path_len = strnlen(m.path, cursor_left(&c));
	if (perf_symbols_map(d->symbols, pid, &m) < 0)
		d->sink->code = -ENOMEM;
	/* The first code that a process maps is its own. */
	struct import_process *p =
		m.path_len && *m.path == '/' ? sink_process(d->sink, pid, NULL, 0) : NULL;
	if (p && !p->exe)
		sink_process(d->sink, pid, m.path, m.path_len);
}

static int on_comm(struct perf_data *d, const struct perf_record_head *r, const uint8_t *body,
		   size_t len, uint64_t time)
{
	struct cursor c;

	cursor_init(&c, body, len);
	uint32_t pid = cursor_u32(&c), tid = cursor_u32(&c);
	if (!cursor_ok(&c))
		return 0;
	bool exec = r->misc & PERF_RECORD_MISC_COMM_EXEC;
	if (exec)
		perf_symbols_forget(d->symbols, pid);
	const char *comm = (const char *)c.at;
	int code = sink_comm(d->sink, pid, tid, comm, strnlen(comm, cursor_left(&c)));
	struct import_thread *t = map_get(&d->sink->threads, pid, tid);
	if (code < 0 || !exec || !time || !t->declared)
		return code;
	const struct sink_item h = {.order.time = time, .thread = t, .type = HIT_EXEC};
	return sink_hit(d->sink, &h);
}

static int on_fork_exit(struct perf_data *d, const struct perf_record_head *r, const uint8_t *body,
			size_t len)
{
	struct cursor c;

	cursor_init(&c, body, len);
	uint32_t pid = cursor_u32(&c), parent = cursor_u32(&c), tid = cursor_u32(&c);
	uint32_t parent_tid = cursor_u32(&c);
	uint64_t time = cursor_u64(&c);
	if (!cursor_ok(&c))
		return 0;
	if (r->type == PERF_RECORD_FORK) {
		/* A thread is called as the one that made it, until it says otherwise. */
		const struct import_thread *by = map_get(&d->sink->threads, parent, parent_tid);
		int code = pid == parent && by && by->comm_len
				   ? sink_comm(d->sink, pid, tid, by->comm, by->comm_len)
				   : 0;
		return code < 0 ? code : perf_symbols_fork(d->symbols, pid, parent);
	}
	struct import_thread *t = map_get(&d->sink->threads, pid, tid);
	if (!t || !t->declared) {
		sink_forget(d->sink, pid, tid);
		return 0;
	}
	const struct sink_item h = {.order.time = time, .thread = t, .type = HIT_EXIT};
	return sink_hit(d->sink, &h);
}

static int on_lost(struct perf_data *d, const uint8_t *body, size_t len)
{
	struct perf_sample where;
	struct cursor c;

	cursor_init(&c, body, len);
	cursor_u64(&c);
	uint64_t n = cursor_u64(&c);
	if (!cursor_ok(&c))
		return 0;
	perf_trailer_parse(&d->attrs, body, len, &where);
	struct import_thread *t = sink_thread(d->sink, where.pid, where.tid, "", 0);
	if (!t)
		return d->sink->code;
	const struct sink_item h = {
		.order.time = where.time, .thread = t, .type = HIT_LOST, .args = {n}};
	return sink_hit(d->sink, &h);
}

/* perf record --switch-events: of one thread each. */
static int on_switch(struct perf_data *d, const struct perf_record_head *r,
		     const struct perf_sample *where)
{
	bool out = r->misc & PERF_RECORD_MISC_SWITCH_OUT;

	if (!perf_is_thread(where->tid))
		return 0;
	struct import_thread *t = sink_thread(d->sink, where->pid, where->tid, "", 0);
	if (!t)
		return d->sink->code;
	const struct sink_item h = {
		.order.time = where->time,
		.thread = t,
		.type = out ? HIT_OFF_CPU : HIT_ON_CPU,
		.detail =
			r->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT ? TX_PREEMPTED : TX_SLEEPING,
	};
	d->n_known++;
	return sink_hit(d->sink, &h);
}

int perf_record(struct perf_data *d, const uint8_t *bytes)
{
	struct perf_record_head r;
	struct perf_sample where;

	memcpy(&r, bytes, sizeof(r));
	const uint8_t *body = bytes + sizeof(r);
	size_t len = r.size - sizeof(r);
	switch (r.type) {
	case PERF_RECORD_SAMPLE:
		return on_sample(d, body, len);
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		on_mmap(d, &r, body, len);
		return d->sink->code;
	case PERF_RECORD_COMM:
		perf_trailer_parse(&d->attrs, body, len, &where);
		return on_comm(d, &r, body, len, where.time);
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		return on_fork_exit(d, &r, body, len);
	case PERF_RECORD_LOST:
		return on_lost(d, body, len);
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		perf_trailer_parse(&d->attrs, body, len, &where);
		return on_switch(d, &r, &where);
	default:
		return 0;
	}
}
