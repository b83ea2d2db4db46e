/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whether a recorded process lacked CPU time, by what the kernel counted for it (struct trace_cpu). */
#pragma once

#include "trace/trace.h"

enum cpu_lack { CPU_ENOUGH = 0, CPU_SHORT, CPU_THROTTLED };

#define CPU_ANY_PROCESS UINT32_MAX

/* Of a process (an index), or the worst of all. `recorded_ns`: length of the recording. */
enum cpu_lack cpu_lack(const struct trace_reader *r, uint32_t process, uint64_t recorded_ns);
