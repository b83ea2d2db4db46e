/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the CPUs gave the recorded processes, as the kernel counted it. */
#include "report/text_util.h"

#include "base/text.h"

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
