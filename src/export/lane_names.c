/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The groups and lanes of a drawing (draw.h): their names, numbers and order, to the pen. */
#include "base/compare.h"
#include "export/draw.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where the walk is: numbers given out so far. */
struct lane_naming {
	struct draw *d;
	uint64_t rank;
	uint32_t last_pid, last_tid;
};

static int emit_lane(struct lane_naming *n, struct draw_lane *lane, struct draw_at *at,
		     uint32_t pid, uint32_t tid, const struct buf *name, uint64_t rank)
{
	if (buf_failed(name))
		return -ENOMEM;
	*at = (struct draw_at){.pid = pid, .tid = tid, .index = n->d->n_lanes++};
	lane->at = *at;
	lane->name = name->data ? name->data : "";
	lane->rank = rank;
	return n->d->pen->lane(n->d->ctx, lane);
}

/* Roots first, then tasks, then blocking closures; few lanes before many, or the single ones would
 * be lost below a crowd; then the busiest. */
static int by_rank(const void *a, const void *b)
{
	static const unsigned char order[TR_N] = {
		[TR_ROOT] = 0, [TR_TASK] = 1, [TR_FUTURE] = 2, [TR_BLOCKING] = 3, [TR_WORKER] = 4};
	const struct lane_family *x = *(struct lane_family *const *)a,
				 *y = *(struct lane_family *const *)b;
	unsigned rx = x->role < TR_N ? order[x->role] : TR_N;
	unsigned ry = y->role < TR_N ? order[y->role] : TR_N;

	return ASCENDING(rx, ry) ?: ASCENDING(x->n_shown, y->n_shown) ?:
	       DESCENDING(x->poll_ns, y->poll_ns) ?: ASCENDING(x->kind, y->kind);
}

static int by_tid(const void *a, const void *b)
{
	const struct thread_lane *x = *(struct thread_lane *const *)a;
	const struct thread_lane *y = *(struct thread_lane *const *)b;

	return ASCENDING(x->at.pid, y->at.pid) ?: DESCENDING(x->worker, y->worker) ?:
	       ASCENDING(x->at.tid, y->at.tid);
}

static uint32_t process_pid(const struct draw *d, uint32_t process)
{
	const struct trace_process *tp = trace_reader_process(d->reader, process);
	return tp ? tp->pid : 0;
}

/* A number that no traced program has. */
static uint32_t next_pid(struct lane_naming *naming)
{
	const struct draw *d = naming->d;
	uint32_t n = trace_reader_n_processes(d->reader);

	for (;;) {
		uint32_t i = 0, pid = ++naming->last_pid;
		while (i < n && process_pid(d, i) != pid)
			i++;
		if (i == n)
			return pid;
	}
}

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path ? path : "";
}

static void thread_text(const struct draw *d, const struct thread_lane *t, struct buf *out)
{
	const struct trace_thread *tt =
		trace_reader_thread(d->reader, (uint32_t)(t - d->sel.lanes.threads));

	buf_printf(out, "%s %" PRIu32, tt && tt->name && *tt->name ? tt->name : "thread",
		   t->at.tid);
}

static int emit_process(struct lane_naming *n, enum draw_group_type type, const char *of,
			const struct trace_process *tp, uint32_t pid)
{
	_cleanup_buf_ struct buf name = BUF_INIT;

	buf_printf(&name, "%s of %s", of, base_name(tp->exe));
	return buf_failed(&name)
		       ? -ENOMEM
		       : n->d->pen->group(n->d->ctx, &(struct draw_group){.type = type,
									  .pid = pid,
									  .name = name.data,
									  .process = tp,
									  .rank = n->rank++});
}

static int emit_threads(struct lane_naming *n)
{
	struct draw *d = n->d;
	struct lanes *l = &d->sel.lanes;
	uint32_t n_shown = 0;
	_cleanup_free_ struct thread_lane **shown =
		calloc(l->n_threads + 1, sizeof(struct thread_lane *));
	if (!shown)
		return -ENOMEM;

	for (uint32_t i = 0; i < l->n_threads; i++) {
		const struct trace_thread *tt = trace_reader_thread(d->reader, i);
		if (!tt)
			l->threads[i].shown = false;
		if (!l->threads[i].shown)
			continue;
		l->threads[i].at.pid = process_pid(d, tt->process);
		l->threads[i].at.tid = tt->tid;
		shown[n_shown++] = &l->threads[i];
	}
	for (uint32_t i = 0; i < trace_reader_n_processes(d->reader); i++) {
		const struct trace_process *tp = trace_reader_process(d->reader, i);

		if (tp)
			TRY(emit_process(n, GROUP_THREADS, "threads", tp, tp->pid));
	}
	qsort(shown, n_shown, sizeof(struct thread_lane *), by_tid);
	for (uint32_t i = 0; i < n_shown; i++) {
		struct thread_lane *t = shown[i];
		_cleanup_buf_ struct buf name = BUF_INIT;

		thread_text(d, t, &name);
		TRY(emit_lane(n, &(struct draw_lane){.group = GROUP_THREADS, .thread = t}, &t->at,
			      t->at.pid, t->at.tid, &name, i));
	}
	return 0;
}

/* What samples saw of threads: many rows, so they come after all that is short. */
static int emit_thread_stacks(struct lane_naming *n)
{
	struct draw *d = n->d;
	struct lanes *l = &d->sel.lanes;

	for (uint32_t process = 0; process < trace_reader_n_processes(d->reader); process++) {
		const struct trace_process *tp = trace_reader_process(d->reader, process);
		uint32_t pid = 0;
		uint64_t at = 0;

		for (uint32_t i = 0; tp && i < l->n_threads; i++) {
			struct thread_lane *t = &l->threads[i];
			const struct trace_thread *tt = trace_reader_thread(d->reader, i);
			_cleanup_buf_ struct buf name = BUF_INIT;

			if (!t->shown || !t->n_samples || !tt || tt->process != process)
				continue;
			if (!pid) {
				pid = next_pid(n);
				TRY(emit_process(n, GROUP_STACKS, "on the CPU: threads", tp, pid));
			}
			thread_text(d, t, &name);
			TRY(emit_lane(n,
				      &(struct draw_lane){
					      .group = GROUP_STACKS, .thread = t, .stacks = true},
				      &t->stacks_at, pid, t->at.tid, &name, at++));
		}
	}
	return 0;
}

static int emit_family(struct lane_naming *n, const struct lane_family *f)
{
	struct draw *d = n->d;
	_cleanup_buf_ struct buf name = BUF_INIT;

	buf_printf(&name, f->role == TR_FUTURE ? "futures in %s: " : "%s: ", f->short_name);
	if (f->shown_tasks < f->n_tasks)
		buf_printf(&name, "%" PRIu64 " of ", f->shown_tasks);
	buf_printf(&name, "%" PRIu64 " %s%s", f->n_tasks,
		   f->role == TR_ROOT	    ? "root future"
		   : f->role == TR_BLOCKING ? "blocking closure"
		   : f->role == TR_FUTURE   ? "that waited"
					    : "task",
		   f->n_tasks == 1 || f->role == TR_FUTURE ? "" : "s");

	/* Where they are spawned, next to the name. */
	const struct trace_kind *k =
		f->role != TR_FUTURE ? trace_reader_kind(d->reader, f->kind) : NULL;
	bool known = k && k->n_sites && k->sites && k->sites[0] && *k->sites[0];
	if (buf_failed(&name))
		return -ENOMEM;
	return d->pen->group(
		d->ctx, &(struct draw_group){.type = GROUP_FAMILY,
					     .pid = f->pid,
					     .name = name.data,
					     .site = known ? text_short_file(k->sites[0]) : NULL,
					     .family = f,
					     .rank = n->rank++});
}

static void lane_text(struct draw *d, const struct lane_family *f, const struct task_lane *lane,
		      struct buf *out)
{
	if (f->role == TR_FUTURE) {
		buf_str(out, short_name(&d->names, lane->kind));
		buf_printf(out, lane->mixed ? " and others: %" PRIu64 : ": %" PRIu64,
			   lane->n_tasks);
	} else if (lane->n_tasks == 1) {
		buf_printf(out, "%s #%" PRIu64, f->short_name, lane->number);
	} else {
		buf_printf(out, "%" PRIu64 " × %s", lane->n_tasks, f->short_name);
	}
}

static int emit_families(struct lane_naming *n)
{
	struct draw *d = n->d;
	struct lanes *l = &d->sel.lanes;
	_cleanup_free_ struct lane_family **ranked =
		calloc(l->n_families + 1, sizeof(struct lane_family *));
	if (!ranked)
		return -ENOMEM;
	for (size_t i = 0; i < l->n_families; i++)
		ranked[i] = l->families[i];
	qsort(ranked, l->n_families, sizeof(*ranked), by_rank);

	for (size_t i = 0; i < l->n_families; i++) {
		struct lane_family *f = ranked[i];
		uint64_t at = 0;

		if (!f->n_shown)
			continue;
		f->pid = next_pid(n);
		TRY(emit_family(n, f));
		for (uint32_t k = 0; k < f->n_shown; k++) {
			_cleanup_buf_ struct buf name = BUF_INIT;

			lane_text(d, f, &f->lanes[k], &name);
			TRY(emit_lane(n, &(struct draw_lane){.group = GROUP_FAMILY, .family = f},
				      &f->lanes[k].at, f->pid, ++n->last_tid, &name, at++));
		}
		/* What samples saw, many rows, is below all tasks. */
		for (uint32_t k = 0; k < f->n_shown; k++) {
			_cleanup_buf_ struct buf name = BUF_INIT;

			if (!f->lanes[k].n_samples || d->pen->sample)
				continue;
			lane_text(d, f, &f->lanes[k], &name);
			buf_str(&name, ", on the CPU");
			TRY(emit_lane(n,
				      &(struct draw_lane){
					      .group = GROUP_FAMILY, .family = f, .stacks = true},
				      &f->lanes[k].stacks_at, f->pid, ++n->last_tid, &name, at++));
		}
	}
	return 0;
}

/* What is wrong comes first: a lane each, in the order of the report. */
static int emit_findings(struct lane_naming *n)
{
	struct draw *d = n->d;
	size_t n_findings = d->opt->n_findings;
	uint32_t pid;

	if (!n_findings)
		return 0;
	d->findings = calloc(n_findings, sizeof(*d->findings));
	if (!d->findings)
		return -ENOMEM;
	pid = next_pid(n);
	TRY(d->pen->group(d->ctx, &(struct draw_group){.type = GROUP_FINDINGS,
						       .pid = pid,
						       .name = "findings",
						       .rank = n->rank++}));
	for (size_t i = 0; i < n_findings; i++) {
		_cleanup_buf_ struct buf name = BUF_INIT;

		buf_str(&name, d->opt->findings[i].title);
		TRY(emit_lane(n, &(struct draw_lane){.group = GROUP_FINDINGS}, &d->findings[i], pid,
			      (uint32_t)i + 1, &name, i));
	}
	d->sel.n_lanes += n_findings;
	return 0;
}

int lane_names_emit(struct draw *d)
{
	struct lane_naming n = {.d = d};

	if (*d->sel.notice) /* the cut, impossible to miss: a group of its own on top */
		TRY(d->pen->group(d->ctx, &(struct draw_group){.type = GROUP_CUT,
							       .pid = next_pid(&n),
							       .name = d->sel.notice,
							       .rank = n.rank++}));
	TRY(emit_findings(&n));
	TRY(emit_threads(&n));
	TRY(emit_families(&n));
	return d->pen->sample ? 0 : emit_thread_stacks(&n);
}
