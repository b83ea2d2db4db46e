/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The exact slices of a window, as JSON. */
#include "view/slices.h"

#include "base/compare.h"
#include "base/syscalls.h"
#include "base/vec.h"
#include "view/common.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int slice_add(struct slice_list *list, const struct index_span *span)
{
	if (!GROW(list->items, list->n, list->cap))
		return -ENOMEM;
	list->items[list->n++] = *span;
	return 0;
}

static int by_begin(const void *a, const void *b)
{
	const struct index_span *x = a, *y = b;

	return ASCENDING(x->begin_ns, y->begin_ns) ?: DESCENDING(x->end_ns, y->end_ns) ?:
	       (x->type != y->type ? x->type - y->type : 0);
}

void slice_sort(struct slice_list *list)
{
	if (list->n)
		qsort(list->items, list->n, sizeof(*list->items), by_begin);
}

static int by_length(const void *a, const void *b)
{
	const struct index_span *x = a, *y = b;

	return DESCENDING(x->end_ns - x->begin_ns, y->end_ns - y->begin_ns) ?: by_begin(a, b);
}

void slice_sort_longest(struct slice_list *list)
{
	if (list->n)
		qsort(list->items, list->n, sizeof(*list->items), by_length);
}

int slice_read(const struct view_source *v, struct window *w, struct error *err)
{
	int fd = view_open_again(v, err);

	w->ix = v->index;
	return fd < 0 ? fd : window_read(w, v->tables, fd, err);
}

bool slice_is_loop(const struct view_source *v, const struct index_span *span)
{
	uint32_t lane = span->type == SPAN_POLL ? index_find_lane(v->index, IL_FAMILY, span->kind)
						: INDEX_OVERVIEW;
	const struct index_lane *l = lane == INDEX_OVERVIEW ? NULL : index_lane(v->index, lane);

	return l && l->role == TR_WORKER;
}

const char *slice_poll_id(char text[static 96], const struct view_source *v, uint32_t thread,
			  uint32_t kind, uint64_t task, uint64_t begin_ns)
{
	struct index_facts facts;

	index_facts(v->index, &facts);
	snprintf(text, 96, "%" PRIu32 ".%" PRIu32 ".%" PRIu64 ".%" PRIu64, thread, kind, task,
		 begin_ns - facts.base_ns);
	return text;
}

static const char *const kinds[SPAN_N] = {
	[SPAN_POLL] = "poll",	    [SPAN_WAIT] = "wait", [SPAN_READY] = "ready",
	[SPAN_PARK] = "park",	    [SPAN_CALL] = "call", [SPAN_OFF_CPU] = "off_cpu",
	[SPAN_SYSCALL] = "syscall", [SPAN_TASK] = "task", [SPAN_SAMPLE] = "sample",
};

const char *slice_kind(unsigned type)
{
	return kinds[type];
}

static void write_text(const struct index_span *s, struct json *j)
{
	const char *name = NULL;
	char number[24];

	if (s->type == SPAN_PARK || s->type == SPAN_CALL)
		name = trace_call_name((unsigned)s->what & TRACE_CALL_NUMBER);
	else if (s->type == SPAN_OFF_CPU)
		name = trace_off_cpu_name((unsigned)s->what);
	else if (s->type == SPAN_SYSCALL && s->what <= UINT16_MAX)
		name = syscall_name((unsigned)s->what);
	if (!name && s->type == SPAN_SYSCALL) {
		snprintf(number, sizeof(number), "%" PRIu64, s->what);
		name = number;
	}
	if (name)
		json_string(j, "text", name);
}

void slice_members(const struct view_source *v, const struct index_span *s,
		   struct view_places *places, struct json *j)
{
	struct index_facts facts;
	char text[96];

	index_facts(v->index, &facts);
	if (s->type == SPAN_POLL)
		json_string(j, "id",
			    slice_poll_id(text, v, s->thread, s->kind, s->task, s->begin_ns));
	json_u64(j, "from", s->begin_ns > facts.base_ns ? s->begin_ns - facts.base_ns : 0);
	json_u64(j, "to", s->end_ns > facts.base_ns ? s->end_ns - facts.base_ns : 0);
	json_string(j, "kind", kinds[s->type]);
	if (s->thread != UINT32_MAX)
		json_u64(j, "thread", s->thread);
	if (s->kind != TRACE_KIND_NONE) {
		json_u64(j, "family", s->kind);
		json_string(j, "task", view_task_id(text, s->kind, s->task));
		json_string(j, "number",
			    view_task_number(text, v, places, s->kind, s->task, s->begin_ns));
	}
	if (s->type == SPAN_POLL) {
		json_string(j, "outcome", trace_outcome_name(s->outcome));
		json_u64(j, "depth", s->depth);
		if (s->since_ns > facts.base_ns)
			json_u64(j, "ready_from", s->since_ns - facts.base_ns);
		json_u64(j, "blocked_ns", s->blocked_ns);
	}
	if (s->type == SPAN_CALL)
		json_bool(j, "blocks", s->flags & SPAN_KEEPS);
	write_text(s, j);
	bool placed = s->type == SPAN_POLL || s->type == SPAN_WAIT || s->type == SPAN_READY;
	if (placed && s->what) {
		json_u64(j, "place", s->what);
		view_add_place(places, s->what);
	}
	json_bool(j, "open", s->flags & SPAN_OPEN || s->end_ns >= facts.end_ns);
}

void slice_write(const struct view_source *v, const struct index_span *span,
		 struct view_places *places, struct json *j)
{
	json_object(j, NULL);
	slice_members(v, span, places, j);
	json_end_object(j);
}
