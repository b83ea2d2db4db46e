/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The timeline at one zoom: sums of an index's cells. */
#include "base/cleanup.h"
#include "base/vec.h"
#include "index/series.h"
#include "view/answer.h"
#include "view/common.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_N 4096u

static const char *const names[IX_N] = {
	[IX_POLLING] = "polling_ns", [IX_BLOCKED] = "blocked_ns", [IX_OFF_CPU] = "off_cpu_ns",
	[IX_PARKED] = "parked_ns",   [IX_READY] = "ready_ns",	  [IX_WAITING] = "waiting_ns",
	[IX_POLLS] = "polls",	     [IX_LONGEST] = "longest_ns",
};

struct cells {
	const struct view_source *v;
	unsigned level;
	uint64_t first; /* cell */
	size_t n;
	struct view_places causes;
	uint64_t sums[IX_N][MAX_N];
	bool there[IX_N];
	uint64_t at_place[MAX_N], most[MAX_N]; /* waiting at one place; at that of `cause` */
	int64_t cause[MAX_N];		       /* index into causes, -1: none */
};

static void write_values(struct json *j, const char *key, const uint64_t *values, size_t n)
{
	json_array(j, key);
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_char(j->out, ',');
		buf_u64(j->out, values[i]);
	}
	json_end_array(j);
}

/* Index of a cause; SIZE_MAX: out of memory. */
static size_t cause_of(struct cells *c, uint64_t place)
{
	for (size_t i = 0; i < c->causes.n; i++)
		if (c->causes.places[i] == place)
			return i;
	if (!GROW(c->causes.places, c->causes.n, c->causes.cap))
		return SIZE_MAX;
	c->causes.places[c->causes.n] = place;
	return c->causes.n++;
}

static int add_waiting(struct cells *c, const struct index_series_name *name, struct error *err)
{
	size_t cause = name->place ? cause_of(c, name->place) : 0;

	if (cause == SIZE_MAX)
		return error_set(err, -ENOMEM, "out of memory");
	memset(c->at_place, 0, c->n * sizeof(*c->at_place));
	TRY(index_values(c->v->index, name->number, c->level, c->first, c->n, c->at_place, err));
	for (size_t i = 0; i < c->n; i++) {
		c->sums[IX_WAITING][i] += c->at_place[i];
		if (!name->place || c->at_place[i] <= c->most[i])
			continue;
		c->most[i] = c->at_place[i];
		c->cause[i] = (int64_t)cause;
	}
	return 0;
}

static int read_lane(struct cells *c, uint32_t lane, struct error *err)
{
	struct index_series_name name;
	uint32_t pos = 0;

	memset(c->sums, 0, sizeof(c->sums));
	memset(c->there, 0, sizeof(c->there));
	memset(c->most, 0, sizeof(c->most));
	for (size_t i = 0; i < c->n; i++)
		c->cause[i] = -1;
	while (index_next_series(c->v->index, lane, &pos, &name)) {
		c->there[name.what] = true;
		if (name.what == IX_WAITING)
			TRY(add_waiting(c, &name, err));
		else
			TRY(index_values(c->v->index, name.number, c->level, c->first, c->n,
					 c->sums[name.what], err));
	}
	return 0;
}

static int write_lane(struct cells *c, uint32_t lane, struct json *j, struct error *err)
{
	char key[16];

	TRY(read_lane(c, lane, err));
	snprintf(key, sizeof(key), "%" PRIu32, lane);
	json_object(j, key);
	for (unsigned what = 0; what < IX_N; what++)
		if (c->there[what])
			write_values(j, names[what], c->sums[what], c->n);
	if (c->there[IX_WAITING]) {
		json_array(j, "cause");
		for (size_t i = 0; i < c->n; i++)
			json_i64(j, NULL, c->cause[i]);
		json_end_array(j);
	}
	json_end_object(j);
	return 0;
}

static int write_overview(struct cells *c, struct json *j, struct error *err)
{
	TRY(read_lane(c, INDEX_OVERVIEW, err));
	json_object(j, "overview");
	write_values(j, "busy_ns", c->sums[IX_POLLING], c->n);
	write_values(j, "ready_ns", c->sums[IX_READY], c->n);
	write_values(j, "blocked_ns", c->sums[IX_BLOCKED], c->n);
	json_end_object(j);
	return 0;
}

/* No `wanted`: all. */
static int write_lanes(struct cells *c, const char *wanted, struct json *j, struct error *err)
{
	uint32_t lanes[VIEW_MAX_LANES];
	unsigned n = 0;

	if (wanted)
		TRY(view_lanes(c->v, wanted, lanes, &n, err));
	while (!wanted && n < VIEW_MAX_LANES && index_lane(c->v->index, n)) {
		lanes[n] = n;
		n++;
	}
	json_object(j, "lanes");
	for (unsigned i = 0; i < n; i++)
		TRY(write_lane(c, lanes[i], j, err));
	json_end_object(j);
	return 0;
}

int answer_cells(const struct view_source *v, const struct view_request *q, struct buf *out,
		 struct error *err)
{
	_cleanup_free_ struct cells *c = calloc(1, sizeof(*c));
	struct index_facts facts;
	struct view_window w;
	uint64_t n = 1024;
	struct json j;

	TRY(view_window(v, q, &w, err));
	if (request_u64(q, "n", &n) < 0 || !n || n > MAX_N)
		return error_set(err, -EINVAL, "n is a number from 1 to %u", MAX_N);
	if (!c)
		return error_set(err, -ENOMEM, "out of memory");
	index_facts(v->index, &facts);
	c->v = v;
	uint64_t from = w.from_ns - facts.base_ns, last = w.to_ns - 1 - facts.base_ns, shift;
	for (;; c->level++) {
		shift = facts.width_log2 + c->level;
		c->first = from >> shift;
		c->n = (last >> shift) - c->first + 1;
		if (c->n <= n || c->level + 1 == facts.n_levels)
			break;
	}
	if (c->n > MAX_N)
		return error_set(err, -EINVAL, "the index has no cells that wide");
	json_init(&j, out, false);
	j.shown = true;
	json_object(&j, NULL);
	json_u64(&j, "from", c->first << shift);
	json_u64(&j, "to", (c->first + c->n) << shift);
	json_u64(&j, "cell_ns", 1ull << shift);
	json_u64(&j, "n", c->n);
	TRY(write_overview(c, &j, err));
	TRY(write_lanes(c, request_param(q, "lanes"), &j, err));
	json_array(&j, "causes");
	for (size_t i = 0; i < c->causes.n; i++) {
		json_object(&j, NULL);
		json_u64(&j, "place", c->causes.places[i]);
		view_write_place(v->tables, c->causes.places[i], &j);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	return 0;
}
