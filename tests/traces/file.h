/* Trace files as bytes in memory, for tests: to be cut, bent and read. */
#pragma once

#include "base/buf.h"
#include "trace/format.h"
#include "trace/trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The bytes of a file; failed if it can't be read. */
static inline struct buf file_load(const char *path)
{
	struct buf b = BUF_INIT;
	char part[4096];
	size_t n;
	FILE *f = fopen(path, "rb");
	if (!f) {
		b.failed = true;
		return b;
	}
	while ((n = fread(part, 1, sizeof(part), f)))
		buf_add(&b, part, n);
	fclose(f);
	return b;
}

/* What a reader makes of some bytes. */
struct file_read {
	int opened; /* 0 or negative errno of trace_reader_open() */
	int code;   /* 0 or negative errno of trace_reader_next() */
	struct error err;
	struct trace_event *events;
	size_t n;
	bool truncated;
	char story[512];
	struct trace_reader *reader; /* open still, for its tables */
};

static inline void file_read_done(struct file_read *f)
{
	trace_reader_free(f->reader);
	free(f->events);
	*f = (struct file_read){0};
}

/* Events until the end; what stood in f->events before is forgotten. */
static inline void file_read_events(struct file_read *f)
{
	struct trace_event ev;
	const char *story;
	size_t cap = 0;

	free(f->events);
	f->events = NULL;
	f->n = 0;
	while ((f->code = trace_reader_next(f->reader, &ev, &f->err)) > 0) {
		if (f->n == cap) {
			cap = cap ? cap * 2 : 64;
			f->events = realloc(f->events, cap * sizeof(ev));
			if (!f->events)
				abort();
		}
		f->events[f->n++] = ev;
	}
	f->truncated = trace_reader_truncated(f->reader, &story);
	snprintf(f->story, sizeof(f->story), "%s", story ? story : "");
}

static inline struct file_read file_read_path(const char *path)
{
	struct file_read f = {0};
	f.opened = trace_reader_open(path, &f.reader, &f.err);
	if (f.opened == 0)
		file_read_events(&f);
	return f;
}

static inline struct file_read file_read_bytes(const void *data, size_t len)
{
	char path[64];
	int fd = memfd_create("trace", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct file_read f = file_read_path(path);
	close(fd);
	return f;
}

/* Corrects the checksums of the chunk header and payload at `offset`, and says where the next chunk
 * begins; 0 if there is none. */
static inline size_t file_seal_chunk(struct buf *b, size_t offset)
{
	struct plx_chunk_header h;
	if (offset + sizeof(h) > b->len)
		return 0;
	memcpy(&h, b->data + offset, sizeof(h));
	if (h.size > b->len - offset - sizeof(h))
		return 0;
	h.payload_checksum = plx_crc32c(b->data + offset + sizeof(h), h.size);
	h.checksum = plx_crc32c(&h, offsetof(struct plx_chunk_header, checksum));
	memcpy(b->data + offset, &h, sizeof(h));
	return offset + sizeof(h) + h.size;
}

static inline void file_seal_header(struct buf *b)
{
	uint32_t sum = plx_crc32c(b->data, offsetof(struct plx_header, checksum));
	memcpy(b->data + offsetof(struct plx_header, checksum), &sum, sizeof(sum));
}

/* All checksums of a copy of `data` made right; `size` is that of a header at least. */
static inline void file_seal(struct buf *out, const void *data, size_t size)
{
	struct plx_header h;
	buf_add(out, data, size);
	if (buf_failed(out))
		abort();
	memcpy(&h, data, sizeof(h));
	file_seal_header(out);
	for (size_t at = h.header_bytes; at && at < size;)
		at = file_seal_chunk(out, at);
}

static inline void file_add_chunk(struct buf *b, uint16_t type, uint16_t flags, const void *payload,
				  size_t size)
{
	size_t offset = b->len;
	struct plx_chunk_header h = {.type = type, .flags = flags, .size = (uint32_t)size};
	buf_add(b, &h, sizeof(h));
	buf_add(b, payload, size);
	file_seal_chunk(b, offset);
}

/* The offset of the number'th chunk of a type, from 0; 0 if there is none. */
static inline size_t file_find_chunk(const struct buf *b, uint16_t type, unsigned number)
{
	struct plx_chunk_header h;
	size_t at = sizeof(struct plx_header);
	while (at + sizeof(h) <= b->len) {
		memcpy(&h, b->data + at, sizeof(h));
		if (h.type == type && !number--)
			return at;
		at += sizeof(h) + h.size;
	}
	return 0;
}
