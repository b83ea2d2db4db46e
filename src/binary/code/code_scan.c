/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of the scan that is the same for all machines: what is scanned, and the filter. */
#include "binary/code/code_scan.h"

#include "base/search.h"
#include "binary/elf/elf_image.h"
#include "binary/machine.h"

#include <errno.h>
#include <stdlib.h>

#define MIN_FILTER_BITS 12
#define BITS_PER_TARGET 16

int code_targets_init(struct code_targets *t, const uint64_t *v, size_t n)
{
	unsigned bits = MIN_FILTER_BITS;

	while (bits < 40 && 1ull << bits < n * BITS_PER_TARGET)
		bits++;
	*t = (struct code_targets){.v = v, .n = n, .shift = 64 - bits};
	t->filter = calloc((1ull << bits) / 64, sizeof(*t->filter));
	if (!t->filter)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		uint64_t bit = code_targets_bit(t, v[i]);

		t->filter[bit / 64] |= 1ull << bit % 64;
	}
	if (n) {
		t->low = v[0];
		t->span = v[n - 1] - v[0] + 1;
	}
	return 0;
}

void code_targets_done(struct code_targets *t)
{
	free(t->filter);
}

bool code_targets_search(const struct code_targets *t, uint64_t addr)
{
	size_t i = PARTITION_POINT(k, 0, t->n, t->v[k] < addr);

	return i < t->n && t->v[i] == addr;
}

int code_scan(struct elf_image *image, unsigned patterns, const struct code_targets *targets,
	      code_hit_fn hit, void *context)
{
	int rc = 0;

	for (size_t i = 0; i < elf_image_n_code(image) && rc == 0; i++) {
		uint64_t start, end;
		const uint8_t *code;
		size_t left;

		elf_image_code(image, i, &start, &end);
		code = elf_image_bytes(image, start, &left);
		if (code)
			rc = elf_image_machine(image)->scan(code,
							    left < end - start ? left : end - start,
							    start, patterns, targets, hit, context);
	}
	return rc;
}
