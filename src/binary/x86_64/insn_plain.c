/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Moves, arithmetic, jumps and calls in the encodings that compilers choose: at most one prefix
 * besides REX, which may be lock, or a VEX prefix of two bytes. That is nine of ten instructions of a
 * program. The test compares each of them with what Zydis says (tests/unit/test_insn.c).
 *
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2 and
 * appendix A.
 */
#include "binary/x86_64/insn_plain.h"

#include <string.h>

enum { RAX = 0, RSP = 4, RBP = 5 };
enum { MAX_PLAIN = 15 };

/* What the operands are, in their order. */
enum operands {
	NOT_PLAIN = 0,
	NOTHING,
	RM,	/* a register or memory, as ModRM says */
	RM_REG, /* and ModRM's register */
	REG_RM,
	OPCODE_REG, /* the register in the opcode's lower three bits */
	ACCUMULATOR,
	IMM, /* nothing but the immediate */
	RELATIVE,
	GROUP, /* ModRM's register says which instruction it is: groups[] */
};

enum {
	READS = 1 << 0, /* the first operand */
	WRITES = 1 << 1,
	BYTE = 1 << 2, /* operands of a byte, else as REX.W says */
	WIDE = 1 << 3, /* operands of eight bytes in any case */
	IMM_8 = 1 << 4,
	IMM_32 = 1 << 5,
	IMM_FULL = 1 << 6,    /* as wide as the operand */
	UNSIGNED = 1 << 7,    /* the immediate */
	FROM_8 = 1 << 8,      /* the second operand is a byte */
	FROM_16 = 1 << 9,     /* ... two */
	VECTOR = 1 << 10,     /* operands of vector registers, of which none is added up */
	STACK = 1 << 11,      /* rsp changes */
	COPIES = 1 << 12,     /* see insn.copies */
	MEMORY_ONLY = 1 << 13 /* no register instead */
};
#define CHANGES (READS | WRITES)

struct opcode {
	uint8_t operands, op, flow;
	uint16_t how;
};

#define ARITHMETIC(first, operation, change)                                                       \
	[(first)] = {RM_REG, (operation), 0, (change) | BYTE},                                     \
	[(first) + 1] = {RM_REG, (operation), 0, (change)},                                        \
	[(first) + 2] = {REG_RM, (operation), 0, (change) | BYTE},                                 \
	[(first) + 3] = {REG_RM, (operation), 0, (change)},                                        \
	[(first) + 4] = {ACCUMULATOR, (operation), 0, (change) | BYTE | IMM_8},                    \
	[(first) + 5] = {ACCUMULATOR, (operation), 0, (change) | IMM_32}

static const struct opcode one_byte[256] = {
	ARITHMETIC(0x00, INSN_ADD, CHANGES),
	ARITHMETIC(0x08, INSN_OTHER, CHANGES), /* or */
	ARITHMETIC(0x10, INSN_OTHER, CHANGES), /* adc */
	ARITHMETIC(0x18, INSN_OTHER, CHANGES), /* sbb */
	ARITHMETIC(0x20, INSN_OTHER, CHANGES), /* and */
	ARITHMETIC(0x28, INSN_SUB, CHANGES),
	ARITHMETIC(0x30, INSN_OTHER, CHANGES), /* xor */
	ARITHMETIC(0x38, INSN_CMP, READS),
	[0x50 ... 0x57] = {OPCODE_REG, INSN_PUSH, 0, READS | WIDE | STACK},
	[0x58 ... 0x5f] = {OPCODE_REG, INSN_POP, 0, WRITES | WIDE | STACK},
	[0x69] = {REG_RM, INSN_OTHER, 0, WRITES | IMM_32}, /* imul */
	[0x6b] = {REG_RM, INSN_OTHER, 0, WRITES | IMM_8},
	[0x70 ... 0x73] = {RELATIVE, INSN_OTHER, INSN_BRANCH, IMM_8},
	[0x74] = {RELATIVE, INSN_EQUAL, INSN_BRANCH, IMM_8},
	[0x75] = {RELATIVE, INSN_NOT_EQUAL, INSN_BRANCH, IMM_8},
	[0x76 ... 0x7f] = {RELATIVE, INSN_OTHER, INSN_BRANCH, IMM_8},
	[0x80] = {GROUP, 0, 0, BYTE | IMM_8},
	[0x81] = {GROUP, 0, 0, IMM_32},
	[0x83] = {GROUP, 0, 0, IMM_8},
	[0x84] = {RM_REG, INSN_OTHER, 0, READS | BYTE}, /* test */
	[0x85] = {RM_REG, INSN_OTHER, 0, READS},
	[0x88] = {RM_REG, INSN_MOV, 0, WRITES | BYTE | COPIES},
	[0x89] = {RM_REG, INSN_MOV, 0, WRITES | COPIES},
	[0x8a] = {REG_RM, INSN_MOV, 0, WRITES | BYTE | COPIES},
	[0x8b] = {REG_RM, INSN_MOV, 0, WRITES | COPIES},
	[0x8d] = {REG_RM, INSN_LEA, 0, WRITES | WIDE | MEMORY_ONLY},
	[0x90] = {NOTHING, INSN_OTHER, 0, 0},
	[0xa8] = {ACCUMULATOR, INSN_OTHER, 0, READS | BYTE | IMM_8}, /* test */
	[0xa9] = {ACCUMULATOR, INSN_OTHER, 0, READS | IMM_32},
	[0xb0 ... 0xb7] = {OPCODE_REG, INSN_MOV, 0, WRITES | BYTE | IMM_8 | COPIES},
	[0xb8 ... 0xbf] = {OPCODE_REG, INSN_MOV, 0, WRITES | IMM_FULL | COPIES},
	[0xc0] = {GROUP, 0, 0, BYTE | IMM_8 | UNSIGNED},
	[0xc1] = {GROUP, 0, 0, IMM_8 | UNSIGNED},
	[0xc3] = {NOTHING, INSN_OTHER, INSN_END, STACK},
	[0xc6] = {GROUP, 0, 0, BYTE | IMM_8},
	[0xc7] = {GROUP, 0, 0, IMM_32},
	[0xcc] = {NOTHING, INSN_OTHER, INSN_END, 0},
	[0xe8] = {RELATIVE, INSN_OTHER, INSN_CALL, IMM_32 | STACK},
	[0xe9] = {RELATIVE, INSN_OTHER, INSN_JUMP, IMM_32},
	[0xeb] = {RELATIVE, INSN_OTHER, INSN_JUMP, IMM_8},
	[0xf6] = {GROUP, 0, 0, BYTE},
	[0xf7] = {GROUP, 0, 0, 0},
	[0xfe] = {GROUP, 0, 0, BYTE},
	[0xff] = {GROUP, 0, 0, 0},
};

/* After 0f. */
static const struct opcode two_bytes[256] = {
	[0x0b] = {NOTHING, INSN_OTHER, INSN_END, 0}, /* ud2 */
	[0x10] = {REG_RM, INSN_OTHER, 0, WRITES | VECTOR | COPIES},
	[0x11] = {RM_REG, INSN_OTHER, 0, WRITES | VECTOR | COPIES},
	[0x28] = {REG_RM, INSN_OTHER, 0, WRITES | VECTOR | COPIES},
	[0x29] = {RM_REG, INSN_OTHER, 0, WRITES | VECTOR | COPIES},
	[0x40 ... 0x4f] = {REG_RM, INSN_OTHER, 0, WRITES | COPIES}, /* cmov */
	[0x6f] = {REG_RM, INSN_OTHER, 0, WRITES | VECTOR | COPIES},
	[0x7f] = {RM_REG, INSN_OTHER, 0, WRITES | VECTOR | COPIES},
	[0x80 ... 0x83] = {RELATIVE, INSN_OTHER, INSN_BRANCH, IMM_32},
	[0x84] = {RELATIVE, INSN_EQUAL, INSN_BRANCH, IMM_32},
	[0x85] = {RELATIVE, INSN_NOT_EQUAL, INSN_BRANCH, IMM_32},
	[0x86 ... 0x8f] = {RELATIVE, INSN_OTHER, INSN_BRANCH, IMM_32},
	[0x90 ... 0x9f] = {RM, INSN_OTHER, 0, WRITES | BYTE}, /* set */
	[0xaf] = {REG_RM, INSN_OTHER, 0, CHANGES},	      /* imul */
	[0xb6] = {REG_RM, INSN_OTHER, 0, WRITES | FROM_8},    /* movzx, movsx */
	[0xb7] = {REG_RM, INSN_OTHER, 0, WRITES | FROM_16},
	[0xbe] = {REG_RM, INSN_OTHER, 0, WRITES | FROM_8},
	[0xbf] = {REG_RM, INSN_OTHER, 0, WRITES | FROM_16},
};

static const struct opcode vzeroupper = {NOTHING, INSN_OTHER, 0, 0};

/* What is added to the opcode's own. */
static const struct opcode *group(uint8_t opcode, unsigned which)
{
	static const struct opcode arithmetic[8] = {
		{RM, INSN_ADD, 0, CHANGES},   {RM, INSN_OTHER, 0, CHANGES},
		{RM, INSN_OTHER, 0, CHANGES}, {RM, INSN_OTHER, 0, CHANGES},
		{RM, INSN_OTHER, 0, CHANGES}, {RM, INSN_SUB, 0, CHANGES},
		{RM, INSN_OTHER, 0, CHANGES}, {RM, INSN_CMP, 0, READS},
	};
	static const struct opcode shifts[8] = {
		[0 ... 5] = {RM, INSN_OTHER, 0, CHANGES},
		[7] = {RM, INSN_OTHER, 0, CHANGES},
	};
	static const struct opcode moves[8] = {{RM, INSN_MOV, 0, WRITES | COPIES}};
	static const struct opcode unary_8[8] = {
		[0] = {RM, INSN_OTHER, 0, READS | IMM_8}, /* test */
		[2 ... 3] = {RM, INSN_OTHER, 0, CHANGES}, /* not, neg */
	};
	static const struct opcode unary[8] = {
		[0] = {RM, INSN_OTHER, 0, READS | IMM_32},
		[2 ... 3] = {RM, INSN_OTHER, 0, CHANGES},
	};
	static const struct opcode steps[8] = {
		[0 ... 1] = {RM, INSN_OTHER, 0, CHANGES}, /* inc, dec */
	};
	static const struct opcode more[8] = {
		[0 ... 1] = {RM, INSN_OTHER, 0, CHANGES},
		[2] = {RM, INSN_OTHER, INSN_CALL, READS | WIDE | STACK},
		[4] = {RM, INSN_OTHER, INSN_JUMP, READS | WIDE},
		[6] = {RM, INSN_PUSH, 0, READS | WIDE | STACK},
	};

	switch (opcode) {
	case 0xc0:
	case 0xc1:
		return &shifts[which];
	case 0xc6:
	case 0xc7:
		return &moves[which];
	case 0xf6:
		return &unary_8[which];
	case 0xf7:
		return &unary[which];
	case 0xfe:
		return &steps[which];
	case 0xff:
		return &more[which];
	default:
		return &arithmetic[which];
	}
}

struct reader {
	const uint8_t *p;
	uint8_t prefix; /* 66 or f3; 0: none */
	uint8_t rex, vex;
	bool has_modrm, is_mem, rip, indexed, locked;
	uint8_t reg, rm, base;
	uint8_t disp_at; /* in the instruction; 0: no displacement of four bytes */
	int64_t disp;
};

static int32_t read_32(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void read_modrm(struct reader *r, const uint8_t *start)
{
	uint8_t modrm = *r->p++, mod = modrm >> 6, rm = modrm & 7;
	bool disp_32 = mod == 2;

	r->reg = (uint8_t)((modrm >> 3 & 7) | (r->rex & 4) << 1);
	r->rm = (uint8_t)(rm | (r->rex & 1) << 3);
	r->is_mem = mod != 3;
	if (!r->is_mem)
		return;
	r->base = r->rm;
	if (rm == RSP) {
		uint8_t sib = *r->p++;

		r->indexed = (sib >> 3 & 7) != RSP || r->rex & 2;
		r->base = (uint8_t)((sib & 7) | (r->rex & 1) << 3);
		if ((sib & 7) == RBP && mod == 0) {
			r->base = INSN_NO_REG;
			disp_32 = true;
		}
	} else if (rm == RBP && mod == 0) {
		r->rip = disp_32 = true;
	}
	if (disp_32) {
		r->disp_at = (uint8_t)(r->p - start);
		r->disp = read_32(r->p);
		r->p += 4;
	} else if (mod == 1) {
		r->disp = (int8_t)*r->p++;
	}
}

/* The general purpose register of that number: without REX, 4 to 7 of a byte are ah to bh. */
static uint8_t gpr(const struct reader *r, uint8_t reg, unsigned bytes)
{
	return bytes == 1 && !r->rex && reg >= 4 ? reg - 4 : reg;
}

static void add_register(struct insn *in, uint8_t reg, bool vector, unsigned use)
{
	if (vector) {
		in->vectors_read |= use & READS ? 1u << reg : 0;
		in->vectors_written |= use & WRITES ? 1u << reg : 0;
		return;
	}
	if (use & WRITES) {
		in->reg = reg;
		in->writes |= (uint16_t)(1u << reg);
	} else if (in->source == INSN_NO_REG) {
		in->source = reg;
	}
	if (use & READS)
		in->reads |= (uint16_t)(1u << reg);
}

static void add_rm(const struct reader *r, struct insn *in, unsigned bytes, bool vector,
		   unsigned use)
{
	if (!r->is_mem) {
		add_register(in, vector ? r->rm : gpr(r, r->rm, bytes), vector, use);
		return;
	}
	in->mem_bytes = (uint8_t)bytes;
	in->mem_written = use & WRITES;
	if (r->rip) {
		in->ref = in->addr + in->len + (uint64_t)r->disp;
		in->rel_at = r->disp_at;
		if (in->flow != INSN_NEXT)
			in->slot = in->ref;
		return;
	}
	in->base = r->base;
	in->disp = r->disp;
	in->has_disp = true;
	in->indexed = r->indexed;
}

static void add_operands(const struct reader *r, struct insn *in, const struct opcode *o,
			 unsigned how, unsigned bytes, uint8_t opcode)
{
	unsigned use = how & CHANGES, from = how & FROM_8 ? 1 : how & FROM_16 ? 2 : bytes;
	bool vector = how & VECTOR;

	switch (o->operands) {
	case RM:
		add_rm(r, in, bytes, false, use);
		break;
	case RM_REG:
		add_rm(r, in, bytes, vector, use);
		add_register(in, vector ? r->reg : gpr(r, r->reg, bytes), vector, READS);
		break;
	case REG_RM:
		add_register(in, vector ? r->reg : gpr(r, r->reg, bytes), vector, use);
		add_rm(r, in, from, vector, READS);
		break;
	case OPCODE_REG:
		add_register(in, gpr(r, (uint8_t)((opcode & 7) | (r->rex & 1) << 3), bytes), false,
			     use);
		break;
	case ACCUMULATOR:
		add_register(in, RAX, false, use);
		break;
	}
	if (how & STACK)
		in->writes |= 1u << RSP;
	in->copies = how & COPIES;
}

/* Prefixes and the opcode. NULL: not one of these. */
static const struct opcode *read_opcode(struct reader *r, uint8_t *ret_opcode)
{
	uint8_t opcode = *r->p++;
	bool vector;

	if (opcode == 0xc5) {
		r->vex = *r->p++;
		opcode = *r->p++;
		r->rex = r->vex & 0x80 ? 0 : 4;
		r->prefix = (r->vex & 3) == 1 ? 0x66 : (r->vex & 3) == 2 ? 0xf3 : 0;
		*ret_opcode = opcode;
		if (r->vex == 0xf8 && opcode == 0x77)
			return &vzeroupper;
		return (r->vex & 0x78) == 0x78 && (r->vex & 3) < 3 && two_bytes[opcode].how & VECTOR
			       ? &two_bytes[opcode]
			       : NULL;
	}
	if (opcode == 0x66 || opcode == 0xf3) {
		r->prefix = opcode;
		opcode = *r->p++;
	} else if (opcode == 0xf0) {
		r->locked = true;
		opcode = *r->p++;
	}
	if ((opcode & 0xf0) == 0x40) {
		r->rex = opcode;
		opcode = *r->p++;
	}
	if (opcode != 0x0f) {
		*ret_opcode = opcode;
		return r->prefix ? NULL : &one_byte[opcode];
	}
	*ret_opcode = opcode = *r->p++;
	vector = two_bytes[opcode].how & VECTOR;
	return r->prefix && !vector ? NULL : &two_bytes[opcode];
}

/* Of the moves of vectors those of whole ones: movups, movaps; movdqa, movdqu. */
static bool is_whole(const struct reader *r, uint8_t opcode)
{
	return opcode == 0x6f || opcode == 0x7f ? r->prefix != 0 : !r->prefix;
}

/* What changes memory, but for shifts. */
static bool may_lock(const struct reader *r, const struct opcode *o, unsigned how, uint8_t opcode)
{
	return (o->operands == RM || o->operands == RM_REG) && r->is_mem &&
	       (how & CHANGES) == CHANGES && opcode != 0xc0 && opcode != 0xc1;
}

bool insn_plain(const uint8_t *bytes, size_t left, struct insn *ret)
{
	uint8_t padded[MAX_PLAIN] = {0}, opcode;
	struct reader r = {.p = bytes};
	const struct opcode *o;
	unsigned how, size;
	uint64_t imm = 0;
	size_t len;

	if (left < MAX_PLAIN) {
		memcpy(padded, bytes, left);
		r.p = bytes = padded;
	}
	o = read_opcode(&r, &opcode);
	if (!o || o->operands == NOT_PLAIN || (o->how & VECTOR && !is_whole(&r, opcode)))
		return false;
	how = o->how;
	if (o->operands == GROUP)
		o = group(opcode, *r.p >> 3 & 7);
	how |= o->how;
	/* Prefixes that mean nothing here. */
	if (o->operands == NOT_PLAIN ||
	    (r.rex && (o->operands == RELATIVE || o->operands == NOTHING)))
		return false;
	if (o->operands >= RM && o->operands <= REG_RM)
		read_modrm(&r, bytes);
	if (how & MEMORY_ONLY && !r.is_mem)
		return false;
	if (r.locked && !may_lock(&r, o, how, opcode))
		return false;
	size = how & VECTOR		 ? (r.vex & 4 ? 32 : 16)
	       : how & BYTE		 ? 1
	       : how & WIDE || r.rex & 8 ? 8
					 : 4;
	if (how & IMM_8) {
		imm = how & UNSIGNED ? *r.p : (uint64_t)(int64_t)(int8_t)*r.p;
		r.p++;
	} else if (how & IMM_FULL && size == 8) {
		memcpy(&imm, r.p, 8);
		r.p += 8;
	} else if (how & (IMM_32 | IMM_FULL)) {
		imm = (uint64_t)(int64_t)read_32(r.p);
		r.p += 4;
	}
	len = (size_t)(r.p - bytes);
	if (len > left)
		return false;
	ret->len = (uint8_t)len;
	ret->op = r.locked ? INSN_LOCKED : o->op;
	ret->flow = o->flow;
	ret->ret = opcode == 0xc3 && o->operands == NOTHING;
	ret->imm = imm;
	ret->has_imm = how & (IMM_8 | IMM_32 | IMM_FULL);
	if (o->operands == RELATIVE) {
		ret->target = ret->addr + ret->len + imm;
		ret->rel_at = how & IMM_32 ? ret->len - 4 : 0;
	}
	add_operands(&r, ret, o, how, size, opcode);
	return true;
}
