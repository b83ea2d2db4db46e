/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A hash of bytes: quick, of well-spread bits, and the same everywhere (files keep it). No defence
 * against who chooses the bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t hash_bytes(uint64_t seed, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t h = seed ^ len * 0xd6e8feb86659fd93ULL, v = 0;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&v, p, 8);
		h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 29;
	}
	v = 0;
	if (len)
		memcpy(&v, p, len);
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 32;
}

/* NULL is as "". */
static inline uint64_t hash_string(uint64_t seed, const char *s)
{
	return hash_bytes(seed, s, s ? strlen(s) : 0);
}
