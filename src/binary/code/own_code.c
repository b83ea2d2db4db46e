/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Few functions take another's address, so most are decoded once, straight on. What would need more
 * memory than there is is walked as it is.
 */
#include "binary/code/own_code.h"

#include "binary/elf/elf_image.h"

#include <string.h>

static bool is_function(uint64_t addr, void *opaque)
{
	return elf_image_is_function(opaque, addr);
}

/* Longer ones are walked as they are. */
#define MAX_BYTES (64u << 10)

/* Something looks like an instruction that takes the address of a function. */
static bool takes_function(struct elf_image *image, const struct insn_walk *w)
{
	size_t n = (size_t)(w->end - w->at);
	int32_t value;

	for (size_t i = 3; i + 4 <= n; i++) {
		const uint8_t *p = w->bytes + i;
		bool lea = (p[-3] & 0xfb) == 0x48 && p[-2] == 0x8d && (p[-1] & 0xc7) == 0x05;

		if (!lea && elf_image_pie(image))
			continue;
		memcpy(&value, p, sizeof(value));
		if (is_function(lea ? w->at + i + 4 + (uint64_t)(int64_t)value
				    : (uint64_t)(uint32_t)value,
				image))
			return true;
	}
	return false;
}

bool own_code_init(struct own_code *o, struct elf_image *image, uint64_t start, uint64_t end)
{
	*o = (struct own_code){0};
	if (!insn_walk_init(&o->walk, image, start, end))
		return false;
	if (end - start <= MAX_BYTES && takes_function(image, &o->walk) &&
	    (code_flow_read(&o->flow, image, start, end) < 0 ||
	     code_flow_guard(&o->flow, is_function, image, &o->flows) < 0))
		o->flows = false;
	return true;
}

int own_code_next(struct own_code *o, struct insn *ret)
{
	if (!o->flows)
		return insn_next(&o->walk, ret);
	while (o->next < o->flow.n && code_flow_guarded(&o->flow, o->next))
		o->next++;
	if (o->next == o->flow.n)
		return 0;
	*ret = o->flow.insns[o->next];
	if (code_flow_guards(&o->flow, o->next++))
		ret->target = 0;
	return 1;
}

void own_code_done(struct own_code *o)
{
	code_flow_done(&o->flow);
}
