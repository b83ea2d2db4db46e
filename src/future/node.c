/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The nodes of await trees, and what bounds the work on one. */
#include "future/await.h"

#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

void await_node_free(struct await_node *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->n_children; i++)
		await_node_free(n->children[i]);
	free(n->children);
	free(n->detail);
	free(n->holds);
	free(n->held);
	free(n);
}

struct await_node *await_node_new(struct walk *w, enum await_node_kind kind,
				  const struct dw_type *t, uint64_t addr)
{
	struct await_node *n;

	if (w->n_nodes >= w->max_nodes)
		return NULL;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	w->n_nodes++;
	n->kind = kind;
	n->addr = addr;
	n->full_name = t ? t->full_name : "";
	n->bytes = t ? t->size : 0;
	return n;
}

void await_node_add(struct await_node *parent, struct await_node *child)
{
	if (!child)
		return;
	if (!GROW(parent->children, parent->n_children, parent->cap_children)) {
		await_node_free(child);
		return;
	}
	parent->children[parent->n_children++] = child;
}

struct await_node *await_child(struct walk *w, struct await_node *n, enum await_node_kind kind,
			       const char *name, uint64_t addr)
{
	struct await_node *child = await_node_new(w, kind, NULL, addr);

	if (!child)
		return NULL;
	child->name = name;
	await_node_add(n, child);
	return child;
}

bool await_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool await_steps(struct walk *w, uint64_t n)
{
	w->n_steps += n;
	if (w->max_steps && w->n_steps > w->max_steps)
		return false;
	return !w->ctx->budget || budget_spend(w->ctx->budget, n);
}
