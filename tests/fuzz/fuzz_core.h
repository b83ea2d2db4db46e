/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A core file and its program as one input: the core's size (32 bits), the core, the program. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fuzz_core {
	const uint8_t *core, *program;
	size_t core_size, program_size;
};

static inline struct fuzz_core fuzz_core_of(const uint8_t *data, size_t size)
{
	struct fuzz_core in = {data, data, 0, 0};
	uint32_t n;

	if (size < sizeof(n))
		return in;
	memcpy(&n, data, sizeof(n));
	in.core = data + sizeof(n);
	size -= sizeof(n);
	in.core_size = n < size ? n : size;
	in.program = in.core + in.core_size;
	in.program_size = size - in.core_size;
	return in;
}
