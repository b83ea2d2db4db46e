/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the CPUs gave the recorded processes: whether polls and delays are long because their
 * threads had no CPU. A cgroup that was throttled, or threads that waited for a CPU, say so for all
 * of them; where the scheduler was recorded each poll has its own time without one.
 */
#include "findings/rule.h"

#include "findings/cpu.h"

/* What is worth a word. */
#define THROTTLED_SHARE 10 /* a tenth of the periods */
#define DELAY_SHARE 10	   /* a tenth of the recording, by all threads together, */
#define DELAY_OF_CPU 2	   /* and half of what they ran */

static bool throttled(const struct trace_cpu *c)
{
	return c->n_throttled && c->n_throttled >= c->n_periods / THROTTLED_SHARE;
}

static bool starved(const struct trace_cpu *c, uint64_t recorded_ns)
{
	return c->run_delay_ns > recorded_ns / DELAY_SHARE && c->cpu_ns &&
	       c->run_delay_ns > c->cpu_ns / DELAY_OF_CPU;
}

enum cpu_lack cpu_lack(const struct trace_reader *r, uint32_t process, uint64_t recorded_ns)
{
	enum cpu_lack lack = CPU_ENOUGH;

	for (uint32_t i = 0; i < trace_reader_n_cpus(r); i++) {
		const struct trace_cpu *c = trace_reader_cpu(r, i);

		if (!c || (process != CPU_ANY_PROCESS && c->process != process))
			continue;
		if (throttled(c))
			return CPU_THROTTLED;
		if (starved(c, recorded_ns))
			lack = CPU_SHORT;
	}
	return lack;
}

static uint64_t recorded_ns(const struct rule_state *st)
{
	const struct timeline_totals *totals = rule_facts(st)->scope.totals;

	return totals->last_ns - totals->first_ns;
}

uint64_t rule_process_lacked_ns(const struct rule_state *st, uint32_t process)
{
	const struct trace_reader *r = rule_facts(st)->reader;

	for (uint32_t i = 0; i < trace_reader_n_cpus(r); i++) {
		const struct trace_cpu *c = trace_reader_cpu(r, i);

		if (!c || c->process != process)
			continue;
		if (throttled(c))
			return c->throttled_ns + c->run_delay_ns;
		if (starved(c, recorded_ns(st)))
			return c->run_delay_ns;
	}
	return 0;
}

uint64_t rule_cpu_lacked_ns(const struct rule_state *st, uint32_t thread)
{
	const struct trace_thread *t = trace_reader_thread(rule_facts(st)->reader, thread);

	return t ? rule_process_lacked_ns(st, t->process) : 0;
}

uint64_t rule_run_delay_ns(const struct rule_state *st, uint32_t thread)
{
	struct trace_reader *r = rule_facts(st)->reader;
	const struct trace_thread *t = trace_reader_thread(r, thread);
	const char *story;

	for (uint32_t i = 0; t && i < trace_reader_n_cpus(r); i++) {
		const struct trace_cpu *c = trace_reader_cpu(r, i);

		if (c && c->process == t->process)
			return c->run_delay_ns;
	}
	/* The end of the recording would say. */
	return trace_reader_truncated(r, &story) ? UINT64_MAX : 0;
}

bool rule_any_cpu_is_short(const struct rule_state *st)
{
	return cpu_lack(rule_facts(st)->reader, CPU_ANY_PROCESS, recorded_ns(st)) != CPU_ENOUGH;
}

static void throttled_text(struct buf *out, const struct trace_cpu *c)
{
	buf_str(out, "the cgroup was throttled in ");
	text_exact(out, c->n_throttled);
	buf_str(out, " of ");
	say_count(out, c->n_periods, "period", "periods");
	if (c->period_ns)
		buf_printf(out, " (quota %.2f CPU", (double)c->quota_ns / (double)c->period_ns);
	if (c->period_ns && c->n_threads)
		buf_printf(out, ", %u thread%s", c->n_threads, c->n_threads == 1 ? "" : "s");
	buf_str(out, c->period_ns ? ")" : "");
	buf_str(out, ": polls and delays took longer");
}

static int judge_throttled(struct rule_state *st)
{
	const struct trace_reader *r = rule_facts(st)->reader;

	for (uint32_t i = 0; i < trace_reader_n_cpus(r); i++) {
		const struct trace_cpu *c = trace_reader_cpu(r, i);
		struct finding_draft *d;

		if (!c || !throttled(c))
			continue;
		d = rule_finds(st, finding_score(60, 30, c->n_throttled, c->n_periods, 0.5));
		if (!d)
			return 0;
		throttled_text(&d->text, c);
		d->f.process = c->process;
	}
	return 0;
}

const struct finding_rule rule_throttled = {
	.name = "throttled",
	.title = "throttled cgroup",
	.advice = "give the cgroup more CPU, or the runtime as many workers as the quota has CPUs",
	.state_bytes = sizeof(struct rule_state),
	.judge = judge_throttled,
};

static int judge_no_cpu(struct rule_state *st)
{
	const struct trace_reader *r = rule_facts(st)->reader;

	for (uint32_t i = 0; i < trace_reader_n_cpus(r); i++) {
		const struct trace_cpu *c = trace_reader_cpu(r, i);
		struct finding_draft *d;

		if (!c || throttled(c) || !starved(c, recorded_ns(st)))
			continue;
		d = rule_finds(st, 40);
		if (!d)
			return 0;
		buf_str(&d->text, "threads were ready to run, but had no CPU for ");
		text_duration(&d->text, c->run_delay_ns);
		buf_str(&d->text, " in total (they ran ");
		text_duration(&d->text, c->cpu_ns);
		buf_str(&d->text, "): polls and delays took longer");
		d->f.process = c->process;
	}
	return 0;
}

const struct finding_rule rule_no_cpu = {
	.name = "no-cpu",
	.title = "threads without a CPU",
	.advice = "the machine is busy: look at what else runs there",
	.state_bytes = sizeof(struct rule_state),
	.judge = judge_no_cpu,
};
