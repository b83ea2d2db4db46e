/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From addresses in processes of a recording to functions, by what they had mapped and the files
 * that are still there. Private to this module.
 */
#pragma once

#include "import/frames.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_BUILD_ID_MAX 20u

struct perf_symbols;

struct perf_mapping {
	uint64_t start, len, offset;
	const char *path; /* not 0-terminated */
	size_t path_len;
	const uint8_t *build_id; /* NULL: unknown */
	size_t build_id_len;
};

/* The frames must outlive it. NULL: out of memory. */
struct perf_symbols *perf_symbols_new(struct frames *frames);
void perf_symbols_free(struct perf_symbols *s);

int perf_symbols_map(struct perf_symbols *s, uint32_t pid, const struct perf_mapping *m);
int perf_symbols_fork(struct perf_symbols *s, uint32_t pid, uint32_t parent);
void perf_symbols_forget(struct perf_symbols *s, uint32_t pid); /* exec, exit */
/* What the file of this name was when it was recorded. */
int perf_symbols_build_id(struct perf_symbols *s, const char *path, size_t len, const uint8_t *id,
			  size_t id_len);

/* The functions at an address, innermost first (more than one where some were inlined): numbers for
 * frames_stack(). `caller`: it is a return address, of an outer function. `process`: trace index.
 * Gives how many, at least 1. */
size_t perf_symbols_find(struct perf_symbols *s, uint32_t pid, uint32_t process, uint64_t addr,
			 bool caller, uint32_t *ret_frames, size_t max);

/* The next outer function of a copied stack: `ip`, `sp` and `bp` become the caller's. `at` is where
 * the copy begins. False: it is unknown, or there is none. */
bool perf_symbols_step(struct perf_symbols *s, uint32_t pid, bool caller, const uint8_t *stack,
		       size_t len, uint64_t at, uint64_t *ip, uint64_t *sp, uint64_t *bp);

/* Of the files that addresses lay in: those whose symbols could be read, and all. */
void perf_symbols_stats(const struct perf_symbols *s, size_t *ret_read, size_t *ret_all);
