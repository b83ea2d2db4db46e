/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/own_build.h"

#include "base/hash.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>

static size_t aligned(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

/* Adds the build ids in notes to a hash. */
static void add_ids(uint64_t *hash, const char *at, size_t bytes)
{
	while (bytes >= sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) note;

		memcpy(&note, at, sizeof(note));
		size_t name = sizeof(note) + aligned(note.n_namesz);
		size_t whole = name + aligned(note.n_descsz);
		if (whole > bytes)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(at + sizeof(note), "GNU", 4))
			*hash = hash_bytes(*hash, at + name, note.n_descsz);
		at += whole;
		bytes -= whole;
	}
}

/* The executable comes first. */
static int read_notes(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_NOTE)
			add_ids(ctx, (const char *)(uintptr_t)(info->dlpi_addr + p->p_vaddr),
				p->p_memsz);
	}
	return 1;
}

uint32_t own_build(void)
{
	uint64_t hash = hash_string(0, POLLUX_VERSION);

	dl_iterate_phdr(read_notes, &hash);
	return (uint32_t)hash;
}
