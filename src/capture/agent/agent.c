/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent as a source of events: attaches, drains the rings while the program runs, detaches.
 *
 * The rings are looked at every 0.5 to 20 ms: so that they are a quarter full by then, and a burst
 * that begins just now does not fill them. The watermark is the start of the drain before this one:
 * what was stamped before it is in the rings' heads by then, so it is written. Twice a second
 * the agent's deadline is renewed, after which it takes us for dead and switches itself off.
 *
 * Order at the end: disable and restore first, then take what is left.
 */
#include "base/cleanup.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "base/vec.h"
#include "capture/kinds.h"
#include "capture/agent/handlers.h"
#include "capture/agent/inlined.h"
#include "capture/exec_watch.h"
#include "capture/drain_interval.h"
#include "capture/agent/source.h"
#include "capture/agent/ring_stacks.h"
#include "runtime/debug_names.h"
#include "runtime/futures.h"
#include "runtime/root_polls.h"
#include "process/follow.h"
#include "process/process.h"
#include "process/find_processes.h"
#include "process/threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS_NS (200 * NSEC_PER_MSEC)
#define FILTERS_NS (5 * NSEC_PER_MSEC)
#define DEADLINE_NS (5000 * NSEC_PER_MSEC)
#define RENEW_NS (500 * NSEC_PER_MSEC)
/* One pass over all rings takes no longer, so that signals are seen, the deadline is renewed and
 * every process has its turn; the last one, which leaves behind what it has no time for, none than
 * this.
 */
#define PASS_NS (250 * NSEC_PER_MSEC)
#define LAST_PASS_NS (3000 * NSEC_PER_MSEC)
#define STARTING_LOOKS 1000u /* its loader has had its time */
#define CLOCK_SETTLE_NS (2 * NSEC_PER_MSEC)
/* Only used memory of the rings counts: this much may be in the address space. */
#define MAX_RINGS 1024u
#define MAX_RINGS_BYTES (4ull << 30)

struct capture {
	struct capture_shared *shared;
	struct drain drain;
	struct source *sources;
	size_t n_sources;
	pid_t child;		/* launched, not yet reaped */
	char *first_exe;	/* what it executed then, or soon after */
	bool executed;		/* it was seen to execute another program */
	struct exec_watch late; /* launched, and without a runtime so far */
	uint64_t late_cpu_ns;	/* our CPU time to look for one */
	uint64_t exec_after_ns; /* the program that executed it was seen alive then, 0: none was */
	struct follow *follow;	/* it, to its next exec; NULL: it is looked at now and then */
	struct error why_empty; /* what the last look said */
	struct attach_options attach_options;
	const struct places_ops *places;
	unsigned n_starting; /* looks that came too early, in a row */
	struct futures_wanted futures;
	int exit_status;
	struct drain_interval pace;
	uint64_t burst_ns;	  /* a ring may be full so soon */
	bool woken;		  /* earlier, if it fills up */
	uint64_t n_events_before; /* as the last drain began */
	uint64_t n_passes, longest_ns;
	uint64_t drain_start_ns, next_threads_ns, next_deadline_ns, next_filters_ns;
};

/* ---- what the trace gets at the start ---- */

/* For futures the spawn-site field holds the definition site. */
static int write_future(struct capture *c, const struct source *s, const struct scan_future *f,
			uint32_t runtime, uint32_t *ret_index)
{
	const char *where = f->where;
	const struct trace_kind kind = {
		.process = s->process,
		.runtime = runtime,
		.role = TR_FUTURE,
		.address_named = 1,
		.poll = f->poll,
		.name = f->name,
		.full_name = f->full_name,
		.n_sites = where != NULL,
		.site_addrs = &f->poll,
		.sites = &where,
	};

	return trace_writer_kind(c->drain.writer, &kind, ret_index);
}

static int write_root_poll(struct capture *c, const struct source *s,
			   const struct scan_root_poll *r, uint32_t runtime, uint32_t *ret_index)
{
	const char *where = r->where;
	const struct trace_kind kind = {
		.process = s->process,
		.runtime = runtime,
		.role = TR_FUTURE,
		.address_named = 1,
		.name = r->name,
		.full_name = r->full_name,
		.scheduler = "block_on",
		.n_sites = where != NULL,
		.site_addrs = &(uint64_t){0},
		.sites = &where,
	};

	return trace_writer_kind(c->drain.writer, &kind, ret_index);
}

static bool in_vtable(const struct scan_future *f)
{
	bool yes = false;

	for (size_t i = 0; i < f->n_uses; i++)
		yes = yes || f->uses[i].kind == REF_WORD;
	return yes;
}

static int write_kind(struct capture *c, struct source *s, const struct attach_kind *k,
		      const uint32_t *numbers, struct source_kind *ret)
{
	ret->task = k->kind && k->kind->role == TR_TASK;
	ret->block_on = k->root_poll != NULL;
	ret->runtime = k->future ? numbers[0] : 0;
	if (k->future && (k->future->holder || !c->shared->options->futures)) {
		ret->index = TRACE_KIND_NONE;
		ret->boxed = k->future;
		return 0;
	}
	ret->listed = k->future && in_vtable(k->future) ? k->future : NULL;
	if (k->future)
		TRY(write_future(c, s, k->future, numbers[0], &ret->index));
	else if (k->root_poll)
		TRY(write_root_poll(c, s, k->root_poll, numbers[0], &ret->index));
	else
		TRY(kinds_emit(c->drain.writer, s->process, &k->object->scan, numbers, k->kind,
			       k->waker, k->block_on, &ret->index));
	if (k->block_on)
		TRY(map_put(&s->by_call, k->block_on->site.addr + k->object->bias, 0, ret));
	return map_put(&s->by_index, ret->index, 0, ret);
}

static int write_runtimes(struct capture *c, struct source *s)
{
	const struct attach_object *const *objects;
	const struct attach_kind *kinds;
	size_t n_objects = attach_objects(s->attach, &objects);
	size_t n_kinds = attach_kinds(s->attach, &kinds);

	s->kinds = calloc(n_kinds + 1, sizeof(*s->kinds));
	if (!s->kinds)
		return -ENOMEM;
	/* Kinds are grouped by object, so each object's runtimes are written just before. */
	for (size_t o = 0; o < n_objects; o++) {
		const struct runtime_scan *f = &objects[o]->scan;
		_cleanup_free_ uint32_t *numbers = calloc(f->n_runtimes + 1, sizeof(*numbers));

		if (!numbers)
			return -ENOMEM;
		TRY(kinds_emit_runtimes(c->drain.writer, s->process, f, numbers));
		for (size_t i = 0; i < n_kinds; i++)
			if (kinds[i].object == objects[o])
				TRY(write_kind(c, s, &kinds[i], numbers, &s->kinds[i]));
	}
	s->n_kinds = (uint32_t)n_kinds;
	return 0;
}

static int write_coverage(struct capture *c, struct source *s)
{
	const struct trace_coverage *list;
	size_t n = attach_coverage(s->attach, &list);

	for (; s->n_covered < n; s->n_covered++) {
		struct trace_coverage one = list[s->n_covered];

		one.process = s->process;
		TRY(trace_writer_coverage(c->drain.writer, &one));
	}
	return 0;
}

/* ---- await points ---- */

static int add_points(struct capture *c, struct source *s, const struct place_program *p)
{
	if (p->kind >= s->n_kinds)
		return -EINVAL;
	TRY(points_add(&s->points, p, s->kinds[p->kind].index, s->process, c->drain.writer));
	return inlined_points(&c->drain, s, p);
}

/* From now on its polls are recorded, as those of requests. */
static int take_handler(struct capture *c, struct source *s, const struct place_program *p)
{
	struct source_kind *k = &s->kinds[p->kind];
	const struct scan_future *f = k->boxed ? k->boxed : k->listed;
	uint32_t index;

	if (!f || k->request || (k->boxed && k->index != TRACE_KIND_NONE))
		return 0;
	const struct trace_kind kind = {
		.process = s->process,
		.runtime = k->runtime,
		.role = TR_FUTURE,
		.address_named = 1,
		.poll = f->poll,
		.name = p->handler.name,
		.full_name = p->handler.full_name,
		.n_sites = p->handler.where != NULL,
		.site_addrs = &f->poll,
		.sites = &p->handler.where,
		.flags = TRACE_KIND_HANDLER,
	};

	TRY(trace_writer_kind(c->drain.writer, &kind, &index));
	if (!k->boxed) {
		k->request = index + 1;
		return 0;
	}
	k->index = index;
	k->ambiguous = strstr(p->handler.name, " or ");
	attach_owner(s->attach, p->kind, true);
	return map_put(&s->by_index, k->index, 0, k);
}

/* Takes the layout programs that are ready: first the trace knows their places, then the agent gets
 * them. A kind that can't have its own goes without. */
static int take_places(struct capture *c, struct source *s)
{
	struct place_program p;

	while (s->compiler && c->places->next(s->compiler, &p) == 1) {
		TRY(add_points(c, s, &p));
		if (p.handler.name)
			TRY(take_handler(c, s, &p));
		if (p.serves) {
			s->kinds[p.kind].serves = true;
			attach_owner(s->attach, p.kind, false);
		}
		if (p.held.last_state) {
			s->kinds[p.kind].held = true;
			attach_held(s->attach, p.kind, &p.held);
		}
		if (p.n_words &&
		    attach_program(s->attach, p.kind, p.words, p.n_words, p.task_bytes) == 0) {
			if (p.returns.from != AR_UNKNOWN)
				attach_result(s->attach, p.kind, &p.returns, p.pending);
			if (!s->kinds[p.kind].task)
				continue;
			s->n_programs++;
			s->n_late_programs += s->began_ns != 0;
			s->late_ns = s->began_ns ? clock_monotonic_ns() - s->began_ns : 0;
		}
	}
	return 0;
}

/* So that tasks have places from the first event on. */
static int await_places(struct capture *c, struct source *s)
{
	if (!s->compiler)
		return 0;
	c->places->wait(s->compiler, DEBUG_WAIT_NS);
	return take_places(c, s);
}

static int go(struct capture *c, struct source *s, struct error *err)
{
	bool alive;
	int rc;

	s->began_ns = clock_monotonic_ns();
	rc = drain_begin(&c->drain, s);

	if (rc < 0)
		return error_sys(err, rc, "cannot begin the trace");
	rc = attach_go(s->attach, &alive, err);
	if (rc == 0 && alive)
		s->seen_ns = s->began_ns;
	return rc;
}

static void stop_places(struct capture *c, struct source *s)
{
	if (!s->compiler)
		return;
	c->places->stop(s->compiler);
	c->places->trouble(s->compiler, &s->points_trouble);
}

static uint64_t clock_step_ps(const struct drain *d)
{
	return d->test_step_ns ? d->test_step_ns * 1000 : (uint64_t)(d->clock.average * 1000 + 0.5);
}

static int begin_source(struct capture *c, struct source *s, const struct trace_process *p)
{
	TRY(trace_writer_process(c->drain.writer, p, &s->process));
	TRY(write_runtimes(c, s));
	TRY(write_coverage(c, s));
	if (c->shared->options->futures)
		TRY(inlined_init(s, &c->futures));
	if (ring_stacks_wanted(c->shared->options))
		TRY(ring_stacks_init(s, ring_stacks_wanted(c->shared->options)));
	return 0;
}

static enum places_depth depth_of(const struct capture_options *opt)
{
	return opt->futures ? PLACES_FUTURES : opt->near ? PLACES_NEAR : PLACES_DEEP;
}

static int add_source(struct capture *c, struct attach *attach, struct error *err)
{
	_cleanup_free_ char *exe = attach_exe(attach), *cmdline = attach_cmdline(attach);
	struct attach_rings rings;
	struct source *s;
	int rc;

	if (!GROW_ONE(c->sources, c->n_sources)) {
		attach_close(attach, NULL);
		attach_free(attach);
		return error_sys(err, -ENOMEM, "cannot record");
	}
	s = &c->sources[c->n_sources++];
	*s = (struct source){.attach = attach, .alive = true};
	s->points.deep = c->attach_options.deep;
	attach_rings(attach, &rings);
	rc = ring_set_init(&s->rings, rings.area, rings.n_rings, rings.ring_bytes);
	const struct trace_process p = {.pid = (uint32_t)attach_pid(attach),
					.exe = exe,
					.cmdline = cmdline,
					.start_ns = clock_monotonic_ns(),
					.start_realtime_ns = clock_realtime_ns(),
					.clock_step_ps = clock_step_ps(&c->drain)};
	if (rc == 0)
		rc = begin_source(c, s, &p);
	if (rc < 0)
		return error_sys(err, rc, "cannot begin the trace");
	struct places_target target = {.object_fd = attach_object_fd,
				       .read = attach_read,
				       .ctx = attach,
				       .own = c->shared->options->own};
	target.n_kinds = attach_kinds(attach, &target.kinds);
	if (c->places)
		s->compiler = c->places->begin(&target, depth_of(c->shared->options));
	/* Before the moment of the start is read: it is to be that of the first event. */
	if (s->compiler && c->shared->options->places_wait_ns)
		c->places->wait(s->compiler, c->shared->options->places_wait_ns);
	return c->shared->joined(c->shared, attach_pid(attach), s->process, err);
}

/* A process that is gone has none. */
static void renew_deadline(struct capture *c, struct attach *a)
{
	uint64_t ticks = (uint64_t)(DEADLINE_NS / c->drain.clock.average);

	attach_set_deadline(a, clock_ticks() + ticks);
}

static void renew_deadlines(struct capture *c, uint64_t now)
{
	if (now < c->next_deadline_ns)
		return;
	for (size_t i = 0; i < c->n_sources; i++)
		if (c->sources[i].alive)
			renew_deadline(c, c->sources[i].attach);
	c->next_deadline_ns = now + RENEW_NS;
}

static void capture_free(struct capture *c)
{
	follow_end(c->follow, NULL);
	free(c->first_exe);
	for (size_t i = 0; i < c->n_sources; i++) {
		if (c->sources[i].compiler)
			c->places->end(c->sources[i].compiler);
		inlined_done(&c->sources[i]);
		map_done(&c->sources[i].owners);
		descriptors_done(&c->sources[i].descriptors);
		free(c->sources[i].known);
		ring_stacks_done(&c->sources[i]);
		ring_set_done(&c->sources[i].rings);
		free(c->sources[i].kinds);
		map_done(&c->sources[i].by_index);
		map_done(&c->sources[i].by_call);
		points_free(&c->sources[i].points);
		attach_free(c->sources[i].attach);
	}
	free(c->sources);
	free(c);
}

/* The agent is enabled when the other sources are. `wait` is for the first await points: while
 * nothing else is recorded, or the program has not begun, there is time. */
static int begin(struct capture *c, struct attach *a, bool wait, struct error *err)
{
	struct source *s;
	int rc;

	TRY(add_source(c, a, err));
	s = &c->sources[c->n_sources - 1];
	rc = wait ? await_places(c, s) : 0;
	if (rc < 0)
		return error_sys(err, rc, "cannot begin the trace");
	renew_deadline(c, a);
	return go(c, s, err);
}

static int launch(struct capture *c, char *const argv[], struct error *err)
{
	struct attach *a = NULL;
	int rc = attach_launch(argv, &c->attach_options, &c->child, &a, &c->follow, &c->why_empty);

	if (rc < 0) {
		*err = c->why_empty;
		return rc;
	}
	c->first_exe = process_exe(c->child);
	if (a)
		return begin(c, a, true, err);
	exec_watch_start(&c->late, argv[0]);
	return 0;
}

static int attach_all(struct capture *c, const char *exe, const pid_t *pids, size_t n,
		      struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		struct attach *a;
		int rc = attach_open(pids[i], &c->attach_options, &a, err);

		/* Of several that were found one may have ended since. */
		if (rc == -ESRCH && exe && (c->n_sources || i + 1 < n))
			continue;
		TRY(rc);
		TRY(begin(c, a, !c->n_sources, err));
	}
	return 0;
}

static int agent_open(struct capture_shared *shared, struct capture **ret_capture,
		      struct error *err)
{
	const struct capture_options *opt = shared->options;
	const pid_t *pids = opt->pids;
	const char *test_step = getenv("POLLUX_TEST_CLOCK_STEP"); /* tests: ns, a coarse counter */
	_cleanup_free_ pid_t *found = NULL;
	size_t n = opt->argv ? 1 : opt->n_pids;
	struct capture *c;
	struct attach_options attach_options = {
		.ring_bytes = opt->ring_bytes < 1u << 30 ? (uint32_t)opt->ring_bytes : 1u << 30,
		.n_rings = MAX_RINGS,
		.stacks = ring_stacks_wanted(opt),
		.force = opt->force,
		.deep = opt->places && !opt->near && !opt->futures,
	};
	int rc = opt->exe ? processes_running(opt->exe, &found, &n, err) : 0;

	if (rc < 0)
		return rc;
	if (found)
		pids = found;
	c = calloc(1, sizeof(*c));
	if (attach_options.ring_bytes < AGENT_MIN_RING_BYTES)
		attach_options.ring_bytes = AGENT_MIN_RING_BYTES;
	while (attach_options.n_rings > 16 &&
	       (uint64_t)attach_options.n_rings * attach_options.ring_bytes > MAX_RINGS_BYTES)
		attach_options.n_rings /= 2;
	if (!c)
		return error_sys(err, -ENOMEM, "cannot record");
	c->shared = shared;
	c->exit_status = -1;
	c->futures = (struct futures_wanted){.written = opt->futures == CF_ALL,
					     .include = opt->include,
					     .exclude = opt->exclude};
	if (opt->futures)
		attach_options.futures = &c->futures;
	c->attach_options = attach_options;
	c->places = opt->places;
	c->drain.writer = shared->writer;
	c->drain.threads = shared->threads;
	c->drain.shared = shared;
	/* With --long-poll, polls are reported before they are over. */
	drain_interval_init(&c->pace, opt->long_poll_ns ? opt->long_poll_ns / 4 : PACE_MAX_NS);
	c->burst_ns = opt->ring_bytes * FILL_NS_PER_BYTE;
	clock_map_init(&c->drain.clock, CLOCK_SETTLE_NS);
	c->drain.test_step_ns = test_step ? strtoull(test_step, NULL, 10) : 0;
	c->drain.start_ticks = clock_ticks();
	rc = opt->argv ? launch(c, opt->argv, err) : attach_all(c, opt->exe, pids, n, err);
	if (rc < 0) {
		for (size_t i = 0; i < c->n_sources; i++)
			attach_close(c->sources[i].attach, NULL);
		if (c->child > 0 && waitpid(c->child, &c->exit_status, WNOHANG) == 0) {
			kill(c->child, SIGKILL);
			waitpid(c->child, &c->exit_status, 0);
		}
		capture_free(c);
		return rc;
	}
	*ret_capture = c;
	return 0;
}

/* ---- draining ---- */

/* Linux 5.16; a filter may answer what it likes where it does not let it. */
static bool has_waitv(void)
{
	return syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno == EINVAL;
}

/* *ret_all: the rings were emptied, of all of them what they had. */
static int drain_all(struct capture *c, bool *ret_all)
{
	struct drain *d = &c->drain;
	uint64_t began = clock_monotonic_ns(), ns;
	int rc = 0;

	d->fill = 0;
	d->sources = c->sources;
	d->n_sources = c->n_sources;
	*ret_all = true;
	for (size_t i = 0; i < c->n_sources && rc == 0; i++) {
		rc = drain_source(d, &c->sources[i], PASS_NS / c->n_sources);
		*ret_all = *ret_all && d->budget.steps;
	}
	ns = clock_monotonic_ns() - began;
	c->n_passes++;
	if (ns > c->longest_ns)
		c->longest_ns = ns;
	if (!*ret_all)
		log_debug(LOG_DRAIN,
			  "a pass over the rings was ended after %.3f ms: they hold more",
			  (double)ns / 1e6);
	return rc;
}

static void stop_following(struct capture *c)
{
	int status;

	if (follow_end(c->follow, &status) == FOLLOW_ENDED) {
		c->exit_status = status;
		c->child = 0;
	}
	c->follow = NULL;
}

static bool reap_child(struct capture *c)
{
	int status;

	enum follow_state state = c->follow ? follow_look(c->follow) : FOLLOW_RUNS;

	if (state == FOLLOW_ENDED || state == FOLLOW_LOST)
		stop_following(c);
	if (!c->follow && c->child > 0) {
		pid_t got = waitpid(c->child, &status, WNOHANG);
		/* A tracer has waited for its end, if it ended while it was stopped. */
		bool taken = got < 0 && errno == ECHILD;

		if (got == c->child || (taken && thread_end_taken(c->child, &status)))
			c->exit_status = status;
		if (got == c->child || taken)
			c->child = 0;
	}
	return c->child <= 0;
}

/* The followed program has executed another one, which is stopped. */
static int take_exec(struct capture *c, struct error *err)
{
	struct attach_options options = c->attach_options;
	struct attach *a = NULL;
	int status = 0, rc;

	c->executed = true;
	log_debug(LOG_DRAIN, "process %d has executed another program", c->child);
	rc = attach_followed(&c->follow, c->child, &options, &a, &status, &c->why_empty);
	if (rc == -ECHILD) {
		c->exit_status = status;
		c->child = 0;
		return 0;
	}
	c->late.code_hash = 0;
	c->exec_after_ns = 0;
	if (!a)
		return 0; /* reported when the program is examined, or at the end */
	c->late.name = NULL;
	return begin(c, a, true, err);
}

static int open_again(struct capture *c, const struct attach_options *options,
		      struct attach **ret_attach, struct error *err)
{
	int rc = attach_open(c->child, options, ret_attach, err);

	if (rc != -EPERM || !c->follow)
		return rc;
	/* It has just been executed, and is stopped for take_exec(), or about to be. */
	if (follow_look(c->follow) == FOLLOW_EXEC || follow_has_executed(c->follow))
		return -EAGAIN;
	/* There is something to record, but only one may trace it. */
	stop_following(c);
	return attach_open(c->child, options, ret_attach, err);
}

/* What the look before found is only a part of the answer: the program has loaded something
 * since. */
static void say_ended(struct error *why)
{
	const struct error before = *why;

	/* What was read is in the cache then. */
	if (!*before.text)
		error_set(why, -ESRCH,
			  "it ended while pollux read its files: start it again, now that pollux "
			  "has them in its cache");
	else if (before.code != -ESRCH)
		error_set(why, -ESRCH,
			  "%s; later it loaded more files, and ended while pollux read them: start "
			  "it again, now that pollux has them in its cache",
			  before.text);
}

/* A launched program that had no runtime is looked at again when its code has changed. */
static int attach_late(struct capture *c, uint64_t now, struct error *err)
{
	struct attach_options options = c->attach_options;
	struct error why = {0};
	struct attach *a;
	int rc;

	if (c->follow && follow_look(c->follow) == FOLLOW_EXEC)
		return take_exec(c, err);
	if (!exec_watch_changed(&c->late, c->child, now))
		return 0;
	options.starting = c->n_starting < STARTING_LOOKS;
	options.launched = true;
	rc = open_again(c, &options, &a, &why);
	c->n_starting = rc == -EAGAIN ? c->n_starting + 1 : 0;
	if (rc == -EAGAIN)
		exec_watch_unsure(&c->late);
	/* The program goes on. Why it can't be recorded is reported at the end, unless the only
	 * reason is that it ends now. */
	if (rc < 0 && rc != -EAGAIN && !attach_code_hash(c->child))
		say_ended(&c->why_empty);
	else if (rc < 0 && rc != -EAGAIN && rc != -ESRCH)
		c->why_empty = why;
	if (rc < 0 && rc != -EAGAIN)
		c->late.without_ns = now;
	if (rc == -ENOMEM) {
		*err = why;
		return rc;
	}
	if (rc < 0)
		return 0;
	stop_following(c);
	c->late.name = NULL;
	TRY(begin(c, a, false, err));
	struct source *s = &c->sources[c->n_sources - 1];
	/* It may have executed another program since it was loaded: it lived before that. */
	if (!s->seen_ns)
		s->seen_ns = now;
	s->loaded_late = !c->exec_after_ns;
	uint64_t without_ns = s->loaded_late ? c->late.without_ns : c->exec_after_ns;
	if (without_ns && without_ns < s->began_ns)
		s->unseen_ns = s->began_ns - without_ns;
	return 0;
}

static int look_for_runtime(struct capture *c, uint64_t now, struct error *err)
{
	uint64_t before = clock_cpu_ns();
	int rc = attach_late(c, now, err);

	c->late_cpu_ns += clock_cpu_ns() - before;
	return rc;
}

/* The program that we started has executed another one, which may have a runtime, too. What it was
 * before has ended. */
static int follow_exec(struct capture *c)
{
	int rc = 0;

	for (size_t i = 0; i < c->n_sources && rc == 0; i++) {
		struct source *s = &c->sources[i];

		attach_close(s->attach, NULL);
		if (s->seen_ns > c->exec_after_ns)
			c->exec_after_ns = s->seen_ns;
		rc = drain_source(&c->drain, s, LAST_PASS_NS);
		if (rc == 0)
			rc = drain_end(&c->drain, s, clock_monotonic_ns());
	}
	exec_watch_start(&c->late, "the program");
	/* Before it is examined, which may take longer than it lives: what it executes next stays
	 * stopped until that is over. Where it can't be followed it is examined often. */
	if (!c->follow)
		follow_running(c->child, &c->follow);
	return rc;
}

/*
 * Whether the program wakes pollux if a ring fills up sooner than before: for several processes
 * only where the kernel supports it. A program of a single thread is not asked to, which makes no
 * futex calls itself, nor one that a seccomp filter might kill for it.
 */
static bool may_sleep(struct capture *c, uint64_t now)
{
	bool look = now >= c->next_filters_ns, may = true;

	for (size_t i = 0; i < c->n_sources; i++) {
		struct source *s = &c->sources[i];

		if (s->alive && look)
			s->may_wake = attach_may_wake(s->attach);
		if (s->alive && !(s->threaded && s->may_wake))
			may = false;
	}
	if (look)
		c->next_filters_ns = now + FILTERS_NS;
	if (!may)
		return false;
	return c->n_sources == 1 || (c->n_sources <= FUTEX_WAITV_MAX && has_waitv());
}

static int64_t agent_drain(struct capture *c, uint64_t *ret_watermark_ns, struct error *err)
{
	uint64_t now = clock_monotonic_ns(), watermark = c->drain_start_ns;
	uint64_t drained_ns = watermark ? watermark : now - PACE_MIN_NS;
	struct drain *d = &c->drain;
	bool threads = now >= c->next_threads_ns, any = false, all = true;
	bool quiet = d->n_events == c->n_events_before; /* who has written just now is alive */
	uint64_t wait;
	int rc = 0;

	c->n_events_before = d->n_events;
	renew_deadlines(c, now);
	/* Whether they live is asked before the drain: what a program wrote before its end is in
	 * the rings then. */
	bool child_gone = reap_child(c);
	if (c->late.name && !child_gone)
		TRY(look_for_runtime(c, now, err));
	for (size_t i = 0; i < c->n_sources; i++) {
		struct source *s = &c->sources[i];

		/* Of a program that we started we want to know at once whether it is another
		 * one. */
		if (s->alive && (threads || c->child || (quiet && child_gone))) {
			s->alive = attach_alive(s->attach);
			if (s->alive)
				s->seen_ns = now;
		}
		any = any || s->alive;
	}
	for (size_t i = 0; i < c->n_sources && rc == 0; i++)
		if (c->sources[i].alive)
			rc = take_places(c, &c->sources[i]);
	clock_map_add(&d->clock);
	if (rc == 0)
		rc = drain_all(c, &all);
	/* What is left in a ring is older than now: the watermark stays until it is taken. */
	if (all)
		c->drain_start_ns = now;
	if (rc == 0 && c->child && !any && !c->late.name)
		rc = follow_exec(c);
	if (threads) {
		for (size_t i = 0; i < c->n_sources && rc == 0; i++)
			if (c->sources[i].alive)
				rc = drain_threads(d, &c->sources[i]);
		c->next_threads_ns = now + THREADS_NS;
	}
	if (rc < 0)
		return error_sys(err, rc, "cannot write the trace");
	*ret_watermark_ns = watermark;
	if (!any && child_gone)
		return 0;
	if (!all)
		return (int64_t)PACE_MIN_NS;

	if (c->late.name)
		return (int64_t)exec_watch_wait(&c->late);
	wait = drain_interval_next(&c->pace, d->fill, now - drained_ns);
	c->woken = may_sleep(c, now);
	if (!c->woken && wait > c->burst_ns)
		wait = c->burst_ns;
	return wait > PACE_MIN_NS ? (int64_t)wait : (int64_t)PACE_MIN_NS;
}

/*
 * Sleeps where the agents wake us. One who wakes us all the time (only a target that scribbles over
 * its memory) gets no more of us than a ring that is always full.
 */
static bool agent_wait(struct capture *c, uint64_t ns)
{
	uint64_t began = clock_monotonic_ns();
	struct futex_waitv words[FUTEX_WAITV_MAX];
	struct timespec ts;
	uint32_t n = 0;
	long rc;

	for (size_t i = 0; c->woken && ns > PACE_MIN_NS && i < c->n_sources; i++) {
		uint32_t *word = &c->sources[i].rings.area->asleep;

		if (!c->sources[i].alive)
			continue;
		__atomic_store_n(word, 1, __ATOMIC_RELEASE);
		words[n++] =
			(struct futex_waitv){.val = 1, .uaddr = (uintptr_t)word, .flags = FUTEX_32};
	}
	if (!n) {
		clock_sleep(ns);
		return false;
	}
	ts.tv_sec = (time_t)((began + ns) / NSEC_PER_SEC);
	ts.tv_nsec = (long)((began + ns) % NSEC_PER_SEC);
	if (n == 1)
		rc = syscall(SYS_futex, words[0].uaddr, FUTEX_WAIT_BITSET, 1, &ts, NULL,
			     FUTEX_BITSET_MATCH_ANY);
	else
		rc = syscall(SYS_futex_waitv, words, n, 0, &ts, CLOCK_MONOTONIC);
	bool in_time = rc < 0 && (errno == ETIMEDOUT || errno == EINTR);
	/* No thread is to wake pollux when it doesn't sleep, nor once that may do harm. */
	for (size_t i = 0; i < c->n_sources; i++)
		__atomic_store_n(&c->sources[i].rings.area->asleep, 0, __ATOMIC_RELEASE);
	if (in_time)
		return false;
	uint64_t past = clock_monotonic_ns() - began;
	if (past < PACE_MIN_NS)
		clock_sleep(PACE_MIN_NS - past);
	return true;
}

/* ---- the end ---- */

/* Of how many kinds of tasks the agent can say where they wait. */
static int emit_points(struct capture *c, const struct source *s, struct capture_stats *stats)
{
	struct trace_coverage points;
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->n_kinds; i++)
		n += s->kinds[i].task;
	points = points_coverage(s->process, s->n_programs, n, &s->points_trouble);
	return points.total ? capture_emit_coverage(c->drain.writer, stats, &points) : 0;
}

static int emit_handlers(struct capture *c, const struct source *s, struct capture_stats *stats)
{
	const struct attach_object *const *objects;
	size_t n = attach_objects(s->attach, &objects);
	struct trace_coverage row;
	bool holds = false;

	for (size_t i = 0; i < n; i++)
		holds = holds || objects[i]->holds;
	if (!handlers_coverage(s->kinds, s->n_kinds, holds,
			       s->points_trouble.code ? s->points_trouble.text : NULL, &row))
		return 0;
	row.process = s->process;
	row.cover = TRACE_COVER_HANDLERS;
	row.item = "handlers of requests";
	return capture_emit_coverage(c->drain.writer, stats, &row);
}

/* A large program's debug information takes longer to read than we wait for. */
static int emit_late_points(struct capture *c, const struct source *s, struct capture_stats *stats)
{
	_cleanup_buf_ struct buf note = BUF_INIT;

	if (!s->n_late_programs)
		return 0;
	buf_str(&note, "of the other kinds of tasks they are known from ");
	text_duration(&note, s->late_ns);
	buf_str(&note, " on, when the debug information had been read");
	const struct trace_coverage late = {.process = s->process,
					    .item = "await points from the first event on",
					    .seen = s->n_programs - s->n_late_programs,
					    .total = s->n_programs,
					    .note = note.data};
	return capture_emit_coverage(c->drain.writer, stats, &late);
}

static int emit_unseen_begin(struct capture *c, const struct source *s, struct capture_stats *stats)
{
	_cleanup_buf_ struct buf note = BUF_INIT;

	if (!s->unseen_ns)
		return 0;
	buf_str(&note, s->loaded_late ? "what has its runtime was loaded up to "
				      : "a program with a runtime executed this one, up to ");
	text_duration(&note, s->unseen_ns);
	buf_str(&note, " before it was recorded");
	buf_char(&note, '\0');
	if (buf_failed(&note))
		return -ENOMEM;
	const struct trace_coverage begin = {.process = s->process,
					     .item = "begin of the program",
					     .total = 1,
					     .note = note.data};
	return capture_emit_coverage(c->drain.writer, stats, &begin);
}

/* The attach's coverage, of which something may have come since the begin (filters), and is in the
 * trace now. It is wanted once more at the end, when the agent's own list is gone. */
static int write_attach_coverage(struct capture *c, struct source *s, struct capture_stats *stats)
{
	const struct trace_coverage *list;
	size_t n = attach_coverage(s->attach, &list);

	TRY(write_coverage(c, s));
	for (size_t i = 0; i < n; i++) {
		struct trace_coverage one = list[i];

		one.process = s->process;
		TRY(capture_keep_coverage(stats, &one));
	}
	return 0;
}

static int write_end(struct capture *c, struct source *s, uint64_t no_ring,
		     struct capture_stats *stats)
{
	const struct trace_coverage damaged = {
		.process = s->process,
		.item = "ring memory",
		.total = s->n_damaged,
		.note = "the program overwrote its event buffers: this many events were invalid"};
	const struct trace_coverage ringless = {.process = s->process,
						.item = "events of threads without a ring",
						.total = no_ring,
						.note = "more threads at once than there are "
							"rings: a smaller --ring-size gives more"};
	const struct trace_coverage unread = {
		.process = s->process,
		.item = "events left in the rings",
		.total = s->n_unread,
		.note = "the program wrote more than could be read when the recording ended"};

	TRY(write_attach_coverage(c, s, stats));
	if (c->places)
		TRY(emit_points(c, s, stats));
	if (c->places && !s->inlined)
		TRY(emit_handlers(c, s, stats));
	TRY(emit_late_points(c, s, stats));
	TRY(emit_unseen_begin(c, s, stats));
	if (c->shared->options->spawn_stacks)
		TRY(ring_stacks_emit(&c->drain, s, stats));
	if (s->inlined)
		TRY(inlined_end(&c->drain, s, stats));
	if (s->n_damaged)
		TRY(capture_emit_coverage(c->drain.writer, stats, &damaged));
	if (s->n_unread)
		TRY(capture_emit_coverage(c->drain.writer, stats, &unread));
	return no_ring ? capture_emit_coverage(c->drain.writer, stats, &ringless) : 0;
}

/* The process has executed another program since, which is recorded too. */
static bool is_replaced(const struct capture *c, const struct source *s)
{
	for (const struct source *later = s + 1; later < c->sources + c->n_sources; later++)
		if (attach_pid(later->attach) == attach_pid(s->attach))
			return true;
	return false;
}

/* What was seen of a program that was replaced is in the trace only: the sums at the end are of
 * what was recorded in the end. */
static int write_end_of(struct capture *c, struct source *s, uint64_t no_ring,
			struct capture_stats *stats)
{
	struct capture_stats replaced = {0};
	bool is_last = !is_replaced(c, s);
	int rc = write_end(c, s, no_ring, is_last ? stats : &replaced);

	if (!is_last)
		capture_stats_done(&replaced);
	return rc;
}

static int close_source(struct capture *c, struct source *s, struct capture_stats *stats,
			struct error *err)
{
	uint64_t no_ring = 0;
	int detached = attach_close(s->attach, err), rc;

	s->alive = attach_alive(s->attach);
	clock_map_add(&c->drain.clock);
	rc = drain_source(&c->drain, s, LAST_PASS_NS / c->n_sources);
	if (rc == 0 && s->alive) {
		attach_no_ring(s->attach, &no_ring);
		rc = drain_threads(&c->drain, s);
	}
	if (rc == 0)
		rc = drain_end(&c->drain, s, stats->cost.end_ns);
	if (rc == 0)
		rc = write_end_of(c, s, no_ring, stats);
	c->drain.lost.n += no_ring;
	if (rc < 0 && detached == 0)
		return error_sys(err, rc, "cannot write the trace");
	return detached;
}

static char *last_program(const struct capture *c)
{
	char *exe = c->n_sources ? attach_exe(c->sources[c->n_sources - 1].attach) : NULL;

	if (exe && *exe && c->first_exe && (c->executed || strcmp(exe, c->first_exe) != 0))
		return exe;
	free(exe);
	return NULL;
}

/* Of one that we have not started only that it was killed. */
static int agent_exit_status(const struct capture *c)
{
	int status;

	if (c->exit_status >= 0 || c->child > 0 || c->n_sources != 1)
		return c->exit_status;
	status = attach_end_status(c->sources[0].attach);
	return status >= 0 && WIFSIGNALED(status) ? status : -1;
}

static int agent_close(struct capture *c, struct capture_stats *stats, struct error *err)
{
	const struct drain *d = &c->drain;
	int rc = 0, one;

	stop_following(c);
	reap_child(c);
	/* They end while the program is let go; nothing waits for them before all that was recorded is taken. */
	for (size_t i = 0; i < c->n_sources; i++)
		stop_places(c, &c->sources[i]);
	for (size_t i = 0; i < c->n_sources; i++) {
		one = close_source(c, &c->sources[i], stats, rc < 0 ? NULL : err);
		if (rc == 0)
			rc = one;
		stats->cost.stop_ns += attach_stop_ns(c->sources[i].attach);
		stats->cost.attach_ns += attach_total_ns(c->sources[i].attach);
	}
	log_debug(LOG_DRAIN,
		  "%llu passes over the rings, the longest %.3f ms: %llu events, %llu lost",
		  (unsigned long long)c->n_passes, (double)c->longest_ns / 1e6,
		  (unsigned long long)d->n_events, (unsigned long long)d->lost.n);
	stats->cost.analysis_cpu_ns += c->late_cpu_ns;
	capture_loss_add(&stats->lost, d->lost.n, d->lost.first_ns, d->lost.last_ns);
	stats->exit_status = agent_exit_status(c);
	stats->child = c->child;
	stats->n_processes += c->n_sources;
	stats->why_empty = c->why_empty;
	stats->program = last_program(c);
	capture_free(c);
	return rc;
}

static pid_t agent_child(const struct capture *c)
{
	return c->child;
}

const struct capture_ops capture_agent = {
	.name = "agent",
	.open = agent_open,
	.drain = agent_drain,
	.wait = agent_wait,
	.close = agent_close,
	.child = agent_child,
	.exit_status = agent_exit_status,
};
