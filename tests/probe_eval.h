/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a probe's argument is, by its operand and the registers: what the programs in the kernel work
 * out while a program runs, here for tests.
 */
#pragma once

#include "binary/elf/probes.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* Reads len bytes of the process at addr; 0 or negative errno. */
typedef int (*probe_read_fn)(void *ctx, uint64_t addr, void *to, size_t len);

/* The argument's value, sign- or zero-extended to 64 bits. -ENOTSUP: refused or vector; else what
 * `read` gave. */
static int probe_arg_eval(const struct probe_arg *arg, const uint64_t *words, size_t n_words,
			  probe_read_fn read, void *ctx, uint64_t *ret_value)
{
	uint64_t v = 0, addr, index = 0;
	int r;

	if ((arg->form == PA_REG || arg->base != PROBE_NO_REG) && arg->form != PA_VECTOR &&
	    arg->base >= n_words)
		return -EINVAL;
	if (arg->form == PA_MEMORY && arg->index != PROBE_NO_REG) {
		if (arg->index >= n_words)
			return -EINVAL;
		index = words[arg->index];
		if (arg->index_bits == 32)
			index = arg->index_signed ? (uint64_t)(int64_t)(int32_t)index
						  : (uint32_t)index;
	}
	switch (arg->form) {
	case PA_CONST:
		v = (uint64_t)arg->value;
		break;
	case PA_REG:
		v = words[arg->base] >> (arg->shift & 63);
		break;
	case PA_MEMORY:
		addr = (arg->base == PROBE_NO_REG ? 0 : words[arg->base]) +
		       (index << (arg->shift & 63)) + (uint64_t)arg->value;
		r = read(ctx, addr, &v, arg->size <= sizeof(v) ? arg->size : sizeof(v));
		if (r < 0)
			return r;
		break;
	default:
		return -ENOTSUP;
	}
	*ret_value = probe_arg_extend(arg, v);
	return 0;
}
