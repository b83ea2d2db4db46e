/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Parts of the report's JSON that several sections have. */
#include "report/samples.h"

#include "base/json.h"

void report_runtimes_json(const struct trace_reader *r, uint32_t process, struct json *j)
{
	json_array(j, "runtimes");
	for (uint32_t i = 0; i < trace_reader_n_runtimes(r); i++) {
		const struct trace_runtime *rt = trace_reader_runtime(r, i);

		if (!rt || rt->process != process)
			continue;
		json_object(j, NULL);
		json_string(j, "name", rt->name);
		json_string(j, "version", rt->version);
		json_string(j, "object", rt->object);
		json_string(j, "verified", rt->verified);
		json_end_object(j);
	}
	json_end_array(j);
}

void report_calls_json(struct json *j, const char *key, const struct call_list *calls)
{
	json_array(j, key);
	for (size_t i = 0; i < calls->n; i++) {
		json_object(j, NULL);
		json_string(j, "call", trace_call_name(calls->items[i].call));
		json_u64(j, "count", calls->items[i].n);
		json_u64(j, "ns", calls->items[i].ns);
		json_end_object(j);
	}
	json_end_array(j);
}

void report_sums_json(const struct family *f, struct json *j)
{
	json_u64(j, "polls", f->n_polls);
	json_u64(j, "polls_of_unknown_length", f->n_unmeasured);
	json_u64(j, "wakes", f->n_wakes + f->n_stray_wakes);
	json_u64(j, "self_wakes", f->n_self_wakes);
	json_u64(j, "deferred_wakes", f->n_deferred_wakes);
	json_u64(j, "stray_wakes", f->n_stray_wakes);
	json_hist(j, "poll_ns", &f->poll);
	json_hist(j, "sched_delay_ns", &f->delay);
	json_u64(j, "waiting_ns", f->waiting_ns);
	json_u64(j, "scheduled_ns", f->scheduled_ns);
	json_u64(j, "blocked_ns", f->blocked_ns);
	report_calls_json(j, "blocking_calls", &f->calls);
}

void report_handler_json(const struct report *rep, struct json *j, uint32_t handler)
{
	json_string(j, "handler", handler == TRACE_KIND_NONE ? NULL : report_label(rep, handler));
}
