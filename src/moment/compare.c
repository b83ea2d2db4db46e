/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What changed between two moments. Tasks are the same if they have the same kind and id, or, of a
 * runtime without ids, the same kind and address. If an address was used again meanwhile, the new
 * task counts as the old one, which has moved or still waits.
 */
#include "moment/compare.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/text.h"
#include "base/vec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FAMILIES = 3 /* named in a line */ };

static uint64_t kind_hash(const struct moment_kind *k)
{
	return hash_string(hash_string(k->vtable, k->object), k->vtable ? "" : k->full_name);
}

static uint64_t task_name(const struct moment_task *t)
{
	return t->id ? t->id : t->addr;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* Whether two trees wait at the same await points and for the same. */
static bool same_tree(const struct await_node *a, const struct await_node *b)
{
	if (!a || !b)
		return a == b;
	if (a->kind != b->kind || a->state != b->state || a->line != b->line ||
	    a->wait != b->wait || a->resource != b->resource || a->granted != b->granted ||
	    a->n_children != b->n_children || !same_text(a->full_name, b->full_name) ||
	    !same_text(a->file, b->file))
		return false;
	/* A timer that was set again is another wait. */
	if (a->wait == AW_SLEEP && a->value != b->value)
		return false;
	for (size_t i = 0; i < a->n_children; i++)
		if (!same_tree(a->children[i], b->children[i]))
			return false;
	return true;
}

static enum task_change change_of(const struct moment_task *from, const struct moment_task *to)
{
	bool waits = from->state == IS_IDLE && to->state == IS_IDLE && to->tree;

	return waits && same_tree(from->tree, to->tree) ? CHANGE_SAME : CHANGE_MOVED;
}

int comparison_make(const struct trace_moment *from, const struct trace_moment *to,
		    struct comparison *ret_comparison, struct error *err)
{
	struct comparison c = {.from = from, .to = to};
	_cleanup_free_ bool *found = calloc(from->n_tasks + 1, sizeof(*found));
	struct map by_name = {0};
	int rc = 0;

	c.changes = calloc(to->n_tasks + 1, sizeof(*c.changes));
	c.gone = calloc(from->n_tasks + 1, sizeof(*c.gone));
	if (!found || !c.changes || !c.gone)
		rc = -ENOMEM;
	for (size_t i = 0; i < from->n_tasks && rc == 0; i++)
		c.n_from += from->tasks[i].state != IS_DONE;
	for (size_t i = 0; i < from->n_tasks && rc == 0; i++)
		rc = map_put(&by_name, kind_hash(from->tasks[i].kind), task_name(&from->tasks[i]),
			     (void *)(uintptr_t)(i + 1));
	for (size_t i = 0; i < to->n_tasks && rc == 0; i++) {
		const struct moment_task *t = &to->tasks[i];
		c.changes[i] = CHANGE_N;
		if (t->state == IS_DONE)
			continue;
		uintptr_t at = (uintptr_t)map_get(&by_name, kind_hash(t->kind), task_name(t));

		c.changes[i] = at ? change_of(&from->tasks[at - 1], t) : CHANGE_NEW;
		c.n[c.changes[i]]++;
		if (at)
			found[at - 1] = true;
	}
	for (size_t i = 0; i < from->n_tasks && rc == 0; i++)
		if (!found[i] && from->tasks[i].state != IS_DONE)
			c.gone[c.n_gone++] = i;
	map_done(&by_name);
	if (rc < 0) {
		comparison_done(&c);
		return error_set(err, rc, "out of memory");
	}
	*ret_comparison = c;
	return 0;
}

void comparison_done(struct comparison *c)
{
	free(c->changes);
	free(c->gone);
	*c = (struct comparison){0};
}

/* ---- output ---- */

struct compared_family {
	const char *name;
	size_t n;
};

static int most_first(const void *a, const void *b)
{
	const struct compared_family *x = *(struct compared_family *const *)a,
				     *y = *(struct compared_family *const *)b;

	return DESCENDING(x->n, y->n) ?: strcmp(x->name, y->name);
}

static void count(struct map *families, const struct moment_task *t)
{
	struct compared_family *f =
		map_get_or_new(families, hash_string(0, t->kind->name), 0, sizeof(*f));

	if (f) {
		f->name = t->kind->name;
		f->n++;
	}
}

/* "  12 gone: 9 app::request, 2 app::job, 1 app::tick" */
static void line(struct buf *out, size_t n, const char *what, struct map *families)
{
	_cleanup_free_ struct compared_family **v = map_sorted(families, most_first);

	if (n) {
		buf_printf(out, "  %zu %s", n, what);
		for (size_t i = 0; v && i < families->n && i < MAX_FAMILIES; i++) {
			buf_printf(out, "%s%zu ", i ? ", " : ": ", v[i]->n);
			text_safe(out, v[i]->name);
		}
		if (families->n > MAX_FAMILIES)
			buf_str(out, ", ...");
		buf_char(out, '\n');
	}
	map_free(families, free);
	*families = (struct map){0};
}

void comparison_text(const struct comparison *c, struct buf *out)
{
	static const char *const words[] = {"new", "wait at the same await point, for the same",
					    "run, or wait elsewhere, or it is not known where"};
	struct map families = {0};

	buf_str(out, "since the start of the recording");
	if (c->from->now_ns && c->to->now_ns > c->from->now_ns) {
		buf_str(out, ", ");
		text_duration(out, c->to->now_ns - c->from->now_ns);
		buf_str(out, " before");
	}
	buf_printf(out, ": %zu tasks then, %zu at the end\n", c->n_from,
		   c->n[CHANGE_NEW] + c->n[CHANGE_SAME] + c->n[CHANGE_MOVED]);
	for (size_t i = 0; i < c->n_gone; i++)
		count(&families, &c->from->tasks[c->gone[i]]);
	line(out, c->n_gone, "gone", &families);
	for (enum task_change change = 0; change < CHANGE_N; change++) {
		for (size_t i = 0; i < c->to->n_tasks; i++)
			if (c->changes[i] == change)
				count(&families, &c->to->tasks[i]);
		line(out, c->n[change], words[change], &families);
	}
}

static const char *task_change_name(enum task_change change)
{
	static const char *const names[] = {"new", "same", "moved"};

	return change < CHANGE_N ? names[change] : "?";
}

static void task_json(struct json *j, const struct moment_task *t)
{
	json_object(j, NULL);
	json_u64(j, "id", t->id);
	json_u64(j, "address", t->addr);
	json_string(j, "name", t->kind->name);
	json_end_object(j);
}

void comparison_json(const struct comparison *c, struct json *j, const char *key)
{
	json_object(j, key);
	json_u64(j, "since_ns", c->from->now_ns);
	json_array(j, "gone");
	for (size_t i = 0; i < c->n_gone; i++)
		task_json(j, &c->from->tasks[c->gone[i]]);
	json_end_array(j);
	for (enum task_change change = 0; change < CHANGE_N; change++) {
		json_array(j, task_change_name(change));
		for (size_t i = 0; i < c->to->n_tasks; i++)
			if (c->changes[i] == change)
				task_json(j, &c->to->tasks[i]);
		json_end_array(j);
	}
	json_end_object(j);
}
