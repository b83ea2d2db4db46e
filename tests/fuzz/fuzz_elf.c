/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The scanner on an executable from a stranger: it may find nothing, but never read beyond, hang,
 * or leave memory behind. */
#include "fuzz.h"

#include "binary/elf/elf_image.h"
#include "runtime/runtime.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = fuzz_file(data, size);
	struct elf_image *image = NULL;
	struct error err = {0};

	if (elf_image_open(fd, "fuzz", &image, &err) == 0) {
		struct runtime_scan found = {0};

		if (runtime_find(image, &found, &err) == 0)
			runtime_scan_done(&found);
		elf_image_free(image);
	}
	close(fd);
	return 0;
}
