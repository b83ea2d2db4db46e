/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The summary of what was not understood. The number of different reasons is bounded, since names
 * of events come from outside; what comes after that is counted together.
 */
#include "import/diagnostics.h"

#include "base/compare.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DETAIL 120u

void diagnostics_done(struct diagnostics *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].detail);
	*d = (struct diagnostics){0};
}

void diagnostics_add(struct diagnostics *d, const char *reason, const char *detail,
		     size_t detail_len, uint64_t at)
{
	size_t len = detail ? detail_len : 0;

	len = len < MAX_DETAIL ? len : MAX_DETAIL;
	d->total++;
	for (size_t i = 0; i < d->n; i++) {
		struct doubt *x = &d->v[i];
		if (strcmp(x->reason, reason) != 0 || strlen(x->detail) != len ||
		    (len && memcmp(x->detail, detail, len) != 0))
			continue;
		if (x->n < DOUBT_PLACES)
			x->positions[x->n] = at;
		x->n++;
		return;
	}
	char *copy = d->n < DOUBTS_MAX ? malloc(len + 1) : NULL;
	if (!copy) {
		d->n_other++;
		return;
	}
	for (size_t i = 0; i < len; i++)
		copy[i] = detail[i] ? detail[i] : '?';
	copy[len] = 0;
	d->v[d->n++] = (struct doubt){.reason = reason, .detail = copy, .n = 1, .positions = {at}};
}

static int by_number(const void *a, const void *b)
{
	const struct doubt *x = a, *y = b;

	return DESCENDING(x->n, y->n) ?: ASCENDING(x->positions[0], y->positions[0]);
}

void diagnostics_text(struct diagnostics *d, struct buf *out)
{
	if (d->n)
		qsort(d->v, d->n, sizeof(d->v[0]), by_number);
	for (size_t i = 0; i < d->n; i++) {
		const struct doubt *x = &d->v[i];
		buf_printf(out, "%9" PRIu64 "  %s", x->n, x->reason);
		if (*x->detail) {
			buf_char(out, ' ');
			text_safe(out, x->detail);
		}
		uint64_t shown = x->n < DOUBT_PLACES ? x->n : DOUBT_PLACES;
		buf_printf(out, " (%s%s ", d->item, shown > 1 ? "s" : "");
		for (uint64_t k = 0; k < shown; k++)
			buf_printf(out, "%s%" PRIu64, k ? ", " : "", x->positions[k]);
		buf_str(out, x->n > shown ? ", …)\n" : ")\n");
	}
	if (d->n_other)
		buf_printf(out, "%9" PRIu64 "  of other reasons\n", d->n_other);
}
