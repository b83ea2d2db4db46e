/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A stack of fixed-size records that spills to disk: push any number, pop them in reverse or walk
 * them in order, in the memory of one block. The blocks of all stacks lie in one unlinked private file in $TMPDIR (or
 * /tmp), each with the place of the one below it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spill_file {
	int fd; /* -1 until the first block is written */
	uint64_t bytes;
};

struct spill {
	struct spill_file *file;
	char *block;		/* NULL until the first push */
	size_t record_bytes, n; /* records in the block in memory */
	uint64_t below;		/* place + 1 of the block below, 0 if none */
};

void spill_file_init(struct spill_file *f);
void spill_file_done(struct spill_file *f);

void spill_init(struct spill *s, struct spill_file *file, size_t record_bytes);
void spill_done(struct spill *s);
int spill_push(struct spill *s, const void *record); /* 0, -ENOMEM or an error of writing */
int spill_pop(struct spill *s, void *ret_record);    /* 1, 0 when empty, negative errno */
/* All records in the order of pushing, as often as wanted, until fn gives an error: 0, or that, or one
 * of reading. */
int spill_each(const struct spill *s, int (*fn)(void *ctx, const void *record), void *ctx);
