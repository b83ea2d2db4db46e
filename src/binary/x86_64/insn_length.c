/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Prefixes, opcode, ModRM, SIB, displacement, immediate; nothing of what the instruction does. The
 * test compares each with what Zydis says (tests/unit/test_insn.c).
 *
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2 and
 * appendix A.
 */
#include "binary/x86_64/insn_length.h"

#include <stdbool.h>
#include <string.h>

/* Prefix, REX, opcode of two bytes, ModRM, SIB, displacement and immediate. */
enum { ROOM = 2 + 2 + 2 + 4 + 4 };

enum {
	BARE = 0x80,   /* known */
	MODRM = 0xc0,  /* known, with ModRM */
	MEMORY = 0x20, /* ModRM means no register */
	IMM_8 = 1,     /* an immediate of a byte */
	IMM = 4,       /* of four bytes, or of two with prefix 66 */
	IMM_FULL = 8,  /* or of eight with REX.W */
	GROUP = 0x10,  /* ModRM's register says which instruction it is */
	IMMEDIATE = IMM_8 | IMM | IMM_FULL
};

#define ARITHMETIC(first)                                                                          \
	[(first)...(first) + 3] = MODRM, [(first) + 4] = BARE | IMM_8, [(first) + 5] = BARE | IMM

static const uint8_t one_byte[256] = {
	ARITHMETIC(0x00),
	ARITHMETIC(0x08),
	ARITHMETIC(0x10),
	ARITHMETIC(0x18),
	ARITHMETIC(0x20),
	ARITHMETIC(0x28),
	ARITHMETIC(0x30),
	ARITHMETIC(0x38),
	[0x50 ... 0x5f] = BARE, /* push, pop */
	[0x63] = MODRM,		/* movsxd */
	[0x68] = BARE | IMM,
	[0x69] = MODRM | IMM, /* imul */
	[0x6a] = BARE | IMM_8,
	[0x6b] = MODRM | IMM_8,
	[0x80] = MODRM | IMM_8,
	[0x81] = MODRM | IMM,
	[0x83] = MODRM | IMM_8,
	[0x84 ... 0x8b] = MODRM, /* test, xchg, mov */
	[0x8d] = MODRM | MEMORY, /* lea */
	[0x90 ... 0x99] = BARE,	 /* xchg, nop, cdqe, cqo */
	[0xa4 ... 0xa5] = BARE,	 /* movs */
	[0xa8] = BARE | IMM_8,	 /* test */
	[0xa9] = BARE | IMM,
	[0xaa ... 0xab] = BARE, /* stos */
	[0xb0 ... 0xb7] = BARE | IMM_8,
	[0xb8 ... 0xbf] = BARE | IMM_FULL,
	[0xc0 ... 0xc1] = MODRM | IMM_8, /* shifts */
	[0xc6 ... 0xc7] = MODRM | GROUP,
	[0xd0 ... 0xd3] = MODRM,
	[0xf6 ... 0xf7] = MODRM | GROUP,
	[0xfe ... 0xff] = MODRM | GROUP,
};

/* After 0f, without a prefix but REX or 66. */
static const uint8_t two_bytes[256] = {
	[0x10 ... 0x11] = MODRM,			  /* movups, movupd */
	[0x14 ... 0x15] = MODRM,			  /* unpcklps, unpckhps */
	[0x1f] = MODRM,					  /* nop */
	[0x28 ... 0x29] = MODRM, [0x2e ... 0x2f] = MODRM, /* ucomiss, comiss */
	[0x40 ... 0x4f] = MODRM,			  /* cmov */
	[0x51] = MODRM,		 [0x54 ... 0x5f] = MODRM, [0x90 ... 0x9f] = MODRM, /* set */
	[0xa3] = MODRM,								   /* bt */
	[0xa4] = MODRM | IMM_8,							   /* shld */
	[0xa5] = MODRM,		 [0xab] = MODRM,	  [0xac] = MODRM | IMM_8,
	[0xad] = MODRM,		 [0xaf ... 0xb1] = MODRM, /* imul, cmpxchg */
	[0xb3] = MODRM,		 [0xb6 ... 0xb7] = MODRM, /* movzx */
	[0xbb ... 0xbf] = MODRM,			  /* btc, bsf, bsr, movsx */
	[0xc0 ... 0xc1] = MODRM,			  /* xadd */
	[0xc6] = MODRM | IMM_8,	 [0xc8 ... 0xcf] = BARE,  /* bswap */
};

/* After 66 0f, besides. */
static const uint8_t two_bytes_66[256] = {
	[0x60 ... 0x6f] = MODRM, [0x70] = MODRM | IMM_8,  [0x74 ... 0x76] = MODRM,
	[0x7e ... 0x7f] = MODRM, [0xd4 ... 0xd6] = MODRM, [0xdb] = MODRM,
	[0xdf] = MODRM,		 [0xeb] = MODRM,	  [0xef] = MODRM,
	[0xfa ... 0xfe] = MODRM,
};

/* After f3 0f, and after f2 0f. */
static const uint8_t two_bytes_f3[256] = {
	[0x10 ... 0x11] = MODRM, [0x2a] = MODRM,	  [0x2c ... 0x2d] = MODRM,
	[0x51] = MODRM,		 [0x58 ... 0x5f] = MODRM, [0x6f] = MODRM,
	[0x7e ... 0x7f] = MODRM, [0xb8] = MODRM,	  [0xbc ... 0xbd] = MODRM,
};
static const uint8_t two_bytes_f2[256] = {
	[0x10 ... 0x11] = MODRM, [0x2a] = MODRM,	  [0x2c ... 0x2d] = MODRM,
	[0x51] = MODRM,		 [0x58 ... 0x5a] = MODRM, [0x5c ... 0x5f] = MODRM,
};

static bool is_string(uint8_t opcode)
{
	return opcode == 0xa4 || opcode == 0xa5 || opcode == 0xaa || opcode == 0xab;
}

static uint8_t two_bytes_of(uint8_t prefix, uint8_t opcode)
{
	switch (prefix) {
	case 0:
		return two_bytes[opcode];
	case 0x66:
		return two_bytes_66[opcode] ? two_bytes_66[opcode] : two_bytes[opcode];
	case 0xf3:
		return two_bytes_f3[opcode];
	case 0xf2:
		return two_bytes_f2[opcode];
	default: /* lock, which needs memory: cmpxchg, xadd */
		return opcode == 0xb0 || opcode == 0xb1 || opcode == 0xc0 || opcode == 0xc1
			       ? MODRM | MEMORY
			       : 0;
	}
}

/* What is added to the opcode's own; 0: not known. */
static uint8_t group(uint8_t opcode, unsigned which)
{
	switch (opcode) {
	case 0xc6:
		return which == 0 ? MODRM | IMM_8 : 0;
	case 0xc7:
		return which == 0 ? MODRM | IMM : 0;
	case 0xf6:
		return which == 0 ? MODRM | IMM_8 : which > 1 ? MODRM : 0;
	case 0xf7:
		return which == 0 ? MODRM | IMM : which > 1 ? MODRM : 0;
	default: /* inc, dec */
		return which < 2 ? MODRM : 0;
	}
}

/* At `p`, which has room to be read; 0: not known. */
static size_t length_of(const uint8_t *p)
{
	const uint8_t *bytes = p;
	uint8_t prefix = 0, rex = 0, opcode, how;
	int32_t imm;

	if (*p == 0x66 || *p == 0xf2 || *p == 0xf3 || *p == 0xf0)
		prefix = *p++;
	if ((*p & 0xf0) == 0x40)
		rex = *p++;
	opcode = *p++;
	if (opcode == 0x0f)
		how = two_bytes_of(prefix, opcode = *p++);
	else if (!prefix || prefix == 0x66)
		how = one_byte[opcode];
	else
		how = prefix == 0xf3 && is_string(opcode) ? BARE : 0;
	if (!how)
		return 0;
	if ((how & MODRM) == MODRM) {
		uint8_t modrm = *p++, mod = modrm >> 6, rm = modrm & 7;

		if (how & GROUP)
			how = group(opcode, modrm >> 3 & 7);
		if (!how)
			return 0;
		if (mod == 3) {
			if (how & MEMORY)
				return 0;
		} else if (rm == 4) {
			uint8_t base = *p++ & 7;

			p += mod == 0 && base == 5 ? 4 : 0;
		} else if (mod == 0 && rm == 5) {
			return 0;
		}
		p += mod == 1 ? 1 : mod == 2 ? 4 : 0;
	}
	switch (how & IMMEDIATE) {
	case 0:
		return (size_t)(p - bytes);
	case IMM_8:
		return (size_t)(p - bytes) + 1;
	case IMM_FULL:
		if (rex & 8)
			return 0;
		break;
	}
	if (prefix == 0x66 && !(rex & 8))
		return (size_t)(p - bytes) + 2;
	memcpy(&imm, p, 4);
	if (imm >= INSN_NO_ADDRESS || imm < -INSN_NO_ADDRESS)
		return 0;
	return (size_t)(p - bytes) + 4;
}

size_t insn_length(const uint8_t *bytes, size_t left)
{
	uint8_t padded[ROOM] = {0};
	size_t len;

	if (left >= ROOM)
		return length_of(bytes);
	len = length_of(memcpy(padded, bytes, left));
	return len <= left ? len : 0;
}
