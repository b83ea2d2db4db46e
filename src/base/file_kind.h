/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a file is that is not what was wanted, by its first bytes: for sentences. */
#pragma once

#include <stddef.h>

/* "an executable", "text"; NULL: not known. */
const char *file_kind(const void *bytes, size_t n);
