/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The identity of an open file, for caches of what was read from files. All of it comes from the
 * kernel, nothing from the file, whose author can give it any build-id. If a file belongs to root
 * or to the user of pollux, no one else can make another file with the same identity: its inode is
 * taken, and the kernel sets the time of its last change.
 *
 * The rule for all caches: take the identity from the descriptor that is read, before reading; use
 * the cache, for reading and writing, only if file_id_trusted(); take the identity again
 * afterwards, and keep nothing if the file has changed meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct file_id {
	uint64_t dev, ino, bytes;
	uint64_t modified_ns, changed_ns; /* mtime, ctime */
	uint64_t owner;
};

#define FILE_ID_TEXT 104 /* bytes */

/* False: it isn't a regular file. */
bool file_id_read(int fd, struct file_id *ret);
bool file_id_same(const struct file_id *a, const struct file_id *b);
/* Whether it belongs to root or to the effective user. */
bool file_id_trusted(const struct file_id *id);
/* FILE_ID_NUMBERS hexadecimal numbers with dashes between them: a part of a file name. */
#define FILE_ID_NUMBERS 6
void file_id_text(const struct file_id *id, char ret[static FILE_ID_TEXT]);
