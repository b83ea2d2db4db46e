/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The spilling stack. A block is written when it is full and one more record comes, and read back
 * when all above it has been popped. A file place is never used twice: the file lives for
 * one export only.
 */
#include "export/spill.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/io.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES 32768u

/* A block on disk: where the one below it is, then its records. */
struct block_head {
	uint64_t below;
};
#define BLOCK_ROOM (BLOCK_BYTES - sizeof(struct block_head))

void spill_file_init(struct spill_file *f)
{
	*f = (struct spill_file){.fd = -1};
}

void spill_file_done(struct spill_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

static int open_private(void)
{
	const char *dir = getenv("TMPDIR");

	return file_temporary(dir && *dir ? dir : "/tmp");
}

void spill_init(struct spill *s, struct spill_file *file, size_t record_bytes)
{
	*s = (struct spill){.file = file, .record_bytes = record_bytes};
}

void spill_done(struct spill *s)
{
	free(s->block);
	s->block = NULL;
}

static int write_block(struct spill *s)
{
	struct spill_file *f = s->file;
	if (f->fd < 0) {
		int fd = open_private();
		if (fd < 0)
			return fd;
		f->fd = fd;
	}
	memcpy(s->block, &(struct block_head){.below = s->below}, sizeof(struct block_head));
	TRY(io_write_at(f->fd, s->block, BLOCK_BYTES, f->bytes));
	s->below = f->bytes + 1;
	f->bytes += BLOCK_BYTES;
	s->n = 0;
	return 0;
}

static int read_at(const struct spill *s, uint64_t place, char *to, size_t len)
{
	ssize_t n = io_read_at(s->file->fd, to, len, place);

	return n < 0 ? (int)n : (size_t)n < len ? -EIO : 0;
}

static int read_block(struct spill *s)
{
	struct block_head head;

	TRY(read_at(s, s->below - 1, s->block, BLOCK_BYTES));
	memcpy(&head, s->block, sizeof(head));
	s->below = head.below;
	s->n = BLOCK_ROOM / s->record_bytes; /* only full ones are written */
	return 0;
}

static char *place(const struct spill *s, size_t i)
{
	return s->block + sizeof(struct block_head) + i * s->record_bytes;
}

int spill_push(struct spill *s, const void *record)
{
	if (!s->block && !(s->block = malloc(BLOCK_BYTES)))
		return -ENOMEM;
	if (s->n == BLOCK_ROOM / s->record_bytes) {
		int r = write_block(s);
		if (r < 0)
			return r;
	}
	memcpy(place(s, s->n++), record, s->record_bytes);
	return 0;
}

int spill_pop(struct spill *s, void *ret_record)
{
	if (!s->n) {
		if (!s->below)
			return 0;
		int r = read_block(s);
		if (r < 0)
			return r;
	}
	memcpy(ret_record, place(s, --s->n), s->record_bytes);
	return 1;
}

/* Places of the blocks on disk, the newest first: 8 bytes for each 32 KiB. */
static int find_blocks(const struct spill *s, uint64_t **ret_places, size_t *ret_n)
{
	struct block_head head = {.below = s->below};
	size_t n = 0, cap = 0;

	*ret_places = NULL;
	while (head.below) {
		uint64_t place = head.below - 1;
		if (!GROW(*ret_places, n, cap))
			return -ENOMEM;
		(*ret_places)[n++] = place;
		TRY(read_at(s, place, (char *)&head, sizeof(head)));
	}
	*ret_n = n;
	return 0;
}

static int each_of(const struct spill *s, const char *block, size_t n,
		   int (*fn)(void *ctx, const void *record), void *ctx)
{
	for (size_t i = 0; i < n; i++)
		TRY(fn(ctx, block + sizeof(struct block_head) + i * s->record_bytes));
	return 0;
}

int spill_each(const struct spill *s, int (*fn)(void *ctx, const void *record), void *ctx)
{
	_cleanup_free_ uint64_t *places = NULL;
	_cleanup_free_ char *block = s->below ? malloc(BLOCK_BYTES) : NULL;
	size_t n = 0;

	if (s->below && !block)
		return -ENOMEM;
	TRY(find_blocks(s, &places, &n));
	while (n-- > 0) {
		TRY(read_at(s, places[n], block, BLOCK_BYTES));
		TRY(each_of(s, block, BLOCK_ROOM / s->record_bytes, fn, ctx));
	}
	return s->block ? each_of(s, s->block, s->n, fn, ctx) : 0;
}
