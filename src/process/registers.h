/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef POLLUX_PROCESS_REGISTERS_H
#define POLLUX_PROCESS_REGISTERS_H

#include "arch/regs.h"
#include "process/threads.h"

/* Of all stopped threads; for free(). To be called on their tracer. -ENOMEM or 0. */
int registers_read(const struct process_stop *stopped, struct arch_regs **ret, size_t *ret_n);

#endif
