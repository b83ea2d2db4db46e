/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A scan from a cache that somebody has written to: it is refused, or it is a scan, which is
 * written as it is read. */
#include "fuzz.h"

#include "base/buf.h"
#include "runtime/scan_cache.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	struct buf out = BUF_INIT;
	struct runtime_scan f;

	if (!copy)
		abort();
	memcpy(copy, data, size);
	if (scan_cache_parse(copy, size, &f)) {
		scan_cache_write(&f, &out);
		runtime_scan_done(&f);
		if (buf_failed(&out) || !scan_cache_parse((uint8_t *)out.data, out.len, &f))
			abort();
		runtime_scan_done(&f);
	}
	buf_done(&out);
	free(copy);
	return 0;
}
