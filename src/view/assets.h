/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The files of web/, which are part of the executable: embed.py writes the table. */
#pragma once

#include <stddef.h>

struct view_asset {
	const char *path; /* below web/: "index.html"; NULL ends the table */
	const char *type; /* of its content, for HTTP */
	const char *etag; /* with its quotes */
	const unsigned char *data;
	size_t len;
};

extern const struct view_asset view_assets[];
