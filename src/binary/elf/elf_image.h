/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An ELF object on disk, read through libelf: segments, symbols, relocations applied, function
 * bounds. Addresses are linked virtual addresses; they reach bytes only through PT_LOAD (rustc
 * links with lld: address != file offset). Everything is bounded: the file comes from a stranger.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;
struct machine;

struct elf_symbol {
	uint64_t addr, size;
	const char *name; /* mangled; owned by the image */
	uint8_t type;	  /* STT_FUNC, STT_OBJECT, STT_TLS */
};

/* A word in a data segment that the loader (or the linker) fills with an address. */
struct elf_pointer {
	uint64_t slot;	 /* its place */
	uint64_t target; /* linked address of what it points at */
};

struct elf_segment {
	uint64_t addr, size, file_size;
	uint64_t offset;     /* in the file */
	const uint8_t *data; /* file_size bytes */
	bool exec, write;
};

/* From a file that the caller has opened (kept open by the caller; may be closed afterwards).
 * `name` is for messages. -ENOEXEC: not an ELF file for a known machine. */
int elf_image_open(int fd, const char *name, struct elf_image **ret_image, struct error *err);
/* The same of a path; it never waits, whatever the path is. */
int elf_image_open_path(const char *path, struct elf_image **ret_image, struct error *err);
/* From a file as above, but without its bytes, which are read at first need: for many of which few
 * are looked into, one after the other. */
int elf_image_open_resting(int fd, const char *name, struct elf_image **ret_image,
			   struct error *err);
/* Reads them; who hasn't asked for that finds out by elf_image_trouble(). */
int elf_image_wake(struct elf_image *img, struct error *err);
void elf_image_free(struct elf_image *img);
/* Gives its memory back until something of it is asked for again; pointers that were got from it
 * become invalid. For callers that hold many. */
void elf_image_rest(struct elf_image *img);
/* 0, or negative errno with a sentence: something couldn't be read, since the file was cut, its
 * medium failed, or there is not enough memory. What was found, and not found, in it is not to be
 * believed then. */
int elf_image_trouble(struct elf_image *img, struct error *err);

const char *elf_image_name(const struct elf_image *img);
/* For which machine it is. */
const struct machine *elf_image_machine(const struct elf_image *img);
/* The file itself, the image's own descriptor: for what isn't read here, as debug information. */
int elf_image_fd(const struct elf_image *img);
/* Of a program: how far below the thread pointer its thread-local variables begin; a symbol of type
 * STT_TLS counts from there. 0: it has none. (x86-64: variant II of ELF's thread-local storage.) */
uint64_t elf_image_tls_below(const struct elf_image *img);
bool elf_image_pie(const struct elf_image *img);
const char *elf_image_interp(const struct elf_image *img); /* NULL if static */
uint64_t elf_image_entry(const struct elf_image *img);
const uint8_t *elf_image_build_id(const struct elf_image *img, size_t *ret_len); /* NULL if none */
size_t elf_image_n_segments(const struct elf_image *img);
const struct elf_segment *elf_image_segment(const struct elf_image *img, size_t i);
/* Bytes at a linked address as in the file; *ret_left is what follows in the segment. NULL outside.
 */
const uint8_t *elf_image_bytes(const struct elf_image *img, uint64_t addr, size_t *ret_left);
/* The linked address's place in the file, by its own segment. False: it isn't in the file. */
bool elf_image_offset(const struct elf_image *img, uint64_t addr, uint64_t *ret_offset);
/* Where instructions are: executable sections (without PLTs), or segments if there are no sections.
 */
bool elf_image_is_code(const struct elf_image *img, uint64_t addr);
size_t elf_image_n_code(const struct elf_image *img);
void elf_image_code(const struct elf_image *img, size_t i, uint64_t *ret_start, uint64_t *ret_end);
/* The address of the first such bytes from `addr` on in data that isn't written and is no code; 0:
 * there are no more. */
uint64_t elf_image_find(const struct elf_image *img, uint64_t addr, const void *bytes, size_t len);
bool elf_image_has_debug_info(const struct elf_image *img); /* .debug_info in this file */
bool elf_image_is_static(const struct elf_image *img);	    /* a program that needs no loader */

/* .symtab and .dynsym together, defined ones, sorted by address. */
size_t elf_image_symbols(struct elf_image *img, const struct elf_symbol **ret);
const struct elf_symbol *elf_image_symbol_at(struct elf_image *img, uint64_t addr); /* covering */
bool elf_image_has_symtab(struct elf_image *img);

/* All words in data that hold addresses, sorted by slot: RELATIVE relocations of RELA and RELR; in
 * a non-PIE object the aligned words of read-only and data segments that point into the object. */
size_t elf_image_pointers(struct elf_image *img, const struct elf_pointer **ret);
bool elf_image_pointer_at(struct elf_image *img, uint64_t slot, uint64_t *ret_target);

/* GOT slots by imported symbol (GLOB_DAT and JUMP_SLOT). */
struct elf_import {
	uint64_t slot;
	const char *name;
};
size_t elf_image_imports(struct elf_image *img, const struct elf_import **ret);

/* Bounds of the function that covers addr: from symbols, else from .eh_frame. 1 or 0. */
bool elf_image_function(struct elf_image *img, uint64_t addr, uint64_t *ret_start,
			uint64_t *ret_end);
/* True if a function begins there, as far as symbols or unwind tables say. */
bool elf_image_is_function(struct elf_image *img, uint64_t addr);
