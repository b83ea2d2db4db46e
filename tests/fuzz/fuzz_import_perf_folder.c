/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Fuzz target for folders of perf record --threads. */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_import_folder(data, size, "perf-data");
	return 0;
}
