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

static void add(struct hits *h, const uint8_t *code, size_t i, size_t operand, bool word)
{
	int32_t disp;

	memcpy(&disp, code + i + operand, 4);
	keep(h, &(struct code_hit){BASE + i, BASE + i + operand,
				   BASE + i + operand + 4 + (uint64_t)(int64_t)disp, word});
}

static void look_at_each(struct hits *h, const uint8_t *p, size_t len, unsigned pattern)
{
	for (size_t i = 0; i + (pattern == CODE_SYSCALLS ? 2 : 7) <= len; i++) {
		bool wide =
			pattern != CODE_SYSCALLS && (p[i] & 0xfb) == 0x48 && (p[i + 2] & 0xc7) == 5;

		if (pattern == CODE_TAKES && wide && p[i + 1] == 0x8d)
			add(h, p, i, 3, false);
		else if (pattern == CODE_CALLS && (p[i] & 0xfe) == 0xe8)
			add(h, p, i, 1, false);
		else if (pattern == CODE_CALLS && p[i] == 0xff && (p[i + 1] & 0xcf) == 5)
			add(h, p, i, 2, true);
		else if (pattern == CODE_CALLS && wide && p[i + 1] == 0x8b)
			add(h, p, i, 3, true);
		else if (pattern == CODE_SYSCALLS && p[i] == 0x0f && p[i + 1] == 5)
			keep(h, &(struct code_hit){.addr = BASE + i});
	}
}

static void check(const uint8_t *code, size_t len)
{
	static const unsigned patterns[] = {CODE_TAKES, CODE_CALLS, CODE_SYSCALLS};
	static struct hits want, got;
	uint8_t *copy = malloc(len ? len : 1); /* a sanitizer sees one byte too far */

	memcpy(copy, code, len);
	want.n = 0;
	for (size_t i = 0; i < 3; i++)
		look_at_each(&want, copy, len, patterns[i]);
	got.n = 0;
	assert_int_equal(scan_x86_64(copy, len, BASE, ALL, NULL, keep, &got), 0);
	assert_int_equal(got.n, want.n);
	for (size_t i = 0; i < want.n; i++) {
		assert_int_equal(got.v[i].addr, want.v[i].addr);
		assert_int_equal(got.v[i].operand, want.v[i].operand);
		assert_int_equal(got.v[i].target, want.v[i].target);
		assert_int_equal(got.v[i].word, want.v[i].word);
	}
	free(copy);
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
					   cmocka_unit_test(test_end)};

	return cmocka_run_group_tests_name("code_scan", tests, NULL, NULL);
}
