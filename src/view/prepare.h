/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The index of the trace that is shown. */
#pragma once

#include "base/error.h"
#include "index/index.h"

#include <sys/types.h>

struct view_progress {
	void (*tell)(void *ctx, uint64_t done, uint64_t total); /* may be NULL */
	void *ctx;
};

/* An index that a process of its own builds, whose memory is gone with it. Zeroed before the first use. */
struct view_build {
	pid_t pid; /* 0: none is built */
	int said;  /* at its end when the process is */
	int out;
	struct index_trace id;
};

/* Into a file without a name. 0 or negative errno. */
int view_build_start(struct view_build *b, int trace, const struct view_progress *progress,
		     struct error *err);
/* Waits for it. */
int view_build_end(struct view_build *b, struct index **ret_index, struct error *err);
/* Ends it, if there is any. */
void view_build_stop(struct view_build *b);

/*
 * The index of a trace (an open descriptor): the one that is there, if it fits; else one that is built now.
 * It is kept next to the trace as PATH.index, or, where that folder takes no file, in the cache if it is
 * small, else for this run only, as is that of a trace that is still written (`live`). 0 or negative errno.
 * *ret_built: it was built.
 */
int view_prepare(const char *path, int trace, bool live, const struct view_progress *progress,
		 struct index **ret_index, bool *ret_built, struct error *err);
