/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The index of the trace that is shown. */
#pragma once

#include "base/error.h"
#include "index/index.h"

#include <stdbool.h>
#include <sys/types.h>

struct view_progress {
	void (*emit)(void *ctx, uint64_t done, uint64_t total); /* may be NULL */
	void *ctx;
};

/* What an index is made of. `more`: as trace_reader_on_end(), or NULL. */
struct view_making {
	bool (*more)(void *ctx);
	void *more_ctx;
	struct trace_reader *reader;
	struct report *report;
	struct index_builder *builder;
};
/* Reads all of the trace; it must be gone with its process. 0 or negative errno. */
int view_make_begin(struct view_making *m, int trace, const struct view_progress *progress,
		    struct error *err);
/* Writes the index into an empty file. */
int view_make_end(struct view_making *m, int out, const struct index_trace *id, struct error *err);
/* A file without a name; negative errno. */
int view_temporary(void);
/* An open file again, to be read, with a position of its own; negative errno. */
int view_open_fd(int fd, struct error *err);

/*
 * The index of a trace (an open descriptor): the one that is there, if it fits; else one that is built now.
 * It is kept next to the trace as PATH.index, or, where that folder takes no file, in the cache if it is
 * small, else for this run only, as is that of a trace that is still written (`growing`; NULL: it is not). 0 or
 * negative errno. *ret_built: it was built.
 */
struct view_growing;
int view_prepare(const char *path, int trace, const struct view_progress *progress,
		 struct view_growing *growing, struct index **ret_index, bool *ret_built,
		 struct error *err);
