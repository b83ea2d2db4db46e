/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* After the replay: which trees are shown, with which units, in which order. */
#include "base/compare.h"
#include "causes/data.h"

#include "base/error.h"
#include "base/text.h"
#include "base/vec.h"
#include "timeline/match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOWEST 0.01
#define MATTERS 2000 /* a family that has less than this part of another's time does not */

struct causes *causes_new(struct trace_reader *r, const struct causes_options *opt)
{
	struct causes *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->reader = r;
	c->opt = *opt;
	if (!(c->opt.slowest > 0))
		c->opt.slowest = SLOWEST;
	c->credit = CREDIT_MAX;
	return c;
}

static void tree_free(void *value)
{
	tree_done(value);
	free(value);
}

void causes_free(struct causes *c)
{
	if (!c)
		return;
	history_done(&c->history);
	for (size_t i = 0; i < c->n_task_pages; i++) {
		for (unsigned at = 0; at < TASKS_PER_PAGE; at++) {
			parts_done(&c->task_pages[i][at].parts);
			free(c->task_pages[i][at].off.items);
		}
		free(c->task_pages[i]);
	}
	free(c->task_pages);
	map_free(&c->trees, tree_free);
	map_done(&c->same_points);
	map_done(&c->same_stacks);
	for (uint32_t i = 0; c->shorts && i < c->labels.n; i++)
		free(c->shorts[i]);
	free(c->shorts);
	kind_labels_done(&c->labels);
	for (size_t i = 0; i < c->n_threads; i++) {
		free(c->threads[i].off.items);
		blocks_done(&c->threads[i].blocks);
	}
	free(c->threads);
	free(c->neighbours);
	map_done(&c->same_neighbours);
	map_done(&c->thread_numbers);
	free(c->looks);
	free(c->kinds);
	free(c->points);
	for (size_t i = 0; i < c->n_shown; i++)
		free(c->shown[i].cells);
	free(c->shown);
	free(c);
}

static bool is_task(const struct causes *c, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(c->reader, kind);

	return k && k->role == TR_TASK;
}

/* The units that say most of a family; UNIT_N: there are none. */
static enum unit_type best_units(const struct causes *c, const struct tree *t)
{
	uint64_t tasks = t->units[UNIT_TASK].length.count,
		 rounds = t->units[UNIT_ROUND].length.count,
		 parts = t->units[UNIT_PART].length.count;
	bool by_round = c->opt.unit == CU_ROUND || (c->opt.unit == CU_AUTO && rounds >= 2 * tasks);

	if (rounds && by_round)
		return UNIT_ROUND;
	if (c->opt.unit == CU_ROUND)
		return UNIT_N;
	/* A few tasks that ended say nothing of the many that wait still. */
	if (parts && (!tasks || (c->opt.unit == CU_AUTO && parts > tasks)))
		return UNIT_PART;
	return tasks ? UNIT_TASK : UNIT_N;
}

static bool is_shown(const struct causes *c, const struct tree *t)
{
	struct trace_reader *r = c->reader;

	if (!c->opt.families)
		return c->opt.tasks || is_task(c, t->kind);
	return match_kind(c->opt.families, r, trace_reader_kind(r, t->kind)) ||
	       (t->handler != TRACE_KIND_NONE &&
		match_kind(c->opt.families, r, trace_reader_kind(r, t->handler)));
}

static int compare_shown(const void *a, const void *b)
{
	const struct shown_tree *x = a, *y = b;

	return DESCENDING(x->matters, y->matters) ?:
	       ASCENDING(x->type == UNIT_PART, y->type == UNIT_PART) ?: DESCENDING(x->ns, y->ns) ?:
	       ASCENDING(x->tree->kind, y->tree->kind) ?:
	       ASCENDING(x->tree->handler, y->tree->handler);
}

static int show_tree(struct causes *c, const struct tree *t)
{
	enum unit_type type = best_units(c, t);

	if (type == UNIT_N || !is_shown(c, t))
		return 0;
	if (!GROW_ONE(c->shown, c->n_shown))
		return -ENOMEM;
	struct shown_tree *s = &c->shown[c->n_shown++];

	*s = (struct shown_tree){
		.tree = t,
		.type = type,
		.ns = t->units[type].length.sum,
		.slow = tree_slowest(t, type, c->opt.slowest),
	};
	s->cells = tree_slow_cells(t, type, &s->slow);
	return s->cells ? 0 : -ENOMEM;
}

/* Of tasks that serve requests, which have trees of their own. */
static bool says_more_by_handler(const struct causes *c, const struct tree *t)
{
	return c->opt.unit == CU_AUTO && t->handler == TRACE_KIND_NONE && t->kind < c->n_kinds &&
	       c->kinds[t->kind].handlers;
}

static void find_what_matters(struct causes *c)
{
	bool asked_for = c->opt.families || c->opt.tasks;
	uint64_t most = 0;

	for (size_t i = 0; i < c->n_shown; i++)
		if (c->shown[i].ns > most)
			most = c->shown[i].ns;
	for (size_t i = 0; i < c->n_shown; i++)
		c->shown[i].matters = asked_for || (c->shown[i].ns >= most / MATTERS &&
						    !says_more_by_handler(c, c->shown[i].tree));
}

static int make_names(struct causes *c)
{
	TRY(kind_labels_make(c->reader, &c->labels));
	c->shorts = calloc((size_t)c->labels.n + 1, sizeof(*c->shorts));
	if (!c->shorts)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->labels.n; i++)
		if (trace_reader_kind_used(c->reader, i) &&
		    !(c->shorts[i] = kind_short(&c->labels, c->reader, i)))
			return -ENOMEM;
	return 0;
}

int causes_judge(struct causes *c)
{
	const struct map_entry *e;
	size_t pos = 0;

	if (c->out_of_memory)
		return -ENOMEM;
	while ((e = map_next(&c->trees, &pos)))
		TRY(show_tree(c, e->value));
	find_what_matters(c);
	if (c->n_shown)
		qsort(c->shown, c->n_shown, sizeof(*c->shown), compare_shown);
	return make_names(c);
}

int causes_parse_unit(const char *s, enum causes_unit *ret_unit)
{
	if (strcmp(s, "task") && strcmp(s, "round"))
		return -EINVAL;
	*ret_unit = !strcmp(s, "task") ? CU_TASK : CU_ROUND;
	return 0;
}

int causes_parse_slowest(const char *s, double *ret_part)
{
	char *end;
	double percent = strtod(s, &end);

	while (*end == ' ')
		end++;
	if (end == s || strcmp(end, "%") || !(percent > 0) || percent > 100)
		return -EINVAL;
	*ret_part = percent / 100;
	return 0;
}
