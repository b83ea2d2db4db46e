/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which thread polls which task. */
#pragma once

#include "future/tasks.h"

/* Fills in `thread` of the tasks that run, where it is known for sure. */
void running_find(struct inspect *in, struct inspect_result *r);

/* The symbol of a thread-local variable whose name has both parts, from `*pos` on; NULL: no more.
 * Mangled names hold the parts of a path in both manglings. */
const struct elf_symbol *running_local(struct elf_image *image, const char *path, const char *name,
				       size_t *pos);
/* The type of such a symbol; NULL: unknown. */
const struct dw_type *running_local_type(struct debug *d, const char *symbol);
