/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Unwind rules from a stranger, as a section of known and of unknown length, and an executable's, by
 * its headers: each function's are there again when they are looked up again. */
#include "fuzz.h"

#include "binary/dwarf/eh_frame.h"

enum { MAX_LOOKS = 4096, BYTES = 64 };

static void look(struct eh_table *t)
{
	size_t compiled, n = eh_table_functions(t, &compiled);

	for (size_t i = 0; i < n && i < MAX_LOOKS; i++) {
		uint64_t start = eh_table_function(t, i), made;

		for (uint64_t addr = start; addr - start < BYTES; addr++) {
			const struct eh_row *r = eh_table_at(t, addr);

			if (r && r->cfa_rule == EH_CFA_NONE)
				abort();
			if (eh_table_at(t, addr) != r)
				abort();
			if (eh_table_fp_made(t, addr, &made) && (!r || made > addr))
				abort();
		}
	}
	eh_table_at(t, 0);
	eh_table_at(t, UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image *image;
	struct eh_table *t;
	int fd;

	for (int sized = 0; sized < 2; sized++) {
		if (eh_table_compile(&machine_x86_64, data, size, 0x10000, sized, &t) < 0)
			continue;
		look(t);
		eh_table_free(t);
	}
	fd = fuzz_file(data, size);
	if (elf_image_open(fd, "fuzz", &image, NULL) == 0) {
		if (eh_table_of_image(image, &t) == 0) {
			look(t);
			eh_table_free(t);
		}
		elf_image_free(image);
	}
	close(fd);
	return 0;
}
