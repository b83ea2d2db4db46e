/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Families, threads, await points and tasks by a part of their names, or by their number. */
#include "base/cleanup.h"
#include "base/vec.h"
#include "index/series.h"
#include "view/answer.h"
#include "view/common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HITS 1000u
#define CELLS 4096u

struct search {
	const struct view_source *v;
	const char *text;
	uint64_t number; /* that the text is; UINT64_MAX: none */
	struct kind_labels labels;
	struct index_facts facts;
	uint64_t max, n;
	bool more;
	struct json j;
};

static bool begin_hit(struct search *s, const char *kind, const char *text)
{
	if (s->n == s->max) {
		s->more = true;
		return false;
	}
	s->n++;
	json_object(&s->j, NULL);
	json_string(&s->j, "kind", kind);
	json_string(&s->j, "text", text);
	return true;
}

static bool matches(const struct search *s, const char *name)
{
	return name && strcasestr(name, s->text);
}

static void search_lanes(struct search *s)
{
	const struct trace_reader *r = s->v->tables;
	const struct index_lane *l;

	for (uint32_t i = 0; (l = index_lane(s->v->index, i)); i++) {
		const struct trace_kind *k =
			l->type == IL_FAMILY ? trace_reader_kind(r, l->number) : NULL;
		const struct trace_thread *t =
			l->type == IL_THREAD ? trace_reader_thread(r, l->number) : NULL;
		bool found = k ? matches(s, kind_label(&s->labels, r, l->number)) ||
					     matches(s, k->full_name)
			       : t && (matches(s, t->name) || t->tid == s->number);

		if (!found || !begin_hit(s, k ? "family" : "thread",
					 k ? kind_label(&s->labels, r, l->number) : t->name))
			continue;
		json_u64(&s->j, "lane", i);
		json_end_object(&s->j);
	}
}

/* When a series first has something, as near as a screen shows it. */
static int first_of(const struct search *s, uint32_t series, uint64_t *ret_ns, struct error *err)
{
	_cleanup_free_ uint64_t *values = calloc(CELLS, sizeof(*values));
	unsigned level = 0;
	uint64_t at = 0;

	if (!values)
		return error_set(err, -ENOMEM, "out of memory");
	while (level + 1 < s->facts.n_levels && s->facts.n_cells >> level > CELLS)
		level++;
	TRY(index_values(s->v->index, series, level, 0, CELLS, values, err));
	while (at < CELLS && !values[at])
		at++;
	*ret_ns = at < CELLS ? at << (s->facts.width_log2 + level) : 0;
	return 0;
}

static int search_places(struct search *s, struct error *err)
{
	for (uint32_t lane = 0; index_lane(s->v->index, lane); lane++) {
		struct index_series_name name;
		uint32_t pos = 0;

		while (index_next_series(s->v->index, lane, &pos, &name)) {
			_cleanup_buf_ struct buf text = BUF_INIT;
			uint64_t at = 0;
			const struct trace_place *p =
				name.what == IX_WAITING && name.place && name.place <= UINT32_MAX
					? trace_reader_own_place(s->v->tables,
								 (uint32_t)name.place - 1, NULL)
					: NULL;

			if (!p)
				continue;
			trace_place_text(&text, p);
			if (!matches(s, text.data) && !matches(s, p->awaits))
				continue;
			TRY(first_of(s, name.number, &at, err));
			if (!begin_hit(s, "place", text.data))
				return 0;
			json_u64(&s->j, "place", name.place);
			json_u64(&s->j, "lane", lane);
			json_u64(&s->j, "at", at);
			json_end_object(&s->j);
		}
	}
	return 0;
}

static int take_task(void *ctx, const struct index_span *span)
{
	struct search *s = ctx;
	char id[96];
	uint32_t lane;

	if (span->type != SPAN_TASK || span->task != s->number)
		return 0;
	lane = index_find_lane(s->v->index, IL_FAMILY, span->kind);
	struct buf text = BUF_INIT;
	buf_printf(&text, "%s %s", kind_label(&s->labels, s->v->tables, span->kind),
		   view_task_number(id, s->v->tables, span->kind, span->task));
	if (!buf_failed(&text) && begin_hit(s, "task", text.data)) {
		json_string(&s->j, "task", view_task_id(id, span->kind, span->task));
		if (lane != INDEX_OVERVIEW)
			json_u64(&s->j, "lane", lane);
		json_u64(&s->j, "at",
			 span->begin_ns > s->facts.base_ns ? span->begin_ns - s->facts.base_ns : 0);
		json_end_object(&s->j);
	}
	buf_done(&text);
	return 0;
}

int answer_search(const struct view_source *v, const struct request *q, struct buf *out,
		  struct error *err)
{
	struct search s = {.v = v, .text = request_param(q, "q"), .number = UINT64_MAX, .max = 50};
	char *end;

	if (!s.text || !*s.text)
		return error_set(err, -EINVAL, "q is what is searched for");
	if (request_u64(q, "max", &s.max) < 0 || !s.max || s.max > MAX_HITS)
		return error_set(err, -EINVAL, "max is a number from 1 to %u", MAX_HITS);
	errno = 0;
	unsigned long long number = strtoull(s.text, &end, 0);
	if (*s.text >= '0' && *s.text <= '9' && !*end && !errno)
		s.number = number;
	index_facts(v->index, &s.facts);
	if (kind_labels_make(v->tables, &s.labels) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	json_init(&s.j, out, false);
	s.j.shown = true;
	json_object(&s.j, NULL);
	json_array(&s.j, "hits");
	search_lanes(&s);
	if (s.number != UINT64_MAX)
		TRY(index_spans(v->index, 0, UINT64_MAX, take_task, &s, err));
	TRY(search_places(&s, err));
	json_end_array(&s.j);
	json_bool(&s.j, "more", s.more);
	json_end_object(&s.j);
	kind_labels_done(&s.labels);
	return 0;
}
