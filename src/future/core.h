/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A core file as memory to read: PT_LOAD segments, and what PT_NOTE says of the process. From the
 * kernel or from gdb's gcore. The file comes from a stranger: everything is bounded.
 */
#pragma once

#include "base/error.h"
#include "binary/elf/elf_image.h"
#include "process/maps.h"
#include "process/objects.h"
#include "arch/regs.h"

struct core_segment {
	uint64_t addr, size, file_offset, file_size;
	uint32_t flags; /* PF_* */
};

/* A mapping of a file. */
struct core_file {
	uint64_t start, end, offset;
	char *path;
};

struct core {
	int fd, exe_fd;
	char *exe;		       /* path of the program */
	struct core_segment *segments; /* sorted by address */
	size_t n_segments;
	struct arch_regs *threads;
	size_t n_threads;
	uint64_t entry; /* AT_ENTRY */
	uint64_t file_bytes, note_bytes;
	struct core_file *files;
	size_t n_files;
	const struct process_objects *objects; /* for pages that the core leaves out */
};

/* `exe` NULL: the path that the core names. The objects are the program and those of its libraries
 * that are still there; they must live as long as the core. */
int core_open(const char *path, const char *exe, struct core **ret_core,
	      struct process_maps *ret_maps, struct process_objects *ret_objects,
	      struct error *err);
void core_close(struct core *c); /* NULL is fine */

/* All or nothing; what the core leaves out because it is in the program's file comes from there.
 */
int core_read(const struct core *c, uint64_t addr, void *out, size_t len);
/* The next bytes within [addr, end) that are stored in the core: 1, 0 at the end, negative errno.
 */
int core_next(const struct core *c, uint64_t addr, uint64_t end, uint64_t *ret_start,
	      uint64_t *ret_end);
