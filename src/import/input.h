/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A file or pipe read from front to back through one buffer of fixed size: as lines, which stay in
 * place, or as runs of bytes. Private to this module.
 */
#pragma once

#include "base/error.h"
#include "import/import.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Longer lines are cut and reported as such. */
#define INPUT_MAX_LINE (64u << 10)
#define INPUT_BUFFER (1u << 20)
/* Of each if many are read at a time. */
#define INPUT_SMALL_BUFFER (128u << 10)

struct input {
	const char *path;    /* "standard input" for "-" */
	struct input *whole; /* the folder that it is of, whose offset and size are sums; or NULL */
	int fd;		     /* of the file or folder */
	bool directory;
	uint64_t size;	 /* 0: not known, or of a folder not of interest */
	uint64_t offset; /* of data[at] */
	uint64_t n_lines;
	const struct import_options *options;
	struct import_head head;
	bool cut;    /* the line given last was longer than INPUT_MAX_LINE */
	bool ended;  /* the file has no more than what is in the buffer */
	int code;    /* of a failed read */
	size_t room; /* of data */
	char *data;
	size_t pos, n; /* data[at..n) are not given out yet */
};

/* "-": standard input. Reads the head. */
int input_open(const char *path, const struct import_options *opt, struct input *ret,
	       struct error *err);
/* Another file that belongs to this input (of a folder, by a name relative to it), which has to
 * outlive it. -EINVAL, -EISDIR: it is no regular file. */
int input_open_in(struct input *folder, const char *name, struct input *ret, struct error *err);
/* With a buffer of this size, at least INPUT_SMALL_BUFFER. */
int input_open_small(struct input *folder, const char *name, size_t room, struct input *ret,
		     struct error *err);
void input_close(struct input *in);

/* The next line without its end; it stays until the next call. 1, 0 at the end, or negative errno.
 */
int input_line(struct input *in, const char **ret_line, size_t *ret_len);
/* Exactly len bytes, at most what the buffer holds, which stay, and may be changed, until the next
 * call; NULL if there are fewer: then input_left() is how many, or in->code says why. */
uint8_t *input_bytes(struct input *in, size_t len);
/* Without taking them. */
const uint8_t *input_peek(struct input *in, size_t len);
size_t input_left(const struct input *in);
/* Skips this many. False: there are fewer. */
bool input_skip(struct input *in, uint64_t len);
