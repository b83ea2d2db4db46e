/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Viewers of other people that load a trace by its address. Each is a page of another origin, which
 * may read that one file.
 */
#include "view/viewers.h"

#include <string.h>

static const struct view_viewer viewers[] = {
	/* Its page may load from this port of the own machine only. */
	{"perfetto", "https://ui.perfetto.dev", "https://ui.perfetto.dev/#!/?url=", 9001, false},
	{"firefox", "https://profiler.firefox.com", "https://profiler.firefox.com/from-url/", 0,
	 true},
	{"speedscope", "https://www.speedscope.app", "https://www.speedscope.app/#profileURL=", 0,
	 true},
};

const struct view_viewer *view_find_viewer(const char *name)
{
	for (size_t i = 0; i < sizeof(viewers) / sizeof(*viewers); i++)
		if (!strcmp(viewers[i].name, name))
			return &viewers[i];
	return NULL;
}

void view_viewer_url(const struct view_viewer *viewer, const char *file, struct buf *out)
{
	buf_str(out, viewer->url);
	for (; *file; file++) {
		if (viewer->encoded && (*file == ':' || *file == '/'))
			buf_printf(out, "%%%02X", (unsigned char)*file);
		else
			buf_char(out, *file);
	}
}
