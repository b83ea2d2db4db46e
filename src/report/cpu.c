/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the CPUs gave the recorded processes: whether polls and delays are long because their
 * threads had no CPU. A cgroup that was throttled, or threads that waited for a CPU, say so for all
 * of them; where the scheduler was recorded each poll has its own time without one.
 */
#include "report/text_util.h"

#include "base/text.h"

/* What is worth a word. */
#define THROTTLED_SHARE 10 /* a tenth of the periods */
#define DELAY_SHARE 10	   /* a tenth of the recording, by all threads together, */
#define DELAY_OF_CPU 2	   /* and half of what they ran */

static uint64_t recorded_ns(const struct report *rep)
{
	return rep->totals.last_ns - rep->totals.first_ns;
}

static bool throttled(const struct trace_cpu *c)
{
	return c->n_throttled && c->n_throttled >= c->n_periods / THROTTLED_SHARE;
}

static bool starved(const struct report *rep, const struct trace_cpu *c)
{
	return c->run_delay_ns > recorded_ns(rep) / DELAY_SHARE && c->cpu_ns &&
	       c->run_delay_ns > c->cpu_ns / DELAY_OF_CPU;
}

static void throttled_text(struct buf *out, const struct trace_cpu *c)
{
	buf_str(out, "the cgroup was throttled in ");
	text_exact(out, c->n_throttled);
	buf_str(out, " of ");
	report_exact_of(out, c->n_periods, "period", "periods");
	if (c->period_ns)
		buf_printf(out, " (quota %.2f CPU", (double)c->quota_ns / (double)c->period_ns);
	if (c->period_ns && c->n_threads)
		buf_printf(out, ", %u thread%s", c->n_threads, c->n_threads == 1 ? "" : "s");
	buf_str(out, c->period_ns ? ")" : "");
	buf_str(out, ": polls and delays took longer\n");
}

static void starved_text(struct buf *out, const struct trace_cpu *c)
{
	buf_str(out, "threads were ready to run, but had no CPU for ");
	text_duration(out, c->run_delay_ns);
	buf_str(out, " in total (they ran ");
	text_duration(out, c->cpu_ns);
	buf_str(out, "): polls and delays took longer\n");
}

void cpu_notes(const struct report *rep, struct buf *out)
{
	for (uint32_t i = 0; i < trace_reader_n_cpus(rep->reader); i++) {
		const struct trace_cpu *c = trace_reader_cpu(rep->reader, i);
		if (c && throttled(c))
			throttled_text(out, c);
		else if (c && starved(rep, c))
			starved_text(out, c);
	}
}

const char *cpu_excuse(const struct report *rep, uint32_t thread)
{
	const struct trace_thread *t = trace_reader_thread(rep->reader, thread);
	for (uint32_t i = 0; t && i < trace_reader_n_cpus(rep->reader); i++) {
		const struct trace_cpu *c = trace_reader_cpu(rep->reader, i);
		if (c && c->process == t->process && throttled(c))
			return "perhaps because the cgroup was throttled";
		if (c && c->process == t->process && starved(rep, c))
			return "perhaps because its thread had no CPU";
	}
	return NULL;
}

bool cpu_is_short(const struct report *rep)
{
	for (uint32_t i = 0; i < trace_reader_n_cpus(rep->reader); i++) {
		const struct trace_cpu *c = trace_reader_cpu(rep->reader, i);
		if (c && (throttled(c) || starved(rep, c)))
			return true;
	}
	return false;
}

uint64_t cpu_used_ns(const struct report *rep)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < trace_reader_n_cpus(rep->reader); i++) {
		const struct trace_cpu *c = trace_reader_cpu(rep->reader, i);
		if (c && !c->cpu_ns)
			return 0;
		sum += c ? c->cpu_ns : 0;
	}
	return sum;
}

double cpu_share(uint64_t part_ns, uint64_t whole_ns)
{
	return part_ns < whole_ns ? (double)part_ns / (double)whole_ns : 1;
}

void cpu_use_json(const struct report *rep, struct json *j)
{
	json_array(j, "cpu_use");
	for (uint32_t i = 0; i < trace_reader_n_cpus(rep->reader); i++) {
		const struct trace_cpu *c = trace_reader_cpu(rep->reader, i);
		if (!c)
			continue;
		json_object(j, NULL);
		json_u64(j, "process", c->process);
		json_u64(j, "cpu_ns", c->cpu_ns);
		json_u64(j, "threads", c->n_threads);
		json_u64(j, "run_delay_ns", c->run_delay_ns);
		json_string(j, "cgroup", c->cgroup);
		json_u64(j, "quota_ns", c->quota_ns);
		json_u64(j, "period_ns", c->period_ns);
		json_u64(j, "periods", c->n_periods);
		json_u64(j, "throttled_periods", c->n_throttled);
		json_u64(j, "throttled_ns", c->throttled_ns);
		json_end_object(j);
	}
	json_end_array(j);
}
