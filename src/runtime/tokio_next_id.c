/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tokio gives each task an id from a static counter, NEXT_ID in Id::next (runtime/task/id.rs; up to
 * 1.27 in runtime/task/mod.rs). It begins with 1 and is in writable data.
 *
 * Without symbols it could only be guessed: the counter of task lists (NEXT_OWNED_TASKS_ID) looks
 * and is used alike. Then it stays unknown, and a spawn is recorded without the last id.
 */
#include "runtime/tokio.h"

#include "runtime/tables.h"

#include <string.h>

uint64_t tokio_next_id(struct elf_image *image)
{
	const struct elf_symbol *s;
	size_t n = elf_image_symbols(image, &s);
	uint64_t value, found = 0;

	for (size_t i = 0; i < n; i++) {
		if (!strstr(s[i].name, "2Id4next7NEXT_ID") ||
		    !strstr(s[i].name, "5tokio7runtime4task") ||
		    !tables_word(image, s[i].addr, &value) || value != 1)
			continue;
		if (found && found != s[i].addr)
			return 0;
		found = s[i].addr;
	}
	return found;
}
