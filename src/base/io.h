/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading and writing all of it: read(), pread(), write() and pwrite() may do a part, and a signal
 * may interrupt them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How many bytes were read: fewer than `len` only at the file's end. Negative errno. */
ssize_t io_read(int fd, void *out, size_t len);
ssize_t io_read_at(int fd, void *out, size_t len, uint64_t offset);

/* 0 or negative errno. */
int io_write(int fd, const void *data, size_t len);
int io_write_at(int fd, const void *data, size_t len, uint64_t offset);
