/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scanner on an object of our own (fixtures/runtimes.S), which holds one of each thing that it
 * must find and a good deal that it must not. The stripped object must give what the other gives,
 * but for the names. The paths come as arguments: shared library, stripped, fixed addresses,
 * stripped.
 */
#include "fixture_files.h"
#include "binary/code/code_refs.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct scan_runtime *runtime_named(const struct runtime_scan *f, const char *name)
{
	for (size_t i = 0; i < f->n_runtimes; i++) {
		if (strcmp(f->runtimes[i].name, name) == 0)
			return &f->runtimes[i];
	}
	fail_msg("no runtime %s", name);
	return NULL;
}

static const struct trace_coverage *coverage_of(const struct runtime_scan *f, const char *item)
{
	for (size_t i = 0; i < f->coverage.n; i++) {
		if (strcmp(f->coverage.v[i].item, item) == 0)
			return &f->coverage.v[i];
	}
	fail_msg("no coverage of %s", item);
	return NULL;
}

static void check_scan(int which)
{
	bool stripped = which == LIB_STRIPPED || which == FIXED_STRIPPED;
	bool fixed = which == FIXED || which == FIXED_STRIPPED;
	struct elf_image *image = load(which);
	struct error err = {0};
	struct runtime_scan f = {0};
	const struct scan_kind *one, *two, *async;

	if (runtime_find(image, &f, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(f.has_symbols, !stripped);
	assert_int_equal(f.pie, !fixed);
	assert_int_equal(f.is_static, fixed);
	assert_int_equal(f.n_runtimes, 2);
	assert_string_equal(runtime_named(&f, "tokio")->version, "1.38.0");
	assert_string_equal(runtime_named(&f, "async-task")->version, "4.7.1");
	assert_int_equal(runtime_named(&f, "tokio")->next_id != 0, !stripped);

	/* Two kinds of Tokio's and one of async-task's; none of the bait. */
	assert_int_equal(f.n_kinds, 3);
	one = &f.kinds[0];
	two = &f.kinds[1];
	async = &f.kinds[2];
	assert_int_equal(find_model(&f, one->runtime), TASK_TOKIO);
	assert_int_equal(find_model(&f, two->runtime), TASK_TOKIO);
	assert_int_equal(find_model(&f, async->runtime), TASK_ASYNC_TASK);
	assert_int_equal(one->slots[TF_POLL].addr, one->vtable);
	assert_int_equal(one->slots[TF_SCHEDULE].addr, one->vtable + 8);
	assert_int_equal(one->slots[TF_FREE].addr, one->vtable + 16);
	assert_int_equal(one->slots[TF_SHUTDOWN].addr, one->vtable + 48);
	assert_int_equal(one->id_offset, 40);
	assert_int_equal(one->scheduler_offset, 32);
	assert_int_equal(one->trailer_offset, 96);
	assert_int_equal(one->vtable_offset, 16);
	assert_int_equal(one->state_offset, 0);
	assert_int_equal(one->role, TR_TASK);
	assert_int_equal(two->role, TR_BLOCKING);
	assert_int_equal(two->slots[TF_POLL].function, one->slots[TF_POLL].function + 16);
	assert_string_equal(one->name, stripped ? "kind 1" : "app::serve");
	assert_string_equal(one->scheduler, stripped ? "" : "multi_thread");
	assert_string_equal(two->name, "kind 2");

	/* Both sites are good, also the one whose jump would end in the next page; what only looks
	 * like a third is no instruction. */
	assert_int_equal(one->n_sites, 2);
	assert_true(one->sites[0].patchable);
	assert_true(one->sites[1].patchable);
	assert_true(one->sites[1].addr % 4096 > 4091);
	assert_int_equal(one->sites[0].reg, 1);
	assert_int_equal(one->sites[0].len, 7);
	if (!stripped)
		assert_string_equal(one->sites[0].where, "app::main+0x0");
	assert_int_equal(two->n_sites, 1);
	assert_false(two->sites[0].patchable); /* taken once for a whole loop */

	/* Header places are read from this object's code, not assumed. */
	assert_int_equal(async->runtime, 1);
	assert_int_equal(async->vtable_offset, 0x18);
	assert_int_equal(async->state_offset, 0x10);
	assert_int_equal(async->slots[TF_SCHEDULE].addr, async->vtable);
	assert_int_equal(async->slots[TF_FREE].addr, async->vtable + 32);
	assert_int_equal(async->slots[TF_DROP_FUTURE].addr, async->vtable + 8);
	assert_int_equal(async->slots[TF_POLL].addr, async->vtable + 40);
	assert_true(async->slots[TF_DROP_REF].function != 0 &&
		    async->slots[TF_DROP_REF].function != async->slots[TF_FREE].function);
	assert_int_equal(async->n_sites, 1);

	assert_int_equal(f.n_wakers, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_false(f.wakers[i].root);
		assert_int_equal(f.wakers[i].wake.addr, f.wakers[i].vtable + 8);
		assert_int_equal(f.wakers[i].wake_by_ref.addr, f.wakers[i].vtable + 16);
		assert_int_not_equal(f.wakers[i].wake.function, f.wakers[i].wake_by_ref.function);
	}
	assert_int_equal(coverage_of(&f, "tokio task tables")->seen, 2);
	assert_int_equal(coverage_of(&f, "spawn sites")->seen, 2);
	assert_int_equal(coverage_of(&f, "spawn sites")->total, 3);
	assert_int_equal(coverage_of(&f, "names")->seen, stripped ? 0 : 1);
	runtime_scan_done(&f);
	elf_image_free(image);
}

static void test_library(void **state)
{
	check_scan(LIB);
}

static void test_library_stripped(void **state)
{
	check_scan(LIB_STRIPPED);
}

static void test_fixed(void **state)
{
	check_scan(FIXED);
}

static void test_fixed_stripped(void **state)
{
	check_scan(FIXED_STRIPPED);
}

/* Functions and pointers, by symbols and by unwind tables alike. */
static void test_functions(void **state)
{
	struct elf_image *with = load(LIB), *without = load(LIB_STRIPPED);
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(with, &symbols), functions = 0;

	assert_true(n > 20);
	for (size_t i = 0; i < n; i++) {
		uint64_t start, end, start2, end2;

		if (i > 0)
			assert_true(symbols[i].addr >= symbols[i - 1].addr);
		if (symbols[i].type != 2 || !symbols[i].size) /* STT_FUNC */
			continue;
		assert_true(elf_image_function(with, symbols[i].addr + symbols[i].size - 1, &start,
					       &end));
		assert_true(elf_image_function(without, symbols[i].addr, &start2, &end2));
		assert_int_equal(start, start2);
		assert_int_equal(end, end2);
		functions++;
	}
	assert_true(functions > 20);
	elf_image_free(with);
	elf_image_free(without);
}

/* A file cut at any length gives an error or a scan, nothing else. */
static void test_cut(void **state)
{
	for (int which = 0; which < N_FILES; which++) {
		int in = open(files[which], O_RDONLY);
		off_t size = lseek(in, 0, SEEK_END);
		int fd = memfd_create("cut", MFD_CLOEXEC);
		char *bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, in, 0);

		assert_true(bytes != MAP_FAILED && fd >= 0);
		assert_int_equal(write(fd, bytes, (size_t)size), size);
		for (off_t len = size; len > 0; len -= len > 1024 ? 331 : 7) {
			struct elf_image *image;
			struct error err = {0};
			struct runtime_scan f;

			assert_int_equal(ftruncate(fd, len), 0);
			if (elf_image_open(fd, "cut", &image, &err) < 0) {
				assert_true(err.text[0]);
				continue;
			}
			if (runtime_find(image, &f, &err) == 0)
				runtime_scan_done(&f);
			elf_image_free(image);
		}
		munmap(bytes, (size_t)size);
		close(fd);
		close(in);
	}
}

static void test_refused(void **state)
{
	int fd = memfd_create("no", MFD_CLOEXEC);
	struct elf_image *image = NULL;
	struct error err = {0};

	assert_int_equal(write(fd, "#!/bin/sh\n", 10), 10);
	assert_int_equal(elf_image_open(fd, "script", &image, &err), -ENOEXEC);
	assert_non_null(strstr(err.text, "script"));
	assert_non_null(strstr(err.text, "not an ELF file"));
	assert_null(image);
	close(fd);
	fd = open("/", O_RDONLY | O_DIRECTORY);
	assert_true(elf_image_open(fd, "dir", &image, &err) < 0);
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_library),	  cmocka_unit_test(test_library_stripped),
		cmocka_unit_test(test_fixed),	  cmocka_unit_test(test_fixed_stripped),
		cmocka_unit_test(test_functions), cmocka_unit_test(test_cut),
		cmocka_unit_test(test_refused),
	};

	if (argc != 1 + N_FILES) {
		fprintf(stderr, "usage: %s LIBRARY STRIPPED FIXED STRIPPED\n", argv[0]);
		return 2;
	}
	files = argv + 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
