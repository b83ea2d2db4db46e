/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The formats, in the order in which help shows them: one file and one line each. */
#include "export/export.h"
#include "export/formats.h"
#include "export/rows.h"

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
	&export_csv,
	&export_jsonl,
#ifdef POLLUX_SQLITE
	&export_sqlite,
#endif
	&export_parquet,
	&export_otlp,
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

const struct export_ops *export_find_by_ending(const char *path)
{
	const struct export_ops *found = NULL;
	size_t len = strlen(path), longest = 0;

	/* The longest: ".speedscope.json" also ends in ".json". */
	for (size_t i = 0; export_formats[i]; i++) {
		size_t n = strlen(export_formats[i]->extension);

		if (n > longest && len > n &&
		    !strcmp(path + len - n, export_formats[i]->extension)) {
			found = export_formats[i];
			longest = n;
		}
	}
	return found;
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

bool export_has_table(const char *name)
{
	return row_table_find(name) < TABLE_N;
}

void export_table_names(struct buf *out)
{
	for (enum table t = 0; t < TABLE_N; t++)
		buf_printf(out, "%s%s", t ? ", " : "", row_tables[t].name);
}
