/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How the bytes of an object's file come into memory: by a map of it where no other user can change
 * it, by a copy where one can (base/file_map.h says why), and for small files, where the copy costs
 * less. Both come at first need and can be given back until then, so that of many large libraries
 * only the one in use is in memory.
 */
#include "binary/elf/image.h"

#include "base/cleanup.h"
#include "base/budget.h"
#include "base/holes.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of what is loaded, what may lie in holes of the file: linkers and copies leave a gap, never a
 * program. */
#define MAX_HOLES (64ULL << 20)
#define HUGE_PAGE (2ULL << 20)
#define MIN_MAP_BYTES (256u << 10)

/* Where bytes are copied to: zeroes, which cost no memory until something is written there. */
static uint8_t *zeroes(uint64_t len)
{
	uint8_t *data;

	/* For large ones a fault and a cleared page per 4 KiB would cost as much as the copy. */
	if (len < 4 * HUGE_PAGE)
		return calloc(1, len + 1);
	data = mmap(NULL, len + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data == MAP_FAILED)
		return NULL;
	madvise(data, len, MADV_HUGEPAGE);
	return data;
}

static void zeroes_free(const void *data, uint64_t len)
{
	if (data && len >= 4 * HUGE_PAGE)
		munmap((void *)(uintptr_t)data, len + 1);
	else
		free_const(data);
}

void image_bytes_free(struct image_bytes *b)
{
	if (b->data && !b->mapped) {
		budget_release(b->len);
		zeroes_free(b->data, b->len);
	}
	*b = (struct image_bytes){0};
}

/* One run of data. */
static int copy_data(const struct elf_image *img, uint64_t from, uint64_t to, uint8_t *out,
		     struct error *err)
{
	while (from < to) {
		ssize_t n = pread(img->fd, out, to - from, (off_t)from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_sys(err, -errno, "cannot read");
		if (n == 0)
			return error_set(err, -ENOEXEC, "the file became shorter");
		from += (uint64_t)n;
		out += n;
	}
	return 0;
}

/* Goes through the bytes that are data; `out` NULL: to see how much isn't. */
static int copy_bytes(struct elf_image *img, uint64_t offset, uint64_t end, uint8_t *out,
		      struct error *err)
{
	uint64_t start, stop;

	for (uint64_t at = offset; at < end; at = stop) {
		int r = holes_next_data(img->fd, at, end, &start, &stop);

		if (r < 0)
			return error_sys(err, r, "cannot read");
		if (r == 0)
			start = stop = end;
		if (!out)
			img->holes += start - at;
		if (img->holes > MAX_HOLES)
			return error_set(err, -EFBIG,
					 "more than %llu MiB of what it loads are holes of a "
					 "sparse file, which no program has: copy the real file",
					 (unsigned long long)(MAX_HOLES >> 20));
		r = out ? copy_data(img, start, stop, out + (start - offset), err) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

int image_check(struct elf_image *img, uint64_t offset, uint64_t len, struct error *err)
{
	uint64_t end;

	if (__builtin_add_overflow(offset, len, &end) || end > img->file_bytes)
		return error_set(err, -ENOEXEC, "a table or segment lies outside of the file");
	if (len > IMAGE_MAX_BYTES - img->loadable)
		return error_set(err, -EFBIG, "more than %llu MiB to load",
				 (unsigned long long)(IMAGE_MAX_BYTES >> 20));
	img->loadable += len;
	return copy_bytes(img, offset, end, NULL, err);
}

int image_read(struct elf_image *img, uint64_t offset, uint64_t len, struct image_bytes *ret,
	       struct error *err)
{
	struct image_bytes bytes = {.len = len};
	int r;

	if (!budget_hold(len))
		return error_set(err, -EFBIG,
				 "with this file pollux would have more than %llu MiB of programs "
				 "and libraries in memory: name fewer processes at once",
				 (unsigned long long)(budget_bytes() >> 20));
	bytes.data = zeroes(len);
	if (!bytes.data) {
		budget_release(len);
		return error_set(err, -ENOMEM,
				 "not enough memory for %llu MiB of it: raise the limit of "
				 "pollux' address space (ulimit -v)",
				 (unsigned long long)((len + (1 << 20) - 1) >> 20));
	}
	r = copy_bytes(img, offset, offset + len, bytes.data, err);
	if (r < 0) {
		image_bytes_free(&bytes);
		return r;
	}
	*ret = bytes;
	return 0;
}

static void open_map(struct elf_image *img)
{
	if (!img->map.data && img->file_bytes >= MIN_MAP_BYTES &&
	    file_map_open(img->fd, &img->map) == 0 && img->map.len < img->file_bytes)
		file_map_close(&img->map);
}

int image_view(struct elf_image *img, uint64_t offset, uint64_t len, struct image_bytes *ret,
	       struct error *err)
{
	/* What was loaded before the map could be opened is a copy, and stays one. */
	if (img->resting || img->map.data)
		open_map(img);
	if (!img->map.data)
		return image_read(img, offset, len, ret, err);
	*ret = (struct image_bytes){(uint8_t *)(uintptr_t)img->map.data + offset, len, true};
	return 0;
}

/* All segments' bytes. */
static int image_load(struct elf_image *img, struct error *err)
{
	open_map(img);
	for (size_t i = 0; i < img->n_segments; i++) {
		struct elf_segment *seg = &img->segments[i];
		struct image_bytes bytes;
		int r;

		if (img->map.data) {
			seg->data = img->map.data + seg->offset;
			continue;
		}
		r = seg->data ? 0 : image_read(img, seg->offset, seg->file_size, &bytes, err);
		if (r < 0)
			return r;
		if (!seg->data)
			seg->data = bytes.data;
	}
	return 0;
}

void image_unload(struct elf_image *img)
{
	for (size_t i = 0; i < img->n_segments; i++) {
		struct elf_segment *seg = &img->segments[i];

		if (!img->map.data && seg->data)
			budget_release(seg->file_size);
		if (!img->map.data)
			zeroes_free(seg->data, seg->file_size);
		seg->data = NULL;
	}
	file_map_close(&img->map);
}

void image_note_trouble(struct elf_image *img, int rc)
{
	if (img->trouble.code)
		return;
	if (rc == -ENOMEM)
		error_set(&img->trouble, rc,
			  "not enough memory to read %s: raise the limit of pollux' address space "
			  "(ulimit -v)",
			  img->name);
	else
		error_set(&img->trouble, rc,
			  "%s can't be read to its end: it was cut meanwhile, or its medium failed",
			  img->name);
}

int elf_image_wake(struct elf_image *img, struct error *err)
{
	struct error why = {0};
	int rc = img->resting ? image_load(img, &why) : 0;

	img->resting = false;
	if (rc < 0) {
		error_add(&why, "cannot read %s as a program", img->name);
		if (!img->trouble.code)
			img->trouble = why;
		for (size_t i = 0; i < img->n_segments; i++)
			if (!img->segments[i].data)
				img->segments[i].file_size = 0;
	}
	return elf_image_trouble(img, err);
}

static void drop(void *array, size_t *n, bool *done)
{
	free(*(void **)array);
	*(void **)array = NULL;
	*n = 0;
	*done = false;
}

void image_drop_index(struct elf_image *img)
{
	if (img->index)
		img->index_free(img->index);
	img->index = NULL;
}

void elf_image_rest(struct elf_image *img)
{
	drop(&img->symbols, &img->n_symbols, &img->symbols_done);
	drop(&img->pointers, &img->n_pointers, &img->pointers_done);
	drop(&img->imports, &img->n_imports, &img->imports_done);
	drop(&img->functions, &img->n_functions, &img->functions_done);
	free(img->pointer_index);
	img->pointer_index = NULL;
	free(img->pointer_bits);
	img->pointer_bits = NULL;
	free(img->begins);
	img->begins = NULL;
	img->begins_done = false;
	image_drop_index(img);
	image_bytes_free(&img->strtab);
	image_bytes_free(&img->dynstr);
	if (file_map_damaged(&img->map))
		image_note_trouble(img, -EIO);
	image_unload(img);
	img->resting = true;
}

int elf_image_trouble(struct elf_image *img, struct error *err)
{
	if (file_map_damaged(&img->map))
		image_note_trouble(img, -EIO);
	if (img->trouble.code && err)
		*err = img->trouble;
	return img->trouble.code;
}
