/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which names and places a build gives. */
#pragma once

#include "binary/elf/elf_image.h"
#include "runtime/find.h"

enum grade {
	GRADE_STRIPPED = 0,
	GRADE_LEGACY, /* symbols without types */
	GRADE_V0,     /* symbols with types */
	GRADE_LINES,  /* debug information without types; and no symbols, or those above */
	GRADE_LINES_LEGACY,
	GRADE_LINES_V0,
	GRADE_FULL,
	GRADE_N
};

extern const struct grade_text {
	const char *name;
	const char *gives;
	const char *lacks; /* with what to do; "" */
} grade_texts[GRADE_N];

/* Also looks for debug information in separate files, and reads that of some tasks. */
enum grade grade_of(struct elf_image *image, const char *path, const struct runtime_scan *scan);
