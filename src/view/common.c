/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What several answers need. */
#include "view/common.h"

#include "base/cleanup.h"
#include "base/vec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int view_window(const struct view_source *v, const struct request *q, struct view_window *ret,
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

const char *view_task_number(char text[static 96], const struct trace_reader *r, uint32_t kind,
			     uint64_t task)
{
	const struct trace_kind *k = trace_reader_kind(r, kind);

	snprintf(text, 96, k && k->address_named ? "0x%" PRIx64 : "%" PRIu64, task);
	return text;
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

	return *x < *y ? -1 : *x > *y;
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
	*p = (struct view_places){0};
}
