/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A trace in the browser: a server on 127.0.0.1 for the page in web/. docs/view.md. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct view_options {
	const char *path; /* of the trace */
	uint16_t port;	  /* 0: one that is free */
	bool open;	  /* in the browser */
	bool follow;	  /* the trace is still written */
	const char *in;	  /* another viewer: perfetto, firefox, speedscope; NULL: the own page */
	void (*progress)(void *ctx, uint64_t done, uint64_t total); /* of the index; may be NULL */
	void *progress_ctx;
	void (*progress_done)(void);
};

/* Serves until SIGINT, SIGTERM or SIGHUP; prints the address on stdout. 0 or negative errno. */
int view_serve(const struct view_options *opt, struct error *err);
