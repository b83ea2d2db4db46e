/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The report of a window that has more events than an answer may read: what the index's cells add up to.
 * It has the members of a report that are sums, and the longest; no percentiles, no single polls.
 */
#include "base/cleanup.h"
#include "view/answer.h"
#include "view/common.h"

#include <errno.h>
#include <stdlib.h>

struct lane_sums {
	uint64_t of[IX_N];
};

static int lane_sums(const struct view_source *v, const struct view_window *w, uint32_t lane,
		     struct lane_sums *ret, struct error *err)
{
	struct index_series_name name;
	uint32_t pos = 0;

	*ret = (struct lane_sums){{0}};
	while (index_next_series(v->index, lane, &pos, &name)) {
		uint64_t value = 0;

		TRY(view_sum(v, w, name.number, name.what == IX_LONGEST, &value, err));
		if (name.what != IX_LONGEST)
			ret->of[name.what] += value;
		else if (value > ret->of[name.what])
			ret->of[name.what] = value;
	}
	return 0;
}

static bool is_nothing(const struct lane_sums *s)
{
	for (unsigned i = 0; i < IX_N; i++)
		if (s->of[i])
			return false;
	return true;
}

static void write_polls(const struct lane_sums *s, struct json *j)
{
	json_u64(j, "polls", s->of[IX_POLLS]);
	json_object(j, "poll_ns");
	json_u64(j, "sum", s->of[IX_POLLING]);
	json_u64(j, "max", s->of[IX_LONGEST]);
	json_end_object(j);
}

static int write_families(const struct view_source *v, const struct view_window *w,
			  const struct kind_labels *labels, struct json *j, struct error *err)
{
	const struct index_lane *l;
	struct lane_sums s;

	json_array(j, "families");
	for (uint32_t i = 0; (l = index_lane(v->index, i)); i++) {
		if (l->type != IL_FAMILY)
			continue;
		TRY(lane_sums(v, w, i, &s, err));
		if (is_nothing(&s))
			continue;
		json_object(j, NULL);
		json_string(j, "name", kind_label(labels, v->tables, l->number));
		json_string(j, "role", trace_role_name(l->role));
		json_u64(j, "kind", l->number);
		write_polls(&s, j);
		json_u64(j, "waiting_ns", s.of[IX_WAITING]);
		json_u64(j, "scheduled_ns", s.of[IX_READY]);
		json_u64(j, "blocked_ns", s.of[IX_BLOCKED]);
		json_end_object(j);
	}
	json_end_array(j);
	return 0;
}

static int write_waits(const struct view_source *v, const struct view_window *w,
		       const struct kind_labels *labels, struct json *j, struct error *err)
{
	const struct index_lane *l;
	struct index_series_name name;

	json_array(j, "waits");
	for (uint32_t i = 0; (l = index_lane(v->index, i)); i++) {
		uint32_t pos = 0;

		while (index_next_series(v->index, i, &pos, &name)) {
			uint64_t value = 0;

			if (name.what != IX_WAITING || !name.place)
				continue;
			TRY(view_sum(v, w, name.number, false, &value, err));
			if (!value)
				continue;
			json_object(j, NULL);
			json_string(j, "family", kind_label(labels, v->tables, l->number));
			json_u64(j, "kind", l->number);
			view_write_place(v->tables, name.place, j);
			json_object(j, "wait_ns");
			json_u64(j, "sum", value);
			json_end_object(j);
			json_end_object(j);
		}
	}
	json_end_array(j);
	return 0;
}

static int write_workers(const struct view_source *v, const struct view_window *w, uint64_t base_ns,
			 struct json *j, struct error *err)
{
	const struct index_lane *l;
	struct lane_sums s;

	json_array(j, "workers");
	for (uint32_t i = 0; (l = index_lane(v->index, i)); i++) {
		const struct trace_thread *t =
			l->type == IL_THREAD ? trace_reader_thread(v->tables, l->number) : NULL;

		if (!t)
			continue;
		TRY(lane_sums(v, w, i, &s, err));
		if (is_nothing(&s))
			continue;
		json_object(j, NULL);
		json_string(j, "name", t->name);
		json_u64(j, "tid", t->tid);
		json_string(j, "role",
			    l->role == IX_WORKER     ? "worker"
			    : l->role == IX_BLOCK_ON ? "block_on"
						     : "other");
		json_u64(j, "begin_ns", w->from_ns - base_ns);
		json_u64(j, "end_ns", w->to_ns - base_ns);
		json_u64(j, "polls", s.of[IX_POLLS]);
		json_u64(j, "busy_ns", s.of[IX_POLLING]);
		json_u64(j, "parked_ns", s.of[IX_PARKED]);
		json_u64(j, "blocked_ns", s.of[IX_BLOCKED]);
		json_end_object(j);
	}
	json_end_array(j);
	return 0;
}

int view_sums_report(const struct view_source *v, const struct view_window *w, struct buf *out,
		     struct error *err)
{
	struct kind_labels labels;
	struct index_facts facts;
	struct json j;

	index_facts(v->index, &facts);
	if (kind_labels_make(v->tables, &labels) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	json_init(&j, out, false);
	j.shown = true;
	json_object(&j, NULL);
	json_bool(&j, "sums_only", true);
	json_u64(&j, "begin_ns", w->from_ns - facts.base_ns);
	json_u64(&j, "duration_ns", w->to_ns - w->from_ns);
	TRY(write_families(v, w, &labels, &j, err));
	TRY(write_waits(v, w, &labels, &j, err));
	TRY(write_workers(v, w, facts.base_ns, &j, err));
	json_end_object(&j);
	return 0;
}
