/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Uses of functions, found in this very program; and what the code of a poll function says. */
#include "binary/elf/elf_image.h"
#include "binary/code/code_index.h"
#include "binary/code/code_refs.h"
#include "runtime/poll_code.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static int called_thrice(int x)
{
	__asm__ volatile("" : "+r"(x)); /* nothing is known of x */
	return x * 3;
}

__attribute__((noinline)) static int once(int x)
{
	__asm__ volatile("" : "+r"(x));
	return called_thrice(x) + 1;
}

__attribute__((noinline)) static int twice(int x)
{
	__asm__ volatile("" : "+r"(x));
	return called_thrice(x) + called_thrice(x + 1);
}

/* Some linkers put code before or after .text. */
int elsewhere(int x);
__attribute__((noinline, section("other_code"))) int elsewhere(int x)
{
	__asm__ volatile("" : "+r"(x));
	return once(x) + 1;
}

static int (*const volatile in_data[])(int) = {called_thrice, once};

/* As a coroutine's body begins: by its state, through the first argument or the second. */
void body_first(void), body_second(void), body_spilled(void), body_on_stack(void);
__asm__(".text\n"
	".type body_first, @function\nbody_first:\n"
	"	push %rbx\n	mov %rdi, %rbx\n	movzbl 0x50(%rdi), %eax\n	test %eax, "
	"%eax\n"
	"	jne 1f\n	movb $1, 0x50(%rbx)\n	pop %rbx\n	ret\n"
	"1:	movb $3, 0x50(%rbx)\n	pop %rbx\n	ret\n"
	".size body_first, .-body_first\n"
	".type body_second, @function\nbody_second:\n"
	"	sub $8, %rsp\n	cmpb $0, 0x20(%rsi)\n	jne 1f\n	movb $1, 0x20(%rsi)\n"
	"1:	add $8, %rsp\n	ret\n"
	".size body_second, .-body_second\n"
	".type body_spilled, @function\nbody_spilled:\n"
	"	sub $0x28, %rsp\n	mov %rdi, 0x10(%rsp)\n	mov 0x10(%rsp), %rax\n"
	"	lea 0x40(%rax), %rcx\n	mov 8(%rcx), %al\n	add $0x28, %rsp\n	ret\n"
	".size body_spilled, .-body_spilled\n"
	".type body_on_stack, @function\nbody_on_stack:\n"
	"	push %rbx\n	movzbl 8(%rdi), %eax\n	mov 0x10(%rsp), %rbx\n	pop %rbx\n	"
	"ret\n"
	".size body_on_stack, .-body_on_stack\n");

/* As a function's that borrows a future: by pointers, the first of which is an argument. */
void body_borrowed(void), body_borrowed_twice(void);
__asm__(".type body_borrowed, @function\nbody_borrowed:\n"
	"	push %r12\n	push %rbx\n	push %rax\n	cmpq $0, 8(%rdi)\n	jne 1f\n"
	"	mov %rcx, %r12\n	call body_first\n	mov (%r12), %rbx\n"
	"	movzbl 0x11(%rbx), %eax\n"
	"1:	pop %rax\n	pop %rbx\n	pop %r12\n	ret\n"
	".size body_borrowed, .-body_borrowed\n"
	".type body_borrowed_twice, @function\nbody_borrowed_twice:\n"
	"	sub $8, %rsp\n	mov %rdi, (%rsp)\n	mov (%rsp), %rax\n	mov (%rax), %rax\n"
	"	mov 8(%rax), %rdx\n	mov (%rax), %rax\n	cmpb $0, 0x30(%rdx)\n"
	"	cmpb $0, 0x20(%rax)\n	add $8, %rsp\n	ret\n"
	".size body_borrowed_twice, .-body_borrowed_twice\n");

static struct elf_image *image;

static int setup(void **state)
{
	struct error err = {0};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	return elf_image_open(fd, "self", &image, &err) < 0 || close(fd) < 0;
}

static int teardown(void **state)
{
	elf_image_free(image);
	(void)state;
	return 0;
}

static uint64_t linked(const char *name)
{
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(image, &symbols);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(symbols[i].name, name))
			return symbols[i].addr;
	fail_msg("no symbol %s", name);
	return 0;
}

static void test_uses(void **state)
{
	uint64_t targets[2] = {linked("called_thrice"), linked("once")};
	size_t n, counts[5] = {0};
	struct code_refs uses;

	assert_int_equal(once(1) + twice(1) + in_data[0](1) + in_data[1](1), 20);
	if (targets[0] > targets[1]) {
		uint64_t first = targets[0];
		targets[0] = targets[1];
		targets[1] = first;
	}
	assert_int_equal(code_refs_find(image, targets, 2, CODE_REFS_ALL, &uses), 0);
	const struct code_ref *u = code_refs_of(&uses, linked("called_thrice"), &n);
	for (size_t i = 0; i < n; i++) {
		size_t left;
		const uint8_t *at = elf_image_bytes(image, u[i].operand, &left);
		int32_t distance;

		counts[u[i].kind]++;
		if (u[i].kind != REF_BRANCH)
			continue;
		memcpy(&distance, at, sizeof(distance));
		assert_int_equal(u[i].operand + 4 + (uint64_t)(int64_t)distance, u[i].target);
	}
	assert_int_equal(counts[REF_BRANCH], 3);
	assert_int_equal(counts[REF_WORD], 1);
	assert_int_equal(counts[REF_UNSURE] + counts[REF_NUMBER], 0);
	assert_null(code_refs_of(&uses, 1, &n));
	assert_int_equal(n, 0);
	code_refs_done(&uses);
	(void)state;
}

static void test_code_index(void **state)
{
	struct code_index *calls = code_index_of(image);
	const uint64_t *c;
	uint64_t start, end;
	size_t n, n_elsewhere = 0;

	assert_int_equal(elsewhere(1), 5);
	assert_non_null(calls);
	assert_non_null(code_index_calls(calls, linked("called_thrice"), &n));
	assert_true(n >= 3); /* and a load of its address */
	c = code_index_calls(calls, linked("once"), &n);
	for (size_t i = 0; i < n; i++)
		n_elsewhere += elf_image_function(image, c[i], &start, &end) &&
			       start == linked("elsewhere");
	assert_int_equal(n_elsewhere, 1);
	assert_null(code_index_calls(calls, linked("once") + 1, &n));
	(void)state;
}

static struct poll_code read_code(const char *name, uint64_t offset)
{
	struct poll_code code;
	uint64_t start, end;

	assert_true(elf_image_function(image, linked(name), &start, &end));
	assert_true(poll_code_read(image, start, end, offset, 1, NULL, 0, &code));
	return code;
}

static void test_poll_code(void **state)
{
	struct poll_code code = read_code("body_first", POLL_CODE_ANY);

	assert_int_equal(code.argument, 1);
	assert_int_equal(code.state_offset, 0x50);
	assert_true(code.returns && code.suspends && !code.stack && !code.resumed);
	code = read_code("body_second", POLL_CODE_ANY);
	assert_int_equal(code.argument, 2);
	assert_int_equal(code.state_offset, 0x20);
	assert_true(code.returns && !code.suspends);
	code = read_code("body_spilled", 0x48);
	assert_int_equal(code.argument, 1);
	assert_false(code.stack);
	assert_int_equal(read_code("body_spilled", 0x50).argument, 0);
	assert_true(read_code("body_on_stack", POLL_CODE_ANY).stack);
	(void)state;
}

static uint8_t borrowed_by(const char *name, uint64_t offset, unsigned borrowed)
{
	struct poll_code code;
	uint64_t start, end;

	assert_true(elf_image_function(image, linked(name), &start, &end));
	poll_code_read_borrowed(image, start, end, offset, 1, borrowed, &code);
	assert_false(code.stack);
	return code.argument;
}

/* Only at this place, through this number of pointers. */
static void test_borrowed_code(void **state)
{
	assert_int_equal(borrowed_by("body_borrowed", 0x11, 1), 4);
	assert_int_equal(borrowed_by("body_borrowed", 0x11, 2), 0);
	assert_int_equal(borrowed_by("body_borrowed", 0x10, 1), 0);
	assert_int_equal(borrowed_by("body_borrowed_twice", 0x20, 2), 1);
	assert_int_equal(borrowed_by("body_borrowed_twice", 0x20, 1), 0);
	assert_int_equal(borrowed_by("body_borrowed_twice", 0x30, 2), 0);
	assert_int_equal(borrowed_by("body_first", 0x50, 1), 0);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uses), cmocka_unit_test(test_code_index),
		cmocka_unit_test(test_poll_code), cmocka_unit_test(test_borrowed_code)};

	return cmocka_run_group_tests(tests, setup, teardown);
}
