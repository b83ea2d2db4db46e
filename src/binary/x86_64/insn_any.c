/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Any instruction, decoded by Zydis. */
#include "binary/x86_64/insn_length.h"
#include "binary/x86_64/insn_plain.h"

#include <Zydis/Zydis.h>

static const ZydisDecoder *decoder(void)
{
	static _Thread_local ZydisDecoder d;
	static _Thread_local bool ready;

	if (!ready) {
		ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
		ready = true;
	}
	return &d;
}

static uint8_t gpr(ZydisRegister reg)
{
	ZydisRegister wide = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (wide < ZYDIS_REGISTER_RAX || wide > ZYDIS_REGISTER_R15)
		return INSN_NO_REG;
	return (uint8_t)(wide - ZYDIS_REGISTER_RAX);
}

static void read_flow(const ZydisDecodedInstruction *in, struct insn *ret)
{
	switch (in->meta.category) {
	case ZYDIS_CATEGORY_CALL:
		ret->flow = INSN_CALL;
		break;
	case ZYDIS_CATEGORY_UNCOND_BR:
		ret->flow = INSN_JUMP;
		break;
	case ZYDIS_CATEGORY_COND_BR:
		ret->flow = INSN_BRANCH;
		break;
	case ZYDIS_CATEGORY_RET:
		ret->flow = INSN_END;
		ret->ret = true;
		break;
	default:
		if (in->mnemonic == ZYDIS_MNEMONIC_UD2 || in->mnemonic == ZYDIS_MNEMONIC_HLT ||
		    in->mnemonic == ZYDIS_MNEMONIC_INT3)
			ret->flow = INSN_END;
	}
}

static void read_operands(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops,
			  struct insn *ret)
{
	bool flow = ret->flow == INSN_CALL || ret->flow == INSN_JUMP || ret->flow == INSN_BRANCH;

	for (unsigned i = 0; i < in->operand_count_visible; i++) {
		const ZydisDecodedOperand *op = &ops[i];

		if (op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
			ZyanU64 target;

			if (flow && op->imm.is_relative &&
			    ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(in, op, ret->addr, &target))) {
				ret->target = target;
				if (in->raw.imm[0].size == 32)
					ret->rel_at = in->raw.imm[0].offset;
			}
			ret->imm = op->imm.value.u;
			ret->has_imm = true;
		} else if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			bool rip = op->mem.base == ZYDIS_REGISTER_RIP;

			if (rip) {
				ret->ref = ret->addr + ret->len + (uint64_t)op->mem.disp.value;
				if (in->raw.disp.size == 32)
					ret->rel_at = in->raw.disp.offset;
				if (flow)
					ret->slot = ret->ref;
			} else {
				ret->base = gpr(op->mem.base);
				ret->disp = op->mem.disp.value;
				ret->has_disp = true;
				ret->indexed = op->mem.index != ZYDIS_REGISTER_NONE;
			}
			if (op->size / 8 <= UINT8_MAX)
				ret->mem_bytes = (uint8_t)(op->size / 8);
			if (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
				ret->mem_written = true;
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER &&
			   op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
			   ret->reg == INSN_NO_REG) {
			ret->reg = gpr(op->reg.value);
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER && ret->source == INSN_NO_REG) {
			ret->source = gpr(op->reg.value);
		}
	}
	/* Those that the operation implies, too. */
	for (unsigned i = 0; i < in->operand_count; i++) {
		uint8_t reg = ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER ? gpr(ops[i].reg.value)
									 : INSN_NO_REG;

		if (reg != INSN_NO_REG && ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
			ret->writes |= (uint16_t)(1u << reg);
	}
}

static uint32_t vector_bit(ZydisRegister reg)
{
	ZydisRegister wide = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (wide < ZYDIS_REGISTER_ZMM0 || wide > ZYDIS_REGISTER_ZMM31)
		return 0;
	return 1u << (wide - ZYDIS_REGISTER_ZMM0);
}

static bool is_xor(ZydisMnemonic m)
{
	return m == ZYDIS_MNEMONIC_XORPS || m == ZYDIS_MNEMONIC_XORPD || m == ZYDIS_MNEMONIC_PXOR ||
	       m == ZYDIS_MNEMONIC_VXORPS || m == ZYDIS_MNEMONIC_VXORPD ||
	       m == ZYDIS_MNEMONIC_VPXOR;
}

/* Which registers' values go where. */
static void read_values(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops,
			struct insn *ret)
{
	unsigned last = in->operand_count_visible;

	for (unsigned i = 0; i < last; i++) {
		const ZydisDecodedOperand *op = &ops[i];
		uint32_t vector;
		uint8_t reg;

		if (op->type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		reg = gpr(op->reg.value);
		vector = vector_bit(op->reg.value);
		if (op->actions & ZYDIS_OPERAND_ACTION_MASK_READ) {
			ret->reads |= (uint16_t)(reg == INSN_NO_REG ? 0 : 1u << reg);
			ret->vectors_read |= vector;
		}
		if (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
			ret->vectors_written |= vector;
	}
	/* A register with itself: zero. */
	if (is_xor(in->mnemonic) && last >= 2 &&
	    ops[last - 1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	    ops[last - 2].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	    ops[last - 1].reg.value == ops[last - 2].reg.value)
		ret->vectors_read = 0;
	ret->copies = ret->op == INSN_MOV || in->meta.category == ZYDIS_CATEGORY_CMOV ||
		      ret->vectors_read || ret->vectors_written;
}

bool insn_any(const uint8_t *bytes, size_t left, struct insn *ret)
{
	ZydisDecodedInstruction in;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder(), bytes, left, &in, ops)))
		return false;
	ret->len = in.length;
	read_flow(&in, ret);
	read_operands(&in, ops, ret);
	if (in.mnemonic == ZYDIS_MNEMONIC_LEA)
		ret->op = INSN_LEA;
	else if (in.mnemonic == ZYDIS_MNEMONIC_MOV)
		ret->op = INSN_MOV;
	else if (in.mnemonic == ZYDIS_MNEMONIC_ADD && !(in.attributes & ZYDIS_ATTRIB_HAS_LOCK))
		ret->op = INSN_ADD;
	else if (in.mnemonic == ZYDIS_MNEMONIC_SUB && !(in.attributes & ZYDIS_ATTRIB_HAS_LOCK))
		ret->op = INSN_SUB;
	else if (in.mnemonic == ZYDIS_MNEMONIC_PUSH)
		ret->op = INSN_PUSH;
	else if (in.mnemonic == ZYDIS_MNEMONIC_POP)
		ret->op = INSN_POP;
	else if (in.mnemonic == ZYDIS_MNEMONIC_SYSCALL)
		ret->op = INSN_SYSCALL;
	else if (in.attributes & ZYDIS_ATTRIB_HAS_LOCK ||
		 (in.mnemonic == ZYDIS_MNEMONIC_XCHG && ret->mem_written))
		ret->op = INSN_LOCKED;
	else if (in.mnemonic == ZYDIS_MNEMONIC_CMP)
		ret->op = INSN_CMP;
	else if (in.mnemonic == ZYDIS_MNEMONIC_JZ)
		ret->op = INSN_EQUAL;
	else if (in.mnemonic == ZYDIS_MNEMONIC_JNZ)
		ret->op = INSN_NOT_EQUAL;
	read_values(&in, ops, ret);
	return true;
}

size_t insn_any_length(const uint8_t *bytes, size_t left)
{
	ZydisDecodedInstruction in;
	struct insn flow = {0};

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder(), NULL, bytes, left, &in)))
		return 0;
	read_flow(&in, &flow);
	if (flow.flow != INSN_NEXT || in.mnemonic == ZYDIS_MNEMONIC_SYSCALL ||
	    in.raw.imm[0].size > 16 || in.raw.imm[0].is_relative ||
	    (in.attributes & ZYDIS_ATTRIB_HAS_MODRM && in.raw.modrm.mod == 0 &&
	     in.raw.modrm.rm == 5))
		return 0;
	return in.length;
}
