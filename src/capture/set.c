/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The sources of one recording, held together.
 *
 * The others are made ready first, then the main source is opened: it calls back for each process
 * that it begins with, and the others join. Each source is drained when it asked to be. Four times
 * a second a round of the trace is ended, with what all sources have written by then. At the end
 * the others go first, so that what they have of a thread lies within what the main source has of
 * it.
 */
#include "base/clock.h"
#include "base/units.h"
#include "base/vec.h"
#include "capture/capture.h"
#include "capture/cpu_use.h"
#include "capture/agent/event_cost.h"
#include "capture/moments.h"
#include "capture/samples/stacks.h"
#include "capture/threads.h"

#include <errno.h>
#include <stdlib.h>

#define ROUND_NS (250 * NSEC_PER_MSEC)
#define USE_NS (500 * NSEC_PER_MSEC)

static bool wants_sched(const struct capture_options *opt)
{
	return opt->sched || opt->syscalls;
}

static bool wants_samples(const struct capture_options *opt)
{
	return opt->cpu_hz;
}

static bool wants_watch(const struct capture_options *opt)
{
	return opt->long_poll_ns;
}

static bool wants_stacks(const struct capture_options *opt)
{
	return opt->cpu_hz || opt->long_poll_ns || opt->spawn_stacks || opt->lock_stacks;
}

/* Sources besides the main one, and the options that need them. */
static const struct other {
	const struct capture_ops *ops;
	bool (*wanted)(const struct capture_options *opt);
} others[] = {
	{&capture_sched, wants_sched},
	{&capture_samples, wants_samples},
	{&capture_watch, wants_watch},
};

#define MAX_SOURCES (1 + sizeof(others) / sizeof(others[0]))

struct member {
	const struct capture_ops *ops;
	struct capture *capture;
	uint64_t due_ns, watermark_ns;
};

struct capture_set {
	struct capture_options options;
	struct capture_shared shared;
	struct member members[MAX_SOURCES]; /* the main one is the first */
	size_t n;
	uint64_t next_round_ns, start_cpu_ns, analysis_cpu_ns, begin_ns;
	struct cpu_use **uses; /* of each process */
	size_t n_uses;
	uint64_t next_use_ns;
	struct moments *moments; /* NULL: none are wanted */
};

static int watch_use(struct capture_set *s, pid_t pid, uint32_t process, struct error *err)
{
	if (!GROW_ONE(s->uses, s->n_uses) || !(s->uses[s->n_uses] = cpu_use_begin(pid, process)))
		return error_sys(err, -ENOMEM, "cannot record");
	s->n_uses++;
	return 0;
}

static void look_at_uses(struct capture_set *s, uint64_t now)
{
	if (now < s->next_use_ns)
		return;
	s->next_use_ns = now + USE_NS;
	for (size_t i = 0; i < s->n_uses; i++)
		cpu_use_look(s->uses[i]);
}

static int emit_uses(struct capture_set *s)
{
	for (size_t i = 0; i < s->n_uses; i++) {
		const struct trace_cpu sum = cpu_use_sum(s->uses[i]);

		TRY(trace_writer_cpu(s->shared.writer, &sum));
	}
	return 0;
}

static int joined(struct capture_shared *shared, pid_t pid, uint32_t process, struct error *err)
{
	struct capture_set *s = shared->set;
	const struct capture_options *opt = &s->options;
	/* Nothing is to be missed of a program's start, nor of what comes only once. */
	bool wait = opt->argv || opt->spawn_stacks || opt->lock_stacks;

	TRY(wants_stacks(opt) ? capture_stacks_join(s->shared.stacks, pid, process, wait, err) : 0);
	for (size_t i = 1; i < s->n; i++)
		TRY(s->members[i].ops->join(s->members[i].capture, pid, process, err));
	TRY(watch_use(s, pid, process, err));
	return s->moments ? moments_join(s->moments, pid, process, err) : 0;
}

static void set_free(struct capture_set *s)
{
	for (size_t i = 0; i < s->n_uses; i++)
		cpu_use_free(s->uses[i]);
	free(s->uses);
	capture_stacks_free(s->shared.stacks);
	capture_threads_free(s->shared.threads);
	moments_free(s->moments);
	free(s);
}

int capture_set_open(const struct capture_options *opt, struct trace_writer *w,
		     struct capture_set **ret_set, struct error *err)
{
	struct capture_set *s = calloc(1, sizeof(*s));
	struct capture_stats unused = {0};
	int rc = 0;

	if (s)
		s->shared.threads = capture_threads_new(w);
	if (!s || !s->shared.threads) {
		free(s);
		return error_sys(err, -ENOMEM, "cannot record");
	}
	s->options = *opt;
	s->shared.options = &s->options;
	s->shared.writer = w;
	s->shared.joined = joined;
	s->shared.set = s;
	s->start_cpu_ns = clock_cpu_ns();
	s->members[0].ops = opt->kernel ? &capture_kernel : &capture_agent;
	s->n = 1;
	if (opt->moments && !(s->moments = moments_new(w, s->shared.threads, &s->options)))
		rc = error_sys(err, -ENOMEM, "cannot record");
	if (rc == 0 && wants_stacks(opt))
		rc = capture_stacks_new(w, &s->shared.stacks, err);
	for (size_t i = 0; i < MAX_SOURCES - 1 && rc == 0; i++) {
		struct member *m = &s->members[s->n];

		if (!others[i].wanted(opt))
			continue;
		m->ops = others[i].ops;
		rc = m->ops->open(&s->shared, &m->capture, err);
		if (rc == 0) {
			s->n++;
		} else if (m->ops == &capture_sched && opt->if_possible) {
			s->options.sched = s->options.syscalls = false;
			rc = 0;
		} else if (m->ops == &capture_samples && opt->if_possible) {
			s->options.cpu_hz = 0;
			rc = 0;
		}
	}
	if (rc == 0)
		rc = s->members[0].ops->open(&s->shared, &s->members[0].capture, err);
	if (rc < 0) {
		for (size_t i = 1; i < s->n; i++)
			s->members[i].ops->close(s->members[i].capture, &unused, NULL);
		capture_stats_done(&unused);
		set_free(s);
		return rc;
	}
	s->analysis_cpu_ns = clock_cpu_ns() - s->start_cpu_ns;
	s->begin_ns = clock_monotonic_ns();
	*ret_set = s;
	return 0;
}

static int end_round(struct capture_set *s, uint64_t now)
{
	uint64_t watermark = UINT64_MAX;
	int rc;

	if (now < s->next_round_ns)
		return 0;
	s->next_round_ns = now + ROUND_NS;
	rc = s->shared.stacks ? capture_stacks_flush(s->shared.stacks, &watermark) : 0;
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < s->n; i++)
		if (s->members[i].watermark_ns < watermark)
			watermark = s->members[i].watermark_ns;
	return watermark ? trace_writer_round(s->shared.writer, watermark) : 0;
}

int64_t capture_set_drain(struct capture_set *s, struct error *err)
{
	uint64_t now = clock_monotonic_ns(), next = UINT64_MAX;
	int rc;

	for (size_t i = 0; i < s->n; i++) {
		struct member *m = &s->members[i];

		if (now >= m->due_ns) {
			int64_t wait = m->ops->drain(m->capture, &m->watermark_ns, err);

			if (wait < 0)
				return wait;
			if (wait == 0 && i == 0)
				return 0;
			m->due_ns = now + (uint64_t)wait;
		}
		if (m->due_ns < next)
			next = m->due_ns;
	}
	capture_threads_tidy(s->shared.threads, now);
	look_at_uses(s, now);
	rc = end_round(s, now);
	if (rc < 0)
		return error_sys(err, rc, "cannot write the trace");
	now = clock_monotonic_ns();
	return next > now ? (int64_t)(next - now) : 1;
}

void capture_set_wait(struct capture_set *s, uint64_t ns)
{
	struct member *m = &s->members[0];

	if (!m->ops->wait)
		clock_sleep(ns);
	else if (m->ops->wait(m->capture, ns))
		m->due_ns = 0;
}

int capture_set_close(struct capture_set *s, const char *reason, struct capture_stats *ret_stats,
		      struct error *err)
{
	/* What is still open ends now, or at the last event, and not when all is taken down: that
	 * may stop the program's threads for a while. */
	struct capture_stats stats = {.exit_status = -1,
				      .cost.begin_ns = s->begin_ns,
				      .cost.end_ns = clock_monotonic_ns()};
	int rc = 0, one;

	look_at_uses(s, UINT64_MAX);

	for (size_t i = s->n; i-- > 0;) {
		struct member *m = &s->members[i];

		one = m->ops->close(m->capture, &stats, rc < 0 ? NULL : err);
		if (rc == 0)
			rc = one;
	}
	one = s->shared.stacks ? capture_stacks_end(s->shared.stacks, &stats) : 0;
	if (one < 0 && rc == 0)
		rc = error_sys(err, one, "cannot write the trace");
	one = s->moments ? moments_end(s->moments, &stats, rc < 0 ? NULL : err) : 0;
	if (rc == 0)
		rc = one;
	stats.cost.end_reason = reason;
	stats.cost.analysis_cpu_ns += s->analysis_cpu_ns;
	stats.cost.recorder_cpu_ns = clock_cpu_ns() - s->start_cpu_ns - stats.cost.analysis_cpu_ns;
	if (s->members[0].ops == &capture_agent)
		stats.cost.event_cost_ps = event_cost_ps();
	one = trace_writer_cost(s->shared.writer, &stats.cost);
	if (one == 0)
		one = emit_uses(s);
	if (one == 0)
		one = trace_writer_round(s->shared.writer, clock_monotonic_ns());
	if (one < 0 && rc == 0)
		rc = error_sys(err, one, "cannot write the trace");
	*ret_stats = stats;
	set_free(s);
	return rc;
}

pid_t capture_set_child(const struct capture_set *s)
{
	return s->members[0].ops->child(s->members[0].capture);
}

int capture_set_exit_status(const struct capture_set *s)
{
	return s->members[0].ops->exit_status(s->members[0].capture);
}
