/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Words that hold addresses once the program runs, and the GOT.
 *
 * A position-independent object lists them: a RELATIVE relocation (the addend is the address; lld
 * leaves the word itself 0), the packed DT_RELR (the address is in the word), and one of a word
 * against a symbol of the object itself. An object at a fixed address lists nothing: there every
 * aligned word of its data that lies in the object's own range counts.
 */
#include "binary/elf/image.h"

#include "base/search.h"
#include "base/vec.h"
#include "binary/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RELR_WORDS (64u << 20)
#define MIN_INDEX_SHIFT 8u
#define MAX_BIT_SPAN (1ull << 30)

static bool add_pointer(struct elf_image *img, size_t *cap, uint64_t slot, uint64_t target)
{
	if (!GROW(img->pointers, img->n_pointers, *cap))
		return false;
	img->pointers[img->n_pointers++] = (struct elf_pointer){slot, target};
	return true;
}

/* Symbol i of the dynamic symbol table, through DT_SYMTAB: works without sections. */
static bool dynamic_symbol(const struct elf_image *img, const struct image_dynamic *dyn, uint64_t i,
			   Elf64_Sym *ret)
{
	const uint8_t *p = image_at(img, dyn->symtab + i * sizeof(*ret), sizeof(*ret));

	if (dyn->symtab && p)
		memcpy(ret, p, sizeof(*ret));
	return dyn->symtab && p;
}

static bool add_rela(struct elf_image *img, const struct image_dynamic *dyn, size_t *cap)
{
	for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= dyn->rela_bytes;
	     at += sizeof(Elf64_Rela)) {
		const uint8_t *p = image_at(img, dyn->rela + at, sizeof(Elf64_Rela));
		Elf64_Rela rel;
		Elf64_Sym sym;

		if (!p)
			return true;
		memcpy(&rel, p, sizeof(rel));
		if (ELF64_R_TYPE(rel.r_info) == img->machine->reloc.relative) {
			if (!add_pointer(img, cap, rel.r_offset, (uint64_t)rel.r_addend))
				return false;
		} else if (ELF64_R_TYPE(rel.r_info) == img->machine->reloc.word &&
			   dynamic_symbol(img, dyn, ELF64_R_SYM(rel.r_info), &sym) &&
			   sym.st_shndx != SHN_UNDEF) {
			if (!add_pointer(img, cap, rel.r_offset,
					 sym.st_value + (uint64_t)rel.r_addend))
				return false;
		}
	}
	return true;
}

static bool add_relr_word(struct elf_image *img, size_t *cap, uint64_t slot)
{
	uint64_t target;

	return !image_u64(img, slot, &target) || add_pointer(img, cap, slot, target);
}

static bool add_relr(struct elf_image *img, const struct image_dynamic *dyn, size_t *cap)
{
	uint64_t next = 0;
	size_t left = MAX_RELR_WORDS; /* a bit counts once: 63 words of each 8 bytes at most */

	for (uint64_t at = 0; at + 8 <= dyn->relr_bytes; at += 8) {
		uint64_t word;

		if (!image_u64(img, dyn->relr + at, &word))
			return true;
		if ((word & 1) == 0) {
			if (!add_relr_word(img, cap, word))
				return false;
			next = word + 8;
			continue;
		}
		for (unsigned i = 0; i < 63; i++) {
			if ((word >> (i + 1)) & 1 && left-- > 0 &&
			    !add_relr_word(img, cap, next + i * 8ULL))
				return false;
		}
		next += 63 * 8;
	}
	return true;
}

/* Fixed addresses: the words themselves. Code is left out where sections say where it is. */
static bool add_words(struct elf_image *img, size_t *cap)
{
	uint64_t low = img->segments[0].addr;
	const struct elf_segment *last = &img->segments[img->n_segments - 1];
	uint64_t high = last->addr + last->size;

	for (size_t s = 0; s < img->n_segments; s++) {
		const struct elf_segment *seg = &img->segments[s];

		for (uint64_t at = (8 - seg->addr % 8) % 8; at + 8 <= seg->file_size; at += 8) {
			uint64_t word;

			memcpy(&word, seg->data + at, 8);
			if (word < low || word >= high)
				continue;
			if (seg->exec && elf_image_is_code(img, seg->addr + at))
				continue;
			if (image_mapped(img, word) && !add_pointer(img, cap, seg->addr + at, word))
				return false;
		}
	}
	return true;
}

/* How many pointers precede each stretch of some words: without it a search among hundreds of
 * thousands misses the cache at every step. NULL, and searches go on without, if memory is short. */
static void make_index(struct elf_image *img)
{
	uint64_t first = img->n_pointers ? img->pointers[0].slot : 0;
	uint64_t span = img->n_pointers ? img->pointers[img->n_pointers - 1].slot - first : 0;
	size_t at = 0;

	img->pointer_shift = MIN_INDEX_SHIFT;
	while (span >> img->pointer_shift > img->n_pointers)
		img->pointer_shift++;
	img->n_pointer_index = (size_t)(span >> img->pointer_shift) + 2;
	img->pointer_index = calloc(img->n_pointer_index, sizeof(*img->pointer_index));
	for (size_t i = 0; img->pointer_index && i < img->n_pointer_index; i++) {
		while (at < img->n_pointers &&
		       (img->pointers[at].slot - first) >> img->pointer_shift < i)
			at++;
		img->pointer_index[i] = (uint32_t)at;
	}
}

/* Where pointers are, a bit for eight bytes: most of what is asked for is none. */
static void make_bits(struct elf_image *img)
{
	uint64_t first = img->n_pointers ? img->pointers[0].slot : 0;
	uint64_t span = img->n_pointers ? img->pointers[img->n_pointers - 1].slot - first : 0;

	img->pointer_bits = span < MAX_BIT_SPAN ? calloc(span / 64 + 1, 1) : NULL;
	for (size_t i = 0; img->pointer_bits && i < img->n_pointers; i++) {
		uint64_t at = (img->pointers[i].slot - first) / 8;

		img->pointer_bits[at / 8] |= (uint8_t)(1u << at % 8);
	}
}

static void load(struct elf_image *img)
{
	struct image_dynamic dyn;
	size_t cap = 0, n = 0;
	bool ok;

	if (img->pointers_done)
		return;
	img->pointers_done = true;
	if (img->resting)
		elf_image_wake(img, NULL);
	image_dynamic_read(img, &dyn);
	ok = add_rela(img, &dyn, &cap) && add_relr(img, &dyn, &cap);
	if (ok && img->type == ET_EXEC)
		ok = add_words(img, &cap);
	if (!ok || image_sort(img->pointers, img->n_pointers, sizeof(*img->pointers)) < 0) {
		image_note_trouble(img, -ENOMEM);
		img->n_pointers = 0;
		return;
	}
	for (size_t i = 0; i < img->n_pointers; i++) {
		if (n == 0 || img->pointers[i].slot != img->pointers[n - 1].slot)
			img->pointers[n++] = img->pointers[i];
	}
	img->n_pointers = n;
	make_index(img);
	make_bits(img);
}

size_t elf_image_pointers(struct elf_image *img, const struct elf_pointer **ret)
{
	load(img);
	*ret = img->pointers;
	return img->n_pointers;
}

bool elf_image_pointer_at(struct elf_image *img, uint64_t slot, uint64_t *ret_target)
{
	uint64_t page;
	size_t lo, hi;

	load(img);
	/* Most callers ask about read-only data, which lies before all of them. */
	if (!img->n_pointers || slot < img->pointers[0].slot ||
	    slot > img->pointers[img->n_pointers - 1].slot)
		return false;
	if (img->pointer_bits) {
		uint64_t at = (slot - img->pointers[0].slot) / 8;

		if (!(img->pointer_bits[at / 8] >> at % 8 & 1))
			return false;
	}
	page = (slot - img->pointers[0].slot) >> img->pointer_shift;
	if (img->pointer_index && page + 1 >= img->n_pointer_index)
		return false;
	lo = img->pointer_index ? img->pointer_index[page] : 0;
	hi = img->pointer_index ? img->pointer_index[page + 1] : img->n_pointers;
	lo = PARTITION_POINT(i, lo, hi, img->pointers[i].slot < slot);
	if (lo == img->n_pointers || img->pointers[lo].slot != slot)
		return false;
	*ret_target = img->pointers[lo].target;
	return true;
}

static const char *dynamic_string(const struct elf_image *img, const struct image_dynamic *dyn,
				  uint32_t offset)
{
	const char *p = (const char *)image_at(img, dyn->strtab, dyn->strtab_bytes);

	if (!p || offset >= dyn->strtab_bytes || !memchr(p + offset, 0, dyn->strtab_bytes - offset))
		return NULL;
	return p + offset;
}

static bool add_imports(struct elf_image *img, const struct image_dynamic *dyn, uint64_t table,
			uint64_t bytes, size_t *cap)
{
	for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= bytes; at += sizeof(Elf64_Rela)) {
		const uint8_t *p = image_at(img, table + at, sizeof(Elf64_Rela));
		const char *name;
		Elf64_Rela rel;
		Elf64_Sym sym;

		if (!p)
			return true;
		memcpy(&rel, p, sizeof(rel));
		if (ELF64_R_TYPE(rel.r_info) != img->machine->reloc.got &&
		    ELF64_R_TYPE(rel.r_info) != img->machine->reloc.plt)
			continue;
		if (!dynamic_symbol(img, dyn, ELF64_R_SYM(rel.r_info), &sym))
			continue;
		name = dynamic_string(img, dyn, sym.st_name);
		if (!name || !*name)
			continue;
		if (!GROW(img->imports, img->n_imports, *cap))
			return false;
		img->imports[img->n_imports++] = (struct elf_import){rel.r_offset, name};
	}
	return true;
}

size_t elf_image_imports(struct elf_image *img, const struct elf_import **ret)
{
	if (!img->imports_done) {
		struct image_dynamic dyn;
		size_t cap = 0;

		img->imports_done = true;
		image_dynamic_read(img, &dyn);
		if (!add_imports(img, &dyn, dyn.rela, dyn.rela_bytes, &cap) ||
		    !add_imports(img, &dyn, dyn.jmprel, dyn.jmprel_bytes, &cap) ||
		    image_sort(img->imports, img->n_imports, sizeof(*img->imports)) < 0) {
			image_note_trouble(img, -ENOMEM);
			img->n_imports = 0;
		}
	}
	*ret = img->imports;
	return img->n_imports;
}
