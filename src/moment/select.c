/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "moment/select.h"

#include "base/text.h"

#include <string.h>

/* Whether a text has one of the words in it. */
static bool has_any(const char *text, const char *const *words)
{
	for (; text && *words; words++)
		if (strstr(text, *words))
			return true;
	return false;
}

static const char *state_word(enum inspect_state s)
{
	return inspect_state_name(s == IS_WOKEN_RUNNING ? IS_RUNNING : s);
}

bool task_state_is_known(const char *word)
{
	for (int s = 0; s < IS_N; s++)
		if (!strcmp(word, state_word((enum inspect_state)s)))
			return true;
	return false;
}

static bool is_one_of(const char *word, const char *const *words)
{
	while (*words && strcmp(word, *words) != 0)
		words++;
	return *words;
}

static bool has_id(const struct moment_task *t, const char *const *words)
{
	for (; *words; words++) {
		uint64_t v;

		if (text_parse_number(*words, &v) == 0 && (v == t->id || v == t->addr))
			return true;
	}
	return false;
}

/* What is not polled is not waited for. */
static bool waits_for(const struct graph *g, const struct await_node *n, const char *const *words)
{
	if (n->state == AS_DONE || n->state == AS_DISABLED || n->state == AS_ASLEEP)
		return false;
	if (n->kind == AN_LEAF) {
		const struct moment_task *target = graph_target(g, n);

		return has_any(n->name, words) || has_any(await_wait_name(n->wait), words) ||
		       has_any(n->detail, words) || has_any(n->full_name, words) ||
		       (target && has_any(target->kind->name, words));
	}
	for (size_t i = 0; i < n->n_children; i++)
		if (waits_for(g, n->children[i], words))
			return true;
	return false;
}

static bool tree_has(const struct await_node *n, const char *const *words)
{
	if (has_any(n->name, words) || has_any(n->full_name, words))
		return true;
	for (size_t i = 0; i < n->n_children; i++)
		if (tree_has(n->children[i], words))
			return true;
	return false;
}

static bool has_function(const struct graph *g, const struct thread_use *uses,
			 const struct moment_task *t, const char *const *words)
{
	size_t n = moment_task_frames(g->moment, uses, t);

	for (size_t i = 0; i < n; i++)
		if (has_any(g->moment->threads[t->thread - 1].frames[i].function, words))
			return true;
	/* Where a running task has waited before is not where it is. */
	return !n && t->tree && tree_has(t->tree, words);
}

bool task_selection_is_all(const struct task_selection *s)
{
	return !s->families && !s->tasks && !s->states && !s->waits_for && !s->with &&
	       !s->without && !s->longer_than_ns;
}

bool task_selected(const struct task_selection *s, const struct graph *g,
		   const struct thread_use *uses, const struct moment_task *t)
{
	const struct moment_thread *thread =
		moment_task_frames(g->moment, uses, t) ? &g->moment->threads[t->thread - 1] : NULL;

	if (t->state == IS_DONE && !s->finished)
		return false;
	if (s->families && !has_any(t->kind->name, s->families) &&
	    !has_any(t->kind->full_name, s->families))
		return false;
	if ((s->tasks && !has_id(t, s->tasks)) ||
	    (s->states && !is_one_of(state_word(t->state), s->states)))
		return false;
	if (s->waits_for && !(thread ? has_any(moment_call_name(thread), s->waits_for)
				     : t->tree && waits_for(g, t->tree, s->waits_for)))
		return false;
	if ((s->with && !has_function(g, uses, t, s->with)) ||
	    (s->without && has_function(g, uses, t, s->without)))
		return false;
	return !s->longer_than_ns ||
	       (s->for_ns && s->for_ns[t - g->moment->tasks] > s->longer_than_ns);
}
