/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The formats, one file each. Private to this module. */
#pragma once

#include "import/import.h"

extern const struct import_ops import_perf_data, import_perf_script, import_print_all;
extern const struct import_ops import_uftrace_data, import_uftrace_dump;
