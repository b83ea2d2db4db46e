/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The instructions that pollux decodes by itself against Zydis: every opcode of the first two maps,
 * with each ModRM byte and the prefixes that a compiler puts there.
 */
#include "binary/machine.h"
#include "binary/x86_64/insn_length.h"
#include "binary/x86_64/insn_plain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define SAME(member) assert_int_equal(a->member, b->member)

static void assert_same(const struct insn *a, const struct insn *b)
{
	SAME(addr);
	SAME(len);
	SAME(flow);
	SAME(op);
	SAME(reg);
	SAME(source);
	SAME(target);
	SAME(slot);
	SAME(ref);
	SAME(imm);
	SAME(disp);
	SAME(has_imm);
	SAME(has_disp);
	SAME(mem_written);
	SAME(base);
	SAME(indexed);
	SAME(mem_bytes);
	SAME(rel_at);
	SAME(writes);
	SAME(reads);
	SAME(vectors_read);
	SAME(vectors_written);
	SAME(copies);
	SAME(ret);
}

/* True if it is one of them; then Zydis must say the same. */
static bool compare(const uint8_t *bytes, size_t left)
{
	struct insn plain = {
		.addr = 0x401000, .reg = INSN_NO_REG, .source = INSN_NO_REG, .base = INSN_NO_REG};
	struct insn any = plain;

	if (!insn_plain(bytes, left, &plain))
		return false;
	if (!insn_any(bytes, left, &any))
		fail_msg("%02x %02x %02x %02x %02x is no instruction", bytes[0], bytes[1], bytes[2],
			 bytes[3], bytes[4]);
	assert_same(&plain, &any);
	return true;
}

static const struct {
	uint8_t bytes[3], n;
} prefixes[] = {
	{{0}, 0},
	{{0x40}, 1},
	{{0x41}, 1},
	{{0x42}, 1},
	{{0x44}, 1},
	{{0x48}, 1},
	{{0x4f}, 1},
	{{0x66}, 1},
	{{0xf2}, 1},
	{{0xf3}, 1},
	{{0xf0}, 1},
	{{0x64}, 1},
	{{0x66, 0x45}, 2},
	{{0xf3, 0x45}, 2},
	{{0x66, 0x66}, 2},
	{{0x66, 0xf3}, 2},
	{{0x48, 0x66}, 2},
	{{0xc5, 0xf8}, 2},
	{{0xc5, 0x7d}, 2},
	{{0xc5, 0xfe}, 2},
	{{0xc5, 0xfb}, 2},
	{{0xc5, 0xe8}, 2},
	{{0xc4, 0xc1, 0x7c}, 3},
};

static const uint8_t after[][11] = {
	{0x24, 0x80, 0x7f, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0},
	{0x05, 0xff, 0xff, 0xff, 0xff, 0x80, 0x00, 0x00, 0x80, 0x01, 0x02},
	{0x8d, 0x10, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00},
};

static size_t compare_all(const uint8_t *prefix, size_t n, bool two_bytes, size_t left)
{
	size_t n_plain = 0;

	for (unsigned opcode = 0; opcode < 256; opcode++)
		for (unsigned modrm = 0; modrm < 256; modrm++)
			for (size_t k = 0; k < sizeof(after) / sizeof(after[0]); k++) {
				uint8_t bytes[20] = {0};
				size_t at = n;

				memcpy(bytes, prefix, n);
				if (two_bytes)
					bytes[at++] = 0x0f;
				bytes[at++] = (uint8_t)opcode;
				bytes[at++] = (uint8_t)modrm;
				memcpy(bytes + at, after[k], sizeof(after[k]));
				n_plain += compare(bytes, left);
			}
	return n_plain;
}

static void test_every_opcode(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		for (int two_bytes = 0; two_bytes < 2; two_bytes++)
			compare_all(prefixes[i].bytes, prefixes[i].n, two_bytes, 17);
}

/* Of two bytes no address is made. */
static bool may_be_address(uint64_t imm)
{
	return imm + 0x8000 >= 0x18000;
}

/* True if it refers to nothing, by its length alone; then Zydis must say so, and its length. */
static bool compare_length(const uint8_t *bytes, size_t left)
{
	struct insn any = {
		.addr = 0x401000, .reg = INSN_NO_REG, .source = INSN_NO_REG, .base = INSN_NO_REG};
	size_t len = insn_length(bytes, left), any_len = insn_any_length(bytes, left);

	if (!len && !any_len)
		return false;
	if (!insn_any(bytes, left, &any))
		fail_msg("%02x %02x %02x %02x %02x is no instruction", bytes[0], bytes[1], bytes[2],
			 bytes[3], bytes[4]);
	if (any.flow != INSN_NEXT || any.target || any.slot || any.ref || any.op == INSN_SYSCALL ||
	    (any.has_imm && may_be_address(any.imm)))
		fail_msg("%02x %02x %02x %02x %02x refers to something", bytes[0], bytes[1],
			 bytes[2], bytes[3], bytes[4]);
	if (len)
		assert_int_equal(len, any.len);
	if (any_len)
		assert_int_equal(any_len, any.len);
	return len;
}

static void test_every_length(void **state)
{
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		for (unsigned opcode = 0; opcode < 2 * 65536; opcode++)
			for (size_t k = 0; k < sizeof(after) / sizeof(after[0]); k++) {
				uint8_t bytes[32] = {0};
				size_t at = prefixes[i].n;

				/* Of the places of memory those that differ in length. */
				if ((opcode & 7) > 0 && (opcode & 7) != 4 && (opcode & 7) != 5)
					continue;
				memcpy(bytes, prefixes[i].bytes, at);
				if (opcode >> 16)
					bytes[at++] = 0x0f;
				bytes[at++] = (uint8_t)(opcode >> 8);
				bytes[at++] = (uint8_t)opcode;
				memcpy(bytes + at, after[k], sizeof(after[k]));
				n += compare_length(bytes, sizeof(bytes));
			}
	assert_true(n > 100000);
}

/* What is passed is what refers to nothing, and is counted. */
static void test_references(void **state)
{
	static const uint8_t code[32] = {
		0x55,					  /* push %rbp */
		0x48, 0x89, 0xe5,			  /* mov %rsp, %rbp */
		0x48, 0x8d, 0x3d, 0x10, 0x00, 0x00, 0x00, /* lea 16(%rip), %rdi */
		0xc5, 0xf8, 0x57, 0xc0,			  /* vxorps */
		0xe8, 0x00, 0x00, 0x00, 0x00,		  /* call */
		0x85, 0xc0,				  /* test %eax, %eax */
		0x0f, 0x05,				  /* syscall */
		0x90,					  /* nop */
	};
	struct insn_walk w = {&machine_x86_64, code, 0x401000, 0x401000 + 25};
	struct insn in;
	size_t passed;

	(void)state;
	assert_int_equal(insn_next_reference(&w, &in, &passed), 1);
	assert_int_equal(in.op, INSN_LEA);
	assert_int_equal(in.addr, 0x401004);
	assert_int_equal(passed, 2);
	assert_int_equal(insn_next_reference(&w, &in, &passed), 1);
	assert_int_equal(in.flow, INSN_CALL);
	assert_int_equal(passed, 1);
	assert_int_equal(insn_next_reference(&w, &in, &passed), 1);
	assert_int_equal(in.op, INSN_SYSCALL);
	assert_int_equal(passed, 1);
	assert_int_equal(insn_next_reference(&w, &in, &passed), 0);
	assert_int_equal(passed, 1);
}

/* At the end of the code an instruction may be cut off. */
static void test_cut(void **state)
{
	(void)state;
	for (size_t left = 1; left < 12; left++) {
		compare_all((const uint8_t *)"", 0, false, left);
		compare_all((const uint8_t *)"\x48", 1, false, left);
		compare_all((const uint8_t *)"\xc5\xfc", 2, false, left);
		assert_int_equal(insn_length((const uint8_t *)"\x48\x81\xc0\x00\x01\x00\x00\x90"
							      "\x90\x90\x90",
					     left),
				 left < 7 ? 0 : 7);
	}
}

/* So few are left to Zydis that the table is worth having. */
static void test_share(void **state)
{
	static const uint8_t code[] = {
		0x55,					  /* push %rbp */
		0x48, 0x89, 0xe5,			  /* mov %rsp, %rbp */
		0x48, 0x83, 0xec, 0x20,			  /* sub $32, %rsp */
		0x48, 0x8d, 0x3d, 0x10, 0x00, 0x00, 0x00, /* lea 16(%rip), %rdi */
		0xff, 0x15, 0x10, 0x00, 0x00, 0x00,	  /* call *16(%rip) */
		0xe8, 0x00, 0x00, 0x00, 0x00,		  /* call */
		0x85, 0xc0,				  /* test %eax, %eax */
		0x74, 0x05,				  /* je */
		0x0f, 0x29, 0x04, 0x24,			  /* movaps %xmm0, (%rsp) */
		0xc3,					  /* ret */
	};
	size_t n = 0;

	(void)state;
	for (size_t at = 0; at < sizeof(code); n++) {
		struct insn in = {.reg = INSN_NO_REG};

		assert_true(insn_plain(code + at, sizeof(code) - at, &in));
		at += in.len;
	}
	assert_int_equal(n, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_opcode), cmocka_unit_test(test_every_length),
		cmocka_unit_test(test_references),   cmocka_unit_test(test_cut),
		cmocka_unit_test(test_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
