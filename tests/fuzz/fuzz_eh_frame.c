/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Unwind rules from a stranger, as a section of known and of unknown length: rows in order, each
 * found at its address; and an executable's, by its headers. */
#include "fuzz.h"

#include "binary/dwarf/eh_frame.h"

static void look(const struct eh_table *t)
{
	const struct eh_row *rows;
	size_t n = eh_table_rows(t, &rows);

	for (size_t i = 0; i < n; i++) {
		const struct eh_row *r = eh_table_at(t, eh_table_base(t) + rows[i].pc);

		if (i && rows[i].pc <= rows[i - 1].pc)
			abort();
		if (r != (rows[i].cfa_rule == EH_CFA_NONE ? NULL : &rows[i]))
			abort();
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
		if (eh_table_compile(&machine_x86_64, data, size, 0x10000, sized ? 0x8000 : 0,
				     sized, &t) < 0)
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
