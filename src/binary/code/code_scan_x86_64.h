/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Looking through tens of megabytes of code for a few patterns, sixteen bytes at a time, with
 * nothing decoded. Every place with these bytes is reported, whether an instruction begins there or
 * not.
 */
#ifndef POLLUX_BINARY_CODE_CODE_SCAN_X86_64_H
#define POLLUX_BINARY_CODE_CODE_SCAN_X86_64_H

#include <emmintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the sixteen bytes at p: which are `byte` in the bits of `mask`. */
static inline __m128i code_scan_byte(const uint8_t *p, uint8_t mask, uint8_t byte)
{
	const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);

	return _mm_cmpeq_epi8(_mm_and_si128(v, _mm_set1_epi8((char)mask)),
			      _mm_set1_epi8((char)byte));
}

/* `lea disp32(%rip), r64` begins there: REX.W (48 or 4c), 8d, ModRM with mod 0 and rm 5. */
static inline bool code_scan_is_lea(const uint8_t *p)
{
	return (p[0] & 0xfb) == 0x48 && p[1] == 0x8d && (p[2] & 0xc7) == 0x05;
}

static inline __m128i code_scan_lea(const uint8_t *p)
{
	return _mm_and_si128(
		_mm_and_si128(code_scan_byte(p, 0xfb, 0x48), code_scan_byte(p + 1, 0xff, 0x8d)),
		code_scan_byte(p + 2, 0xc7, 0x05));
}

/* One of the ways to reach a function that call_index.c knows. */
static inline bool code_scan_is_call(const uint8_t *p)
{
	return (p[0] & 0xfe) == 0xe8 || (p[0] == 0xff && (p[1] & 0xcf) == 0x05) ||
	       ((p[0] & 0xfb) == 0x48 && p[1] == 0x8b && (p[2] & 0xc7) == 0x05);
}

static inline __m128i code_scan_call(const uint8_t *p)
{
	const __m128i direct = code_scan_byte(p, 0xfe, 0xe8);
	const __m128i through =
		_mm_and_si128(code_scan_byte(p, 0xff, 0xff), code_scan_byte(p + 1, 0xcf, 0x05));
	const __m128i load = _mm_and_si128(
		_mm_and_si128(code_scan_byte(p, 0xfb, 0x48), code_scan_byte(p + 1, 0xff, 0x8b)),
		code_scan_byte(p + 2, 0xc7, 0x05));

	return _mm_or_si128(direct, _mm_or_si128(through, load));
}

/* The first place from `at` on that has the pattern and `bytes` bytes to the end of the code, or
 * `len` if there is none. `find` and `is` are two ways to say the same. */
#define CODE_SCAN(code, at, len, bytes, find, is)                                                  \
	({                                                                                         \
		size_t scan_at = (at);                                                             \
		const size_t scan_len = (len) < (bytes) ? 0 : (len) - (bytes) + 1;                 \
		unsigned scan_hits = 0;                                                            \
                                                                                                   \
		for (; scan_at + 18 <= scan_len; scan_at += 16) {                                  \
			scan_hits = (unsigned)_mm_movemask_epi8(find((code) + scan_at));           \
			if (scan_hits)                                                             \
				break;                                                             \
		}                                                                                  \
		if (scan_hits)                                                                     \
			scan_at += (unsigned)__builtin_ctz(scan_hits);                             \
		else                                                                               \
			while (scan_at < scan_len && !is((code) + scan_at))                        \
				scan_at++;                                                         \
		scan_at < scan_len ? scan_at : (len);                                              \
	})

#endif
