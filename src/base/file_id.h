/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which file a descriptor is open on, as the kernel says: for what is remembered of a file and
 * believed again the next time. Nothing of it is the file's own word, as a build-id is. Of a file
 * that belongs to root or to us no one else can make another that has the same: its inode is taken,
 * and the time of its last change is set by the kernel.
 *
 * The rule for all that is kept of files: read the identity from the descriptor that is read,
 * before; keep nothing, and use nothing that was kept, unless file_id_trusted(); look again after,
 * and keep nothing of a file that was changed meanwhile.
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
/* This number of hexadecimal numbers with dashes between them: a part of a file name. */
#define FILE_ID_NUMBERS 6
void file_id_text(const struct file_id *id, char ret[static FILE_ID_TEXT]);
