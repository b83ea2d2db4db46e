/*
 * Files as memory, for reading, without a copy: only what is looked at is read, and other processes
 * that have the same file share its pages.
 *
 * A map has two dangers that a copy has not. The file may be cut while it is read, and the access
 * behind its new end is a SIGBUS: such an access reads zeros instead, and the map is told to be
 * damaged. And bytes may change between a check and a use. So only a file that nobody but root and
 * our own user can write is mapped; what strangers can change is copied by the caller. That our own
 * user changes a file while we read it is no attack: what is read then may be wrong, and who keeps
 * anything of it looks at the file's identity again (base/file_id.h).
 */
#ifndef POLLUX_BASE_FILE_MAP_H
#define POLLUX_BASE_FILE_MAP_H

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
/* Gives its memory back; the next access reads the file again. */
void file_map_rest(const struct file_map *m);
/* Whether an access met the file's end, or a page that can't be read. */
bool file_map_damaged(const struct file_map *m);
void file_map_close(struct file_map *m);

/* For threads that take no signals: blocks all but the one that maps need. */
void file_map_block_signals(sigset_t *ret_before);

#endif
