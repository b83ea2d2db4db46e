/* What was seen and hooked in a process and what not: the coverage that a trace is told. */
#ifndef POLLUX_PROCESS_COVER_H
#define POLLUX_PROCESS_COVER_H

#include "process/hooks.h"

struct cover {
	struct trace_coverage *v; /* item and note are ours, object and runtime the finding's */
	size_t n;
};

/* Copies; `note` may be NULL. -ENOMEM or 0. */
int cover_add(struct cover *c, const char *item, uint64_t seen, uint64_t total, const char *note);
/* All that the findings and the hooks tell; `futures`: they were asked for. -ENOMEM or 0. */
int cover_tell(struct cover *c, struct hooked_object *const *objects, size_t n_objects,
	       const struct hooks *h, bool futures);
void cover_done(struct cover *c);

#endif
