/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Patterns of x86-64 code, sixteen bytes at a time.
 *
 *     takes      lea disp32(%rip), r64      REX.W (48 or 4c), 8d, ModRM with mod 0 and rm 5
 *     calls      call rel32, jmp rel32      e8, e9
 *                both by *disp32(%rip)      ff, ModRM 15 or 25
 *                mov disp32(%rip), r64      REX.W, 8b, ModRM, as unoptimised code calls by a word
 *     syscalls   syscall                    0f 05
 */
#include "binary/x86_64/scan.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <string.h>

#define WINDOW 16 /* places that are looked at at once, by their first three bytes */

typedef int8_t window __attribute__((vector_size(WINDOW)));

/* Of the bytes at p: which are `byte` in the bits of `mask`. */
static inline window equal(const uint8_t *p, uint8_t mask, uint8_t byte)
{
	window v;

	memcpy(&v, p, sizeof(v));
	return (window)((v & (int8_t)mask) == (int8_t)byte);
}

/* A bit for each place. */
static inline unsigned bits(window found)
{
#ifdef __SSE2__
	return (unsigned)_mm_movemask_epi8((__m128i)found);
#else
	unsigned ret = 0;

	for (unsigned i = 0; i < WINDOW; i++)
		ret |= (unsigned)(found[i] & 1) << i;
	return ret;
#endif
}

/* An instruction of eight bytes with a memory operand relative to the instruction. */
static inline window is_wide(const uint8_t *p, uint8_t opcode)
{
	return equal(p, 0xfb, 0x48) & equal(p + 1, 0xff, opcode) & equal(p + 2, 0xc7, 0x05);
}

static inline window is_lea(const uint8_t *p)
{
	return is_wide(p, 0x8d);
}

static inline window is_call(const uint8_t *p)
{
	const window through = equal(p, 0xff, 0xff) & equal(p + 1, 0xcf, 0x05);

	return equal(p, 0xfe, 0xe8) | through | is_wide(p, 0x8b);
}

static inline window is_syscall(const uint8_t *p)
{
	return equal(p, 0xff, 0x0f) & equal(p + 1, 0xff, 0x05);
}

struct scan {
	const uint8_t *code;
	size_t len;
	uint64_t addr;
	const struct code_targets *targets;
	code_hit_fn hit;
	void *context;
};

/* An instruction at `i` with four bytes at `at` that are relative to what follows them. */
static inline int give(const struct scan *s, size_t i, size_t at, bool word)
{
	struct code_hit hit = {.addr = s->addr + i, .operand = s->addr + at, .word = word};
	int32_t disp;

	memcpy(&disp, s->code + at, 4);
	hit.target = hit.operand + 4 + (uint64_t)(int64_t)disp;
	if (s->targets && !code_targets_have(s->targets, hit.target))
		return 0;
	return s->hit(s->context, &hit);
}

static inline int give_lea(const struct scan *s, size_t i)
{
	return give(s, i, i + 3, false);
}

static inline int give_call(const struct scan *s, size_t i)
{
	const uint8_t *p = s->code + i;
	bool direct = (*p & 0xfe) == 0xe8;

	return give(s, i, i + (direct ? 1 : *p == 0xff ? 2 : 3), !direct);
}

static inline int give_syscall(const struct scan *s, size_t i)
{
	return s->hit(s->context, &(struct code_hit){.addr = s->addr + i});
}

/* Each place that has the pattern, of `bytes` bytes. */
static inline __attribute__((always_inline)) int
scan_windows(const struct scan *s, size_t bytes, window (*is)(const uint8_t *),
	     int (*found)(const struct scan *, size_t))
{
	int rc;

	for (size_t i = 0; i + bytes <= s->len; i += WINDOW) {
		uint8_t tail[WINDOW + 2] = {0};
		const uint8_t *p = s->code + i;

		if (s->len - i < sizeof(tail))
			p = memcpy(tail, p, s->len - i);
		for (unsigned hits = bits(is(p)); hits; hits &= hits - 1) {
			size_t at = i + (unsigned)__builtin_ctz(hits);

			if (at + bytes > s->len)
				break;
			rc = found(s, at);
			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

static inline __attribute__((always_inline)) bool wanted(const struct code_targets *t, bool any,
							 uint64_t addr)
{
	return any || (addr - t->low < t->span && code_targets_have(t, addr));
}

/* Each place of the code, for one or both meanings of four bytes: no instruction to spare. */
static inline __attribute__((always_inline)) int scan_all(const struct scan *s, bool relative,
							  bool numbers)
{
	const struct code_targets t = s->targets ? *s->targets : (struct code_targets){0};
	const bool any = !s->targets;
	int rc = 0;

	for (size_t i = 0; i + 4 <= s->len && rc == 0; i++) {
		uint64_t at = s->addr + i, target;
		int32_t bytes;

		memcpy(&bytes, s->code + i, 4);
		target = at + 4 + (uint64_t)(int64_t)bytes;
		if (!relative || !wanted(&t, any, target)) {
			target = (uint32_t)bytes;
			if (!numbers || !wanted(&t, any, target))
				continue;
		}
		rc = s->hit(s->context, &(struct code_hit){at, at, target, false});
	}
	return rc;
}

int scan_x86_64(const uint8_t *code, size_t len, uint64_t addr, unsigned patterns,
		const struct code_targets *targets, code_hit_fn hit, void *context)
{
	const struct scan s = {code, len, addr, targets, hit, context};
	int rc = 0;

	if (patterns & CODE_TAKES)
		rc = scan_windows(&s, 7, is_lea, give_lea);
	if (rc == 0 && patterns & CODE_CALLS)
		rc = scan_windows(&s, 7, is_call, give_call);
	if (rc == 0 && patterns & CODE_SYSCALLS)
		rc = scan_windows(&s, 2, is_syscall, give_syscall);
	if (rc != 0 || !(patterns & (CODE_RELATIVE | CODE_NUMBERS)))
		return rc;
	return !(patterns & CODE_NUMBERS)    ? scan_all(&s, true, false)
	       : !(patterns & CODE_RELATIVE) ? scan_all(&s, false, true)
					     : scan_all(&s, true, true);
}
