/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether requests are counted by handler, and by what name; else why not. Handlers in boxes of their own
 * have hooks. Others lie in what a method of a library's polls: that needs the method, which an optimiser
 * may have made a part of its caller, and debug information, which says where the future lies.
 */
#include "capture/agent/handlers.h"

#include "runtime/futures.h"

static const char no_place[] =
	"without debug information it is unknown where hyper keeps the future that a "
	"service returned: set debug = true in [profile.release]";
static const char no_method[] =
	"the optimiser left no function of hyper's to hook that polls requests: their long polls "
	"and await points are seen, not which request these are of";
static const char shared_name[] =
	"two handlers that do the same have one function, which has the names of "
	"both: set debug = true in [profile.release]";

/* Whether it is one that polls what a library's object has. */
static bool is_method(const struct source_kind *k)
{
	const struct future_holder *h = k->boxed ? k->boxed->holder : NULL;

	return h && (h->part == HOLDER_POLLS || h->part == HOLDER_AROUND);
}

bool handlers_coverage(const struct source_kind *kinds, uint32_t n_kinds, bool holds,
		       const char *trouble, struct trace_coverage *ret)
{
	bool serves = false, method = false, placed = false, boxes = false;
	uint64_t seen = 0, total = 0;

	for (uint32_t i = 0; i < n_kinds; i++) {
		const struct source_kind *k = &kinds[i];

		serves = serves || k->serves;
		method = method || is_method(k);
		placed = placed || k->held;
		/* A future of the program's own in a box need not be a handler. */
		if (!k->boxed || k->index == TRACE_KIND_NONE)
			continue;
		boxes = true;
		if (!k->recorded)
			continue;
		total++;
		seen += !k->ambiguous;
	}
	if (holds && !method && !total) {
		*ret = (struct trace_coverage){.total = 1, .note = no_method};
	} else if (!serves || !boxes) {
		if (!method || placed)
			return false;
		*ret = (struct trace_coverage){.total = 1, .note = trouble ? trouble : no_place};
	} else if (!total) {
		return false;
	} else {
		const char *note = trouble ? trouble : shared_name;

		*ret = (struct trace_coverage){
			.seen = seen, .total = total, .note = seen == total ? "" : note};
	}
	return true;
}
