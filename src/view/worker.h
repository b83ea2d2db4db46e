/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The process that makes one answer. */
#pragma once

#include "view/answer.h"

#include <sys/types.h>

struct worker {
	pid_t pid; /* 0: none */
	int fd;	   /* what it writes: "STATUS TYPE\n", then the body; not blocking */
};

/* 0 or negative errno. */
int worker_start(struct worker *w, const struct view_source *source,
		 const struct view_answer *answer, const struct view_request *request);
/* After the end of what it wrote: waits for its end. True: the answer is whole. */
bool worker_succeeded(struct worker *w);
/* In a process that was forked: closes all descriptors but the standard ones and these, which it sorts. */
void worker_keep_only(int *fds, size_t n);
/* Ends it, whatever it does. */
void worker_end(struct worker *w);
