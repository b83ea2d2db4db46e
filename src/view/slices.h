/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The exact slices of a window, as answers have them. */
#pragma once

#include "index/window.h"
#include "view/common.h"

struct slice_list {
	struct index_span *items;
	size_t n, cap;
};
/* Copies it to the end. 0 or -ENOMEM. */
int slice_add(struct slice_list *list, const struct index_span *span);
/* By begin; of those that begin together the longer one first. */
void slice_sort(struct slice_list *list);

/* window_read() of the source's trace. */
int slice_read(const struct view_source *v, struct window *w, struct error *err);
/* "poll", "wait", ...: of enum span_type. */
const char *slice_kind(unsigned type);
/* By length, the longest first. */
void slice_sort_longest(struct slice_list *list);
/* Members of a slice's object; its place is added to `places`. */
void slice_members(const struct view_source *v, const struct index_span *span,
		   struct view_places *places, struct json *j);
/* The object, in an array. */
void slice_write(const struct view_source *v, const struct index_span *span,
		 struct view_places *places, struct json *j);
/* The id of a poll. */
const char *slice_poll_id(char text[static 96], const struct view_source *v, uint32_t thread,
			  uint32_t kind, uint64_t task, uint64_t begin_ns);
/* Whether it is of a poll of a worker's loop, which is no slice of its thread. */
bool slice_is_loop(const struct view_source *v, const struct index_span *span);
