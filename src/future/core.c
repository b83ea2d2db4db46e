/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cores: segments say what memory there was, notes say the rest: NT_AUXV has AT_ENTRY, from which
 * the program's bias follows, NT_FILE names the mapped files (System V ABI; Linux fs/binfmt_elf.c).
 * Pages of files that were never written are left out of a core, so those of the program and its
 * libraries are read from their files, which must therefore be the very ones: the program and the
 * core are compared where relocations have left their mark (inspect.c), libraries by their heads.
 */
#include "future/core.h"

#include "arch/arch.h"
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "base/holes.h"
#include "base/search.h"
#include "base/units.h"
#include "base/vec.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	MAX_SEGMENTS = 65535,
	MAX_NOTES = 64 << 20, /* bytes of all of them */
	MAX_FILES = 100000,
	MAX_THREADS = 65536,
	HEAD_BYTES = 1024,
	NOTE_FILE = 0x46494c45,
};

static bool read_at(int fd, uint64_t offset, void *out, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(fd, (char *)out + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

/* NT_FILE: count, page size, (start, end, page offset) each, then their names. */
static void note_file(struct core *c, const uint8_t *data, size_t len)
{
	uint64_t head[2], range[3];
	const char *name, *end = (const char *)data + len;

	if (len < sizeof(head) || c->files)
		return;
	memcpy(head, data, sizeof(head));
	if (head[0] > MAX_FILES || len < sizeof(head) + head[0] * sizeof(range))
		return;
	c->files = calloc(head[0] ? head[0] : 1, sizeof(*c->files));
	name = (const char *)data + sizeof(head) + head[0] * sizeof(range);
	for (uint64_t i = 0; c->files && i < head[0] && name < end; i++) {
		size_t n = strnlen(name, (size_t)(end - name));
		struct core_file *f = &c->files[c->n_files];

		if (name + n == end)
			return;
		memcpy(range, data + sizeof(head) + i * sizeof(range), sizeof(range));
		*f = (struct core_file){range[0], range[1], range[2] * head[1], strdup(name)};
		if (!f->path)
			return;
		c->n_files++;
		name += n + 1;
	}
}

static uint64_t note_auxv(const uint8_t *data, size_t len)
{
	uint64_t pair[2];

	for (size_t at = 0; at + sizeof(pair) <= len; at += sizeof(pair)) {
		memcpy(pair, data + at, sizeof(pair));
		if (pair[0] == AT_ENTRY)
			return pair[1];
	}
	return 0;
}

static void add_thread(struct core *c, const uint8_t *data, size_t len)
{
	struct arch_regs one;

	if (c->n_threads == MAX_THREADS || !arch_regs_of_prstatus(data, len, &one))
		return;
	if (GROW_ONE(c->threads, c->n_threads))
		c->threads[c->n_threads++] = one;
}

static void read_notes(struct core *c, const uint8_t *data, size_t len)
{
	for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= len;) {
		Elf64_Nhdr h;
		size_t desc;

		memcpy(&h, data + at, sizeof(h));
		at += sizeof(h);
		if (h.n_namesz > len - at)
			return;
		desc = at + ((h.n_namesz + 3u) & ~(size_t)3);
		if (desc > len || h.n_descsz > len - desc)
			return;
		if (h.n_type == NT_PRSTATUS)
			add_thread(c, data + desc, h.n_descsz);
		if (h.n_type == NT_AUXV && !c->entry)
			c->entry = note_auxv(data + desc, h.n_descsz);
		if (h.n_type == NOTE_FILE)
			note_file(c, data + desc, h.n_descsz);
		at = desc + ((h.n_descsz + 3u) & ~(size_t)3);
		if (at > len)
			return;
	}
}

/* What of the file there is, whatever a header claims. */
static uint64_t in_file(const struct core *c, uint64_t offset, uint64_t len)
{
	uint64_t left = offset < c->file_bytes ? c->file_bytes - offset : 0;

	return len < left ? len : left;
}

static int by_addr(const void *a, const void *b)
{
	const struct core_segment *x = a, *y = b;

	return ASCENDING(x->addr, y->addr);
}

static int not_a_core(const struct core *c, const char *path, struct error *err)
{
	unsigned char head[64];
	ssize_t n = pread(c->fd, head, sizeof(head), 0);
	const char *kind = n > 0 ? file_kind(head, (size_t)n) : n == 0 ? "empty" : NULL;

	if (kind && !strcmp(kind, "a core file"))
		return error_set(err, -ENOEXEC, "%s is not a core file of a " ARCH_NAME " program",
				 path);
	return error_set(
		err, -ENOEXEC,
		"%s is %s%sneither a trace nor a core file: give one of these, or the pid or name "
		"of a running process",
		path, kind ? kind : "", kind ? ", " : "");
}

static int read_headers(struct core *c, const char *path, struct error *err)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	struct stat st;
	uint64_t n;

	if (fstat(c->fd, &st) < 0)
		return error_sys(err, -errno, "cannot look at %s", path);
	c->file_bytes = (uint64_t)st.st_size;
	if (!read_at(c->fd, 0, &eh, sizeof(eh)) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_machine != ARCH_ELF_MACHINE ||
	    eh.e_type != ET_CORE || eh.e_phentsize != sizeof(ph))
		return not_a_core(c, path, err);
	n = eh.e_phnum;
	if (n == PN_XNUM) { /* more than fit: the count is in the first section header */
		Elf64_Shdr sh;

		n = read_at(c->fd, eh.e_shoff, &sh, sizeof(sh)) ? sh.sh_info : 0;
	}
	if (!n || n > MAX_SEGMENTS * 16u)
		return error_set(err, -ENOEXEC, "%s has no usable program headers", path);
	c->segments = calloc(n, sizeof(*c->segments));
	if (!c->segments)
		return error_set(err, -ENOMEM, "out of memory");
	for (uint64_t i = 0; i < n; i++) {
		if (!read_at(c->fd, eh.e_phoff + i * sizeof(ph), &ph, sizeof(ph)))
			return error_set(err, -ENOEXEC, "%s is cut short", path);
		if (ph.p_type == PT_LOAD && ph.p_memsz && ph.p_vaddr + ph.p_memsz > ph.p_vaddr) {
			c->segments[c->n_segments++] = (struct core_segment){
				ph.p_vaddr, ph.p_memsz, ph.p_offset,
				in_file(c, ph.p_offset,
					ph.p_filesz < ph.p_memsz ? ph.p_filesz : ph.p_memsz),
				ph.p_flags};
		} else if (ph.p_type == PT_NOTE && ph.p_filesz &&
			   ph.p_filesz <= MAX_NOTES - c->note_bytes) {
			_cleanup_free_ uint8_t *notes = malloc(ph.p_filesz);

			if (!notes)
				return error_set(err, -ENOMEM, "out of memory");
			c->note_bytes += ph.p_filesz;
			if (read_at(c->fd, ph.p_offset, notes, ph.p_filesz))
				read_notes(c, notes, ph.p_filesz);
		}
	}
	qsort(c->segments, c->n_segments, sizeof(*c->segments), by_addr);
	if (!c->entry)
		return error_set(err, -ENODATA,
				 "%s does not say where its program was loaded (no NT_AUXV)", path);
	return 0;
}

static int make_maps(const struct core *c, struct process_maps *ret_maps)
{
	struct process_map *v = calloc(c->n_segments ? c->n_segments : 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_segments; i++) {
		const struct core_segment *s = &c->segments[i];

		v[i] = (struct process_map){
			.start = s->addr,
			.end = s->addr + s->size,
			.read = s->flags & PF_R,
			.write = s->flags & PF_W,
			.exec = s->flags & PF_X,
			.path = "",
		};
	}
	*ret_maps = (struct process_maps){.v = v, .n = c->n_segments};
	return 0;
}

static const struct core_segment *segment_at(const struct core *c, uint64_t addr)
{
	size_t lo = PARTITION_POINT(i, 0, c->n_segments, c->segments[i].addr <= addr);

	return lo && addr - c->segments[lo - 1].addr < c->segments[lo - 1].size
		       ? &c->segments[lo - 1]
		       : NULL;
}

/* Takes the image over. It ends where its segments end. */
static void set_object(struct process_object *o, struct elf_image *image, const char *path,
		       uint64_t bias)
{
	size_t n = elf_image_n_segments(image);

	*o = (struct process_object){.path = strdup(path), .image = image, .bias = bias};
	o->start = UINT64_MAX;
	for (size_t i = 0; i < n; i++) {
		const struct elf_segment *s = elf_image_segment(image, i);

		if (bias + s->addr < o->start)
			o->start = bias + s->addr;
		if (bias + s->addr + s->size > o->end)
			o->end = bias + s->addr + s->size;
	}
}

/* Is this the file that was mapped? Its first page, which has its headers and as a rule its
 * build-id, is in the core (bit 4 of coredump_filter); what isn't there can't be compared. */
static bool same_file(const struct core *c, int fd, const struct core_file *f)
{
	uint8_t of_core[HEAD_BYTES], of_file[HEAD_BYTES];
	const struct core_segment *s = segment_at(c, f->start);

	if (!s || s->addr != f->start || s->file_size < HEAD_BYTES)
		return true;
	return read_at(c->fd, s->file_offset, of_core, HEAD_BYTES) &&
	       read_at(fd, 0, of_file, HEAD_BYTES) && !memcmp(of_core, of_file, HEAD_BYTES);
}

/* A library: a file that was mapped from its beginning on. What can't be had is left out. */
static void add_library(const struct core *c, const struct core_file *f,
			struct process_objects *objects)
{
	_cleanup_close_ int fd = file_open(f->path, 0, NULL);
	struct elf_image *image;

	if (fd < 0 || !same_file(c, fd, f) || elf_image_open(fd, f->path, &image, NULL) < 0)
		return;
	if (!elf_image_n_segments(image)) {
		elf_image_free(image);
		return;
	}
	/* the first segment begins with the file, at its page */
	set_object(&objects->v[objects->n++], image, f->path,
		   f->start - (elf_image_segment(image, 0)->addr & ~(uint64_t)(PAGE - 1)));
}

static int make_objects(struct core *c, struct process_objects *ret_objects, struct error *err)
{
	struct process_objects objects = {calloc(c->n_files + 1, sizeof(*objects.v)), 1};
	struct elf_image *image;
	int r;

	if (!objects.v)
		return error_set(err, -ENOMEM, "out of memory");
	*ret_objects = objects;
	r = elf_image_open(c->exe_fd, c->exe, &image, err);
	if (r < 0)
		return r;
	set_object(&objects.v[0], image, c->exe, c->entry - elf_image_entry(image));
	objects.v[0].main = true;
	for (size_t i = 0; i < c->n_files; i++) {
		const struct core_file *f = &c->files[i];

		if (!f->offset && (f->start < objects.v[0].start || f->start >= objects.v[0].end))
			add_library(c, f, &objects);
	}
	*ret_objects = objects;
	c->objects = ret_objects;
	return 0;
}

int core_open(const char *path, const char *exe, struct core **ret_core,
	      struct process_maps *ret_maps, struct process_objects *ret_objects, struct error *err)
{
	struct core *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_set(err, -ENOMEM, "out of memory");
	c->exe_fd = -1;
	c->fd = file_open(path, 0, err);
	if (c->fd < 0) {
		r = c->fd;
		goto fail;
	}
	r = read_headers(c, path, err);
	if (r < 0)
		goto fail;
	for (size_t i = 0; i < c->n_files && !exe; i++)
		if (c->entry >= c->files[i].start && c->entry < c->files[i].end)
			exe = c->files[i].path;
	c->exe = exe ? strdup(exe) : NULL;
	if (!c->exe) {
		r = error_set(err, -ENODATA, "%s does not name its program: give it with --exe",
			      path);
		goto fail;
	}
	c->exe_fd = file_open(c->exe, 0, err);
	if (c->exe_fd < 0) {
		r = c->exe_fd;
		error_add(err, "the program of %s can't be read: name it with --exe", path);
		goto fail;
	}
	r = make_objects(c, ret_objects, err);
	if (r < 0)
		goto fail;
	r = make_maps(c, ret_maps);
	if (r < 0) {
		error_set(err, r, "out of memory");
		goto fail;
	}
	*ret_core = c;
	return 0;
fail:
	core_close(c);
	return r;
}

void core_close(struct core *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	if (c->exe_fd >= 0)
		close(c->exe_fd);
	for (size_t i = 0; i < c->n_files; i++)
		free(c->files[i].path);
	free(c->files);
	free(c->exe);
	free(c->segments);
	free(c->threads);
	free(c);
}

/* Bytes of a file, as they were mapped. */
static size_t read_object(const struct core *c, uint64_t addr, void *out, size_t len)
{
	for (size_t i = 0; c->objects && i < c->objects->n; i++) {
		const struct process_object *o = &c->objects->v[i];
		const uint8_t *bytes;
		size_t left;

		if (addr < o->start || addr >= o->end)
			continue;
		bytes = elf_image_bytes(o->image, addr - o->bias, &left);
		if (!bytes || !left)
			continue;
		if (left > len)
			left = len;
		memcpy(out, bytes, left);
		return left;
	}
	return 0;
}

int core_read(const struct core *c, uint64_t addr, void *out, size_t len)
{
	uint8_t *to = out;

	while (len) {
		const struct core_segment *s = segment_at(c, addr);
		uint64_t at = s ? addr - s->addr : 0;
		size_t n;

		if (s && at < s->file_size) {
			n = s->file_size - at < len ? s->file_size - at : len;
			if (!read_at(c->fd, s->file_offset + at, to, n))
				return -EIO;
		} else {
			n = read_object(c, addr, to, len);
			if (!n)
				return -EFAULT;
		}
		to += n;
		addr += n;
		len -= n;
	}
	return 0;
}

int core_next(const struct core *c, uint64_t addr, uint64_t end, uint64_t *ret_start,
	      uint64_t *ret_end)
{
	const struct core_segment *s = segment_at(c, addr);
	uint64_t at, stop, start;
	int r;

	if (!s || addr - s->addr >= s->file_size)
		return 0;
	at = s->file_offset + (addr - s->addr);
	stop = s->file_offset + s->file_size;
	if (end - addr < stop - at)
		stop = at + (end - addr);
	r = holes_next_data(c->fd, at, stop, &start, &stop);
	if (r <= 0)
		return r;
	*ret_start = addr + (start - at);
	*ret_end = addr + (stop - at);
	return 1;
}
