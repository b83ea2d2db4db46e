/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Opening an ELF object: headers, segments, where the tables are.
 *
 * libelf reads the headers. Only what pollux needs is read: the loadable segments and the symbol
 * tables; a debug build's hundreds of megabytes of debug information are not touched. All that
 * follows (symbols, relocations, unwind tables) works on these bytes (image_bytes.c) with linked
 * addresses, through the program headers, since linkers other than GNU's place segments at
 * addresses that differ from file offsets.
 */
#include "binary/elf/image.h"
#include "binary/machine.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/search.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_SEGMENTS 256u
#define MAX_SECTIONS 100000u
#define MAX_NOTES (1u << 20) /* bytes */

/* What is needed while opening only. */
struct opening {
	int fd;
	Elf *elf;
	struct elf_image *img;
	struct error *err;
};

static int add_segment(struct opening *o, const GElf_Phdr *ph)
{
	struct elf_image *img = o->img;
	struct elf_segment *seg = &img->segments[img->n_segments];
	uint64_t end;

	if (__builtin_add_overflow(ph->p_vaddr, ph->p_memsz, &end) || ph->p_filesz > ph->p_memsz)
		return error_set(o->err, -ENOEXEC, "a segment has an impossible size");
	if (ph->p_memsz == 0)
		return 0;
	TRY(image_check(img, ph->p_offset, ph->p_filesz, o->err));
	*seg = (struct elf_segment){
		.addr = ph->p_vaddr,
		.size = ph->p_memsz,
		.file_size = ph->p_filesz,
		.offset = ph->p_offset,
		.exec = ph->p_flags & PF_X,
		.write = ph->p_flags & PF_W,
	};
	img->n_segments++;
	return 0;
}

static int read_segments(struct opening *o)
{
	struct elf_image *img = o->img;
	size_t n = 0;

	if (elf_getphdrnum(o->elf, &n) != 0 || n == 0)
		return error_set(o->err, -ENOEXEC, "no program headers");
	if (n > MAX_SEGMENTS)
		return error_set(o->err, -ENOEXEC, "%zu program headers", n);
	img->segments = calloc(n, sizeof(*img->segments));
	if (!img->segments)
		return error_set(o->err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;
		struct image_bytes bytes;
		int r = 0;

		if (!gelf_getphdr(o->elf, (int)i, &ph))
			return error_set(o->err, -ENOEXEC, "unreadable program headers");
		switch (ph.p_type) {
		case PT_LOAD:
			r = add_segment(o, &ph);
			break;
		case PT_INTERP:
			if (img->interp || ph.p_filesz > 4096)
				break;
			r = image_check(img, ph.p_offset, ph.p_filesz, o->err);
			if (r == 0)
				r = image_read(img, ph.p_offset, ph.p_filesz, &bytes, o->err);
			if (r < 0)
				break;
			img->interp = strdup((char *)bytes.data); /* 0-terminated by image_read */
			image_bytes_free(&bytes);
			break;
		case PT_DYNAMIC:
			img->dynamic = ph.p_vaddr;
			img->dynamic_bytes = ph.p_filesz;
			break;
		case PT_TLS:
			img->tls = ph.p_vaddr;
			img->tls_bytes = ph.p_memsz;
			img->tls_align = ph.p_align;
			break;
		case PT_GNU_EH_FRAME:
			img->eh_frame_hdr = ph.p_vaddr;
			img->eh_frame_hdr_bytes = ph.p_filesz;
			break;
		}
		if (r < 0)
			return r;
	}
	if (img->n_segments == 0)
		return error_set(o->err, -ENOEXEC, "nothing to load in it");
	image_sort(img->segments, img->n_segments, sizeof(*img->segments));
	return 0;
}

static int add_range(struct opening *o, struct image_range **ranges, size_t *n, uint64_t start,
		     uint64_t size)
{
	if (size == 0)
		return 0;
	if (!GROW_ONE(*ranges, *n))
		return error_set(o->err, -ENOMEM, "out of memory");
	(*ranges)[(*n)++] = (struct image_range){start, start + size};
	return 0;
}

static int add_code(struct opening *o, uint64_t start, uint64_t size)
{
	return add_range(o, &o->img->code, &o->img->n_code, start, size);
}

/* Sections without a text that a program has: what the linker makes for the loader and for
 * unwinding. */
static bool is_table(const GElf_Shdr *sh, const char *name)
{
	return sh->sh_flags & SHF_ALLOC &&
	       (sh->sh_type == SHT_RELA || sh->sh_type == SHT_DYNSYM ||
		!strcmp(name, ".eh_frame") || !strcmp(name, ".eh_frame_hdr") ||
		!strcmp(name, ".gcc_except_table"));
}

/* A symbol table with its strings, unless there is one of this kind already. */
static int find_symtab(struct opening *o, const GElf_Shdr *sh, struct image_table *symtab,
		       struct image_table *strtab)
{
	Elf_Scn *scn = elf_getscn(o->elf, sh->sh_link);
	GElf_Shdr str;
	int r;

	if (symtab->bytes || !scn || !gelf_getshdr(scn, &str) || str.sh_type != SHT_STRTAB ||
	    str.sh_flags & SHF_COMPRESSED || sh->sh_flags & SHF_COMPRESSED)
		return 0;
	r = image_check(o->img, sh->sh_offset, sh->sh_size, o->err);
	if (r == 0)
		r = image_check(o->img, str.sh_offset, str.sh_size, o->err);
	*symtab = (struct image_table){sh->sh_offset, sh->sh_size};
	*strtab = (struct image_table){str.sh_offset, str.sh_size};
	return r;
}

/* Sections are a help, not a need: a file without them (or with broken ones) has its segments. */
static int read_sections(struct opening *o)
{
	struct elf_image *img = o->img;
	size_t n = 0, names = 0;

	if (elf_getshdrnum(o->elf, &n) != 0 || n > MAX_SECTIONS)
		n = 0;
	if (elf_getshdrstrndx(o->elf, &names) != 0)
		names = 0;
	for (size_t i = 1; i < n; i++) {
		Elf_Scn *scn = elf_getscn(o->elf, i);
		GElf_Shdr sh;
		const char *name = NULL;
		uint64_t end;

		if (!scn || !gelf_getshdr(scn, &sh))
			continue;
		if (names)
			name = elf_strptr(o->elf, names, sh.sh_name);
		if (!name)
			name = "";
		if (is_table(&sh, name) && !__builtin_add_overflow(sh.sh_addr, sh.sh_size, &end))
			TRY(add_range(o, &img->textless, &img->n_textless, sh.sh_addr, sh.sh_size));
		if (sh.sh_flags & SHF_ALLOC && sh.sh_flags & SHF_EXECINSTR &&
		    sh.sh_type == SHT_PROGBITS &&
		    !__builtin_add_overflow(sh.sh_addr, sh.sh_size, &end) &&
		    strncmp(name, ".plt", 4) != 0)
			TRY(add_code(o, sh.sh_addr, sh.sh_size));
		else if (sh.sh_type == SHT_SYMTAB)
			TRY(find_symtab(o, &sh, &img->symtab_at, &img->strtab_at));
		else if (sh.sh_type == SHT_DYNSYM)
			TRY(find_symtab(o, &sh, &img->dynsym_at, &img->dynstr_at));
		else if (sh.sh_flags & SHF_ALLOC && strcmp(name, ".eh_frame") == 0) {
			img->eh_frame = sh.sh_addr;
			img->eh_frame_bytes = sh.sh_size;
		} else if (strcmp(name, ".debug_info") == 0) {
			img->debug_info = true;
		} else if (strcmp(name, ".note.stapsdt") == 0 && sh.sh_type == SHT_NOTE) {
			img->probes_offset = sh.sh_offset;
			img->probes_bytes = sh.sh_size;
		} else if (strcmp(name, ".stapsdt.base") == 0) {
			img->probes_base = sh.sh_addr;
		}
	}
	img->has_symtab = img->symtab_at.bytes > 0;
	for (size_t i = 0; i < img->n_segments && img->n_code == 0; i++) {
		if (img->segments[i].exec)
			TRY(add_code(o, img->segments[i].addr, img->segments[i].file_size));
	}
	image_sort(img->code, img->n_code, sizeof(*img->code));
	for (size_t i = 0; i < img->n_code; i++)
		TRY(add_range(o, &img->textless, &img->n_textless, img->code[i].start,
			      img->code[i].end - img->code[i].start));
	image_sort(img->textless, img->n_textless, sizeof(*img->textless));
	return 0;
}

static bool find_build_id(struct elf_image *img, const uint8_t *at, uint64_t left)
{
	while (left >= 12) {
		uint32_t name_len, desc_len, type;
		uint64_t name_pad, desc_pad;

		memcpy(&name_len, at, 4);
		memcpy(&desc_len, at + 4, 4);
		memcpy(&type, at + 8, 4);
		name_pad = ((uint64_t)name_len + 3) & ~3ULL;
		desc_pad = ((uint64_t)desc_len + 3) & ~3ULL;
		if (12 + name_pad + desc_pad > left)
			break;
		if (type == NT_GNU_BUILD_ID && name_len == 4 && !memcmp(at + 12, "GNU", 4) &&
		    desc_len > 0 && desc_len <= sizeof(img->build_id)) {
			memcpy(img->build_id, at + 12 + name_pad, desc_len);
			img->build_id_len = desc_len;
			return true;
		}
		at += 12 + name_pad + desc_pad;
		left -= 12 + name_pad + desc_pad;
	}
	return false;
}

/* The build-id is in a note of a read-only segment; notes are found by PT_NOTE. */
static void read_build_id(struct opening *o)
{
	size_t n = 0;

	elf_getphdrnum(o->elf, &n);
	for (size_t i = 0; i < n; i++) {
		struct image_bytes note;
		GElf_Phdr ph;
		bool found;

		if (!gelf_getphdr(o->elf, (int)i, &ph) || ph.p_type != PT_NOTE ||
		    ph.p_filesz > MAX_NOTES ||
		    image_check(o->img, ph.p_offset, ph.p_filesz, NULL) < 0 ||
		    image_read(o->img, ph.p_offset, ph.p_filesz, &note, NULL) < 0)
			continue;
		found = find_build_id(o->img, note.data, note.len);
		image_bytes_free(&note);
		if (found)
			return;
	}
}

static int open_elf(struct opening *o)
{
	struct elf_image *img = o->img;
	GElf_Ehdr eh;
	struct stat st;
	int r;

	if (fstat(o->fd, &st) < 0)
		return error_sys(o->err, -errno, "cannot look at it");
	if (!S_ISREG(st.st_mode))
		return error_set(o->err, -ENOEXEC, "not a regular file");
	img->file_bytes = (uint64_t)st.st_size;
	elf_version(EV_CURRENT);
	o->elf = elf_begin(o->fd, ELF_C_READ, NULL);
	if (!o->elf || elf_kind(o->elf) != ELF_K_ELF || !gelf_getehdr(o->elf, &eh))
		return error_set(o->err, -ENOEXEC, "not an ELF file");
	img->machine = machine_find(eh.e_machine);
	if (gelf_getclass(o->elf) != ELFCLASS64 || eh.e_ident[EI_DATA] != ELFDATA2LSB ||
	    !img->machine)
		return error_set(o->err, -ENOEXEC, "not for %s", machine_x86_64.name);
	if (eh.e_type != ET_EXEC && eh.e_type != ET_DYN)
		return error_set(o->err, -ENOEXEC, "neither a program nor a shared library");
	img->type = eh.e_type;
	img->pie = eh.e_type == ET_DYN;
	img->entry = eh.e_entry;
	r = read_segments(o);
	if (r == 0)
		r = read_sections(o);
	if (r == 0)
		read_build_id(o);
	img->resting = true;
	return r;
}

int elf_image_open_resting(int fd, const char *name, struct elf_image **ret_image,
			   struct error *err)
{
	struct opening o = {.fd = fd, .err = err};
	int r;

	o.img = calloc(1, sizeof(*o.img));
	if (o.img)
		o.img->name = strdup(name);
	if (!o.img || !o.img->name) {
		free(o.img);
		return error_set(err, -ENOMEM, "out of memory");
	}
	o.img->self = o.img;
	o.img->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (o.img->fd < 0) {
		r = error_sys(err, -errno, "cannot read %s as a program", name);
		elf_image_free(o.img);
		return r;
	}
	r = open_elf(&o);
	if (o.elf)
		elf_end(o.elf);
	if (r < 0) {
		error_add(err, "cannot read %s as a program", name);
		elf_image_free(o.img);
		return r;
	}
	*ret_image = o.img;
	return 0;
}

int elf_image_open(int fd, const char *name, struct elf_image **ret_image, struct error *err)
{
	struct elf_image *img;
	int r;

	TRY(elf_image_open_resting(fd, name, &img, err));
	r = elf_image_wake(img, err);
	if (r < 0) {
		elf_image_free(img);
		return r;
	}
	*ret_image = img;
	return 0;
}

int elf_image_open_path(const char *path, struct elf_image **ret_image, struct error *err)
{
	_cleanup_close_ int fd = file_open(path, 0, err);

	if (fd < 0)
		return fd;
	return elf_image_open(fd, path, ret_image, err);
}

void elf_image_free(struct elf_image *img)
{
	if (!img)
		return;
	image_unload(img);
	free(img->segments);
	if (img->fd >= 0)
		close(img->fd);
	free(img->name);
	free(img->interp);
	free(img->code);
	free(img->textless);
	image_bytes_free(&img->strtab);
	image_bytes_free(&img->dynstr);
	free(img->symbols);
	free(img->pointers);
	free(img->pointer_index);
	free(img->pointer_bits);
	free(img->imports);
	free(img->functions);
	free(img->known_functions);
	free(img->begins);
	image_drop_index(img);
	free(img);
}

const struct machine *elf_image_machine(const struct elf_image *img)
{
	return img->machine;
}

const char *elf_image_name(const struct elf_image *img)
{
	return img->name;
}

int elf_image_fd(const struct elf_image *img)
{
	return img->fd;
}

uint64_t elf_image_tls_below(const struct elf_image *img)
{
	uint64_t align = img->tls_align ? img->tls_align : 1;

	if (!img->tls_bytes || align & (align - 1) || img->tls_bytes > 1 << 24 || align > 1 << 20)
		return 0;
	return img->tls_bytes + ((0 - img->tls - img->tls_bytes) & (align - 1));
}

bool elf_image_pie(const struct elf_image *img)
{
	return img->pie;
}

const char *elf_image_interp(const struct elf_image *img)
{
	return img->interp;
}

uint64_t elf_image_entry(const struct elf_image *img)
{
	return img->entry;
}

bool elf_image_has_debug_info(const struct elf_image *img)
{
	return img->debug_info;
}

bool elf_image_is_static(const struct elf_image *img)
{
	struct image_dynamic dyn;

	image_dynamic_read(img, &dyn);
	return !img->interp && dyn.n_needed == 0 && (img->type == ET_EXEC || dyn.pie);
}

const uint8_t *elf_image_build_id(const struct elf_image *img, size_t *ret_len)
{
	*ret_len = img->build_id_len;
	return img->build_id_len ? img->build_id : NULL;
}

size_t elf_image_n_segments(const struct elf_image *img)
{
	return img->n_segments;
}

static void wake(const struct elf_image *img)
{
	if (img->resting)
		elf_image_wake(img->self, NULL);
}

const struct elf_segment *elf_image_segment(const struct elf_image *img, size_t i)
{
	wake(img);
	return i < img->n_segments ? &img->segments[i] : NULL;
}

bool elf_image_offset(const struct elf_image *img, uint64_t addr, uint64_t *ret_offset)
{
	for (size_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *seg = &img->segments[i];

		if (addr >= seg->addr && addr - seg->addr < seg->file_size) {
			*ret_offset = seg->offset + (addr - seg->addr);
			return true;
		}
	}
	return false;
}

const uint8_t *elf_image_bytes(const struct elf_image *img, uint64_t addr, size_t *ret_left)
{
	wake(img);
	for (size_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *seg = &img->segments[i];

		if (addr >= seg->addr && addr - seg->addr < seg->file_size) {
			*ret_left = seg->file_size - (addr - seg->addr);
			return seg->data + (addr - seg->addr);
		}
	}
	return NULL;
}

const uint8_t *image_at(const struct elf_image *img, uint64_t addr, size_t len)
{
	size_t left;
	const uint8_t *p = elf_image_bytes(img, addr, &left);

	return p && left >= len ? p : NULL;
}

bool image_u64(const struct elf_image *img, uint64_t addr, uint64_t *ret)
{
	const uint8_t *p = image_at(img, addr, 8);

	if (p)
		memcpy(ret, p, 8);
	return p;
}

bool image_mapped(const struct elf_image *img, uint64_t addr)
{
	for (size_t i = 0; i < img->n_segments; i++) {
		if (addr >= img->segments[i].addr &&
		    addr - img->segments[i].addr < img->segments[i].size)
			return true;
	}
	return false;
}

bool elf_image_is_code(const struct elf_image *img, uint64_t addr)
{
	size_t lo = PARTITION_POINT(i, 0, img->n_code, img->code[i].start <= addr);

	return lo > 0 && addr < img->code[lo - 1].end;
}

/* Where a text may be from `at` on; *ret_stop: where code or a table begins behind it, or the segment
 * ends. Without sections a segment is code as a whole, whatever is in it. */
static uint64_t past_textless(const struct elf_image *img, const struct elf_segment *seg,
			      uint64_t at, uint64_t *ret_stop)
{
	*ret_stop = seg->addr + seg->file_size;
	for (size_t i = 0; i < img->n_textless; i++) {
		const struct image_range *range = &img->textless[i];

		if (range->start <= seg->addr && range->end >= seg->addr + seg->file_size)
			continue;
		if (range->start <= at && at < range->end)
			at = range->end;
		else if (range->start > at && range->start < *ret_stop)
			*ret_stop = range->start;
	}
	return at;
}

uint64_t elf_image_find(const struct elf_image *img, uint64_t addr, const void *bytes, size_t len)
{
	wake(img);
	for (size_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *seg = &img->segments[i];
		uint64_t end = seg->addr + seg->file_size, stop;

		for (uint64_t at = seg->addr > addr ? seg->addr : addr; !seg->write && at < end;
		     at = stop) {
			const uint8_t *hit;

			at = past_textless(img, seg, at, &stop);
			if (at >= end)
				break;
			hit = memmem(seg->data + (at - seg->addr), stop - at, bytes, len);
			if (hit)
				return seg->addr + (uint64_t)(hit - seg->data);
		}
	}
	return 0;
}

size_t elf_image_n_code(const struct elf_image *img)
{
	return img->n_code;
}

void elf_image_code(const struct elf_image *img, size_t i, uint64_t *ret_start, uint64_t *ret_end)
{
	*ret_start = img->code[i].start;
	*ret_end = img->code[i].end;
}

void image_dynamic_read(const struct elf_image *img, struct image_dynamic *ret)
{
	*ret = (struct image_dynamic){0};
	for (uint64_t off = 0; off + 16 <= img->dynamic_bytes; off += 16) {
		const uint8_t *p = image_at(img, img->dynamic + off, 16);
		uint64_t tag, value;

		if (!p)
			return;
		memcpy(&tag, p, 8);
		memcpy(&value, p + 8, 8);
		switch (tag) {
		case DT_NULL:
			return;
		case DT_NEEDED:
			ret->n_needed++;
			break;
		case DT_FLAGS_1:
			ret->pie = value & DF_1_PIE;
			break;
		case DT_RELA:
			ret->rela = value;
			break;
		case DT_RELASZ:
			ret->rela_bytes = value;
			break;
		case DT_JMPREL:
			ret->jmprel = value;
			break;
		case DT_PLTRELSZ:
			ret->jmprel_bytes = value;
			break;
		case 36: /* DT_RELR; not in every elf.h */
			ret->relr = value;
			break;
		case 35: /* DT_RELRSZ */
			ret->relr_bytes = value;
			break;
		case DT_SYMTAB:
			ret->symtab = value;
			break;
		case DT_STRTAB:
			ret->strtab = value;
			break;
		case DT_STRSZ:
			ret->strtab_bytes = value;
			break;
		}
	}
}

static uint64_t key_of(const void *items, size_t i, size_t item_bytes)
{
	uint64_t key;

	memcpy(&key, (const uint8_t *)items + i * item_bytes, 8);
	return key;
}

size_t image_find(const void *items, size_t n, size_t item_bytes, uint64_t key, size_t *ret_n)
{
	size_t lo = PARTITION_POINT(i, 0, n, key_of(items, i, item_bytes) < key), found = 0;

	while (lo + found < n && key_of(items, lo + found, item_bytes) == key)
		found++;
	*ret_n = found;
	return lo;
}

int image_sort(void *items, size_t n, size_t item_bytes)
{
	uint8_t *from = items, *to;
	uint64_t all_or = 0, all_and = UINT64_MAX, prev = 0;
	bool sorted = true;

	for (size_t i = 0; i < n; i++) {
		uint64_t key = key_of(from, i, item_bytes);

		all_or |= key;
		all_and &= key;
		sorted = sorted && key >= prev;
		prev = key;
	}
	if (sorted)
		return 0;
	to = malloc(n * item_bytes);
	if (!to)
		return -ENOMEM;
	/* Byte by byte from the lowest, only bytes in which the keys differ. */
	for (unsigned shift = 0; shift < 64; shift += 8) {
		size_t at[256] = {0}, sum = 0;
		uint8_t *tmp;

		if ((((all_or ^ all_and) >> shift) & 0xff) == 0)
			continue;
		for (size_t i = 0; i < n; i++)
			at[from[i * item_bytes + shift / 8]]++;
		for (size_t i = 0; i < 256; i++) {
			size_t count = at[i];

			at[i] = sum;
			sum += count;
		}
		for (size_t i = 0; i < n; i++) {
			size_t k = at[from[i * item_bytes + shift / 8]]++;

			memcpy(to + k * item_bytes, from + i * item_bytes, item_bytes);
		}
		tmp = from;
		from = to;
		to = tmp;
	}
	if (from != items) {
		memcpy(items, from, n * item_bytes);
		free(from);
	} else {
		free(to);
	}
	return 0;
}
