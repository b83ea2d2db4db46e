/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Trees of causes as text: a sentence that sums up the slowest units, then the tree. */
#include "base/compare.h"
#include "causes/data.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/text_fit.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

#define SENTENCE_PARTS 4
#define SENTENCE_DEPTH 4
#define TREE_INDENT 38 /* columns of numbers */
#define MIN_LABEL 24

static const char *const unit_names[UNIT_N][2] = {
	[UNIT_TASK] = {"task", "tasks"},
	[UNIT_ROUND] = {"round", "rounds"},
	[UNIT_PART] = {"task, in part", "tasks, in part"},
};

struct child {
	uint32_t node;
	struct cell slow;
	uint64_t ns;
};

static int compare_children(const void *a, const void *b)
{
	const struct child *x = a, *y = b;

	return DESCENDING(x->slow.ns, y->slow.ns) ?: DESCENDING(x->ns, y->ns) ?:
	       ASCENDING(x->node, y->node);
}

/* Those below a node, with most time in the slowest units first (free); NULL: none. */
static struct child *children_of(const struct shown_tree *s, uint32_t node, size_t *ret_n)
{
	struct child *list = NULL;
	size_t n = 0;

	for (uint32_t i = 1; i < s->tree->n_nodes; i++) {
		const struct node *one = &s->tree->nodes[i];

		if (one->parent != node || !one->sums[s->type].ns.count)
			continue;
		if (!GROW_ONE(list, n))
			break;
		list[n++] = (struct child){
			.node = i,
			.slow = s->cells[i],
			.ns = one->sums[s->type].ns.sum,
		};
	}
	if (n)
		qsort(list, n, sizeof(*list), compare_children);
	*ret_n = n;
	return list;
}

/* A place where a task waits for a timer or I/O says so. */
static bool says_itself(const struct tree *t, uint32_t node)
{
	const struct node *n = &t->nodes[node];

	return (n->type == NT_TIMER || n->type == NT_IO) && t->nodes[n->parent].type == NT_WAIT &&
	       t->nodes[n->parent].b;
}

/* " (held by shop::serve, for a timer)": where most of a node's time went, and of that, ... */
static void write_inside(const struct causes *c, struct buf *out, const struct shown_tree *s,
			 uint32_t node, uint64_t ns)
{
	unsigned depth;

	for (depth = 0; depth < SENTENCE_DEPTH; depth++) {
		size_t n;
		_cleanup_free_ struct child *list = children_of(s, node, &n);

		if (!n || list[0].slow.ns < ns / 2 || !list[0].slow.ns ||
		    says_itself(s->tree, list[0].node))
			break;
		buf_str(out, depth ? ", " : " (");
		words_short(c, out, s->tree, list[0].node);
		node = list[0].node;
		ns = list[0].slow.ns;
	}
	if (depth)
		buf_char(out, ')');
}

/* "The slowest 1.0 % (31) took 55 ms = 33 ms for ... + 12 ms ready ... + 3 ms other": on the average */
static void write_sentence(const struct causes *c, struct buf *out, const struct shown_tree *s)
{
	size_t n;
	_cleanup_free_ struct child *list = children_of(s, 0, &n);
	uint64_t rest = s->slow.ns;

	if (!s->slow.n)
		return;
	if (s->slow.n < s->tree->units[s->type].length.count) {
		buf_str(out, "  The slowest ");
		text_share(out, s->slow.n, s->tree->units[s->type].length.count);
		buf_str(out, " (");
		text_exact(out, s->slow.n);
		buf_str(out, ") took ");
	} else {
		buf_str(out, s->slow.n == 1 ? "  It took " : "  On average each took ");
	}
	text_duration(out, s->slow.ns / s->slow.n);
	buf_str(out, " = ");
	for (size_t i = 0; i < n && i < SENTENCE_PARTS; i++) {
		if (i && list[i].slow.ns < s->slow.ns / 50)
			break;
		if (i)
			buf_str(out, " + ");
		text_duration(out, list[i].slow.ns / s->slow.n);
		buf_char(out, ' ');
		words_short(c, out, s->tree, list[i].node);
		write_inside(c, out, s, list[i].node, list[i].slow.ns);
		rest -= list[i].slow.ns;
	}
	if (rest / s->slow.n) {
		buf_str(out, " + ");
		text_duration(out, rest / s->slow.n);
		buf_str(out, " other");
	}
	buf_char(out, '\n');
}

static void cell(struct buf *out, const char *text, size_t width)
{
	for (size_t i = text_width(text); i < width; i++)
		buf_char(out, ' ');
	buf_str(out, text);
}

static void time_cell(struct buf *out, uint64_t ns, size_t width)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	text_duration(&b, ns);
	cell(out, b.data ? b.data : "", width);
}

static void share_cell(struct buf *out, uint64_t part, uint64_t whole, size_t width)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	text_share(&b, part, whole);
	cell(out, b.data ? b.data : "", width);
}

static void write_row(const struct causes *c, struct buf *out, const struct shown_tree *s,
		      const struct child *child, unsigned depth)
{
	const struct node *node = &s->tree->nodes[child->node];
	const struct node_sums *sums = &node->sums[s->type];
	_cleanup_buf_ struct buf label = BUF_INIT;
	size_t room = c->opt.width > TREE_INDENT + depth * 2 + MIN_LABEL
			      ? c->opt.width - TREE_INDENT - depth * 2
			      : MIN_LABEL;

	share_cell(out, child->ns, s->ns, 8);
	share_cell(out, child->slow.ns, s->slow.ns, 8);
	time_cell(out, hist_quantile(&sums->ns, 0.5), 10);
	time_cell(out, hist_quantile(&sums->ns, 0.99), 10);
	buf_printf(out, "  %*s", (int)(depth * 2), "");
	words_node(c, &label, s->tree, child->node);
	if (child->ns > s->ns / 20)
		words_longest(c, &label, node);
	if (c->opt.width && label.data)
		text_shorten(out, label.data, room);
	else
		buf_str(out, label.data ? label.data : "");
	buf_char(out, '\n');
}

/* What is less than 1 % of all and of the slowest is left out. */
static bool matters(const struct shown_tree *s, const struct child *child)
{
	return child->ns > s->ns / 100 || child->slow.ns > s->slow.ns / 100;
}

/* A wait of which nothing is known but who ended it, for a task that waited in such a way itself: on it goes
 * like that. */
static bool says_no_more(const struct tree *t, uint32_t node)
{
	const struct node *n = &t->nodes[node];

	if (n->type != NT_WAIT || n->b)
		return false;
	for (uint32_t up = n->parent; up; up = t->nodes[up].parent)
		if (t->nodes[up].type == NT_WAIT)
			return !t->nodes[up].b;
	return false;
}

static void write_below(const struct causes *c, struct buf *out, const struct shown_tree *s,
			uint32_t node, unsigned depth)
{
	size_t n;
	_cleanup_free_ struct child *list = children_of(s, node, &n);

	for (size_t i = 0; i < n; i++) {
		if (!matters(s, &list[i]))
			continue;
		write_row(c, out, s, &list[i], depth);
		if (!says_no_more(s->tree, list[i].node))
			write_below(c, out, s, list[i].node, depth + 1);
	}
}

static void write_tree(const struct causes *c, struct buf *out, const struct shown_tree *s)
{
	const struct hist *length = &s->tree->units[s->type].length;

	words_family(c, out, s->tree);
	buf_str(out, ": ");
	text_exact(out, length->count);
	buf_printf(out, " %s, median ",
		   s->tree->handler != TRACE_KIND_NONE ? length->count == 1 ? "request" : "requests"
						       : unit_names[s->type][length->count != 1]);
	text_duration(out, hist_quantile(length, 0.5));
	buf_str(out, ", 99 % within ");
	text_duration(out, hist_quantile(length, 0.99));
	buf_str(out, ", longest ");
	text_duration(out, length->max);
	buf_printf(out, " (task %llu)", (unsigned long long)s->tree->units[s->type].longest_task);
	buf_str(out, ", in all ");
	text_duration(out, length->sum);
	buf_char(out, '\n');
	write_sentence(c, out, s);
	cell(out, "of all", 8);
	cell(out, "slowest", 8);
	cell(out, "median", 10);
	cell(out, "99 %", 10);
	buf_str(out, "  cause\n");
	write_below(c, out, s, 0, 0);
}

void causes_text(const struct causes *c, struct buf *out)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	size_t n = 0;

	while (n < c->n_shown && c->shown[n].matters &&
	       (!c->opt.n_families || n < c->opt.n_families))
		n++;

	if (!n && !c->opt.families && !c->opt.tasks)
		return;
	buf_str(&text, "\nWhere the time went\n");
	if (!n)
		buf_str(&text, "  no causes: the trace has no whole task or round of the families "
			       "and tasks that were chosen\n");
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_char(&text, '\n');
		write_tree(c, &text, &c->shown[i]);
	}
	if (n < c->n_shown)
		buf_printf(&text, "\n  and %zu more famil%s: --family=NAME\n", c->n_shown - n,
			   c->n_shown - n == 1 ? "y" : "ies");
	text_wrap(&text, c->opt.width);
	if (text.failed)
		out->failed = true;
	else
		buf_add(out, text.data, text.len);
}
