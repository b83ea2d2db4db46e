/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The index of an object's code against scans of it. The paths come as arguments: shared library,
 * stripped, fixed addresses, stripped.
 */
#include "fixture_files.h"
#include "binary/code/code_index.h"

#include <stdio.h>
#include <stdlib.h>

struct hits {
	struct code_hit v[1 << 18];
	size_t n;
};

static int keep(void *context, const struct code_hit *hit)
{
	struct hits *h = context;

	assert_true(h->n < sizeof(h->v) / sizeof(h->v[0]));
	h->v[h->n++] = *hit;
	return 0;
}

static bool calls(struct elf_image *image, const struct code_hit *hit, uint64_t function)
{
	uint64_t target = hit->target;

	return (!hit->word || elf_image_pointer_at(image, target, &target)) && target == function;
}

/* Of this program, again and again: the answers are the same once the index is sorted. */
static void test_calls(void **state)
{
	static struct hits all;
	struct elf_image *image = NULL;
	const struct elf_symbol *symbols;
	struct code_index *index;
	struct error err = {0};
	size_t n_symbols, found = 0, asked = 0;

	(void)state;
	if (elf_image_open_path("/proc/self/exe", &image, &err) < 0)
		fail_msg("%s", err.text);
	n_symbols = elf_image_symbols(image, &symbols);
	index = code_index_of(image);
	assert_non_null(index);
	assert_int_equal(code_scan(image, CODE_CALLS, NULL, keep, &all), 0);
	for (size_t i = 0; i < n_symbols && asked < 100; i++) {
		uint64_t start, end;
		const uint64_t *c;
		size_t n, k = 0;

		if (!elf_image_function(image, symbols[i].addr, &start, &end) ||
		    start != symbols[i].addr)
			continue;
		c = code_index_calls(index, start, &n);
		assert_int_equal(c != NULL, n > 0);
		for (size_t h = 0; h < all.n; h++)
			if (calls(image, &all.v[h], start)) {
				assert_true(k < n);
				assert_int_equal(c[k++], all.v[h].addr);
			}
		assert_int_equal(k, n);
		found += n;
		asked++;
	}
	assert_int_equal(asked, 100);
	assert_true(found > 10);
	elf_image_free(image);
}

/* Every address of data, also where nothing is. */
static void test_takes(void **state)
{
	(void)state;
	for (int which = 0; which < N_FILES; which++) {
		struct elf_image *image = load(which);
		struct code_index *index = code_index_of(image);
		static struct hits all, got;
		size_t found = 0;

		assert_non_null(index);
		assert_ptr_equal(code_index_of(image), index);
		all.n = 0;
		assert_int_equal(code_scan(image, CODE_TAKES, NULL, keep, &all), 0);
		for (size_t i = 0; i < all.n; i++) {
			struct code_targets t;
			size_t n = 0, left;

			if (elf_image_is_code(image, all.v[i].target) ||
			    !elf_image_bytes(image, all.v[i].target, &left))
				continue;
			got.n = 0;
			assert_int_equal(code_targets_init(&t, &all.v[i].target, 1), 0);
			assert_int_equal(code_index_takes(index, &t, keep, &got), 0);
			code_targets_done(&t);
			for (size_t k = 0; k < all.n; k++)
				if (all.v[k].target == all.v[i].target) {
					assert_true(n < got.n);
					assert_int_equal(got.v[n].operand, all.v[k].operand);
					assert_int_equal(got.v[n++].target, all.v[k].target);
				}
			assert_int_equal(n, got.n);
			found += n;
		}
		assert_true(which >= FIXED || found > 4);
		/* It's made anew after a rest. */
		elf_image_rest(image);
		index = code_index_of(image);
		assert_non_null(index);
		got.n = 0;
		assert_int_equal(code_index_takes(index, &(struct code_targets){.span = UINT64_MAX},
						  keep, &got),
				 0);
		assert_true(got.n >= (which >= FIXED ? 0 : 4));
		elf_image_free(image);
	}
}

static void test_syscalls(void **state)
{
	(void)state;
	for (int which = 0; which < N_FILES; which++) {
		struct elf_image *image = load(which);
		struct code_index *index = code_index_of(image);
		static struct hits all;
		const uint64_t *hits;
		size_t n;

		assert_non_null(index);
		all.n = 0;
		assert_int_equal(code_scan(image, CODE_SYSCALLS, NULL, keep, &all), 0);
		hits = code_index_syscalls(index, &n);
		assert_int_equal(n, all.n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(hits[i], all.v[i].addr);
		elf_image_free(image);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls),
					   cmocka_unit_test(test_takes),
					   cmocka_unit_test(test_syscalls)};

	if (argc != 1 + N_FILES) {
		fprintf(stderr, "usage: %s LIBRARY STRIPPED FIXED STRIPPED\n", argv[0]);
		return 2;
	}
	files = argv + 1;
	return cmocka_run_group_tests_name("code_index", tests, NULL, NULL);
}
