/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How long polls, delays and waits of a family took, by time: the index's heat maps. */
#include "base/cleanup.h"
#include "view/answer.h"
#include "view/common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int parse_what(const struct view_request *q, enum index_heat_what *ret, struct error *err)
{
	static const char *const names[IH_N] = {
		[IH_POLLS] = "polls", [IH_DELAYS] = "delays", [IH_WAITS] = "waits"};
	const char *what = request_param(q, "what");

	for (unsigned i = 0; i < IH_N; i++) {
		if (what && strcmp(what, names[i]) != 0)
			continue;
		*ret = i;
		return 0;
	}
	return error_set(err, -EINVAL, "what is polls, delays or waits");
}

struct heat {
	uint64_t first, n; /* columns, each `wide` of the index's */
	unsigned shift;	   /* of a column's width in ns */
	uint64_t counts[INDEX_HEAT_ROWS][INDEX_HEAT_CELLS];
};

static int add_lane(const struct view_source *v, uint32_t lane, enum index_heat_what what,
		    unsigned cell_shift, struct heat *h, struct error *err)
{
	_cleanup_free_ uint32_t *cells = NULL;
	int code = index_heat(v->index, lane, what, &cells, err);

	if (code == -ENOENT) {
		*err = (struct error){0};
		return 0;
	}
	if (code < 0)
		return code;
	for (uint64_t cell = 0; cell < INDEX_HEAT_CELLS; cell++) {
		uint64_t column = cell >> (h->shift - cell_shift);

		if (column < h->first || column >= h->first + h->n)
			continue;
		for (unsigned row = 0; row < INDEX_HEAT_ROWS; row++)
			h->counts[row][column - h->first] += cells[cell * INDEX_HEAT_ROWS + row];
	}
	return 0;
}

static void write_heat(const struct heat *h, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	json_object(&j, NULL);
	json_u64(&j, "from", h->first << h->shift);
	json_u64(&j, "to", (h->first + h->n) << h->shift);
	json_u64(&j, "cell_ns", 1ull << h->shift);
	json_u64(&j, "x", h->n);
	json_array(&j, "edges_ns");
	for (unsigned row = 0; row < INDEX_HEAT_ROWS; row++)
		json_u64(&j, NULL, index_heat_edge(row));
	json_end_array(&j);
	json_array(&j, "counts");
	for (unsigned row = 0; row < INDEX_HEAT_ROWS; row++) {
		json_array(&j, NULL);
		for (uint64_t i = 0; i < h->n; i++)
			json_u64(&j, NULL, h->counts[row][i]);
		json_end_array(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
}

int answer_heat(const struct view_source *v, const struct view_request *q, struct buf *out,
		struct error *err)
{
	_cleanup_free_ struct heat *h = calloc(1, sizeof(*h));
	uint64_t x = 256, lane = UINT64_MAX;
	enum index_heat_what what = IH_POLLS;
	struct index_facts facts;
	struct view_window w;

	TRY(parse_what(q, &what, err));
	TRY(view_window(v, q, &w, err));
	if (request_u64(q, "x", &x) < 0 || !x || x > INDEX_HEAT_CELLS)
		return error_set(err, -EINVAL, "x is a number from 1 to %u", INDEX_HEAT_CELLS);
	if (request_u64(q, "lane", &lane) < 0)
		return error_set(err, -EINVAL, "lane is the id of a lane");
	if (lane != UINT64_MAX && (lane >= UINT32_MAX || !index_lane(v->index, (uint32_t)lane)))
		return error_set(err, -ENOENT, "there is no such lane");
	if (!h)
		return error_set(err, -ENOMEM, "out of memory");
	index_facts(v->index, &facts);
	h->shift = facts.heat_width_log2;
	uint64_t from = w.from_ns - facts.base_ns, last = w.to_ns - 1 - facts.base_ns;
	while ((last >> h->shift) - (from >> h->shift) >= x && h->shift < 62)
		h->shift++;
	h->first = from >> h->shift;
	h->n = (last >> h->shift) - h->first + 1;
	if (h->n > INDEX_HEAT_CELLS)
		return error_set(err, -EBADMSG, "the index is damaged");
	for (uint32_t i = 0; index_lane(v->index, i); i++)
		if (lane == UINT64_MAX || lane == i)
			TRY(add_lane(v, i, what, facts.heat_width_log2, h, err));
	write_heat(h, out);
	return 0;
}
