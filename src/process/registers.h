/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

#include "arch/regs.h"
#include "process/threads.h"

/* Of all stopped threads; for free(). To be called on their tracer. -ENOMEM or 0. */
int registers_read(const struct process_stop *stopped, struct arch_regs **ret, size_t *ret_n);
