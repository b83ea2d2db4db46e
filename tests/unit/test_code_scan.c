/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The scan for patterns of x86-64 code against a look at each byte: on bytes of which many begin such an
 * instruction, of every length and alignment. */
#include "binary/x86_64/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define BASE 0x401000u
enum { MAX_BYTES = 400, ALL = CODE_TAKES | CODE_CALLS | CODE_SYSCALLS };

struct hits {
	struct code_hit v[4 * MAX_BYTES];
	size_t n;
};

static int keep(void *context, const struct code_hit *hit)
{
	struct hits *h = context;

	h->v[h->n++] = *hit;
	return 0;
}

static void add(struct hits *h, const uint8_t *code, size_t i, size_t operand, bool word,
		enum code_pattern pattern)
{
	int32_t disp;

	memcpy(&disp, code + i + operand, 4);
	keep(h,
	     &(struct code_hit){BASE + i, BASE + i + operand,
				BASE + i + operand + 4 + (uint64_t)(int64_t)disp, word, pattern});
}

static void look_at_each(struct hits *h, const uint8_t *p, size_t len, unsigned patterns)
{
	for (size_t i = 0; i + 2 <= len; i++) {
		bool fits = i + 7 <= len,
		     wide = fits && (p[i] & 0xfb) == 0x48 && (p[i + 2] & 0xc7) == 5;
		bool takes = fits && patterns & CODE_TAKES, calls = fits && patterns & CODE_CALLS;

		if (takes && wide && p[i + 1] == 0x8d)
			add(h, p, i, 3, false, CODE_TAKES);
		else if (calls && (p[i] & 0xfe) == 0xe8)
			add(h, p, i, 1, false, CODE_CALLS);
		else if (calls && p[i] == 0xff && (p[i + 1] & 0xcf) == 5)
			add(h, p, i, 2, true, CODE_CALLS);
		else if (calls && wide && p[i + 1] == 0x8b)
			add(h, p, i, 3, true, CODE_CALLS);
		else if (patterns & CODE_SYSCALLS && p[i] == 0x0f && p[i + 1] == 5)
			keep(h, &(struct code_hit){.addr = BASE + i, .pattern = CODE_SYSCALLS});
	}
}

/* Where any four bytes lead to one of `targets`. */
static void look_at_all(struct hits *h, const uint8_t *p, size_t len, const struct code_targets *t)
{
	for (size_t i = 0; i + 4 <= len; i++) {
		uint64_t target;
		int32_t disp;

		memcpy(&disp, p + i, 4);
		target = BASE + i + 4 + (uint64_t)(int64_t)disp;
		if (code_targets_have(t, target))
			keep(h,
			     &(struct code_hit){BASE + i, BASE + i, target, false, CODE_RELATIVE});
	}
}

static void assert_same(const struct hits *got, const struct hits *want)
{
	assert_int_equal(got->n, want->n);
	for (size_t i = 0; i < want->n; i++) {
		assert_int_equal(got->v[i].addr, want->v[i].addr);
		assert_int_equal(got->v[i].operand, want->v[i].operand);
		assert_int_equal(got->v[i].target, want->v[i].target);
		assert_int_equal(got->v[i].word, want->v[i].word);
		assert_int_equal(got->v[i].pattern, want->v[i].pattern);
	}
}

/* With the registers that this processor has, and with those that all have. */
static bool widths(size_t i)
{
	return i == 1 && __builtin_cpu_supports("avx2");
}

enum { N_LISTED = 2 * MAX_BYTES };

static void list_init(struct code_lists *l)
{
	static uint32_t room[2 * CODE_N_LISTS][N_LISTED];

	*l = (struct code_lists){
		.base = BASE - 0x1000, .low = BASE, .span = 0x100, .all = 0x80000000};
	for (size_t i = 0; i < CODE_N_LISTS; i++) {
		l->addrs[i] = room[2 * i];
		l->targets[i] = room[2 * i + 1];
	}
}

/* What the scan gives, in the lists: those of which the target is in the range. */
static void assert_listed(const struct code_lists *l, const struct hits *want)
{
	size_t n[CODE_N_LISTS] = {0};

	for (size_t i = 0; i < want->n; i++) {
		const struct code_hit *h = &want->v[i];
		enum code_list list = h->pattern == CODE_TAKES	    ? CODE_LIST_TAKES
				      : h->pattern == CODE_SYSCALLS ? CODE_LIST_SYSCALLS
				      : h->word			    ? CODE_LIST_WORDS
								    : CODE_LIST_CALLS;
		uint64_t low = list == CODE_LIST_CALLS ? l->low : l->base,
			 span = list == CODE_LIST_CALLS ? l->span : l->all;

		if (list != CODE_LIST_SYSCALLS && h->target - low >= span)
			continue;
		assert_true(n[list] < l->n[list]);
		assert_int_equal(l->addrs[list][n[list]] + l->base,
				 list == CODE_LIST_TAKES ? h->operand : h->addr);
		if (list != CODE_LIST_SYSCALLS)
			assert_int_equal(l->targets[list][n[list]] + l->base, h->target);
		n[list]++;
	}
	for (size_t i = 0; i < CODE_N_LISTS; i++)
		assert_int_equal(n[i], l->n[i]);
}

/* In one part, or in several. */
static void check_lists(const uint8_t *code, size_t len, const struct hits *want)
{
	for (size_t part = 1; part <= len; part = 3 * part + 1)
		for (size_t w = 0; w < 2; w++) {
			struct code_lists l;

			list_init(&l);
			for (size_t at = 0; at < len; at += part)
				list_x86_64_by(widths(w), code + at,
					       len - at < part ? len - at : part, len - at,
					       BASE + at, &l);
			assert_listed(&l, want);
		}
}

static void check(const uint8_t *code, size_t len)
{
	static const unsigned patterns[] = {CODE_TAKES, CODE_CALLS, CODE_SYSCALLS, ALL};
	static struct hits want, got;
	uint8_t *copy = malloc(len ? len : 1); /* a sanitizer sees one byte too far */

	memcpy(copy, code, len);
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		want.n = 0;
		look_at_each(&want, copy, len, patterns[i]);
		for (size_t k = 0; k < 2; k++) {
			got.n = 0;
			assert_int_equal(scan_x86_64_by(widths(k), copy, len, BASE, patterns[i],
							NULL, keep, &got),
					 0);
			assert_same(&got, &want);
		}
	}
	check_lists(copy, len, &want); /* ALL came last */
	free(copy);
}

/* Targets near the code, and so far away that 32 bits are not enough. */
static void test_relative(void **state)
{
	static const uint64_t targets[][3] = {
		{BASE - 3, BASE + 17, BASE + 300},
		{BASE + 70, BASE + 71, BASE + 0x100000045},
		{0, 1, UINT32_MAX},
	};
	static struct hits want, got;
	uint8_t code[MAX_BYTES];
	uint32_t random = 7;
	size_t n = 0;

	(void)state;
	for (size_t len = 0; len <= MAX_BYTES; len += 3) {
		uint8_t *copy = malloc(len ? len : 1);

		for (size_t i = 0; i < len; i++) {
			random = random * 1664525 + 1013904223;
			code[i] = random >> 31 ? (uint8_t)(random >> 24) : 0;
		}
		/* What leads to the second target of each. */
		for (size_t i = 0; i + 4 <= len; i += 41) {
			int32_t disp = (int32_t)(BASE + (i % 2 ? 17 : 71) - (BASE + i + 4));

			memcpy(code + i, &disp, 4);
		}
		memcpy(copy, code, len);
		for (size_t k = 0; k < sizeof(targets) / sizeof(targets[0]); k++) {
			struct code_targets t;

			assert_int_equal(code_targets_init(&t, targets[k], 3), 0);
			want.n = 0;
			look_at_all(&want, copy, len, &t);
			n += want.n;
			for (size_t w = 0; w < 2; w++) {
				got.n = 0;
				assert_int_equal(scan_x86_64_by(widths(w), copy, len, BASE,
								CODE_RELATIVE, &t, keep, &got),
						 0);
				assert_same(&got, &want);
			}
			code_targets_done(&t);
		}
		free(copy);
	}
	assert_true(n > 100);
}

static void test_patterns(void **state)
{
	/* Bytes of which the patterns are made, and some others. */
	static const uint8_t bytes[] = {0x48, 0x4c, 0x8d, 0x8b, 0x05, 0x3d, 0xe8, 0xe9,
					0xff, 0x15, 0x25, 0x0f, 0x05, 0x00, 0x90, 0x49};
	uint8_t code[MAX_BYTES] = {0};
	uint32_t random = 1;

	(void)state;
	for (size_t len = 0; len <= MAX_BYTES; len++) {
		for (size_t i = 0; i < len; i++) {
			random = random * 1664525 + 1013904223;
			code[i] = bytes[random >> 28];
		}
		check(code, len);
	}
	/* Where each pattern may be: also across two windows, and at the end. */
	for (size_t at = 0; at + 7 <= 100; at++) {
		memset(code, 0x90, 100);
		memcpy(code + at, "\x4c\x8d\x2d\x01\x02\x03\x04", 7);
		check(code, 100);
		check(code, at + 6);
	}
}

static int stop(void *context, const struct code_hit *hit)
{
	return ++*(int *)context == 3 ? (int)hit->addr : 0;
}

/* What a hit gives back ends it. */
static void test_end(void **state)
{
	uint8_t code[200];
	int n = 0;

	(void)state;
	memset(code, 0xe8, sizeof(code));
	assert_int_equal(scan_x86_64(code, sizeof(code), BASE, CODE_CALLS, NULL, stop, &n),
			 BASE + 2);
	assert_int_equal(n, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_patterns),
					   cmocka_unit_test(test_relative),
					   cmocka_unit_test(test_end)};

	return cmocka_run_group_tests_name("code_scan", tests, NULL, NULL);
}
