/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The index of the trace that is shown. */
#pragma once

#include "base/error.h"
#include "index/index.h"

struct view_progress {
	void (*tell)(void *ctx, uint64_t done, uint64_t total); /* may be NULL */
	void *ctx;
};

/*
 * The index of a trace (an open descriptor): the one that is there, if it fits; else one that a process
 * of its own builds now, whose memory is gone with it. It is kept next to the trace as PATH.index, or,
 * where that folder takes no file, in the cache if it is small, else for this run only. 0 or negative
 * errno. *ret_built: it was built.
 */
int view_prepare(const char *path, int trace, const struct view_progress *progress,
		 struct index **ret_index, bool *ret_built, struct error *err);
