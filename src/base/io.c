/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/io.h"

#include <errno.h>
#include <unistd.h>

/* `offset`: NULL: from where the descriptor is. */
static ssize_t read_all(int fd, void *out, size_t len, const uint64_t *offset)
{
	size_t done = 0;

	while (done < len) {
		char *to = (char *)out + done;
		ssize_t n = offset ? pread(fd, to, len - done, (off_t)(*offset + done))
				   : read(fd, to, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int write_all(int fd, const void *data, size_t len, const uint64_t *offset)
{
	for (size_t done = 0; done < len;) {
		const char *from = (const char *)data + done;
		ssize_t n = offset ? pwrite(fd, from, len - done, (off_t)(*offset + done))
				   : write(fd, from, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (size_t)n;
	}
	return 0;
}

ssize_t io_read(int fd, void *out, size_t len)
{
	return read_all(fd, out, len, NULL);
}

ssize_t io_read_at(int fd, void *out, size_t len, uint64_t offset)
{
	return read_all(fd, out, len, &offset);
}

int io_write(int fd, const void *data, size_t len)
{
	return write_all(fd, data, len, NULL);
}

int io_write_at(int fd, const void *data, size_t len, uint64_t offset)
{
	return write_all(fd, data, len, &offset);
}
