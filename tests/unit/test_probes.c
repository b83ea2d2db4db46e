/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading of probes: the operands, each form with its value; a file of hand-made notes
 * (fixtures/probes.S: argv[1] as a library, argv[2] at fixed addresses); and notes that are cut and
 * bent, which may give what they like but never read beyond.
 */
#include "../probe_eval.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char **files;

static const uint8_t memory[64] = {0x10, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
				   0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};

static int read_memory(void *ctx, uint64_t addr, void *to, size_t len)
{
	assert_ptr_equal(ctx, files);
	if (addr < 0x1000 || addr - 0x1000 > sizeof(memory) - len)
		return -EFAULT;
	memcpy(to, memory + (addr - 0x1000), len);
	return 0;
}

/* An operand is for reading a value and for people; both at once. */
static void check(enum probe_machine machine, const char *operand, const char *text, int want_r,
		  uint64_t want)
{
	uint64_t words[PROBE_ARM_N_WORDS], v = 0;
	struct probe_arg args[PROBE_MAX_ARGS];
	_cleanup_buf_ struct buf out = BUF_INIT;
	int r;

	for (size_t i = 0; i < PROBE_ARM_N_WORDS; i++)
		words[i] = 0x1000 + i;
	words[PROBE_X86_RAX] = 0xfedcba9876543210;
	words[PROBE_X86_RBP] = 0x1010;
	words[PROBE_X86_RCX] = 2;
	words[PROBE_X86_RIP] = 0x1000;
	words[0] = 0x1000;     /* r15, x0 */
	words[1] = 0xffffffff; /* r14, x1 */
	words[3] = 1;	       /* r12, x3 */
	words[29] = 0x1010;    /* x29 */
	words[PROBE_ARM_SP] = 0x1000;
	assert_int_equal(probe_args_parse(machine, operand, args), 1);
	probe_arg_text(&out, &args[0]);
	assert_string_equal(out.data, text);
	r = probe_arg_eval(&args[0], words,
			   machine == PROBE_X86_64 ? PROBE_X86_N_WORDS : PROBE_ARM_N_WORDS,
			   read_memory, files, &v);
	if (r != want_r || (r == 0 && v != want))
		fail_msg("%s: %d, %#llx instead of %d, %#llx", operand, r, (unsigned long long)v,
			 want_r, (unsigned long long)want);
	assert_int_equal(args[0].operand_len, strlen(operand));
}

static void test_x86(void **state)
{
	(void)state;
	check(PROBE_X86_64, "8@%rax", "u64 in rax", 0, 0xfedcba9876543210);
	check(PROBE_X86_64, "4@%eax", "u32 in rax", 0, 0x76543210);
	check(PROBE_X86_64, "8@%eax", "u32 in rax", 0, 0x76543210);
	check(PROBE_X86_64, "-2@%ax", "i16 in rax", 0, 0x3210);
	check(PROBE_X86_64, "1@%al", "u8 in rax", 0, 0x10);
	check(PROBE_X86_64, "1@%ah", "u8 in rax >> 8", 0, 0x32);
	check(PROBE_X86_64, "-4@%r14d", "i32 in r14", 0, UINT64_MAX);
	check(PROBE_X86_64, "4@%r14d", "u32 in r14", 0, 0xffffffff);
	check(PROBE_X86_64, "2@%r14w", "u16 in r14", 0, 0xffff);
	check(PROBE_X86_64, "-1@%r14b", "i8 in r14", 0, UINT64_MAX);
	check(PROBE_X86_64, "8@%r8", "u64 in r8", 0, 0x1009);
	check(PROBE_X86_64, "8@%r9", "u64 in r9", 0, 0x1008);
	check(PROBE_X86_64, "1@%sil", "u8 in rsi", 0, 0x0d);
	check(PROBE_X86_64, "%rax", "u64 in rax", 0, 0xfedcba9876543210);
	check(PROBE_X86_64, "8f@%rax", "f64 in rax", 0, 0xfedcba9876543210);
	check(PROBE_X86_64, "8f@%xmm13", "f64 in vector register 13", -ENOTSUP, 0);

	check(PROBE_X86_64, "8@$5", "u64 constant 5", 0, 5);
	check(PROBE_X86_64, "-4@$-1", "i32 constant -1", 0, UINT64_MAX);
	check(PROBE_X86_64, "4@$-1", "u32 constant 4294967295", 0, 0xffffffff);
	check(PROBE_X86_64, "8@$0x1f", "u64 constant 31", 0, 31);
	check(PROBE_X86_64, "8@$017", "u64 constant 15", 0, 15);

	check(PROBE_X86_64, "8@-8(%rbp)", "u64 at [rbp - 8]", 0, 0x1122334455667788);
	check(PROBE_X86_64, "4@-20+12(%rbp)", "u32 at [rbp - 8]", 0, 0x55667788);
	check(PROBE_X86_64, "-2@(%r15)", "i16 at [r15]", 0, 0xffffffffffff8010);
	check(PROBE_X86_64, "2@0(%r15)", "u16 at [r15]", 0, 0x8010);
	check(PROBE_X86_64, "1@(%r15,%rcx,4)", "u8 at [r15 + rcx * 4]", 0, 0x88);
	check(PROBE_X86_64, "1@1(%r15, %r12, 8)", "u8 at [r15 + r12 * 8 + 1]", 0, 0x77);
	check(PROBE_X86_64, "1@0x1000(,%rcx,4)", "u8 at [rcx * 4 + 4096]", 0, 0x88);
	check(PROBE_X86_64, "1@(%r15,%r12)", "u8 at [r15 + r12]", 0, 0x80);
	check(PROBE_X86_64, "4@8(%rip)", "u32 at [rip + 8]", 0, 0x55667788);
	check(PROBE_X86_64, "2@4096", "u16 at [0x1000]", 0, 0x8010);
	check(PROBE_X86_64, "8@(%rax)", "u64 at [rax]", -EFAULT, 0);
}

static void test_x86_refused(void **state)
{
	static const char *const bad[][2] = {
		{"8@counter(%rip)", "names a symbol, which is known to the assembler only"},
		{"8@8+counter(%rip)", "names a symbol, which is known to the assembler only"},
		{"8@$counter", "names a symbol, which is known to the assembler only"},
		{"8@.L5", "names a symbol, which is known to the assembler only"},
		{"8@%fs:-8", "relative to a segment, whose base isn't among the registers"},
		{"16@%xmm0", "not 1, 2, 4 or 8 bytes wide"},
		{"3@%eax", "not 1, 2, 4 or 8 bytes wide"},
		{"@%eax", "its width is not a number"},
		{"x@%eax", "its width is not a number"},
		{"8f4@%eax", "its width is not a number"},
		{"8@%", "a register without a name"},
		{"8@%r7", "a register that the kernel does not hand out"},
		{"8@%r16", "a register that the kernel does not hand out"},
		{"8@%r8q", "a register that the kernel does not hand out"},
		{"8@%xmm32", "a register that the kernel does not hand out"},
		{"8@%st(0)", "a register that the kernel does not hand out"},
		{"8@", "not a number"},
		{"8@$", "not a number"},
		{"8@$99999999999999999999", "not a number"},
		{"8@(%rax", "not an address that x86-64 knows"},
		{"8@()", "not an address that x86-64 knows"},
		{"8@(%eax)", "not an address that x86-64 knows"},
		{"8@(%rax,%rsp)", "not an address that x86-64 knows"},
		{"8@(%rax,%rcx,3)", "not an address that x86-64 knows"},
		{"8@(%xmm0)", "not an address that x86-64 knows"},
		{"8@%rax,1", "unknown text after it"},
		{"8@12a", "unknown text after it"},
		{"8@$12$", "unknown text after it"},
	};
	_cleanup_buf_ struct buf want = BUF_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		buf_clear(&want);
		buf_printf(&want, "not readable: %s", bad[i][1]);
		check(PROBE_X86_64, bad[i][0], want.data, -ENOTSUP, 0);
	}
}

static void test_aarch64(void **state)
{
	(void)state;
	check(PROBE_AARCH64, "8@x3", "u64 in x3", 0, 1);
	check(PROBE_AARCH64, "-4@w1", "i32 in x1", 0, UINT64_MAX);
	check(PROBE_AARCH64, "8@w1", "u32 in x1", 0, 0xffffffff);
	check(PROBE_AARCH64, "x3", "u64 in x3", 0, 1);
	check(PROBE_AARCH64, "8@sp", "u64 in sp", 0, 0x1000);
	check(PROBE_AARCH64, "8@fp", "u64 in x29", 0, 0x1010);
	check(PROBE_AARCH64, "4@wzr", "u32 constant 0", 0, 0);
	check(PROBE_AARCH64, "8@5", "u64 constant 5", 0, 5);
	check(PROBE_AARCH64, "-4@#-5", "i32 constant -5", 0, (uint64_t)-5);
	check(PROBE_AARCH64, "8f@d3", "f64 in vector register 3", -ENOTSUP, 0);
	check(PROBE_AARCH64, "2@[sp]", "u16 at [sp]", 0, 0x8010);
	check(PROBE_AARCH64, "8@[x29, -8]", "u64 at [x29 - 8]", 0, 0x1122334455667788);
	check(PROBE_AARCH64, "4@[sp,#8]", "u32 at [sp + 8]", 0, 0x55667788);
	check(PROBE_AARCH64, "1@[x0, x3, lsl #3]", "u8 at [x0 + x3 * 8]", 0, 0x88);
	check(PROBE_AARCH64, "1@[x0, x3, lsl 3]", "u8 at [x0 + x3 * 8]", 0, 0x88);
	check(PROBE_AARCH64, "1@[x0, x3]", "u8 at [x0 + x3]", 0, 0x80);
	check(PROBE_AARCH64, "1@[x29, w1, sxtw]", "u8 at [x29 + (i32)x1]", 0, 0x11);
	check(PROBE_AARCH64, "1@[x29, w1, uxtw #2]", "u8 at [x29 + (u32)x1 * 4]", -EFAULT, 0);
	check(PROBE_AARCH64, "8@[x0, :lo12:sym]",
	      "not readable: names a symbol, which is known to the assembler only", -ENOTSUP, 0);
	check(PROBE_AARCH64, "8@counter",
	      "not readable: names a symbol, which is known to the assembler only", -ENOTSUP, 0);
	check(PROBE_AARCH64, "8@[w0]", "not readable: not an address that aarch64 knows", -ENOTSUP,
	      0);
	check(PROBE_AARCH64, "8@[x0, w1]", "not readable: half a register without its extension",
	      -ENOTSUP, 0);
	check(PROBE_AARCH64, "8@[x0, x1, lsl #9]", "not readable: not a shift that aarch64 knows",
	      -ENOTSUP, 0);
	check(PROBE_AARCH64, "8@[x0, x1, ror #1]",
	      "not readable: not an extension that aarch64 knows", -ENOTSUP, 0);
	check(PROBE_AARCH64, "8@[sp, 8]!", "not readable: unknown text after it", -ENOTSUP, 0);
}

static void test_many(void **state)
{
	struct probe_arg args[PROBE_MAX_ARGS];

	(void)state;
	assert_int_equal(probe_args_parse(PROBE_X86_64, "", args), 0);
	assert_int_equal(probe_args_parse(PROBE_X86_64, "  8@%rdi\t-4@1(%rax, %rcx, 2)  ", args),
			 2);
	assert_int_equal(args[0].form, PA_REG);
	assert_int_equal(args[1].form, PA_MEMORY);
	assert_int_equal(probe_args_parse(PROBE_AARCH64, "8@[sp, 12] 4@w0", args), 2);
	assert_int_equal(args[0].value, 12);
	/* One that can't be read does not take the others with it. */
	assert_int_equal(probe_args_parse(PROBE_X86_64, "8@x(%rip) 8@%rdi 8@((( 8@%rsi", args), 3);
	assert_int_equal(args[0].form, PA_REFUSED);
	assert_int_equal(args[1].form, PA_REG);
	assert_int_equal(args[2].form, PA_REFUSED);
	assert_int_equal(probe_args_parse(PROBE_X86_64,
					  "$1 $2 $3 $4 $5 $6 $7 $8 $9 $10 $11 $12 $13 $14", args),
			 PROBE_MAX_ARGS);
	assert_int_equal(args[11].value, 12);
}

/* ---- files ---- */

static struct probes *load(int fd, const char *name)
{
	struct elf_image *image = NULL;
	struct probes *ps = NULL;
	struct error err = {0};

	if (elf_image_open(fd, name, &image, &err) < 0)
		return NULL;
	if (probes_read(image, &ps, &err) < 0)
		fail_msg("%s", err.text);
	elf_image_free(image);
	return ps;
}

static void byte_is(int fd, uint64_t offset, unsigned want)
{
	uint8_t b = 0;

	assert_int_equal(pread(fd, &b, 1, (off_t)offset), 1);
	assert_int_equal(b, want);
}

static void test_file(void **state)
{
	static const char *const names[] = {
		"other moved",
		"tokio task-spawn",
		"tokio task-spawn",
		"tokio task_poll_end",
		"tokio worker-thread-park",
		"wrong in_data",
		"wrong nowhere",
		"wrong sema_beyond",
		"wrong sema_in_code",
		"wrong sema_read_only",
		"zlast last",
	};

	(void)state;
	for (int f = 1; f <= 2; f++) {
		int fd = open(files[f], O_RDONLY);
		struct probes *ps = load(fd, files[f]);

		assert_non_null(ps);
		assert_string_equal(probes_damaged(ps), "a probe's description is cut short");
		assert_int_equal(probes_n(ps), sizeof(names) / sizeof(names[0]));
		assert_null(probes_at(ps, probes_n(ps)));
		for (size_t i = 0; i < probes_n(ps); i++) {
			const struct probe *p = probes_at(ps, i);
			char name[64];

			snprintf(name, sizeof(name), "%s %s", p->provider, p->name);
			assert_string_equal(name, names[i]);
			if (strcmp(p->provider, "wrong") == 0) {
				assert_non_null(p->refused);
				continue;
			}
			assert_null(p->refused);
			assert_int_not_equal(p->offset, p->addr);
			byte_is(fd, p->offset, 0x90);
			if (p->semaphore)
				byte_is(fd, p->semaphore_offset + 1, 0x51);
		}
		/* The sites are in order of their addresses, each with its own operands. */
		assert_string_equal(probes_at(ps, 1)->args_text, "8@%rdi 8@%rsi 4@%edx 4@%ecx");
		assert_int_equal(probes_at(ps, 1)->n_args, 4);
		byte_is(fd, probes_at(ps, 1)->semaphore_offset, 1);
		assert_int_equal(probes_at(ps, 2)->args[2].value, 7);
		byte_is(fd, probes_at(ps, 2)->semaphore_offset, 2);
		assert_int_equal(probes_at(ps, 3)->semaphore, 0);
		assert_int_equal(probes_at(ps, 4)->n_args, 0);
		byte_is(fd, probes_at(ps, 0)->semaphore_offset, 1);
		probes_free(ps);
		close(fd);
	}
}

/* Cut at every length, and each byte of the notes bent. */
static void test_damage(void **state)
{
	int fd = open(files[1], O_RDONLY), mem = memfd_create("damage", MFD_CLOEXEC);
	off_t len = lseek(fd, 0, SEEK_END);
	uint8_t *whole = malloc((size_t)len);
	const uint8_t *notes;
	unsigned n_read = 0, n_damaged = 0;

	(void)state;
	assert_int_equal(pread(fd, whole, (size_t)len, 0), len);
	assert_int_equal(pwrite(mem, whole, (size_t)len, 0), len);
	notes = memmem(whole, (size_t)len, "stapsdt", 8);
	assert_non_null(notes);
	for (off_t at = notes - 12 - whole; at < notes - whole + 900 && at < len; at++) {
		for (unsigned bend = 0; bend < 3; bend++) {
			static const uint8_t by[] = {0x01, 0x80, 0xff};
			uint8_t b = whole[at] ^ by[bend];
			struct probes *ps;

			assert_int_equal(pwrite(mem, &b, 1, at), 1);
			ps = load(mem, "damaged");
			if (ps) {
				n_read++;
				n_damaged += probes_damaged(ps) != NULL;
			}
			probes_free(ps);
		}
		assert_int_equal(pwrite(mem, &whole[at], 1, at), 1);
	}
	assert_true(n_read > 0 && n_damaged > 0 && n_damaged < n_read);
	for (off_t cut = len - 1; cut > 0; cut -= 7) {
		assert_int_equal(ftruncate(mem, cut), 0);
		probes_free(load(mem, "cut"));
	}
	free(whole);
	close(mem);
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_x86),	cmocka_unit_test(test_x86_refused),
		cmocka_unit_test(test_aarch64), cmocka_unit_test(test_many),
		cmocka_unit_test(test_file),	cmocka_unit_test(test_damage),
	};

	files = argv;
	return argc == 3 ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
