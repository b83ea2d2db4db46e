/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scanner on what optimisers make of spawns and wakers (fixtures/profile.S): which places are
 * some, and which can be patched. A place is named by its function; the stripped objects must give
 * the same, so the names come from the others. The paths come as arguments.
 */
#include "fixture_files.h"
#include "runtime/runtime.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *name_of(struct elf_image *named, uint64_t addr)
{
	const struct elf_symbol *s = elf_image_symbol_at(named, addr);

	assert_non_null(s);
	return s->name;
}

/* All sites are ones that the source wants, and as many as it wants. */
static void check_sites(struct elf_image *named, const struct scan_site *sites, size_t n,
			size_t n_yes, size_t n_no)
{
	for (size_t i = 0; i < n; i++) {
		const char *name = name_of(named, sites[i].addr);
		bool yes = strncmp(name, "yes_", 4) == 0;

		if (!yes && strncmp(name, "no_", 3) != 0)
			fail_msg("a site in %s", name);
		if (sites[i].patchable != yes)
			fail_msg("%s: patchable %d", name, sites[i].patchable);
		n_yes -= yes;
		n_no -= !yes;
	}
	assert_int_equal(n_yes, 0);
	assert_int_equal(n_no, 0);
}

static void check(int which, int named_by)
{
	struct elf_image *image = load(which), *named = load(named_by);
	struct error err = {0};
	struct runtime_scan f = {0};

	if (runtime_find(image, &f, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(f.n_kinds, 1);
	check_sites(named, f.kinds[0].sites, f.kinds[0].n_sites, 3, 3);
	/* The one of park.rs, with the one place that makes it. */
	assert_int_equal(f.n_wakers, 1);
	assert_true(f.wakers[0].root);
	check_sites(named, f.wakers[0].sites, f.wakers[0].n_sites, 1, 0);
	runtime_scan_done(&f);
	elf_image_free(named);
	elf_image_free(image);
}

static void test_library(void **state)
{
	check(LIB, LIB);
	check(LIB_STRIPPED, LIB);
}

static void test_fixed(void **state)
{
	check(FIXED, FIXED);
	check(FIXED_STRIPPED, FIXED);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_library),
					   cmocka_unit_test(test_fixed)};

	if (argc < 5)
		return 2;
	files = argv + 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
