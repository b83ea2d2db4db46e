/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Files as memory, for reading, without a copy: only what is accessed is read, and other processes
 * that have the same file share its pages.
 *
 * A map has two dangers that a copy has not. The file may be truncated while it is read, and an
 * access after its new end is a SIGBUS: such an access reads zeros instead, and the map is marked
 * as damaged. And bytes may change between a check and a use. So only a file that just root and
 * this user can write is mapped; the caller copies what others can change. If this user changes a
 * file while pollux reads it, that is no attack: what is read may be wrong, and code that keeps any
 * of it checks the file's identity again (base/file_id.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h> /* sigset_t */

struct file_map {
	const uint8_t *data; /* NULL: none */
	size_t len;
	unsigned slot;
};

/* All of a regular file. -EPERM: others can change it, so it must be copied; other negative errno:
 * it can't be mapped here. */
int file_map_open(int fd, struct file_map *ret);
/* Whether an access was beyond the file's end, or in a page that can't be read. */
bool file_map_damaged(const struct file_map *m);
void file_map_close(struct file_map *m);

/* For threads that take no signals: blocks all but the one that maps need. */
void file_map_block_signals(sigset_t *ret_before);
