/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Looking through tens of megabytes of code for bytes that look like certain instructions, with
 * nothing decoded. Every place with these bytes is reported, whether an instruction begins there or
 * not.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;

enum code_pattern {
	CODE_TAKES = 1 << 0,	/* takes an address relative to itself */
	CODE_CALLS = 1 << 1,	/* calls or jumps, directly or through a word, or loads a word */
	CODE_SYSCALLS = 1 << 2, /* makes a system call */
	CODE_RELATIVE = 1 << 3, /* any four bytes, relative to what follows them */
	CODE_NUMBERS = 1 << 4,	/* any four bytes, as an address */
};

struct code_hit {
	uint64_t addr;	  /* of the instruction, or of the four bytes */
	uint64_t operand; /* address of the four bytes */
	uint64_t target;  /* to which they lead */
	bool word;	  /* that is a word that holds the address */
	uint8_t pattern;  /* enum code_pattern */
};

/* Anything but 0 ends the scan, which gives it back. */
typedef int (*code_hit_fn)(void *context, const struct code_hit *hit);

/* A sorted set of addresses; a filter answers most questions. Without one: all of a range. */
struct code_targets {
	const uint64_t *v; /* the caller's */
	size_t n;
	uint64_t low, span;
	uint64_t *filter;
	unsigned shift;
};

int code_targets_init(struct code_targets *t, const uint64_t *v, size_t n); /* -ENOMEM or 0 */
void code_targets_done(struct code_targets *t);
bool code_targets_search(const struct code_targets *t, uint64_t addr);

static inline uint64_t code_targets_bit(const struct code_targets *t, uint64_t addr)
{
	return addr * 0x9e3779b97f4a7c15ull >> t->shift;
}

static inline bool code_targets_have(const struct code_targets *t, uint64_t addr)
{
	uint64_t bit;

	if (addr - t->low >= t->span)
		return false;
	if (!t->filter)
		return true;
	bit = code_targets_bit(t, addr);
	return t->filter[bit / 64] >> bit % 64 & 1 && code_targets_search(t, addr);
}

/* Of some code all that looks like these instructions, as numbers relative to `base`. */
enum code_list {
	CODE_LIST_CALLS,    /* direct calls and jumps, of targets in [low, low + span) */
	CODE_LIST_WORDS,    /* through a word, or loads one */
	CODE_LIST_TAKES,    /* takes an address; `addrs` are those of the operand's four bytes */
	CODE_LIST_SYSCALLS, /* has no target */
	CODE_N_LISTS,
};

struct code_lists {
	uint64_t base, low, span, all; /* targets of the others are in [base, base + all) */
	/* The caller's, with room for a hit at each byte. */
	uint32_t *addrs[CODE_N_LISTS], *targets[CODE_N_LISTS];
	size_t n[CODE_N_LISTS];
};

/* All code of the object. `targets`: only what leads to one of them; NULL: all. */
int code_scan(struct elf_image *image, unsigned patterns, const struct code_targets *targets,
	      code_hit_fn hit, void *context);
