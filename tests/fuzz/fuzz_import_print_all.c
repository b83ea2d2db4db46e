/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Fuzz target for the output of tokio-dtrace's print-all. */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_import(data, size, "print-all");
	return 0;
}
