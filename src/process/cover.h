/* What was seen and hooked in a process and what not: the coverage for the trace. */
#ifndef POLLUX_PROCESS_COVER_H
#define POLLUX_PROCESS_COVER_H

#include "process/hooks.h"

struct cover {
	struct trace_coverage *v; /* item and note belong to the list, object and runtime to the
				   * scan */
	size_t n;
};

/* Copies; `note` may be NULL. -ENOMEM or 0. */
int cover_add(struct cover *c, const char *item, uint64_t seen, uint64_t total, const char *note);
/* Everything from the scans and the hooks; `futures`: they were asked for. -ENOMEM or 0. */
int cover_tell(struct cover *c, struct hooked_object *const *objects, size_t n_objects,
	       const struct hooks *h, bool futures);
void cover_done(struct cover *c);

#endif
