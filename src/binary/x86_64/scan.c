/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Patterns of x86-64 code, sixteen or thirty-two bytes at a time.
 *
 *     takes      lea disp32(%rip), r64      REX.W (48 or 4c), 8d, ModRM with mod 0 and rm 5
 *     calls      call rel32, jmp rel32      e8, e9
 *                both by *disp32(%rip)      ff, ModRM 15 or 25
 *                mov disp32(%rip), r64      REX.W, 8b, ModRM, as unoptimised code calls by a word
 *     syscalls   syscall                    0f 05
 *
 * All that are asked for are found in one pass: what the pass costs is reading the code.
 */
#include "binary/x86_64/scan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <string.h>

#define WINDOW 16 /* places that are looked at at once, by their first three bytes */
#define WIDE_WINDOW 32
#define SYSCALL_BYTES 2
#define OTHER_BYTES 7 /* the longest of the others; closer to the end none is looked for */

typedef int8_t window __attribute__((vector_size(WINDOW)));

/* A bit for each place where a pattern begins. */
struct pattern_places {
	unsigned takes, calls, words, syscalls; /* calls: direct ones */
};

/* Of the bytes at p: which are `byte` in the bits of `mask`. */
static inline window equal(const uint8_t *p, uint8_t mask, uint8_t byte)
{
	window v;

	memcpy(&v, p, sizeof(v));
	return (window)((v & (int8_t)mask) == (int8_t)byte);
}

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

/* Reads two bytes more than the window. */
static inline struct pattern_places look(const uint8_t *p)
{
	/* An instruction of eight bytes with a memory operand relative to the instruction. */
	const window wide = equal(p, 0xfb, 0x48) & equal(p + 2, 0xc7, 0x05);
	const window through = equal(p, 0xff, 0xff) & equal(p + 1, 0xcf, 0x05);

	return (struct pattern_places){
		.takes = bits(wide & equal(p + 1, 0xff, 0x8d)),
		.calls = bits(equal(p, 0xfe, 0xe8)),
		.words = bits(through | (wide & equal(p + 1, 0xff, 0x8b))),
		.syscalls = bits(equal(p, 0xff, 0x0f) & equal(p + 1, 0xff, 0x05)),
	};
}

struct scan {
	const uint8_t *code;
	size_t len;
	uint64_t addr;
	unsigned patterns;
	const struct code_targets *targets;
	code_hit_fn hit;
	void *context;
};

/* An instruction at `i` with four bytes at `at` that are relative to what follows them. */
static inline int give(const struct scan *s, enum code_pattern pattern, size_t i, size_t at,
		       bool word)
{
	struct code_hit hit = {
		.addr = s->addr + i, .operand = s->addr + at, .word = word, .pattern = pattern};
	int32_t disp;

	memcpy(&disp, s->code + at, 4);
	hit.target = hit.operand + 4 + (uint64_t)(int64_t)disp;
	if (s->targets && !code_targets_have(s->targets, hit.target))
		return 0;
	return s->hit(s->context, &hit);
}

/* Places of a window that begins at `i`, in their order. */
static inline int give_places(const struct scan *s, size_t i, struct pattern_places found)
{
	unsigned calls = s->patterns & CODE_CALLS ? found.calls | found.words : 0;
	unsigned syscalls = s->patterns & CODE_SYSCALLS ? found.syscalls : 0;
	unsigned all = calls | syscalls | (s->patterns & CODE_TAKES ? found.takes : 0);
	int rc = 0;

	for (; all && rc == 0; all &= all - 1) {
		unsigned bit = all & -all;
		size_t at = i + (unsigned)__builtin_ctz(all);
		const uint8_t *p = s->code + at;

		if (at + (syscalls & bit ? SYSCALL_BYTES : OTHER_BYTES) > s->len)
			continue;
		if (syscalls & bit)
			rc = s->hit(s->context, &(struct code_hit){.addr = s->addr + at,
								   .pattern = CODE_SYSCALLS});
		else if (!(calls & bit))
			rc = give(s, CODE_TAKES, at, at + 3, false);
		else if ((*p & 0xfe) == 0xe8)
			rc = give(s, CODE_CALLS, at, at + 1, false);
		else
			rc = give(s, CODE_CALLS, at, at + (*p == 0xff ? 2 : 3), true);
	}
	return rc;
}

/* Part of code that is listed. */
struct code_listing {
	const uint8_t *code;
	size_t len, left;
	uint64_t addr; /* from the base on */
	struct code_lists *lists;
};

/* Of a target's four bytes at `at`; kept if it is in the range. */
static inline void put(const struct code_listing *l, enum code_list list, size_t place, size_t at,
		       uint64_t low, uint64_t span)
{
	struct code_lists *to = l->lists;
	size_t n = to->n[list];
	int32_t disp;
	uint64_t target;

	memcpy(&disp, l->code + at, 4);
	target = l->addr + at + 4 + (uint64_t)(int64_t)disp;
	to->addrs[list][n] = (uint32_t)(l->addr + place);
	to->targets[list][n] = (uint32_t)target;
	to->n[list] = n + (target - low < span);
}

/* The places of a window that begins at `i` and has `most` bytes of what is listed. */
static inline void put_places(const struct code_listing *l, size_t i, struct pattern_places found,
			      size_t most)
{
	struct code_lists *to = l->lists;
	/* What fits into the code; of those in the next part none. */
	size_t fits = l->left - i < OTHER_BYTES ? 0 : l->left - i - OTHER_BYTES + 1;
	uint64_t in = most < 64 ? (1ull << most) - 1 : UINT64_MAX;
	uint64_t whole = in & (fits < 64 ? (1ull << fits) - 1 : UINT64_MAX);
	uint64_t low = to->low - to->base;

	for (uint64_t m = found.calls & whole; m; m &= m - 1) {
		size_t at = i + (unsigned)__builtin_ctzll(m);

		put(l, CODE_LIST_CALLS, at, at + 1, low, to->span);
	}
	for (uint64_t m = found.words & whole; m; m &= m - 1) {
		size_t at = i + (unsigned)__builtin_ctzll(m);

		put(l, CODE_LIST_WORDS, at, at + (l->code[at] == 0xff ? 2 : 3), 0, to->all);
	}
	for (uint64_t m = found.takes & whole; m; m &= m - 1) {
		size_t at = i + (unsigned)__builtin_ctzll(m);

		put(l, CODE_LIST_TAKES, at + 3, at + 3, 0, to->all);
	}
	for (uint64_t m = found.syscalls & in; m; m &= m - 1) {
		size_t at = i + (unsigned)__builtin_ctzll(m), n = to->n[CODE_LIST_SYSCALLS];

		to->addrs[CODE_LIST_SYSCALLS][n] = (uint32_t)(l->addr + at);
		to->n[CODE_LIST_SYSCALLS] = n + (at + SYSCALL_BYTES <= l->left);
	}
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256i equal_wide(__m256i v, char mask, char byte)
{
	return _mm256_cmpeq_epi8(_mm256_and_si256(v, _mm256_set1_epi8(mask)),
				 _mm256_set1_epi8(byte));
}

/* look() at twice as many places. */
AVX2 static inline struct pattern_places look_wide(const uint8_t *p)
{
	const __m256i a = _mm256_loadu_si256((const __m256i *)p);
	const __m256i b = _mm256_loadu_si256((const __m256i *)(p + 1));
	const __m256i c = _mm256_loadu_si256((const __m256i *)(p + 2));
	const __m256i wide =
		_mm256_and_si256(equal_wide(a, (char)0xfb, 0x48), equal_wide(c, (char)0xc7, 0x05));
	const __m256i through = _mm256_and_si256(equal_wide(a, (char)0xff, (char)0xff),
						 equal_wide(b, (char)0xcf, 0x05));
	const __m256i load = _mm256_and_si256(wide, equal_wide(b, (char)0xff, (char)0x8b));
	const __m256i lea = _mm256_and_si256(wide, equal_wide(b, (char)0xff, (char)0x8d));
	const __m256i syscall =
		_mm256_and_si256(equal_wide(a, (char)0xff, 0x0f), equal_wide(b, (char)0xff, 0x05));
	return (struct pattern_places){
		.takes = (unsigned)_mm256_movemask_epi8(lea),
		.calls = (unsigned)_mm256_movemask_epi8(equal_wide(a, (char)0xfe, (char)0xe8)),
		.words = (unsigned)_mm256_movemask_epi8(_mm256_or_si256(through, load)),
		.syscalls = (unsigned)_mm256_movemask_epi8(syscall),
	};
}

/* As far as it can without the end; *at is how far. */
AVX2 static int scan_wide(const struct scan *s, size_t *at)
{
	int rc = 0;

	for (; rc == 0 && *at + WIDE_WINDOW + 2 <= s->len; *at += WIDE_WINDOW)
		rc = give_places(s, *at, look_wide(s->code + *at));
	return rc;
}

AVX2 static void list_wide(const struct code_listing *l, size_t *at)
{
	for (; *at + WIDE_WINDOW <= l->len && *at + WIDE_WINDOW + 2 <= l->left; *at += WIDE_WINDOW)
		put_places(l, *at, look_wide(l->code + *at), WIDE_WINDOW);
}

static bool has_wide(void)
{
	return __builtin_cpu_supports("avx2");
}
#else
static int scan_wide(const struct scan *s, size_t *at)
{
	(void)s;
	(void)at;
	return 0;
}

static void list_wide(const struct code_listing *l, size_t *at)
{
	(void)l;
	(void)at;
}

static bool has_wide(void)
{
	return false;
}
#endif

static int scan_windows(const struct scan *s, bool wide)
{
	size_t i = 0;
	int rc = wide ? scan_wide(s, &i) : 0;

	for (; rc == 0 && i < s->len; i += WINDOW) {
		uint8_t tail[WINDOW + 2] = {0};
		const uint8_t *p = s->code + i;

		if (s->len - i < sizeof(tail))
			p = memcpy(tail, p, s->len - i);
		rc = give_places(s, i, look(p));
	}
	return rc;
}

static inline __attribute__((always_inline)) bool wanted(const struct code_targets *t, bool any,
							 uint64_t addr)
{
	return any || (addr - t->low < t->span && code_targets_have(t, addr));
}

/* Each place of the code from `i` on, for one or both meanings of four bytes: no instruction to
 * spare. */
static inline __attribute__((always_inline)) int scan_all(const struct scan *s, size_t i,
							  bool relative, bool numbers)
{
	const struct code_targets t = s->targets ? *s->targets : (struct code_targets){0};
	const bool any = !s->targets;
	int rc = 0;

	for (; i + 4 <= s->len && rc == 0; i++) {
		uint64_t at = s->addr + i, target;
		int32_t bytes;
		bool is_relative = relative;

		memcpy(&bytes, s->code + i, 4);
		target = at + 4 + (uint64_t)(int64_t)bytes;
		if (!relative || !wanted(&t, any, target)) {
			is_relative = false;
			target = (uint32_t)bytes;
			if (!numbers || !wanted(&t, any, target))
				continue;
		}
		rc = s->hit(s->context,
			    &(struct code_hit){at, at, target, false,
					       is_relative ? CODE_RELATIVE : CODE_NUMBERS});
	}
	return rc;
}

#if defined(__x86_64__)
/* Four bytes at each of 32 places: eight of every fourth place, four times. Whether some may lead
 * into the range, in 32 bits: */
AVX2 static inline bool may_lead(const uint8_t *p, uint32_t from, uint32_t span)
{
	const __m256i steps = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
	const __m256i last = _mm256_set1_epi32((int)(span - 1));
	__m256i any = _mm256_setzero_si256();

	for (int i = 0; i < 4; i++) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(p + i));

		v = _mm256_add_epi32(v, _mm256_add_epi32(steps, _mm256_set1_epi32((int)from + i)));
		any = _mm256_or_si256(any, _mm256_cmpeq_epi32(_mm256_min_epu32(v, last), v));
	}
	return !_mm256_testz_si256(any, any);
}

/* scan_all() of what is relative, where few places lead near a target. */
AVX2 static int scan_relative_wide(const struct scan *s, size_t *at)
{
	const struct code_targets *t = s->targets;
	struct scan part = *s;
	int rc = 0;

	for (; rc == 0 && *at + WIDE_WINDOW + 3 <= s->len; *at += WIDE_WINDOW) {
		uint64_t next = s->addr + *at + 4;

		if (!may_lead(s->code + *at, (uint32_t)(next - t->low), (uint32_t)t->span))
			continue;
		part.len = *at + WIDE_WINDOW + 3;
		rc = scan_all(&part, *at, true, false);
	}
	return rc;
}
#else
static int scan_relative_wide(const struct scan *s, size_t *at)
{
	(void)s;
	(void)at;
	return 0;
}
#endif

static int scan_relative(const struct scan *s, bool wide)
{
	size_t i = 0;
	int rc = 0;

	if (wide && s->targets && s->targets->span && s->targets->span <= UINT32_MAX)
		rc = scan_relative_wide(s, &i);
	return rc ? rc : scan_all(s, i, true, false);
}

int scan_x86_64_by(bool wide, const uint8_t *code, size_t len, uint64_t addr, unsigned patterns,
		   const struct code_targets *targets, code_hit_fn hit, void *context)
{
	const struct scan s = {code, len, addr, patterns, targets, hit, context};
	int rc = 0;

	if (patterns & (CODE_TAKES | CODE_CALLS | CODE_SYSCALLS))
		rc = scan_windows(&s, wide);
	if (rc != 0 || !(patterns & (CODE_RELATIVE | CODE_NUMBERS)))
		return rc;
	return !(patterns & CODE_NUMBERS)    ? scan_relative(&s, wide)
	       : !(patterns & CODE_RELATIVE) ? scan_all(&s, 0, false, true)
					     : scan_all(&s, 0, true, true);
}

int scan_x86_64(const uint8_t *code, size_t len, uint64_t addr, unsigned patterns,
		const struct code_targets *targets, code_hit_fn hit, void *context)
{
	return scan_x86_64_by(has_wide(), code, len, addr, patterns, targets, hit, context);
}

void list_x86_64_by(bool wide, const uint8_t *code, size_t len, size_t left, uint64_t addr,
		    struct code_lists *lists)
{
	const struct code_listing l = {code, len, left, addr - lists->base, lists};
	size_t i = 0;

	if (wide)
		list_wide(&l, &i);
	for (; i < len; i += WINDOW) {
		uint8_t tail[WINDOW + 2] = {0};
		const uint8_t *p = code + i;

		if (left - i < sizeof(tail))
			p = memcpy(tail, p, left - i);
		put_places(&l, i, look(p), len - i < WINDOW ? len - i : WINDOW);
	}
}

void list_x86_64(const uint8_t *code, size_t len, size_t left, uint64_t addr,
		 struct code_lists *lists)
{
	list_x86_64_by(has_wide(), code, len, left, addr, lists);
}
