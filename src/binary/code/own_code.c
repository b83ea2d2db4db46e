/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Few functions take another's address, so most are decoded once, straight on. What would need more
 * memory than there is is walked as it is.
 */
#include "binary/code/own_code.h"

#include "binary/code/code_scan.h"
#include "binary/elf/elf_image.h"
#include "binary/machine.h"

static bool is_function(uint64_t addr, void *opaque)
{
	return elf_image_is_function(opaque, addr);
}

/* Longer ones are walked as they are. */
#define MAX_BYTES (64u << 10)

static int is_taken(void *context, const struct code_hit *hit)
{
	return elf_image_is_function(context, hit->target);
}

/* Something looks like an instruction that takes the address of a function. */
static bool takes_function(struct elf_image *image, const struct insn_walk *w)
{
	unsigned patterns = elf_image_pie(image) ? CODE_TAKES : CODE_TAKES | CODE_NUMBERS;

	return w->machine->scan(w->bytes, (size_t)(w->end - w->addr), w->addr, patterns, NULL,
				is_taken, image);
}

bool own_code_init(struct own_code *o, struct elf_image *image, uint64_t start, uint64_t end)
{
	bool guarded;

	*o = (struct own_code){0};
	if (!insn_walk_init(&o->walk, image, start, end))
		return false;
	/* What is decoded needs not be walked, whether some of it is guarded or not. */
	o->flows = end - start <= MAX_BYTES && takes_function(image, &o->walk) &&
		   code_flow_read(&o->flow, image, start, end) == 0 &&
		   code_flow_guard(&o->flow, is_function, image, &guarded) == 0;
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

int own_code_next_reference(struct own_code *o, struct insn *ret, size_t *ret_passed)
{
	if (!o->flows)
		return insn_next_reference(&o->walk, ret, ret_passed);
	*ret_passed = 0;
	return own_code_next(o, ret);
}

void own_code_done(struct own_code *o)
{
	code_flow_done(&o->flow);
}
