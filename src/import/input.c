/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading. The buffer is one run of bytes; what was not taken is moved to its front before more is
 * read, so that a line always lies in one piece and nothing is copied per line. A line that does
 * not fit is cut, and the rest of it stepped over: no input makes the memory grow.
 */
#include "import/input.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t PROGRESS_BYTES = 4 << 20;

/* Reads until `n` bytes are there, or the file ends. */
static void fill(struct input *in, size_t want)
{
	if (in->pos + want > in->room) {
		memmove(in->data, in->data + in->pos, in->n - in->pos);
		in->n -= in->pos;
		in->pos = 0;
	}
	while (in->n - in->pos < want && !in->ended) {
		ssize_t n = read(in->fd, in->data + in->n, in->room - in->n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			in->code = -errno;
		if (n <= 0)
			in->ended = true;
		else
			in->n += (size_t)n;
	}
	/* A search for the end of a number or a string needs no length. */
	in->data[in->n] = 0;
}

/* What a folder is says its file "info" or "data". */
static int folder_head(struct input *in, struct error *err)
{
	struct input info;
	struct error none = {0};

	if (input_open_in(in, "info", &info, &none) < 0 &&
	    input_open_in(in, "data", &info, &none) < 0)
		return 0;
	in->data = malloc(IMPORT_HEAD_BYTES + 1);
	if (in->data) {
		memcpy(in->data, info.head.bytes, info.head.len);
		in->data[info.head.len] = 0;
		in->head = (struct import_head){true, (const uint8_t *)in->data, info.head.len};
	}
	input_close(&info);
	return in->data ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int start(struct input *in, struct error *err)
{
	struct stat st;

	if (fstat(in->fd, &st) < 0)
		return error_sys(err, -errno, "cannot examine %s", in->path);
	in->directory = S_ISDIR(st.st_mode);
	if (in->directory)
		return folder_head(in, err);
	if (S_ISREG(st.st_mode))
		in->size = (uint64_t)st.st_size;
	in->data = malloc(in->room + 1);
	if (!in->data)
		return error_set(err, -ENOMEM, "out of memory");
	fill(in, IMPORT_HEAD_BYTES);
	if (in->code)
		return error_sys(err, in->code, "cannot read %s", in->path);
	in->head.directory = false;
	in->head.bytes = (const uint8_t *)in->data;
	in->head.len = in->n < IMPORT_HEAD_BYTES ? in->n : IMPORT_HEAD_BYTES;
	return 0;
}

int input_open(const char *path, const struct import_options *opt, struct input *ret,
	       struct error *err)
{
	bool is_stdin = !strcmp(path, "-");
	*ret = (struct input){
		.path = is_stdin ? "standard input" : path, .options = opt, .room = INPUT_BUFFER};
	ret->fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
			   : file_open(path, FILE_PIPE | FILE_EMPTY | FILE_FOLDER, err);
	if (ret->fd < 0)
		return is_stdin ? error_sys(err, -errno, "cannot read standard input") : ret->fd;
	int r = start(ret, err);
	if (r < 0)
		input_close(ret);
	return r;
}

int input_open_small(struct input *folder, const char *name, size_t room, struct input *ret,
		     struct error *err)
{
	*ret = (struct input){
		.path = name, .whole = folder, .options = folder->options, .room = room};
	ret->fd = file_open_at(folder->fd, name, O_NOFOLLOW, FILE_EMPTY, err);
	if (ret->fd < 0)
		return error_add(err, "cannot read a file of %s", folder->path);
	int r = start(ret, err);
	if (r < 0)
		input_close(ret);
	return r;
}

int input_open_in(struct input *folder, const char *name, struct input *ret, struct error *err)
{
	return input_open_small(folder, name, INPUT_BUFFER, ret, err);
}

void input_close(struct input *in)
{
	if (in->fd >= 0)
		close(in->fd);
	in->fd = -1;
	free(in->data);
	in->data = NULL;
}

static void report_progress(const struct input *in)
{
	if (in->options && in->options->progress)
		in->options->progress(in->options->progress_ctx, in->offset, in->size);
}

static void take(struct input *in, size_t len)
{
	struct input *of = in->whole ? in->whole : in;
	uint64_t before = of->offset / PROGRESS_BYTES;
	in->pos += len;
	in->offset += len;
	if (of != in)
		of->offset += len;
	if (of->offset / PROGRESS_BYTES != before && (of->size || !of->directory))
		report_progress(of);
}

/* The rest of a line that is too long. */
static void skip_line(struct input *in)
{
	for (;;) {
		char *end = memchr(in->data + in->pos, '\n', in->n - in->pos);
		if (end) {
			take(in, (size_t)(end + 1 - (in->data + in->pos)));
			return;
		}
		take(in, in->n - in->pos);
		if (in->ended)
			return;
		fill(in, 1);
	}
}

int input_line(struct input *in, const char **ret_line, size_t *ret_len)
{
	char *line = in->data + in->pos;
	char *end = memchr(line, '\n', in->n - in->pos);

	in->cut = false;
	if (!end && !in->ended) {
		fill(in, INPUT_MAX_LINE + 1);
		line = in->data + in->pos;
		end = memchr(line, '\n', in->n - in->pos);
	}
	if (in->code)
		return in->code;
	size_t len = end ? (size_t)(end - line) : in->n - in->pos;
	if (!end && !len)
		return 0;
	in->n_lines++;
	*ret_line = line;
	if (len > INPUT_MAX_LINE) {
		in->cut = true;
		/* What is stepped over must not move what is given out. */
		if (end)
			take(in, len + 1);
		else
			skip_line(in);
		*ret_len = 0;
		return 1;
	}
	take(in, end ? len + 1 : len);
	if (len && line[len - 1] == '\r')
		len--;
	*ret_len = len;
	return 1;
}

size_t input_left(const struct input *in)
{
	return in->n - in->pos;
}

const uint8_t *input_peek(struct input *in, size_t len)
{
	if (len > in->room)
		return NULL;
	if (in->n - in->pos < len)
		fill(in, len);
	return in->n - in->pos < len ? NULL : (const uint8_t *)in->data + in->pos;
}

uint8_t *input_bytes(struct input *in, size_t len)
{
	size_t at = input_peek(in, len) ? in->pos : SIZE_MAX;

	if (at == SIZE_MAX)
		return NULL;
	take(in, len);
	return (uint8_t *)in->data + at;
}

bool input_skip(struct input *in, uint64_t len)
{
	while (len) {
		if (in->pos == in->n)
			fill(in, 1);
		size_t have = in->n - in->pos;
		if (!have)
			return false;
		size_t part = have < len ? have : (size_t)len;
		take(in, part);
		len -= part;
	}
	return true;
}
