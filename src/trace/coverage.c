/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See coverage.h. */
#include "trace/coverage.h"

#include "base/cleanup.h"
#include "base/buf.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Takes the note over; NULL: there was no memory for it. */
static struct trace_coverage *add(struct coverage_list *l, const char *item, uint64_t seen,
				  uint64_t total, char *note)
{
	char *copy = strdup(item);

	if (!copy || !note || !GROW_ONE(l->v, l->n)) {
		free(copy);
		free(note);
		l->failed = true;
		return NULL;
	}
	l->v[l->n] =
		(struct trace_coverage){.item = copy, .note = note, .seen = seen, .total = total};
	return &l->v[l->n++];
}

struct trace_coverage *coverage_add(struct coverage_list *l, const char *item, uint64_t seen,
				    uint64_t total, const char *note)
{
	return add(l, item, seen, total, strdup(note ? note : ""));
}

struct trace_coverage *coverage_addf(struct coverage_list *l, const char *item, uint64_t seen,
				     uint64_t total, const char *note, ...)
{
	struct trace_coverage *c;
	va_list ap;

	va_start(ap, note);
	c = coverage_vaddf(l, item, seen, total, note, ap);
	va_end(ap);
	return c;
}

struct trace_coverage *coverage_vaddf(struct coverage_list *l, const char *item, uint64_t seen,
				      uint64_t total, const char *note, va_list ap)
{
	struct buf text = BUF_INIT;

	buf_str(&text, "");
	buf_vprintf(&text, note, ap);
	return add(l, item, seen, total, buf_steal(&text));
}

int coverage_result(const struct coverage_list *l)
{
	return l->failed ? -ENOMEM : 0;
}

void coverage_done(struct coverage_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free_const(l->v[i].item);
		free_const(l->v[i].note);
	}
	free(l->v);
	*l = (struct coverage_list){0};
}
