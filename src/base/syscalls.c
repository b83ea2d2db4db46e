/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names of system calls. The table is made from the kernel's headers at build time. */
#include "base/syscalls.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {
#include "base/syscall_names.h"
};

#define N_NAMES (sizeof(names) / sizeof(names[0]))

const char *syscall_name(unsigned number)
{
	return number < N_NAMES ? names[number] : NULL;
}

int syscall_number(const char *name)
{
	for (size_t i = 0; i < N_NAMES; i++)
		if (names[i] && !strcmp(names[i], name))
			return (int)i;
	return -1;
}
