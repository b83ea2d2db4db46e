/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every ELF object that is loaded in a process: its file, opened in a way that works for other
 * mount namespaces and deleted files and checked to be the very one in memory; and where it lies.
 */
#pragma once

#include "binary/elf/elf_image.h"
#include "process/maps.h"
#include "process/process.h"

#include <elf.h>

struct process_object {
	char *path;		 /* as the target names it */
	uint64_t bias;		 /* process address = linked address + bias */
	uint64_t start, end;	 /* of its segments in the process, page aligned */
	struct elf_image *image; /* NULL if the file can't be had: `reason` says it */
	char *reason;
	bool main; /* the program itself */
};

struct process_objects {
	struct process_object *v; /* the main program first */
	size_t n;
};

int objects_read(const struct process *p, const struct process_maps *maps,
		 struct process_objects *ret_objects, struct error *err);
void objects_done(struct process_objects *o);

/* An entry of the auxiliary vector (AT_ENTRY, ...); 0 if it is not there. */
uint64_t process_auxv(const struct process *p, uint64_t type);
/* The program's headers, where the kernel says they are: their number, up to PROCESS_MAX_HEADERS,
 * and what to add to their addresses. 0: they can't be read, or are more. */
#define PROCESS_MAX_HEADERS 64u
size_t process_headers(const struct process *p, Elf64_Phdr ret[PROCESS_MAX_HEADERS],
		       uint64_t *ret_bias);
