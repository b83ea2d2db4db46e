/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Fuzz target for the text of perf script. */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_import(data, size, "perf-script");
	return 0;
}
