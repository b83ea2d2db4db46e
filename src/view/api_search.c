/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Families, threads, await points and tasks by a part of their names, or by their number. */
#include "base/cleanup.h"
#include "base/vec.h"
#include "index/series.h"
#include "view/answer.h"
#include "view/slices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HITS 1000u
#define CELLS 4096u
/* Tasks of one number, of several processes; parts of the trace that are read for them. */
#define MAX_FOUND 8u
#define MAX_WINDOWS 48u

struct search_hit {
	uint32_t kind;
	uint64_t task, begin_ns;
};

struct name_search {
	const struct view_source *v;
	const char *text;
	uint64_t number; /* that the text is; UINT64_MAX: none */
	struct kind_labels labels;
	struct index_facts facts;
	uint64_t max, n;
	bool more;
	struct json j;
	struct search_hit found[MAX_FOUND];
	unsigned n_found, n_windows;
	bool given; /* the number, by the only runtime, to a task that was found */
	struct error *err;
};

static bool begin_hit(struct name_search *s, const char *kind, const char *text)
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

static bool matches(const struct name_search *s, const char *name)
{
	return name && strcasestr(name, s->text);
}

static void search_lanes(struct name_search *s)
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
static int first_of(const struct name_search *s, uint32_t series, uint64_t *ret_ns,
		    struct error *err)
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

static int search_places(struct name_search *s, struct error *err)
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

/* ---- tasks by number ---- */

static void task_hit(struct name_search *s, const struct search_hit *f)
{
	uint32_t lane = index_find_lane(s->v->index, IL_FAMILY, f->kind);
	_cleanup_buf_ struct buf text = BUF_INIT;
	char id[96];

	buf_printf(&text, "%s #%" PRIu64, kind_label(&s->labels, s->v->tables, f->kind), s->number);
	if (buf_failed(&text) || !begin_hit(s, "task", text.data))
		return;
	json_string(&s->j, "task", view_task_id(id, f->kind, f->task));
	if (lane != INDEX_OVERVIEW)
		json_u64(&s->j, "lane", lane);
	json_u64(&s->j, "at", f->begin_ns > s->facts.base_ns ? f->begin_ns - s->facts.base_ns : 0);
	json_end_object(&s->j);
}

static int take_task(void *ctx, const struct index_span *span)
{
	struct name_search *s = ctx;

	/* Its number, or the address that it is named by. */
	if (span->type != SPAN_TASK || (span->blocked_ns != s->number && span->task != s->number))
		return 0;
	/* Another runtime, as of another process, gives the same numbers. */
	s->given = s->given ||
		   (span->blocked_ns == span->task && trace_reader_n_processes(s->v->tables) <= 1 &&
		    trace_reader_n_runtimes(s->v->tables) <= 1);
	task_hit(s, &(struct search_hit){span->kind, span->task, span->begin_ns});
	return 0;
}

static int take_named(void *ctx, const struct index_named *task)
{
	task_hit(ctx, &(struct search_hit){task->kind, task->task, task->begin_ns});
	return 0;
}

/* A slice of a short task: where it is first. */
static int take_slice(void *ctx, const struct index_span *span)
{
	struct name_search *s = ctx;
	const struct trace_kind *k = trace_reader_kind(s->v->tables, span->kind);

	if (!k || k->address_named || span->task != s->number || span->type > SPAN_READY)
		return 0;
	for (unsigned i = 0; i < s->n_found; i++)
		if (s->found[i].kind == span->kind) {
			if (span->begin_ns < s->found[i].begin_ns)
				s->found[i].begin_ns = span->begin_ns;
			return 0;
		}
	if (s->n_found < MAX_FOUND)
		s->found[s->n_found++] =
			(struct search_hit){span->kind, span->task, span->begin_ns};
	return 0;
}

/* Reads the stretch, in parts where it has many events. */
static int take_stretch(void *ctx, uint64_t from_ns, uint64_t to_ns)
{
	struct name_search *s = ctx;
	struct window w = {.from_ns = from_ns, .to_ns = to_ns + 1, .slice = take_slice, .ctx = s};
	uint64_t half = (to_ns - from_ns) / 2;

	/* A runtime gives a number once. */
	if (s->given)
		return 0;
	if (s->n_windows == MAX_WINDOWS) {
		s->more = true;
		return 0;
	}
	s->n_windows++;
	TRY(slice_read(s->v, &w, s->err));
	if (w.exact || !half)
		return 0;
	TRY(take_stretch(ctx, from_ns, from_ns + half));
	return take_stretch(ctx, from_ns + half + 1, to_ns);
}

static int search_tasks(struct name_search *s, struct error *err)
{
	s->err = err;
	TRY(index_spans(s->v->index, 0, UINT64_MAX, take_task, s, err));
	TRY(index_find_number(s->v->index, s->number, take_named, take_stretch, s, err));
	for (unsigned i = 0; i < s->n_found; i++)
		task_hit(s, &s->found[i]);
	return 0;
}

int answer_search(const struct view_source *v, const struct view_request *q, struct buf *out,
		  struct error *err)
{
	struct name_search s = {
		.v = v, .text = request_param(q, "q"), .number = UINT64_MAX, .max = 50};
	char *end;

	if (!s.text || !*s.text)
		return error_set(err, -EINVAL, "q must be the text to search for");
	if (request_u64(q, "max", &s.max) < 0 || !s.max || s.max > MAX_HITS)
		return error_set(err, -EINVAL, "max is a number from 1 to %u", MAX_HITS);
	errno = 0;
	/* "17", or "#17" as rows and reports have it. */
	const char *digits = s.text + (*s.text == '#');
	unsigned long long number = strtoull(digits, &end, 0);
	if (*digits >= '0' && *digits <= '9' && !*end && !errno)
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
		TRY(search_tasks(&s, err));
	TRY(search_places(&s, err));
	json_end_array(&s.j);
	json_bool(&s.j, "more", s.more);
	json_end_object(&s.j);
	kind_labels_done(&s.labels);
	return 0;
}
