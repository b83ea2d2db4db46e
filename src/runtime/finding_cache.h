/*
 * Findings, remembered: the same file has the same finding, and to make it takes a second for each
 * hundred megabytes of code.
 */
#ifndef POLLUX_RUNTIME_FINDING_CACHE_H
#define POLLUX_RUNTIME_FINDING_CACHE_H

#include "base/buf.h"
#include "runtime/runtime.h"

/* runtime_find(), or what it found in this file before (base/cache.h). Where the file couldn't be
 * read as a whole nothing can be said of it: elf_image_trouble(). */
int finding_get(struct elf_image *image, struct finding *ret_finding, struct error *err);

/* As it is kept, without the path; and back: the bytes are untrusted, and false is all that bad
 * ones give. */
void finding_write(const struct finding *f, struct buf *out);
bool finding_parse(const uint8_t *data, size_t len, struct finding *ret);

#endif
