/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Findings, remembered: the same file has the same scan, and to make it takes a second for each
 * hundred megabytes of code.
 */
#pragma once

#include "base/buf.h"
#include "runtime/runtime.h"

/* runtime_find(), or what it found in this file before (base/cache.h). Where the file couldn't be
 * read as a whole nothing can be said of it: elf_image_trouble(). */
int scan_cache_get(struct elf_image *image, struct runtime_scan *ret_scan, struct error *err);

/* As it is kept, without the path; and back: the bytes are untrusted, and false is all that bad
 * ones give. */
void scan_cache_write(const struct runtime_scan *f, struct buf *out);
bool scan_cache_parse(const uint8_t *data, size_t len, struct runtime_scan *ret);
