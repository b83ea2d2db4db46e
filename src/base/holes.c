/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/holes.h"

#include <errno.h>
#include <unistd.h>

int holes_next_data(int fd, uint64_t at, uint64_t end, uint64_t *ret_start, uint64_t *ret_end)
{
	off_t start, stop;

	if (at >= end || at > INT64_MAX)
		return 0;
	start = lseek(fd, (off_t)at, SEEK_DATA);
	/* A file system that does not know its holes: all is data. */
	if (start < 0 && errno == EINVAL) {
		*ret_start = at;
		*ret_end = end;
		return 1;
	}
	if (start < 0)
		return errno == ENXIO ? 0 : -errno;
	if ((uint64_t)start >= end)
		return 0;
	stop = lseek(fd, start, SEEK_HOLE);
	if (stop < 0)
		return -errno;
	*ret_start = (uint64_t)start;
	*ret_end = (uint64_t)stop < end ? (uint64_t)stop : end;
	return *ret_end > *ret_start;
}
