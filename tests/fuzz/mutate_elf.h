/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Fields of an ELF file at their extremes: of its head, its segments and sections, their first
 * words, its notes. */
#pragma once

#include "mutate.h"

#include <elf.h>

/* Sizes of the fields of a header, one after the other. */
static const uint8_t mutate_ehdr[] = {2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2};
static const uint8_t mutate_phdr[] = {4, 4, 8, 8, 8, 8, 8, 8};
static const uint8_t mutate_shdr[] = {4, 4, 8, 8, 8, 8, 4, 4, 8, 8};

static inline void mutate_field(struct mutator *m, uint8_t *data, size_t offset,
				const uint8_t *fields, size_t n)
{
	size_t which = mutator_next(m, n);

	for (size_t i = 0; i < which; i++)
		offset += fields[i];
	mutator_number(m, data, offset, fields[which]);
}

/* A number of what a segment or section holds, more often near its begin. */
static inline void mutate_content(struct mutator *m, uint8_t *data, uint64_t offset, uint64_t size)
{
	uint64_t at = mutator_next(m, mutator_next(m, 2) && size > 64 ? 64 : size);
	size_t bytes = (size_t)1 << mutator_next(m, 4);

	mutator_number(m, data, offset + (at & ~(uint64_t)(bytes - 1)), bytes);
}

static inline void mutate_elf(struct mutator *m, uint8_t *data)
{
	uint64_t phoff = mutator_read(data, m->size, offsetof(Elf64_Ehdr, e_phoff), 8),
		 shoff = mutator_read(data, m->size, offsetof(Elf64_Ehdr, e_shoff), 8),
		 n_ph = mutator_read(data, m->size, offsetof(Elf64_Ehdr, e_phnum), 2),
		 n_sh = mutator_read(data, m->size, offsetof(Elf64_Ehdr, e_shnum), 2);
	uint64_t ph = phoff + mutator_next(m, n_ph) * sizeof(Elf64_Phdr),
		 sh = shoff + mutator_next(m, n_sh) * sizeof(Elf64_Shdr);

	switch (mutator_next(m, 8)) {
	case 0:
		mutate_field(m, data, EI_NIDENT, mutate_ehdr, sizeof(mutate_ehdr));
		break;
	case 1:
	case 2:
		mutate_field(m, data, ph, mutate_phdr, sizeof(mutate_phdr));
		break;
	case 3:
	case 4:
		mutate_field(m, data, sh, mutate_shdr, sizeof(mutate_shdr));
		break;
	case 5:
	case 6:
		mutate_content(m, data,
			       mutator_read(data, m->size, ph + offsetof(Elf64_Phdr, p_offset), 8),
			       mutator_read(data, m->size, ph + offsetof(Elf64_Phdr, p_filesz), 8));
		break;
	default:
		mutate_content(m, data,
			       mutator_read(data, m->size, sh + offsetof(Elf64_Shdr, sh_offset), 8),
			       mutator_read(data, m->size, sh + offsetof(Elf64_Shdr, sh_size), 8));
	}
}
