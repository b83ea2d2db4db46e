/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Viewers of other people that pollux view opens. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct view_viewer {
	const char *name;   /* as for pollux export --for */
	const char *origin; /* of its page, which loads the file */
	const char *url;    /* before the file's address */
	uint16_t port;	    /* on which it looks for the file; 0: any */
	bool encoded;	    /* the address is percent-encoded */
};

/* "perfetto", "firefox", "speedscope"; NULL: it is none. */
const struct view_viewer *view_find_viewer(const char *name);
/* Address of the viewer that loads the file at an address of our server. */
void view_viewer_url(const struct view_viewer *viewer, const char *file, struct buf *out);
