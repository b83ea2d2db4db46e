/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Semaphores of probes that the kernel did not raise, raised in the program's own memory. Such a
 * one stays raised if pollux is killed: the program then does the work for a probe without a
 * reader. Those that the kernel raised fall with pollux's file descriptors.
 */
#include "base/vec.h"
#include "capture/kernel/kernel.h"
#include "process/maps.h"
#include "process/memory.h"

#include <errno.h>
#include <stdlib.h>

/* A wrong address would change something else. */
static bool is_data(const struct process_maps *maps, uint64_t addr)
{
	const struct process_map *m = maps_at(maps, addr);

	return m && m->write && !m->exec && addr + sizeof(uint16_t) <= m->end;
}

int kernel_sema_raise(struct kernel_process *p, uint64_t bias, const uint64_t *semaphores, size_t n)
{
	struct process_maps maps;
	int rc;

	if (!n)
		return 0;
	rc = maps_read(&p->process, &maps, NULL);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n && rc == 0; i++) {
		uint64_t addr = semaphores[i] + bias;
		uint16_t value;

		if (!is_data(&maps, addr) || memory_read(&p->process, addr, &value, 2) < 0 || value)
			continue;
		if (!GROW_ONE(p->raised, p->n_raised)) {
			rc = -ENOMEM;
			break;
		}
		value = 1;
		rc = memory_write(&p->process, addr, &value, 2);
		if (rc == 0)
			p->raised[p->n_raised++] = addr;
	}
	maps_done(&maps);
	return rc;
}

void kernel_sema_lower(struct kernel_process *p)
{
	for (size_t i = 0; i < p->n_raised; i++) {
		uint16_t value;

		/* Another tracer may have raised it since. */
		if (memory_read(&p->process, p->raised[i], &value, 2) < 0 || !value)
			continue;
		value--;
		memory_write(&p->process, p->raised[i], &value, 2);
	}
	free(p->raised);
	p->raised = NULL;
	p->n_raised = 0;
}
