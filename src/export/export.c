/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The formats, in the order in which help shows them: one file and one line each. */
#include "export/export.h"
#include "export/formats.h"

#include <string.h>

/* clang-format off */
const struct export_ops *const export_formats[] = {
	&export_chrome,
	&export_speedscope,
	&export_perfetto,
	&export_firefox,
	&export_folded,
	&export_flame,
	&export_pprof,
	NULL,
};
/* clang-format on */

const struct export_ops *export_find(const char *name)
{
	for (size_t i = 0; export_formats[i]; i++)
		if (!strcmp(export_formats[i]->name, name))
			return export_formats[i];
	return NULL;
}

static bool has_word(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = words; len && (at = strstr(at, word)); at += len)
		if ((at == words || at[-1] == ' ') && (!at[len] || at[len] == ' '))
			return true;
	return false;
}

const struct export_ops *export_find_for(const char *viewer)
{
	for (size_t i = 0; export_formats[i]; i++)
		if (has_word(export_formats[i]->reads, viewer))
			return export_formats[i];
	return NULL;
}
