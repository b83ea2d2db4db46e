/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs of bytes into numbers from 0, each different one its own. Private to this module. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct import_name {
	uint64_t hash;
	const char *bytes; /* NULL: free */
	uint32_t len, number;
};

struct import_names {
	struct import_name *entries;
	uint32_t n, cap; /* cap is 0 or a power of two */
	size_t bytes, max_bytes;
	struct name_block *blocks;
};

/* max_bytes: how much the names may take in all; what comes after that is not kept. */
void names_init(struct import_names *s, size_t max_bytes);
void names_done(struct import_names *s);
/* The number; *ret_new says that it was given just now. UINT32_MAX: too many, or out of memory. */
uint32_t names_get(struct import_names *s, const char *bytes, size_t len, bool *ret_new);
/* The same without adding: UINT32_MAX if it isn't there. */
uint32_t names_find(const struct import_names *s, const char *bytes, size_t len);

/* The name's own copy, which stays; NULL: too many, or out of memory. */
const char *names_keep(struct import_names *s, const char *bytes, size_t len);
