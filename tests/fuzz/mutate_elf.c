/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The mutator of ELF files, for all targets that read one. */
#include "mutate_elf.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	struct mutator m = mutator_of(seed, size);

	if (mutator_next(&m, 3) == 0 || size < sizeof(Elf64_Ehdr))
		return LLVMFuzzerMutate(data, size, max_size);
	for (uint64_t n = 1 + mutator_next(&m, 3); n; n--)
		mutate_elf(&m, data);
	return size;
}
