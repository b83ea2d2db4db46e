/* A finding from a cache that somebody has written to: it is refused, or it is a finding, which is
 * written as it is read. */
#include "fuzz.h"

#include "base/buf.h"
#include "runtime/finding_cache.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	struct buf out = BUF_INIT;
	struct finding f;

	if (!copy)
		abort();
	memcpy(copy, data, size);
	if (finding_parse(copy, size, &f)) {
		finding_write(&f, &out);
		finding_done(&f);
		if (buf_failed(&out) || !finding_parse((uint8_t *)out.data, out.len, &f))
			abort();
		finding_done(&f);
	}
	buf_done(&out);
	free(copy);
	return 0;
}
