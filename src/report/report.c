/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Collects a report from a timeline in one pass: a family per kind with histograms of its polls
 * and scheduling delays, the threads that polled, the longest polls with the blocking calls in
 * them.
 *
 * Blocking calls, and stacks of long polls, come before the poll they are in; they are kept by
 * thread and task until that poll ends. Polls of spawn_blocking closures are no "long polls": to
 * block is what they are for.
 */
#include "base/compare.h"
#include "report/samples.h"
#include "report/still.h"
#include "report/text_util.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/units.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_DEFAULT 10
/* A task that waits this long for a poll may be starved. */
#define STARVED_NS (10 * NSEC_PER_MSEC)

static struct family *family_of(struct report *rep, uint32_t kind)
{
	if (!GROW_ZERO(rep->families, kind, rep->n_families))
		return NULL;
	if (rep->families[kind])
		return rep->families[kind];
	struct family *f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	const struct trace_kind *meta = trace_reader_kind(rep->reader, kind);
	f->kind = kind;
	f->role = meta && meta->role < TR_N ? meta->role : TR_TASK;
	return rep->families[kind] = f;
}

/* ---- the sink ---- */

static int on_task_begin(void *ctx, struct tl_task *task)
{
	struct report *rep = ctx;
	struct family *f = family_of(rep, task->kind);
	if (!f)
		return -ENOMEM;
	f->n_tasks++;
	/* In a window those that it has not seen spawned lived before. */
	f->n_spawned +=
		task->spawn_seen && task->spawn_ns >= rep->base_ns + rep->opt.filter.from_ns;
	task->user = f;
	return life_task(rep, task, false);
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct report *rep = ctx;
	struct family *f = task->user;
	f->role = task->role;
	f->n_ended[task->outcome]++;
	if (task->outcome == TO_PENDING && task->spawn_seen && task->state == TS_SCHEDULED &&
	    !task->n_polls)
		f->n_unpolled++;
	if (still_task(rep, task) < 0)
		return -ENOMEM;
	return life_task(rep, task, true);
}

static int keep_if_long(struct report *rep, const struct tl_poll *poll,
			const struct open_poll *taken)
{
	const struct call_list *calls = &taken->calls;
	uint64_t ns = tl_poll_held_ns(poll);
	size_t at = rep->n_longest;
	while (at && tl_poll_held_ns(&rep->longest[at - 1].poll) < ns)
		at--;
	if (at >= rep->cap_longest)
		return 0;
	struct long_poll new = {
		.poll = *poll,
		.family = poll->task->user,
		.handler = report_handler(rep, &poll->round),
		.serial = poll->task->serial,
		.id = poll->task->id,
		.number = poll->task->number,
		.stack = taken->stack,
		.preempted_ns = taken->preempted_ns < poll->end_ns - poll->begin_ns
					? taken->preempted_ns
					: poll->end_ns - poll->begin_ns,
	};
	for (size_t i = 0; i < calls->n; i++)
		if (call_add(&new.calls, &calls->items[i]) < 0)
			return -ENOMEM;
	calls_sort(&new.calls);
	if (rep->n_longest == rep->cap_longest)
		free(rep->longest[--rep->n_longest].calls.items);
	memmove(&rep->longest[at + 1], &rep->longest[at], (rep->n_longest - at) * sizeof(new));
	rep->longest[at] = new;
	rep->n_longest++;
	return 0;
}

/* What is known of the task's open poll on that thread; NULL when out of memory. */
static struct open_poll *open_poll(struct report *rep, uint32_t thread, uint64_t serial)
{
	if (!GROW_ZERO(rep->open, thread, rep->n_open))
		return NULL;
	struct open_polls *t = &rep->open[thread];
	for (size_t i = t->n; i-- > 0;)
		if (t->open[i].serial == serial)
			return &t->open[i];
	if (!GROW_ONE(t->open, t->n))
		return NULL;
	t->open[t->n] = (struct open_poll){.serial = serial};
	return &t->open[t->n++];
}

/* The same of the poll that ends now; taken out. */
static struct open_poll take_open(struct report *rep, uint32_t thread, uint64_t serial)
{
	struct open_polls *t = thread < rep->n_open ? &rep->open[thread] : NULL;
	for (size_t i = t ? t->n : 0; i-- > 0;) {
		if (t->open[i].serial != serial)
			continue;
		struct open_poll taken = t->open[i];
		t->open[i] = t->open[--t->n];
		return taken;
	}
	return (struct open_poll){0};
}

/* A task was ready when the trace ended, and was never polled: that is so at every cut of a busy
 * program, so only those count that wait long, and longer than any other. */
static void count_starved(struct family *f, uint64_t ns)
{
	if (ns < STARVED_NS || ns <= f->max_polled_ns)
		return;
	f->n_starved++;
	if (ns > f->max_starved_ns)
		f->max_starved_ns = ns;
}

/* A task was ready until end_ns, when the poll began, or (NULL) the trace ended. */
static int add_delay(struct family *f, uint64_t begin_ns, uint64_t end_ns,
		     const struct tl_poll *poll)
{
	uint64_t delay = end_ns - begin_ns;
	if (!f->delay.count || delay > f->delay.max) {
		f->max_delay_at_ns = end_ns;
		f->max_delay_open = !poll;
		f->max_delay_thread = poll ? poll->thread : 0;
	}
	if (poll && delay > f->max_polled_ns)
		f->max_polled_ns = delay;
	return hist_add(&f->delay, delay);
}

static int sum_poll(struct family *f, const struct tl_poll *poll)
{
	f->n_polls++;
	if (tl_poll_measured(poll))
		TRY(hist_add(&f->poll, poll->end_ns - poll->begin_ns));
	else
		f->n_unmeasured++;
	return poll->begin_seen && poll->scheduled_ns
		       ? add_delay(f, poll->scheduled_ns, poll->begin_ns, poll)
		       : 0;
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct report *rep = ctx;
	struct family *f = poll->task->user;
	struct open_poll taken = take_open(rep, poll->thread, poll->task->serial);
	struct family *part;
	int r = family_part(rep, f, &poll->round, &part);
	if (r == 0)
		r = sum_poll(f, poll);
	if (r == 0 && part)
		r = sum_poll(part, poll);
	if (r == 0 && tl_poll_measured(poll) && f->role != TR_BLOCKING && f->role != TR_WORKER)
		r = keep_if_long(rep, poll, &taken);
	free(taken.calls.items);
	return r < 0 ? r : life_poll(rep, poll);
}

static uint64_t hash_place(uint64_t seed, const struct trace_place *p)
{
	if (!p)
		return seed;
	seed = hash_string(seed, p->function);
	seed = hash_string(seed ^ p->line, p->file);
	return hash_string(seed, p->awaits);
}

static bool same_place(const struct trace_place *a, const struct trace_place *b)
{
	if (!a || !b)
		return a == b;
	return a->line == b->line && !strcmp(a->function, b->function) &&
	       !strcmp(a->file, b->file) && !strcmp(a->awaits, b->awaits);
}

/* Of places that differ only in what is around the program's own await point, or between that and
 * the innermost one, the first. */
static uint64_t one_place(struct report *rep, uint64_t place)
{
	const struct trace_place *own = report_place(rep, place), *leaf = report_leaf(rep, place);
	uint64_t hash, known;

	if (!own || !(own->outer || own->flags & TRACE_PLACE_OWN))
		return place;
	hash = hash_place(hash_place(0, own), leaf);
	known = (uintptr_t)map_get(&rep->same_places, hash, own->process);
	if (!known)
		map_put(&rep->same_places, hash, own->process, (void *)(uintptr_t)place);
	return known && same_place(own, report_place(rep, known)) &&
			       same_place(leaf, report_leaf(rep, known))
		       ? known
		       : place;
}

static int add_wait(struct report *rep, struct family *f, uint32_t handler,
		    const struct tl_wait *wait)
{
	if (f->role == TR_TASK) {
		if (!wait->place)
			rep->n_unplaced++;
		else
			rep->n_placed++;
	}
	if (!wait->place)
		return 0;
	uint64_t place = one_place(rep, wait->place);
	uint64_t whose = (uint64_t)handler << 32 | f->kind;
	struct wait_place *w = map_get_or_new(&rep->waits_by_place, whose, place, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->family = f;
	w->handler = handler;
	w->place = place;
	if (resources_wait(rep, w, wait) < 0)
		return -ENOMEM;
	return hist_add(&w->waits, wait->end_ns - wait->begin_ns);
}

static int sum_wait(struct family *f, const struct tl_wait *wait)
{
	uint64_t ns = wait->end_ns - wait->begin_ns;

	if (wait->state == TS_WAITING)
		f->waiting_ns += ns;
	if (wait->state != TS_SCHEDULED)
		return 0;
	f->scheduled_ns += ns;
	/* A block_on may have returned before it was woken. */
	if (wait->open && wait->task->spawn_seen && !wait->task->n_polls)
		count_starved(f, ns);
	return wait->open && f->role != TR_ROOT ? add_delay(f, wait->begin_ns, wait->end_ns, NULL)
						: 0;
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct report *rep = ctx;
	struct family *f = wait->task->user, *part;

	TRY(family_part(rep, f, &wait->round, &part));
	TRY(sum_wait(f, wait));
	if (part)
		TRY(sum_wait(part, wait));
	if (wait->state == TS_WAITING)
		TRY(add_wait(rep, f, part ? part->handler : TRACE_KIND_NONE, wait));
	return life_wait(rep, wait);
}

static void sum_wake(struct family *f, const struct tl_wake *wake)
{
	f->n_wakes++;
	f->n_self_wakes += wake->self;
	f->n_deferred_wakes += wake->deferred;
	f->n_self_polls += wake->first_self;
}

static int on_wake(void *ctx, const struct tl_wake *wake)
{
	struct report *rep = ctx;
	struct family *f = wake->task->user, *part;

	if (wake->by_waker) {
		TRY(family_part(rep, f, &wake->round, &part));
		sum_wake(f, wake);
		if (part)
			sum_wake(part, wake);
	}
	return life_wake(rep, wake);
}

static int on_stray_wake(void *ctx, uint32_t kind, uint32_t thread, uint64_t time_ns)
{
	struct report *rep = ctx;
	struct family *f = family_of(rep, kind);

	(void)thread;
	(void)time_ns;
	if (!f)
		return -ENOMEM;
	f->n_stray_wakes++;
	if (f->n_parts)
		f->parts[0]->n_stray_wakes++;
	return 0;
}

static int on_block(void *ctx, const struct tl_block *block)
{
	struct report *rep = ctx;
	struct family *f = block->task->user, *part;
	uint64_t ns = block->end_ns - block->begin_ns;
	if (!block->keeps_worker)
		return 0;
	const struct call_sum one = {.call = block->call, .n = 1, .ns = ns, .max_ns = ns};
	TRY(family_part(rep, f, &block->round, &part));
	f->blocked_ns += ns;
	TRY(call_add(&f->calls, &one));
	if (part) {
		part->blocked_ns += ns;
		TRY(call_add(&part->calls, &one));
	}
	struct open_poll *open = open_poll(rep, block->thread, block->task->serial);
	return open ? call_add(&open->calls, &one) : -ENOMEM;
}

static int on_sample(void *ctx, const struct tl_sample *sample)
{
	struct report *rep = ctx;
	if (sample->type == TM_BLOCKED)
		return system_blocked(rep, sample);
	if (sample->type != TM_LONG_RUNNING && sample->type != TM_LONG_BLOCKED)
		return samples_add(rep, sample);
	if (!sample->task || !sample->stack)
		return 0;
	struct open_poll *open = open_poll(rep, sample->thread, sample->task->serial);
	if (!open)
		return -ENOMEM;
	open->stack.stack = sample->stack;
	open->stack.after_ns = sample->poll_ns && sample->time_ns >= sample->poll_ns
				       ? sample->time_ns - sample->poll_ns
				       : sample->weight;
	open->stack.type = (uint8_t)sample->type;
	open->stack.n_taken++;
	return 0;
}

static int on_syscall(void *ctx, const struct tl_syscall *call)
{
	return system_call(ctx, call);
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct report *rep = ctx;
	if (off->task && off->reason == TX_PREEMPTED) {
		struct open_poll *open = open_poll(rep, off->thread, off->task->serial);
		if (!open)
			return -ENOMEM;
		open->preempted_ns += off->end_ns - off->begin_ns;
	}
	return system_off_cpu(rep, off);
}

static int on_future_poll(void *ctx, const struct tl_future_poll *poll)
{
	int r = futures_poll(ctx, poll);
	return r < 0 ? r : life_future(ctx, poll);
}

static int on_future_end(void *ctx, struct tl_future *future)
{
	TRY(handlers_request(ctx, future));
	TRY(life_request(ctx, future));
	return futures_end(ctx, future);
}

static int on_loss(void *ctx, const struct tl_loss *loss)
{
	struct report *rep = ctx;
	if (loss->aux) {
		rep->n_lost_aux += loss->n_events;
		return 0;
	}
	rep->n_lost += loss->n_events;
	for (size_t i = 0; i < rep->n_losses; i++) {
		struct tl_loss *sum = &rep->losses[i];
		if (sum->thread != loss->thread)
			continue;
		sum->n_events += loss->n_events;
		sum->end_ns = loss->end_ns;
		return 0;
	}
	if (!GROW_ONE(rep->losses, rep->n_losses))
		return -ENOMEM;
	rep->losses[rep->n_losses++] = *loss;
	return 0;
}

static int on_thread_end(void *ctx, const struct tl_thread *thread)
{
	struct report *rep = ctx;
	if (!thread->worker && !thread->root && !thread->n_polls)
		return 0;
	if (!GROW_ONE(rep->threads, rep->n_threads))
		return -ENOMEM;
	rep->threads[rep->n_threads++] = *thread;
	return 0;
}

static const struct timeline_sink sink = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.wake = on_wake,
	.stray_wake = on_stray_wake,
	.block = on_block,
	.syscall = on_syscall,
	.off_cpu = on_off_cpu,
	.sample = on_sample,
	.future_poll = on_future_poll,
	.future_end = on_future_end,
	.loss = on_loss,
	.thread_end = on_thread_end,
};

/* ---- order ---- */

/* Time in a blocking closure, a block_on or a worker's loop means something else than in a task, so
 * tasks come first. */
static unsigned role_order(const struct family *f)
{
	static const unsigned order[] = {
		[TR_TASK] = 0, [TR_ROOT] = 1, [TR_BLOCKING] = 2, [TR_WORKER] = 3, [TR_FUTURE] = 4};
	return order[f->role];
}

static int compare_families(const void *a, const void *b, void *arg)
{
	const struct family *x = *(struct family *const *)a, *y = *(struct family *const *)b;
	const struct report *rep = arg;

	if (rep->opt.sort == RS_NAME)
		return strcmp(family_name(rep, x), family_name(rep, y))
			       ?: ASCENDING(x->kind, y->kind);
	return ASCENDING(role_order(x), role_order(y)) ?:
	       DESCENDING(family_sort_key(x, rep->opt.sort), family_sort_key(y, rep->opt.sort)) ?:
	       ASCENDING(x->kind, y->kind);
}

static unsigned thread_order(const struct tl_thread *t)
{
	return t->worker ? 0 : t->root ? 1 : 2;
}

static int compare_threads(const void *a, const void *b)
{
	const struct tl_thread *x = a, *y = b;

	return ASCENDING(thread_order(x), thread_order(y)) ?: DESCENDING(x->busy_ns, y->busy_ns) ?:
	       ASCENDING(x->thread, y->thread);
}

static int compare_waits(const void *a, const void *b)
{
	const struct wait_place *x = *(struct wait_place *const *)a;
	const struct wait_place *y = *(struct wait_place *const *)b;

	return DESCENDING(x->waits.sum, y->waits.sum) ?:
	       ASCENDING(x->family->kind, y->family->kind) ?: ASCENDING(x->handler, y->handler) ?:
	       ASCENDING(x->place, y->place);
}

static void put_waits_in_order(struct report *rep)
{
	rep->waits = map_sorted(&rep->waits_by_place, compare_waits);
	rep->n_waits = rep->waits ? rep->waits_by_place.n : 0;
	resources_sort(rep);
}

static void wait_place_free(void *value)
{
	struct wait_place *w = value;

	hist_done(&w->waits);
	free(w);
}

/* Tasks that serve connections are called that in all texts, unless there are several families of them.
 */
static int name_connections(struct report *rep)
{
	_cleanup_(map_done) struct map named = {0}; /* hash of the name -> its kind + 1 */
	uint32_t n = rep->labels.n;

	rep->families_by_kind = calloc((size_t)n + 1, sizeof(*rep->families_by_kind));
	if (!rep->families_by_kind)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		bool used = trace_reader_kind_used(rep->reader, i);
		const char *name = used ? kind_connection(trace_reader_kind(rep->reader, i)) : NULL;
		uint64_t hash = name ? hash_string(0, name) : 0;
		uintptr_t other = name ? (uintptr_t)map_get(&named, hash, 0) : 0;

		if (other)
			rep->families_by_kind[other - 1] = NULL;
		else if (name && map_put(&named, hash, 0, (void *)((uintptr_t)i + 1)) < 0)
			return -ENOMEM;
		rep->families_by_kind[i] = other ? NULL : name;
	}
	return 0;
}

static int make_labels(struct report *rep)
{
	TRY(kind_labels_make(rep->reader, &rep->labels));
	rep->shorts = calloc((size_t)rep->labels.n + 1, sizeof(*rep->shorts));
	for (uint32_t i = 0; rep->shorts && i < rep->labels.n; i++)
		if (trace_reader_kind_used(rep->reader, i) &&
		    !(rep->shorts[i] = kind_short(&rep->labels, rep->reader, i)))
			return -ENOMEM;
	return rep->shorts ? name_connections(rep) : -ENOMEM;
}

static int put_in_order(struct report *rep)
{
	int r = make_labels(rep);
	size_t n = 0;
	put_waits_in_order(rep);
	lives_sort(rep);
	handlers_sort(rep);
	for (size_t i = 0; i < rep->n_families; i++) {
		struct family *f = rep->families[i];
		if (!f)
			continue;
		calls_sort(&f->calls);
		rep->families[n++] = f;
	}
	rep->n_families = n;
	if (n)
		qsort_r(rep->families, n, sizeof(*rep->families), compare_families, rep);
	if (rep->n_threads)
		qsort(rep->threads, rep->n_threads, sizeof(*rep->threads), compare_threads);
	if (r == 0)
		r = samples_sort(rep);
	if (r == 0)
		r = system_sort(rep);
	if (r == 0)
		r = still_sort(rep);
	return r < 0 ? r : futures_sort(rep);
}

/* ---- the report ---- */

/* This sink and those of the findings, in one pass. */
static int replay(struct report *rep, struct error *err)
{
	size_t n;
	const struct fan_out_sink *more = findings_sinks(rep->findings, &n);
	_cleanup_free_ struct fan_out_sink *sinks = calloc(n + 1 + rep->opt.n_also, sizeof(*sinks));
	struct fan_out all = {.sinks = sinks, .n = n + 1 + rep->opt.n_also};

	if (!sinks)
		return error_set(err, -ENOMEM, "out of memory");
	sinks[0] = (struct fan_out_sink){&sink, rep};
	memcpy(sinks + 1, more, n * sizeof(*sinks));
	if (rep->opt.n_also)
		memcpy(sinks + 1 + n, rep->opt.also, rep->opt.n_also * sizeof(*sinks));
	return timeline_replay(rep->reader, &rep->opt.filter, &fan_out_sink, &all,
			       rep->opt.progress, rep->opt.progress_ctx, &rep->totals,
			       &rep->base_ns, err);
}

static void finding_family(const void *ctx, struct buf *out, uint32_t kind, uint32_t handler)
{
	const struct report *rep = ctx;
	_cleanup_buf_ struct buf name = BUF_INIT;

	if (handler == TRACE_KIND_NONE) {
		report_name(rep, out, report_family(rep, kind));
		return;
	}
	text_safe(&name, report_family(rep, kind));
	buf_str(&name, " › ");
	text_safe(&name, report_short(rep, handler));
	report_name(rep, out, name.data);
}

static int judge(struct report *rep)
{
	_cleanup_buf_ struct buf tree = BUF_INIT;
	bool has_tree = report_tree_command(rep, &tree);
	const struct findings_scope scope = {
		.base_ns = rep->base_ns,
		.begin_ns = rep->begin_ns,
		.end_ns = rep->end_ns,
		.length_ns = rep->length_ns,
		.filtered = rep->filtered,
		.totals = &rep->totals,
		.tree = has_tree && !buf_failed(&tree) ? tree.data : NULL,
		.family = finding_family,
		.family_ctx = rep,
	};

	return findings_judge(rep->findings, &scope);
}

int report_make(struct trace_reader *r, const struct report_options *opt,
		struct report **ret_report, struct error *err)
{
	struct report *rep = calloc(1, sizeof(*rep));
	if (!rep)
		return error_set(err, -ENOMEM, "out of memory");
	rep->reader = r;
	rep->opt = *opt;
	const struct replay_filter *filter = &opt->filter;
	rep->filtered = filter->from_ns || filter->to_ns || filter->families || filter->threads ||
			filter->tasks;
	rep->cap_longest = opt->n_longest ? opt->n_longest : LONGEST_DEFAULT;
	rep->longest = calloc(rep->cap_longest, sizeof(*rep->longest));
	rep->findings = findings_new(r, opt->own);
	int ret = rep->longest && rep->findings ? replay(rep, err)
						: error_set(err, -ENOMEM, "out of memory");
	if (ret < 0) {
		report_free(rep);
		return ret;
	}
	rep->begin_ns = rep->base_ns + filter->from_ns;
	rep->end_ns = rep->totals.last_ns;
	if (rep->begin_ns > rep->end_ns || rep->begin_ns < rep->base_ns)
		rep->begin_ns = rep->end_ns;
	rep->length_ns = replay_length_ns(r, filter, rep->base_ns, rep->end_ns);
	if (put_in_order(rep) < 0 || judge(rep) < 0) {
		report_free(rep);
		return error_set(err, -ENOMEM, "out of memory");
	}
	*ret_report = rep;
	return 0;
}

void report_totals(const struct report *rep, struct timeline_totals *ret)
{
	*ret = rep->totals;
}

bool report_empty(const struct report *rep)
{
	return !rep->totals.n_events && !trace_reader_n_moments(rep->reader);
}

void report_free(struct report *rep)
{
	if (!rep)
		return;
	for (size_t i = 0; i < rep->n_families; i++) {
		struct family *f = rep->families[i];
		if (!f)
			continue;
		hist_done(&f->poll);
		hist_done(&f->delay);
		free(f->calls.items);
		family_parts_done(f);
		free(f);
	}
	for (size_t i = 0; i < rep->n_longest; i++)
		free(rep->longest[i].calls.items);
	for (size_t i = 0; i < rep->n_open; i++) {
		for (size_t k = 0; k < rep->open[i].n; k++)
			free(rep->open[i].open[k].calls.items);
		free(rep->open[i].open);
	}
	map_free(&rep->waits_by_place, wait_place_free);
	map_done(&rep->same_places);
	map_done(&rep->parts);
	free(rep->waits);
	lives_done(rep);
	findings_free(rep->findings);
	free(rep->families);
	free(rep->longest);
	free(rep->open);
	samples_done(rep);
	system_done(rep);
	still_done(rep);
	futures_done(rep);
	for (uint32_t i = 0; rep->shorts && i < rep->labels.n; i++)
		free(rep->shorts[i]);
	free(rep->shorts);
	free(rep->families_by_kind);
	resources_done(rep);
	kind_labels_done(&rep->labels);
	free(rep->threads);
	free(rep->losses);
	free(rep);
}

int report_parse_by(const char *s, enum report_by *ret_by)
{
	static const char *const words[] = {
		[RY_BOTH] = "both", [RY_TASK] = "task", [RY_HANDLER] = "handler"};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(words[i], s)) {
			*ret_by = i;
			return 0;
		}
	}
	return -EINVAL;
}

int report_parse_sort(const char *s, enum report_sort *ret_sort)
{
	static const char *const words[] = {
		[RS_POLL] = "poll", [RS_MAX] = "max",	  [RS_DELAY] = "delay",
		[RS_WAIT] = "wait", [RS_TASKS] = "tasks", [RS_WAKES] = "wakes",
		[RS_NAME] = "name",
	};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(words[i], s)) {
			*ret_sort = i;
			return 0;
		}
	}
	return -EINVAL;
}
