/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The objects that a test has by its arguments, made of one source of tests/unit/fixtures: a shared
 * library, the same stripped, a program at fixed addresses, the same stripped. */
#pragma once

#include "binary/elf/elf_image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { LIB, LIB_STRIPPED, FIXED, FIXED_STRIPPED, N_FILES };
static char **files;

static struct elf_image *load(int which)
{
	struct elf_image *image = NULL;
	struct error err = {0};

	if (elf_image_open_path(files[which], &image, &err) < 0)
		fail_msg("%s", err.text);
	return image;
}
