/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the page needs first: what the trace is of, and its lanes. */
#include "base/cleanup.h"
#include "base/units.h"
#include "report/report.h"
#include "view/answer.h"
#include "view/common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *thread_role(unsigned role)
{
	static const char *const names[] = {
		[IX_OTHER] = "other", [IX_WORKER] = "worker", [IX_BLOCK_ON] = "block_on"};

	return role <= IX_BLOCK_ON ? names[role] : "other";
}

static void write_processes(const struct trace_reader *r, struct json *j)
{
	json_array(j, "processes");
	for (uint32_t i = 0; i < trace_reader_n_processes(r); i++) {
		const struct trace_process *p = trace_reader_process(r, i);
		if (!p)
			continue;
		json_object(j, NULL);
		json_u64(j, "pid", p->pid);
		json_string(j, "exe", p->exe);
		json_string(j, "cmdline", p->cmdline);
		report_runtimes_json(r, i, j);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_thread(const struct trace_reader *r, const struct index_lane *lane,
			 struct json *j)
{
	const struct trace_thread *t = trace_reader_thread(r, lane->number);

	json_string(j, "name", t && t->name ? t->name : "");
	json_string(j, "short", t && t->name ? t->name : "");
	/* As the report calls one that polls and is no worker. */
	json_string(j, "role",
		    lane->role == IX_OTHER && lane->polls ? "blocking" : thread_role(lane->role));
	json_u64(j, "thread", lane->number);
	json_u64(j, "tid", t ? t->tid : 0);
	json_u64(j, "process", t ? t->process : 0);
}

static void write_family(const struct view_source *v, const struct kind_labels *labels,
			 const struct index_lane *lane, struct json *j)
{
	const struct trace_kind *k = trace_reader_kind(v->tables, lane->number);
	_cleanup_free_ char *brief = k ? kind_short(labels, v->tables, lane->number) : NULL;

	json_string(j, "name", k ? kind_label(labels, v->tables, lane->number) : "?");
	json_string(j, "short", brief ? brief : "?");
	json_string(j, "role", trace_role_name(lane->role));
	json_u64(j, "family", lane->number);
	json_u64(j, "process", k ? k->process : 0);
	json_u64(j, "tasks", lane->tasks);
	json_array(j, "sites");
	for (uint32_t i = 0; k && i < k->n_sites; i++)
		json_string(j, NULL, k->sites[i]);
	json_end_array(j);
}

static void write_lanes(const struct view_source *v, const struct kind_labels *labels,
			struct json *j)
{
	const struct index_lane *lane;

	json_array(j, "lanes");
	for (uint32_t i = 0; (lane = index_lane(v->index, i)); i++) {
		json_object(j, NULL);
		json_u64(j, "id", i);
		json_string(j, "kind", lane->type == IL_THREAD ? "thread" : "family");
		if (lane->type == IL_THREAD)
			write_thread(v->tables, lane, j);
		else
			write_family(v, labels, lane, j);
		json_u64(j, "polls", lane->polls);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_moments(const struct trace_reader *r, struct json *j)
{
	bool there[2] = {false, false};
	enum moment_when when;
	uint32_t process;

	for (uint32_t i = 0; trace_reader_moment_name(r, i, &process, &when); i++)
		there[when == MOMENT_END] = true;
	json_array(j, "moments");
	if (there[0])
		json_string(j, NULL, "start");
	if (there[1])
		json_string(j, NULL, "end");
	json_end_array(j);
}

int answer_trace(const struct view_source *v, const struct view_request *q, struct buf *out,
		 struct error *err)
{
	const struct trace_process *p = trace_reader_process(v->tables, 0);
	struct kind_labels labels;
	struct index_facts facts;
	const char *lost = NULL;
	struct json j;

	(void)q;
	if (kind_labels_make(v->tables, &labels) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	index_facts(v->index, &facts);
	const char *slash = strrchr(v->path, '/');
	json_init(&j, out, false);
	j.shown = true;
	json_object(&j, NULL);
	json_u64(&j, "format", 1);
	json_string(&j, "pollux", POLLUX_VERSION);
	json_string(&j, "file", slash ? slash + 1 : v->path);
	json_string(&j, "program", p ? p->exe : "");
	json_string(&j, "command", p ? p->cmdline : "");
	json_u64(&j, "began_unix_ms",
		 trace_reader_unix_ns(v->tables, facts.base_ns) / (NSEC_PER_SEC / 1000));
	json_u64(&j, "span_ns", facts.end_ns - facts.base_ns);
	json_u64(&j, "events", facts.n_events);
	json_u64(&j, "lost", facts.n_lost);
	trace_reader_truncated(v->tables, &lost);
	/* One that grows has no end yet. */
	json_string(&j, "truncated", v->live ? NULL : lost);
	json_bool(&j, "live", v->live);
	json_object(&j, "index");
	json_u64(&j, "cell_ns", 1ull << facts.width_log2);
	json_u64(&j, "cells", facts.n_cells);
	json_u64(&j, "levels", facts.n_levels);
	json_u64(&j, "exact_ns", facts.exact_ns);
	json_u64(&j, "heat_cell_ns", 1ull << facts.heat_width_log2);
	json_end_object(&j);
	write_processes(v->tables, &j);
	write_lanes(v, &labels, &j);
	write_moments(v->tables, &j);
	json_end_object(&j);
	kind_labels_done(&labels);
	return 0;
}
