/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * At which instruction a probe may be.
 *
 * The kernel emulates some instructions; others it executes out of line, one step of the CPU, which
 * costs a second exception (1 us, 25 us in some virtual machines); some it refuses, and with them
 * everything that was to be attached in the same call.
 *
 * So a probe moves on to the next emulated instruction if there is one in the same straight run of
 * code: no branch leads in between, and what the probe reads is still there.
 */
#include "base/cleanup.h"
#include "base/vec.h"
#include "binary/code/insn.h"
#include "capture/kernel/object.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_STEPS 64
#define MAX_FUNCTION (1u << 20)

/* Where direct branches of a function lead; false: it has others, too, or can't be read. */
static bool branch_targets(struct elf_image *image, uint64_t start, uint64_t end, uint64_t **ret,
			   size_t *ret_n)
{
	uint64_t *v = NULL;
	size_t n = 0, cap = 0;
	struct insn_walk w;
	struct insn in;

	if (end - start > MAX_FUNCTION || !insn_walk_init(&w, image, start, end))
		return false;
	while (insn_next(&w, &in) > 0) {
		if (in.flow != INSN_JUMP && in.flow != INSN_BRANCH)
			continue;
		/* By a table of addresses: or, through a word of the GOT, to another function. */
		if (!in.target && !in.slot)
			goto fail;
		if (!GROW(v, n, cap))
			goto fail;
		v[n++] = in.target;
	}
	if (w.addr != end)
		goto fail;
	*ret = v;
	*ret_n = n;
	return true;
fail:
	free(v);
	return false;
}

static bool leads_between(const uint64_t *targets, size_t n, uint64_t after, uint64_t to)
{
	for (size_t i = 0; i < n; i++)
		if (targets[i] > after && targets[i] <= to)
			return true;
	return false;
}

enum arch_uprobe kernel_insn_place(struct elf_image *image, uint64_t addr, uint16_t keep,
				   uint64_t *ret_addr)
{
	_cleanup_free_ uint64_t *targets = NULL;
	enum arch_uprobe first = UPROBE_REFUSED;
	uint64_t start, end;
	size_t n_targets = 0;
	struct insn_walk w;
	struct insn in;

	*ret_addr = addr;
	if (!elf_image_function(image, addr, &start, &end) ||
	    !insn_walk_init(&w, image, addr, end)) {
		size_t left;
		const uint8_t *bytes = elf_image_bytes(image, addr, &left);

		/* A function of unknown end: its first instruction at least. */
		if (!bytes || !insn_walk_init(&w, image, addr, addr + (left < 15 ? left : 15)) ||
		    insn_next(&w, &in) <= 0)
			return UPROBE_REFUSED;
		return arch_uprobe_of(bytes, in.len);
	}
	for (int i = 0; i < MAX_STEPS; i++) {
		const uint8_t *bytes = w.bytes;
		enum arch_uprobe class;

		if (insn_next(&w, &in) <= 0)
			break;
		class = arch_uprobe_of(bytes, in.len);
		if (i == 0)
			first = class;
		if (class == UPROBE_EMULATED) {
			if (i > 0 && (!branch_targets(image, start, end, &targets, &n_targets) ||
				      leads_between(targets, n_targets, addr, in.addr)))
				break;
			*ret_addr = in.addr;
			return UPROBE_EMULATED;
		}
		/* Behind a call through memory nothing of the registers is as it was. */
		if (in.flow == INSN_CALL ? keep != 0 : in.flow != INSN_NEXT || in.writes & keep)
			break;
	}
	return first;
}

int kernel_insn_returns(struct elf_image *image, uint64_t start, uint64_t end, uint64_t **ret,
			size_t *ret_n, bool *ret_leaves)
{
	uint64_t *v = NULL;
	size_t n = 0;
	struct insn_walk w;
	struct insn in;

	*ret_leaves = false;
	if (!insn_walk_init(&w, image, start, end))
		return -EINVAL;
	for (;;) {
		const uint8_t *bytes = w.bytes;

		if (insn_next(&w, &in) <= 0)
			break;
		if ((in.flow == INSN_JUMP || in.flow == INSN_BRANCH) && in.target &&
		    (in.target < start || in.target >= end))
			*ret_leaves = true;
		if (in.flow == INSN_JUMP && in.slot)
			*ret_leaves = true;
		if (in.flow != INSN_END || !arch_is_return(bytes, in.len))
			continue;
		if (!GROW_ONE(v, n)) {
			free(v);
			return -ENOMEM;
		}
		v[n++] = in.addr;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}
