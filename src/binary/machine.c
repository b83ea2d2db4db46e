/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "binary/machine.h"

static const struct machine *const machines[] = {&machine_x86_64};

const struct machine *machine_find(uint16_t elf)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		if (machines[i]->elf == elf)
			return machines[i];
	return NULL;
}

const struct machine *machine_here(void)
{
#if defined(__x86_64__)
	return &machine_x86_64;
#else
	return NULL;
#endif
}
