/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The formats, in the order in which help shows them: one file and one line each. */
#include "export/export.h"
#include "export/formats.h"

#include <string.h>

const struct export_ops *const export_formats[] = {
	&export_chrome,
	&export_speedscope,
	NULL,
};

const struct export_ops *export_find(const char *name)
{
	for (size_t i = 0; export_formats[i]; i++)
		if (!strcmp(export_formats[i]->name, name))
			return export_formats[i];
	return NULL;
}
