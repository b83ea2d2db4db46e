/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "process/registers.h"

#include <errno.h>
#include <stdlib.h>

int registers_read(const struct process_stop *stopped, struct arch_regs **ret, size_t *ret_n)
{
	struct arch_regs *v = calloc(stopped->n ? stopped->n : 1, sizeof(*v));
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < stopped->n; i++)
		if (stopped->v[i].state != THREAD_GONE &&
		    arch_regs_read(stopped->v[i].tid, &v[n]) == 0)
			n++;
	*ret = v;
	*ret_n = n;
	return 0;
}
