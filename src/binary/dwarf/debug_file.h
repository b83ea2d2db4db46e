/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Files that hold debug information: the program's own, one apart that belongs to it, and split
 * units' .dwo and .dwp. Only files on this machine are looked at; nothing is ever downloaded.
 */
#pragma once

#include "base/error.h"
#include "base/file_id.h"
#include "binary/dwarf/dwarf_read.h"

#include <stdbool.h>
#include <stdint.h>

struct debug_file; /* an ELF file, its sections of debug information in memory */

/*
 * The debug information of the program in `fd` (stays the caller's), looked for in this order: in
 * it; by build-id below /usr/lib/debug/.build-id and in debuginfod's cache; by .gnu_debuglink next
 * to `path`, in .debug there and below /usr/lib/debug. A separate file counts only if it belongs to
 * root, to this user or to the program's owner: others may write where it is looked for. -ENODATA
 * with a sentence: there is none.
 */
int debug_file_find(int fd, const char *path, struct debug_file **ret_file, struct error *err);
/* Another file, of split units of a program with that owner. -ENOENT, -EINVAL; -EPERM: it belongs
 * to another user, see above. */
int debug_file_open_split(const char *path, uint64_t owner, struct debug_file **ret_file);
void debug_file_free(struct debug_file *f);

const char *debug_file_path(const struct debug_file *f);
/* As it was when it was opened. */
const struct file_id *debug_file_id(const struct debug_file *f);
/* Whether it still is. */
bool debug_file_unchanged(const struct debug_file *f);
/* The sections of whole units, or with `split` those named .dwo. */
void debug_file_sections(struct debug_file *f, bool split, struct dwarf_span ret[DS_N]);

/* A .dwp: this unit's parts of the sections. False: it isn't in there. */
bool debug_file_dwp_unit(const struct dwarf_span all[DS_N], uint64_t dwo_id,
			 struct dwarf_span ret[DS_N]);
