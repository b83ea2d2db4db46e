/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What several answers need. */
#include "view/common.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/file.h"
#include "base/vec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CELLS 4096u /* that are read to sum up a window */

int view_window(const struct view_source *v, const struct view_request *q, struct view_window *ret,
		struct error *err)
{
	struct index_facts facts;
	uint64_t from = 0, to;

	index_facts(v->index, &facts);
	uint64_t span = facts.end_ns - facts.base_ns;
	to = span + 1;
	if (request_u64(q, "from", &from) < 0 || request_u64(q, "to", &to) < 0)
		return error_set(err, -EINVAL, "from and to are numbers of ns");
	if (to > span + 1)
		to = span + 1;
	if (from >= to)
		return error_set(
			err, -EINVAL,
			"the window is empty: from is before to, and before the end of the "
			"trace at %" PRIu64,
			span);
	ret->from_ns = facts.base_ns + from;
	ret->to_ns = facts.base_ns + to;
	return 0;
}

bool view_parse_task(const char *text, uint32_t *ret_kind, uint64_t *ret_task)
{
	char *end;

	errno = 0;
	unsigned long long kind = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno || kind > UINT32_MAX || *end != '.')
		return false;
	text = end + 1;
	unsigned long long task = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno || *end)
		return false;
	*ret_kind = (uint32_t)kind;
	*ret_task = task;
	return true;
}

const char *view_task_id(char text[static 96], uint32_t kind, uint64_t task)
{
	snprintf(text, 96, "%" PRIu32 ".%" PRIu64, kind, task);
	return text;
}

int view_sum(const struct view_source *v, const struct view_window *w, uint32_t series, bool most,
	     uint64_t *ret, struct error *err)
{
	_cleanup_free_ uint64_t *values = calloc(CELLS, sizeof(*values));
	struct index_facts facts;
	unsigned level = 0;

	if (!values)
		return error_set(err, -ENOMEM, "out of memory");
	index_facts(v->index, &facts);
	uint64_t from = w->from_ns - facts.base_ns, to = w->to_ns - facts.base_ns;
	/* What lasts until the trace's end is not cut there. */
	if (to == facts.end_ns - facts.base_ns)
		to++;
	while (level + 1 < facts.n_levels &&
	       ((to - 1) >> (facts.width_log2 + level)) - (from >> (facts.width_log2 + level)) >=
		       CELLS)
		level++;
	unsigned shift = facts.width_log2 + level;
	uint64_t first = from >> shift, n = ((to - 1) >> shift) - first + 1;
	TRY(index_values(v->index, series, level, first, n < CELLS ? n : CELLS, values, err));
	*ret = 0;
	for (uint64_t i = 0; i < n && i < CELLS; i++) {
		uint64_t begin = (first + i) << shift, end = begin + (1ull << shift);

		/* After the trace's end there is nothing. */
		if (end > facts.end_ns - facts.base_ns + 1)
			end = facts.end_ns - facts.base_ns + 1;
		if (most) {
			*ret = values[i] > *ret ? values[i] : *ret;
			continue;
		}
		uint64_t inside = (end < to ? end : to) - (begin > from ? begin : from);

		*ret += inside == end - begin ? values[i]
					      : (uint64_t)((double)values[i] * (double)inside /
							   (double)(end - begin));
	}
	return 0;
}

bool view_add_place(struct view_places *p, uint64_t place)
{
	if (!place || (p->n && p->places[p->n - 1] == place))
		return true;
	if (!GROW(p->places, p->n, p->cap))
		return false;
	p->places[p->n++] = place;
	return true;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return ASCENDING(*x, *y);
}

void view_write_place(const struct trace_reader *r, uint64_t place, struct json *j)
{
	const struct trace_place *p = place && place <= UINT32_MAX
					      ? trace_reader_own_place(r, (uint32_t)place - 1, NULL)
					      : NULL;
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (p)
		trace_place_text(&text, p);
	json_string(j, "text", p && text.data ? text.data : "unknown");
	json_string(j, "function", p ? p->function : "");
	json_string(j, "file", p ? p->file : "");
	json_u64(j, "line", p ? p->line : 0);
	json_string(j, "awaits", p ? p->awaits : "");
}

/* ---- numbers of tasks ---- */

static int add_numbered(struct view_places *p, struct numbered_task task)
{
	if (!GROW(p->tasks, p->n_tasks, p->tasks_cap))
		return -ENOMEM;
	p->tasks[p->n_tasks++] = task;
	return 0;
}

static int take_span(void *ctx, const struct index_span *s)
{
	if (s->type != SPAN_TASK || !(s->flags & SPAN_BY_ADDRESS))
		return 0;
	return add_numbered(ctx,
			    (struct numbered_task){s->kind, s->task, s->begin_ns, s->blocked_ns});
}

static int take_named(void *ctx, const struct index_named *t)
{
	return add_numbered(ctx, (struct numbered_task){t->kind, t->task, t->begin_ns, t->number});
}

static int by_task(const void *a, const void *b)
{
	const struct numbered_task *x = a, *y = b;

	return ASCENDING(x->kind, y->kind) ?: ASCENDING(x->task, y->task) ?:
	       ASCENDING(x->begin_ns, y->begin_ns);
}

static void read_numbers(const struct view_source *v, struct view_places *p)
{
	p->tasks_read = true;
	/* Of those that cannot be read the address is shown. */
	if (index_spans(v->index, 0, UINT64_MAX, take_span, p, NULL) < 0 ||
	    index_each_named(v->index, take_named, p, NULL) < 0)
		p->n_tasks = 0;
	if (p->n_tasks)
		qsort(p->tasks, p->n_tasks, sizeof(*p->tasks), by_task);
}

/* The last one of that address that had begun by then; NULL: none is known. */
static const struct numbered_task *find_numbered(const struct view_places *p, uint32_t kind,
						 uint64_t task, uint64_t at_ns)
{
	const struct numbered_task wanted = {kind, task, at_ns, 0};
	size_t low = 0, high = p->n_tasks;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (by_task(&p->tasks[middle], &wanted) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	const struct numbered_task *t = low ? &p->tasks[low - 1] : NULL;
	return t && t->kind == kind && t->task == task ? t : NULL;
}

uint64_t view_task_serial(const struct view_source *v, struct view_places *p, uint32_t kind,
			  uint64_t task, uint64_t at_ns)
{
	const struct trace_kind *k = trace_reader_kind(v->tables, kind);

	if (!k || !k->address_named)
		return 0;
	if (!p->tasks_read)
		read_numbers(v, p);
	const struct numbered_task *t = find_numbered(p, kind, task, at_ns);
	return t ? t->number : 0;
}

const char *view_task_number(char text[static 96], const struct view_source *v,
			     struct view_places *p, uint32_t kind, uint64_t task, uint64_t at_ns)
{
	const struct trace_kind *k = trace_reader_kind(v->tables, kind);
	uint64_t serial = view_task_serial(v, p, kind, task, at_ns);

	snprintf(text, 96, k && k->address_named && !serial ? "0x%" PRIx64 : "%" PRIu64,
		 serial ? serial : task);
	return text;
}

void view_write_places(struct view_places *p, const struct trace_reader *r, struct json *j)
{
	char key[24];

	json_object(j, "places");
	if (p->n)
		qsort(p->places, p->n, sizeof(*p->places), by_number);
	for (size_t i = 0; i < p->n; i++) {
		if (i && p->places[i] == p->places[i - 1])
			continue;
		snprintf(key, sizeof(key), "%" PRIu64, p->places[i]);
		json_object(j, key);
		view_write_place(r, p->places[i], j);
		json_end_object(j);
	}
	json_end_object(j);
	free(p->places);
	free(p->tasks);
	*p = (struct view_places){0};
}

int view_open_again(const struct view_source *v, struct error *err)
{
	char name[32];

	/* Opened again, with a position of its own; also if the path is another file's by now. */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", v->trace);
	return file_open(name, FILE_EMPTY, err);
}

int view_reader(const struct view_source *v, struct trace_reader **ret, struct error *err)
{
	int fd = view_open_again(v, err);

	if (fd < 0)
		return fd;
	struct trace_reader *reader;
	TRY(trace_reader_open_fd(fd, &reader, err));
	int code = v->index ? index_use_kinds(v->index, reader, err) : 0;
	if (code < 0) {
		trace_reader_free(reader);
		return code;
	}
	*ret = reader;
	return 0;
}

int view_lanes(const struct view_source *v, const char *text, uint32_t ret_lanes[VIEW_MAX_LANES],
	       unsigned *ret_n, struct error *err)
{
	unsigned n = 0;

	while (*text) {
		char *end;
		unsigned long lane = strtoul(text, &end, 10);

		if (*text < '0' || *text > '9' || (*end && *end != ',') || n == VIEW_MAX_LANES)
			return error_set(err, -EINVAL, "lanes is up to %u ids with commas between",
					 VIEW_MAX_LANES);
		if (lane >= UINT32_MAX || !index_lane(v->index, (uint32_t)lane))
			return error_set(err, -ENOENT, "there is no lane %lu", lane);
		ret_lanes[n++] = (uint32_t)lane;
		text = *end ? end + 1 : end;
	}
	*ret_n = n;
	return 0;
}
