/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading a recording while it is made: a thread of its own with a reader on a pipe, into which the
 * writer writes (trace_writer_open_fd(), trace_writer_tee()).
 */
#pragma once

#include "trace/trace.h"

#include <pthread.h>

struct live {
	/* Set by the caller: reads to the end. It is the thread's only code; signals go to others.
	 */
	int (*read)(void *ctx, struct trace_reader *r, struct error *err);
	void *ctx;
	/* the rest is live.c's */
	pthread_t thread;
	int fd, code;
	struct error err;
	struct trace_reader *reader;
};

/* Starts the thread. What is written into *ret_fd it reads; closing that is its end. */
int live_start(struct live *l, int *ret_fd, struct error *err);
/* Waits for it, after the writer is closed. What read() returned; if that was an error, the writer
 * found the pipe broken. Else the reader stays until live_done(). */
int live_join(struct live *l, struct error *err);
void live_done(struct live *l);
