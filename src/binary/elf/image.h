/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The internals of struct elf_image, for the files of this module only. Where its bytes are: a map
 * or copies, see image_bytes.c.
 */
#pragma once

#include "base/file_map.h"
#include "binary/elf/elf_image.h"

#include <elf.h>
#include <libelf.h>

/* A run of bytes of the file, copied; they count as held (base/budget.h). Or of its map. */
struct image_bytes {
	uint8_t *data;
	size_t len;
	bool mapped;
};
void image_bytes_free(struct image_bytes *b);

/* Loadable bytes and symbol tables of one object. Beyond this it isn't a program that we trace. */
#define IMAGE_MAX_BYTES (2ULL << 30)

/* Where a table of symbols, or their names, is in the file; bytes 0: there is none. */
struct image_table {
	uint64_t offset, bytes;
};

struct image_range {
	uint64_t start, end;
};

/* A function start known from .eh_frame (also in stripped files). */
struct elf_function {
	uint64_t start, end;
};

struct elf_image {
	char *name;
	int fd; /* our own */
	const struct machine *machine;
	bool pie;
	uint16_t type; /* ET_EXEC or ET_DYN */
	char *interp;
	uint64_t entry;
	uint8_t build_id[64];
	size_t build_id_len;

	struct elf_segment *segments;
	size_t n_segments;
	/* Where instructions are: executable sections, or whole segments if there are no sections.
	 */
	struct image_range *code;
	size_t n_code;

	/* Where no texts are: that, and what the linker makes (relocations, unwind tables). */
	struct image_range *textless;
	size_t n_textless;

	uint64_t dynamic; /* address of PT_DYNAMIC, 0 if none */
	size_t dynamic_bytes;
	uint64_t eh_frame_hdr; /* address of PT_GNU_EH_FRAME, 0 if none */
	size_t eh_frame_hdr_bytes;
	uint64_t tls, tls_bytes, tls_align; /* PT_TLS: bytes 0 if none */
	uint64_t eh_frame;		    /* address of .eh_frame by its section, 0 if none */
	size_t eh_frame_bytes;
	bool debug_info; /* has .debug_info */
	/* .note.stapsdt in the file, and where .stapsdt.base is now, by which its addresses are
	 * corrected if the program was prelinked; 0 if none. */
	uint64_t probes_offset, probes_bytes, probes_base;

	struct image_table symtab_at, strtab_at, dynsym_at, dynstr_at;
	struct image_bytes strtab, dynstr; /* once the symbols are read */
	bool has_symtab;

	uint64_t file_bytes, loadable, holes;
	struct file_map map;	/* of the whole file, if it is one that may be mapped */
	bool resting;		/* the segments' bytes are not in memory (elf_image_wake) */
	struct elf_image *self; /* for readers with a const image: the bytes are a cache */
	struct error trouble;	/* why something of it couldn't be read */

	bool symbols_done, pointers_done, imports_done, functions_done, begins_done;
	struct elf_symbol *symbols;
	size_t n_symbols;
	struct elf_pointer *pointers;
	size_t n_pointers;
	uint32_t *pointer_index; /* see pointers.c */
	size_t n_pointer_index;
	unsigned pointer_shift;
	uint8_t *pointer_bits;
	struct elf_import *imports;
	size_t n_imports;
	struct elf_function *functions;
	size_t n_functions;
	uint64_t *known_functions; /* see elf_image_is_function(); NULL: none yet */
	uint8_t *begins;	   /* see image_may_begin(); NULL: it may anywhere */
	uint64_t n_blocks;	   /* of `begins` */
	void *index;		   /* see code_index.h; NULL: not made */
	void (*index_free)(void *index);
};

/* Whether these bytes may be read: they are in the file, and not too many. Charges them. */
int image_check(struct elf_image *img, uint64_t offset, uint64_t len, struct error *err);
/* Copies bytes that were checked. */
int image_read(struct elf_image *img, uint64_t offset, uint64_t len, struct image_bytes *ret,
	       struct error *err);
/* The same, of the map where the file may be mapped, until the image rests; only to be read. */
int image_view(struct elf_image *img, uint64_t offset, uint64_t len, struct image_bytes *ret,
	       struct error *err);
/* Gives back all segments' bytes. */
void image_unload(struct elf_image *img);
/* Something of it isn't there, and what is found without it says nothing. */
void image_note_trouble(struct elf_image *img, int rc);

/* Values of the dynamic section. The last one of a tag counts; 0 if it isn't there. */
struct image_dynamic {
	uint64_t rela, rela_bytes, jmprel, jmprel_bytes, relr, relr_bytes, symtab, strtab,
		strtab_bytes;
	size_t n_needed;
	bool pie; /* a program, not a library */
};
void image_dynamic_read(const struct elf_image *img, struct image_dynamic *ret);

/* False: no function begins there. */
bool image_may_begin(struct elf_image *img, uint64_t addr);
/* That will be asked for this address. */
void image_begin_soon(const struct elf_image *img, uint64_t addr);

void image_drop_index(struct elf_image *img);

/* `len` bytes at addr, NULL if they aren't all in the file. */
const uint8_t *image_at(const struct elf_image *img, uint64_t addr, size_t len);
bool image_u64(const struct elf_image *img, uint64_t addr, uint64_t *ret);
/* True if addr lies in any segment, zero-filled parts included. */
bool image_mapped(const struct elf_image *img, uint64_t addr);

/* Sorts n items of item_bytes each by the u64 at their start, stable, in linear time: symbol tables
 * of debug builds have a million entries. -ENOMEM or 0. */
int image_sort(void *items, size_t n, size_t item_bytes);
/* Of items so sorted: index of the first whose u64 is `key`, and how many there are. */
size_t image_find(const void *items, size_t n, size_t item_bytes, uint64_t key, size_t *ret_n);
