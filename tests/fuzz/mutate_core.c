/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The mutator of a core file with its program behind it (fuzz_core.c). */
#include "fuzz_core.h"
#include "mutate_elf.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	struct mutator m = mutator_of(seed, size);
	struct fuzz_core in = fuzz_core_of(data, size);
	bool of_core = mutator_next(&m, 4) != 0;
	uint8_t *part = of_core ? data + sizeof(uint32_t) : data + sizeof(uint32_t) + in.core_size;

	if (mutator_next(&m, 4) == 0 || size < sizeof(uint32_t))
		return LLVMFuzzerMutate(data, size, max_size);
	m.size = of_core ? in.core_size : in.program_size;
	for (uint64_t n = 1 + mutator_next(&m, 3); n; n--)
		mutate_elf(&m, part);
	return size;
}
