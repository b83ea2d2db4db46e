/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * runtime: where a return address says that its thread is in a block_on. The code looked at is this
 * program's own: a function that only makes a waker, one that calls it and polls, and one that does
 * both.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "binary/elf/elf_image.h"
#include "runtime/find.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTION(name, body)                                                                       \
	".globl " name "\n.type " name ", @function\n" name ":\n.cfi_startproc\n" body             \
	"\n.cfi_endproc\n.size " name ", . - " name "\n"

__asm__(".text\n" FUNCTION("tiny_maker", "lea tiny_maker(%rip), %rax\nret")
		FUNCTION("calls_maker", "nop\nnop\ncall tiny_maker\ncall *%rax\nnop\nret")
			FUNCTION("inlined",
				 ".skip 100, 0x90\nlea tiny_maker(%rip), %rax\ncall *%rax\n"
				 ".skip 100, 0x90\nret")
				FUNCTION("_ZN5tokio7runtime4park16CachedParkThread8block_"
					 "on17h0123456789abcdefE",
					 "nop\nnop\nret"));

static uint64_t address_of(struct elf_image *image, const char *name)
{
	const struct elf_symbol *s;
	size_t n = elf_image_symbols(image, &s);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(s[i].name, name))
			return s[i].addr;
	fail_msg("no symbol %s", name);
	return 0;
}

static void test_block_on(void **state)
{
	struct scan_block_on *found;
	struct elf_image *image;
	struct error err = {0};
	size_t n;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(elf_image_open(fd, "self", &image, &err), 0);
	uint64_t tiny = address_of(image, "tiny_maker"), calls = address_of(image, "calls_maker");
	uint64_t inlined = address_of(image, "inlined");
	uint64_t named = address_of(
		image, "_ZN5tokio7runtime4park16CachedParkThread8block_on17h0123456789abcdefE");
	struct scan_site small[] = {{.addr = tiny, .len = 7}};
	struct scan_site large[] = {{.addr = inlined + 100, .len = 7}};
	struct scan_waker wakers[] = {
		{.root = true, .sites = small, .n_sites = 1, .name = (char *)"block_on"},
		{.root = true,
		 .sites = large,
		 .n_sites = 1,
		 .name = (char *)"block_on (multi_thread)"},
	};
	struct runtime_scan f = {.wakers = wakers, .n_wakers = 2, .has_symbols = true};

	assert_int_equal(block_on_find(image, &f, &found, &n), 0);
	/* Behind the call of the small function, but not in it, nor on its way in. */
	const struct scan_block_on *b = block_on_at(found, n, calls + 9);
	assert_non_null(b);
	assert_int_equal(b->waker, 0);
	assert_null(block_on_at(found, n, calls + 7)); /* the call's own return address */
	assert_null(block_on_at(found, n, calls + 1));
	assert_null(block_on_at(found, n, tiny + 7));
	/* Behind the place in a large function. */
	assert_null(block_on_at(found, n, inlined + 100));
	b = block_on_at(found, n, inlined + 109);
	assert_non_null(b);
	assert_int_equal(b->waker, 1);
	/* By name. */
	b = block_on_at(found, n, named + 1);
	assert_non_null(b);
	assert_int_equal(b->waker, 1);
	free(found);

	f.has_symbols = false;
	assert_int_equal(block_on_find(image, &f, &found, &n), 0);
	assert_null(block_on_at(found, n, named + 1));
	assert_non_null(block_on_at(found, n, inlined + 209));
	assert_null(block_on_at(found, n, inlined + 210)); /* its end */
	assert_non_null(block_on_at(found, n, calls + 9));
	free(found);
	f.n_wakers = 0;
	assert_int_equal(block_on_find(image, &f, &found, &n), 0);
	assert_int_equal(n, 0);
	assert_null(block_on_at(found, n, calls + 9));
	free(found);
	elf_image_free(image);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_block_on)};

	return cmocka_run_group_tests_name("block_on", tests, NULL, NULL);
}
