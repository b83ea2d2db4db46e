/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The report for programs: every number that the text is made of. docs/report-json.md documents the
 * fields. */
#include "report/samples.h"
#include "report/still.h"
#include "report/text_util.h"

#include "base/json.h"
#include "trace/objects.h"

static uint64_t relative(const struct report *rep, uint64_t time_ns)
{
	return time_ns - rep->base_ns;
}

static void write_ends(struct json *j, const struct family *f, bool panics_seen)
{
	json_u64(j, "completed", f->n_ended[TO_READY]);
	json_u64(j, "cancelled", f->n_ended[TO_CANCELLED]);
	if (panics_seen)
		json_u64(j, "panicked", f->n_ended[TO_PANICKED]);
	else
		json_string(j, "panicked", NULL);
	json_u64(j, "ended_unknown", f->n_ended[TO_UNKNOWN]);
	json_u64(j, "alive", f->n_ended[TO_PENDING]);
}

static void write_processes(const struct report *rep, struct json *j)
{
	json_array(j, "processes");
	for (uint32_t i = 0; i < trace_reader_n_processes(rep->reader); i++) {
		const struct trace_process *p = trace_reader_process(rep->reader, i);
		if (!p)
			continue;
		json_object(j, NULL);
		json_u64(j, "pid", p->pid);
		json_string(j, "exe", p->exe);
		json_string(j, "cmdline", p->cmdline);
		json_u64(j, "start_realtime_ns", p->start_realtime_ns);
		json_u64(j, "clock_step_ps", p->clock_step_ps);
		report_runtimes_json(rep->reader, i, j);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_families(const struct report *rep, struct json *j)
{
	json_array(j, "families");
	for (size_t i = 0; i < rep->n_families; i++) {
		const struct family *f = rep->families[i];
		const struct trace_kind *meta = trace_reader_kind(rep->reader, f->kind);
		json_object(j, NULL);
		json_string(j, "name", family_name(rep, f));
		json_string(j, "full_name", meta ? meta->full_name : "");
		json_string(j, "role", trace_role_name(f->role));
		json_u64(j, "kind", f->kind);
		json_u64(j, "process", meta ? meta->process : 0);
		json_string(j, "object", trace_kind_object(rep->reader, meta));
		json_string(j, "scheduler", meta ? meta->scheduler : "");
		json_array(j, "spawn_sites");
		for (uint32_t k = 0; meta && meta->sites && k < meta->n_sites; k++)
			json_string(j, NULL, meta->sites[k]);
		json_end_array(j);
		json_u64(j, "tasks", f->n_tasks);
		json_u64(j, "spawned", f->n_spawned);
		write_ends(j, f, report_sees_panics(rep, f->kind));
		json_u64(j, "never_polled", f->n_unpolled);
		report_sums_json(f, j);
		handlers_json(rep, f, j);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_thread_id(const struct report *rep, struct json *j, uint32_t thread)
{
	const struct trace_thread *t = trace_reader_thread(rep->reader, thread);
	json_u64(j, "tid", t ? t->tid : 0);
	json_string(j, "name", t ? t->name : "");
}

static void write_workers(const struct report *rep, struct json *j)
{
	json_array(j, "workers");
	for (size_t i = 0; i < rep->n_threads; i++) {
		const struct tl_thread *th = &rep->threads[i];
		json_object(j, NULL);
		write_thread_id(rep, j, th->thread);
		json_string(j, "role", th->root ? "block_on" : th->worker ? "worker" : "blocking");
		json_u64(j, "polls", th->n_polls);
		json_u64(j, "polls_of_unknown_length", th->n_unmeasured);
		json_u64(j, "busy_ns", th->busy_ns);
		json_u64(j, "parked_ns", th->parked_ns);
		json_u64(j, "blocked_ns", th->blocked_ns);
		json_u64(j, "begin_ns", relative(rep, th->begin_ns));
		json_u64(j, "end_ns", relative(rep, th->end_ns));
		json_u64(j, "lost", th->lost);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_longest(const struct report *rep, struct json *j)
{
	json_array(j, "longest_polls");
	for (size_t i = 0; i < rep->n_longest; i++) {
		const struct long_poll *l = &rep->longest[i];
		json_object(j, NULL);
		json_string(j, "family", family_name(rep, l->family));
		json_u64(j, "kind", l->family->kind);
		if (rep->handlers)
			report_handler_json(rep, j, l->handler);
		json_u64(j, "task", l->number);
		json_u64(j, "serial", l->serial);
		json_u64(j, "id", l->id);
		write_thread_id(rep, j, l->poll.thread);
		json_u64(j, "begin_ns", relative(rep, l->poll.begin_ns));
		json_u64(j, "duration_ns", l->poll.end_ns - l->poll.begin_ns);
		json_string(j, "outcome", trace_outcome_name(l->poll.outcome));
		json_bool(j, "inferred", l->poll.inferred);
		json_u64(j, "blocked_ns", l->poll.blocked_ns);
		if (l->preempted_ns)
			json_u64(j, "preempted_ns", l->preempted_ns);
		report_calls_json(j, "blocking_calls", &l->calls);
		if (l->stack.stack) {
			json_object(j, "seen");
			json_string(j, "state",
				    l->stack.type == TM_LONG_BLOCKED ? "blocked" : "running");
			json_u64(j, "after_ns", l->stack.after_ns);
			json_u64(j, "samples", l->stack.n_taken);
			report_stack_json(rep->reader, j, "stack", l->stack.stack,
					  TRACE_STACK_FRAMES);
			json_end_object(j);
		}
		json_end_object(j);
	}
	json_end_array(j);
}

/* What the innermost future awaits, where that is another one than the program's own. */
static void write_leaf(struct json *j, const struct trace_place *p)
{
	if (!p)
		return;
	json_object(j, "leaf");
	json_string(j, "function", p->function);
	json_string(j, "file", p->file);
	json_u64(j, "line", p->line);
	json_string(j, "awaits", p->awaits);
	json_end_object(j);
}

static void write_waits(const struct report *rep, struct json *j)
{
	json_array(j, "waits");
	for (size_t i = 0; i < rep->n_waits; i++) {
		const struct wait_place *w = rep->waits[i];
		const struct trace_place *p = report_place(rep, w->place);
		json_object(j, NULL);
		json_string(j, "function", p ? p->function : "");
		json_string(j, "file", p ? p->file : "");
		json_u64(j, "line", p ? p->line : 0);
		json_string(j, "awaits", p ? p->awaits : "");
		json_bool(j, "branches", p && p->flags & TRACE_PLACE_BRANCHES);
		write_leaf(j, report_leaf(rep, w->place));
		json_string(j, "family", family_name(rep, w->family));
		json_u64(j, "kind", w->family->kind);
		if (rep->handlers)
			report_handler_json(rep, j, w->handler);
		if (w->n_resources)
			json_u64(j, "n_resources", w->n_resources);
		json_hist(j, "wait_ns", &w->waits);
		json_end_object(j);
	}
	json_end_array(j);
	json_u64(j, "waits_without_place", rep->n_unplaced);
	resources_json(rep, j);
}

static void write_coverage(const struct report *rep, struct json *j)
{
	json_array(j, "coverage");
	for (uint32_t i = 0; i < trace_reader_n_coverage(rep->reader); i++) {
		const struct trace_coverage *c = trace_reader_coverage(rep->reader, i);
		if (!c)
			continue;
		json_object(j, NULL);
		json_u64(j, "process", c->process);
		json_string(j, "id", trace_cover_name(c->cover));
		json_string(j, "item", c->item);
		json_u64(j, "seen", c->seen);
		json_u64(j, "total", c->total);
		json_string(j, "note", c->note);
		json_string(j, "object", c->object);
		json_string(j, "runtime", c->runtime);
		json_end_object(j);
	}
	json_end_array(j);
	json_array(j, "losses");
	for (size_t i = 0; i < rep->n_losses; i++) {
		const struct tl_loss *l = &rep->losses[i];
		json_object(j, NULL);
		write_thread_id(rep, j, l->thread);
		json_u64(j, "events", l->n_events);
		json_u64(j, "begin_ns", relative(rep, l->begin_ns));
		json_u64(j, "end_ns", relative(rep, l->end_ns));
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_cost(const struct report *rep, struct json *j)
{
	const struct trace_cost *cost = trace_reader_cost(rep->reader);
	if (!cost)
		return;
	double agent_ns = (double)cost->event_cost_ps / 1000 * rep->totals.n_events;
	json_object(j, "cost");
	json_u64(j, "stop_ns", cost->stop_ns);
	json_u64(j, "attach_ns", cost->attach_ns);
	json_u64(j, "recorder_cpu_ns", cost->recorder_cpu_ns);
	json_u64(j, "analysis_cpu_ns", cost->analysis_cpu_ns);
	json_double(j, "event_cost_ns", cost->event_cost_ps / 1000.0);
	json_double(j, "agent_ns", agent_ns);
	if (cpu_used_ns(rep) && !rep->filtered)
		json_double(j, "share_of_cpu", cpu_share((uint64_t)agent_ns, cpu_used_ns(rep)));
	json_string(j, "end_reason", cost->end_reason);
	json_end_object(j);
}

static void write_head(const struct report *rep, struct json *j)
{
	const char *why = "";
	bool truncated = trace_reader_truncated(rep->reader, &why);

	json_u64(j, "version", 2);
	json_u64(j, "events", rep->totals.n_events);
	json_u64(j, "lost", rep->n_lost);
	if (rep->n_lost_aux)
		json_u64(j, "lost_aux", rep->n_lost_aux);
	json_u64(j, "inconsistent", rep->totals.n_inconsistent);
	json_u64(j, "duration_ns", rep->length_ns);
	json_u64(j, "begin_ns", relative(rep, rep->begin_ns));
	json_bool(j, "filtered", rep->filtered);
	json_bool(j, "truncated", truncated);
	json_string(j, "truncated_text", truncated ? why : "");
	write_processes(rep, j);
}

void report_json(const struct report *rep, struct buf *out)
{
	struct family sum = report_sum(rep);
	struct json j;
	json_init(&j, out, true);
	json_object(&j, NULL);
	write_head(rep, &j);
	json_object(&j, "tasks");
	json_u64(&j, "spawned", sum.n_spawned);
	json_u64(&j, "pre_existing", sum.n_tasks - sum.n_spawned);
	write_ends(&j, &sum, report_sees_all_panics(rep));
	json_u64(&j, "never_polled", sum.n_unpolled);
	json_end_object(&j);
	json_u64(&j, "polls", sum.n_polls);
	json_u64(&j, "wakes", sum.n_wakes + sum.n_stray_wakes);
	json_u64(&j, "self_wakes", sum.n_self_wakes);
	json_u64(&j, "deferred_wakes", sum.n_deferred_wakes);
	json_u64(&j, "busy_ns", report_busy_ns(rep));
	findings_json(rep, &j);
	write_families(rep, &j);
	write_workers(rep, &j);
	write_longest(rep, &j);
	write_waits(rep, &j);
	futures_json(rep, &j);
	samples_json(rep, &j);
	system_json(rep, &j);
	still_json(rep, &j);
	if (rep->n_lives)
		lives_json(rep, &j);
	write_coverage(rep, &j);
	cpu_use_json(rep, &j);
	write_cost(rep, &j);
	json_end_object(&j);
	buf_char(out, '\n');
}

void report_why_json(const struct report *rep, struct buf *out,
		     void (*more)(const void *ctx, struct json *j), const void *ctx)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	write_head(rep, &j);
	findings_json(rep, &j);
	if (more)
		more(ctx, &j);
	json_end_object(&j);
	buf_char(out, '\n');
}
