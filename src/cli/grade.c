/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program's symbols and debug information decide which names and places people see. rustc has
 * two manglings of symbols: the legacy one has no type arguments, so that in stacks a handler may be
 * "F::call"; v0 has them. `debug = "line-tables-only"` gives places and no types: the
 * names are those of the symbols.
 */
#include "cli/grade.h"

#include "binary/dwarf/debug.h"
#include "runtime/debug_names.h"

#include <string.h>

#define KINDS_TRIED 16u

/* By the poll functions of tasks, which are compiled with the program: the standard library was not.
 */
static bool is_v0(struct elf_image *image, const struct runtime_scan *scan)
{
	size_t v0 = 0, n = 0;

	for (size_t i = 0; i < scan->n_kinds; i++) {
		const struct elf_symbol *s =
			elf_image_symbol_at(image, scan->kinds[i].slots[TF_POLL].function);

		n += s != NULL;
		v0 += s && !strncmp(s->name, "_R", 2);
	}
	return v0 > n / 2;
}

static bool has_types(struct debug *d, const struct runtime_scan *scan)
{
	size_t tried = 0;

	for (size_t i = 0; i < scan->n_kinds && tried < KINDS_TRIED; i++) {
		struct debug_kind types;

		if (scan->kinds[i].role != TR_TASK)
			continue;
		tried++;
		debug_kind_read(d, &scan->kinds[i], &types);
		if (types.future)
			return true;
	}
	return false;
}

enum grade grade_of(struct elf_image *image, const char *path, const struct runtime_scan *scan)
{
	struct debug *d = NULL;
	enum grade symbols = !elf_image_has_symtab(image) ? GRADE_STRIPPED
			     : is_v0(image, scan)	  ? GRADE_V0
							  : GRADE_LEGACY;
	bool types;

	if (debug_open(elf_image_fd(image), path, &d, NULL) < 0)
		return symbols;
	types = has_types(d, scan);
	debug_free(d);
	return types ? GRADE_FULL : GRADE_LINES + symbols;
}

#define ADVICE_V0 "RUSTFLAGS=\"-C symbol-mangling-version=v0\""
#define LEGACY_GIVES "names without types in them: in stacks a handler may be F::call"
#define ADVICE_FULL "debug = true in [profile.release]"

const struct grade_text grade_texts[GRADE_N] = {
	[GRADE_STRIPPED] = {"stripped", "no names: families are numbered",
			    "names and places (strip = false, " ADVICE_FULL ")"},
	[GRADE_LEGACY] = {"legacy symbols", LEGACY_GIVES,
			  "types in names (" ADVICE_V0
			  "); lines, await points and trees (" ADVICE_FULL ")"},
	[GRADE_V0] = {"v0 symbols", "names with types in them",
		      "lines, await points and trees (" ADVICE_FULL ")"},
	[GRADE_LINES] = {"line tables", "lines in stacks and of spawn sites outside of the runtime",
			 "names (strip = false); await points and trees (" ADVICE_FULL ")"},
	[GRADE_LINES_LEGACY] =
		{"line tables, legacy symbols",
		 "lines in stacks and of spawn sites outside of the runtime; " LEGACY_GIVES,
		 "types in names (" ADVICE_V0 "); await points and trees (" ADVICE_FULL ")"},
	[GRADE_LINES_V0] = {"line tables, v0 symbols",
			    "lines in stacks and of spawn sites outside of the runtime; names with "
			    "types in them",
			    "await points and trees (" ADVICE_FULL ")"},
	[GRADE_FULL] = {"full debug information", "names, lines, await points and trees", ""},
};
