/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finding and opening files of debug information; see debug_file.h.
 *
 * Paths come from strangers: the program names its .dwo files and its debuglink. What is found must
 * prove that it belongs to the program: by build-id, by the debuglink's checksum, by a split unit's
 * id. These are what a file says itself; so a file apart must also belong to root, to us or to the
 * program's owner.
 *
 * A file that others can write is read, not mapped (base/file_map.h). Reading costs memory, so a
 * file has a budget, and what claims to be large has to be there on the disk.
 *
 * Sections may be compressed: as ELF says (zlib, zstd), or the old GNU way (.zdebug_*).
 */
#include "binary/dwarf/debug_file.h"

#include "base/budget.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

enum {
	MAX_SECTIONS = 100000,
	MAX_BUILD_ID = 64,
	MAX_NOTES_BYTES = 1 << 20,
	MAX_NAMES_BYTES = 16 << 20,
	MAX_LINK_BYTES = 4096,
};
#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif
/* A copy of less costs less than a map. */
#define MIN_MAP_BYTES (1u << 20)
/* zlib can't do better than 1032 to 1: what claims more is no section. */
#define MAX_RATIO 1100

struct debug_file {
	int fd;
	struct file_id id;
	char *path;
	Elf *elf;
	struct file_map map; /* of the whole file, once a section that may be mapped is asked for */
	uint8_t *unpacked[2 * DS_N]; /* zstd sections; libelf keeps the zlib ones */
	size_t n_unpacked;
	uint64_t held; /* bytes of all that was read and unpacked (base/budget.h) */
};

static const char *const section_names[DS_N] = {
	[DS_INFO] = "info",	    [DS_ABBREV] = "abbrev",
	[DS_STR] = "str",	    [DS_STR_OFFSETS] = "str_offsets",
	[DS_LINE] = "line",	    [DS_LINE_STR] = "line_str",
	[DS_ADDR] = "addr",	    [DS_RANGES] = "ranges",
	[DS_RNGLISTS] = "rnglists", [DS_ARANGES] = "aranges",
	[DS_LOC] = "loc",	    [DS_LOCLISTS] = "loclists",
	[DS_CU_INDEX] = "cu_index",
};

/* NULL: no ELF file, or one with more headers than 16 bits can count. Programs have fewer, and
 * libelf reads them all at once. */
static Elf *begin(int fd)
{
	Elf64_Ehdr eh;
	Elf *elf;

	if (pread(fd, &eh, sizeof(eh), 0) != sizeof(eh) || memcmp(eh.e_ident, ELFMAG, SELFMAG) ||
	    (!eh.e_shnum && eh.e_shoff) || eh.e_phnum == PN_XNUM)
		return NULL;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF)
		return elf;
	elf_end(elf);
	return NULL;
}

/* Is a sixteenth of that at least on the disk? A hole costs its owner nothing, and us memory. */
static bool on_disk(int fd, uint64_t at, uint64_t len)
{
	off_t end = (off_t)(at + len), data = (off_t)at, hole;
	uint64_t sum = 0;

	for (unsigned i = 0; i < MAX_SECTIONS && sum < len / 16; i++) {
		data = lseek(fd, data, SEEK_DATA);
		if (data < 0 || data >= end)
			return false;
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole <= data)
			return false;
		sum += (uint64_t)((hole < end ? hole : end) - data);
		data = hole;
	}
	return sum >= len / 16;
}

/* Takes the descriptor, also on failure. */
static int file_take(int fd, const char *path, struct debug_file **ret_file)
{
	struct debug_file *f = calloc(1, sizeof(*f));

	if (!f) {
		close(fd);
		return -ENOMEM;
	}
	f->fd = fd;
	if (!file_id_read(fd, &f->id)) {
		debug_file_free(f);
		return -EINVAL;
	}
	f->path = strdup(path);
	f->elf = begin(fd);
	if (!f->path || !f->elf) {
		debug_file_free(f);
		return -EINVAL;
	}
	*ret_file = f;
	return 0;
}

void debug_file_free(struct debug_file *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n_unpacked; i++)
		free(f->unpacked[i]);
	budget_release(f->held);
	if (f->elf)
		elf_end(f->elf);
	file_map_close(&f->map);
	close(f->fd);
	free(f->path);
	free(f);
}

const char *debug_file_path(const struct debug_file *f)
{
	return f->path;
}

const struct file_id *debug_file_id(const struct debug_file *f)
{
	return &f->id;
}

bool debug_file_unchanged(const struct debug_file *f)
{
	struct file_id now;

	return file_id_read(f->fd, &now) && file_id_same(&now, &f->id) &&
	       !file_map_damaged(&f->map);
}

/* ---- sections ---- */

/* A few megabytes may unpack to gigabytes: they count before they are there. */
static bool hold(struct debug_file *f, uint64_t bytes)
{
	if (!budget_hold(bytes))
		return false;
	f->held += bytes;
	return true;
}

static bool unpack_zstd(struct debug_file *f, const Elf_Data *raw, uint64_t bytes,
			struct dwarf_span *ret)
{
	size_t head = sizeof(Elf64_Chdr);
	uint8_t *data;

	if (f->n_unpacked == 2 * DS_N || !hold(f, bytes) || !(data = malloc(bytes ? bytes : 1)))
		return false;
	if (ZSTD_decompress(data, bytes, (const uint8_t *)raw->d_buf + head, raw->d_size - head) !=
	    bytes) {
		free(data);
		return false;
	}
	f->unpacked[f->n_unpacked++] = data;
	*ret = (struct dwarf_span){data, bytes};
	return true;
}

/* What is not compressed, of a file that may be mapped. */
static bool mapped_bytes(struct debug_file *f, const GElf_Shdr *sh, struct dwarf_span *ret)
{
	uint64_t end;

	if (!sh->sh_size || __builtin_add_overflow(sh->sh_offset, sh->sh_size, &end) ||
	    sh->sh_size < MIN_MAP_BYTES || (!f->map.data && file_map_open(f->fd, &f->map) < 0) ||
	    end > f->map.len)
		return false;
	*ret = (struct dwarf_span){f->map.data + sh->sh_offset, sh->sh_size};
	return true;
}

static bool section_bytes(struct debug_file *f, Elf_Scn *scn, const GElf_Shdr *sh, bool gnu_packed,
			  struct dwarf_span *ret)
{
	Elf_Data *data;

	if (sh->sh_type == SHT_NOBITS || !hold(f, sh->sh_size) ||
	    !on_disk(f->fd, sh->sh_offset, sh->sh_size))
		return false;
	if (!gnu_packed && !(sh->sh_flags & SHF_COMPRESSED) && mapped_bytes(f, sh, ret))
		return true;
	data = elf_rawdata(scn, NULL);
	if (!data || !data->d_buf || !data->d_size)
		return false;
	if (gnu_packed) {
		uint64_t bytes = 0;

		/* "ZLIB" and the size, big-endian */
		if (data->d_size < 12 || memcmp(data->d_buf, "ZLIB", 4) != 0)
			return false;
		for (unsigned i = 4; i < 12; i++)
			bytes = bytes << 8 | ((const uint8_t *)data->d_buf)[i];
		if (bytes / MAX_RATIO > data->d_size || !hold(f, bytes) ||
		    elf_compress_gnu(scn, 0, 0) < 0)
			return false;
		data = elf_rawdata(scn, NULL);
	} else if (sh->sh_flags & SHF_COMPRESSED) {
		Elf64_Chdr head;

		if (data->d_size < sizeof(head))
			return false;
		memcpy(&head, data->d_buf, sizeof(head));
		if (head.ch_type == ELFCOMPRESS_ZSTD)
			return unpack_zstd(f, data, head.ch_size, ret);
		if (head.ch_size / MAX_RATIO > data->d_size || !hold(f, head.ch_size) ||
		    elf_compress(scn, 0, 0) < 0)
			return false;
		data = elf_rawdata(scn, NULL);
	}
	if (!data || !data->d_buf)
		return false;
	*ret = (struct dwarf_span){data->d_buf, data->d_size};
	return true;
}

/* The index of that section, -1 if none. */
static int section_kind(const char *name, bool split, bool *ret_packed)
{
	size_t len;

	*ret_packed = !strncmp(name, ".zdebug_", 8);
	if (!*ret_packed && strncmp(name, ".debug_", 7) != 0)
		return -1;
	name += *ret_packed ? 8 : 7;
	len = strcspn(name, ".");
	for (int i = 0; i < DS_N; i++) {
		bool want = split && i != DS_CU_INDEX;

		if (strlen(section_names[i]) == len && !strncmp(name, section_names[i], len))
			return !strcmp(name + len, want ? ".dwo" : "") ? i : -1;
	}
	return -1;
}

/* The section of the sections' names; false: there is none that can be read. */
static bool section_names_at(Elf *elf, size_t *ret_names)
{
	GElf_Shdr sh;
	Elf_Scn *scn;

	return elf_getshdrstrndx(elf, ret_names) == 0 && (scn = elf_getscn(elf, *ret_names)) &&
	       gelf_getshdr(scn, &sh) && sh.sh_size <= MAX_NAMES_BYTES;
}

void debug_file_sections(struct debug_file *f, bool split, struct dwarf_span ret[DS_N])
{
	size_t n = 0, names = 0;

	memset(ret, 0, DS_N * sizeof(*ret));
	if (gelf_getclass(f->elf) != ELFCLASS64 || elf_getshdrnum(f->elf, &n) != 0 ||
	    !section_names_at(f->elf, &names))
		return;
	for (size_t i = 1; i < n && i < MAX_SECTIONS; i++) {
		Elf_Scn *scn = elf_getscn(f->elf, i);
		const char *name;
		GElf_Shdr sh;
		bool packed;
		int kind;

		if (!scn || !gelf_getshdr(scn, &sh) ||
		    !(name = elf_strptr(f->elf, names, sh.sh_name)))
			continue;
		kind = section_kind(name, split, &packed);
		if (kind >= 0 && !ret[kind].len)
			section_bytes(f, scn, &sh, packed, &ret[kind]);
	}
}

static bool has_debug_info(struct debug_file *f)
{
	size_t n = 0, names = 0;

	if (gelf_getclass(f->elf) != ELFCLASS64 || elf_getshdrnum(f->elf, &n) != 0 ||
	    !section_names_at(f->elf, &names))
		return false;
	for (size_t i = 1; i < n && i < MAX_SECTIONS; i++) {
		Elf_Scn *scn = elf_getscn(f->elf, i);
		const char *name;
		GElf_Shdr sh;
		bool packed;

		if (scn && gelf_getshdr(scn, &sh) && sh.sh_type != SHT_NOBITS && sh.sh_size &&
		    (name = elf_strptr(f->elf, names, sh.sh_name)) &&
		    section_kind(name, false, &packed) == DS_INFO)
			return true;
	}
	return false;
}

/* ---- which file belongs to which ---- */

static size_t notes_build_id(Elf_Data *data, uint8_t *ret)
{
	size_t at = 0, name, desc;
	GElf_Nhdr note;

	while (data && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0)
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp((const char *)data->d_buf + name, "GNU", 4) && note.n_descsz &&
		    note.n_descsz <= MAX_BUILD_ID) {
			memcpy(ret, (const char *)data->d_buf + desc, note.n_descsz);
			return note.n_descsz;
		}
	return 0;
}

static size_t elf_build_id(Elf *elf, uint8_t *ret)
{
	Elf_Scn *scn = NULL;
	size_t n = 0, len, left = MAX_NOTES_BYTES;
	GElf_Phdr ph;
	GElf_Shdr sh;

	if (elf_getphdrnum(elf, &n) != 0)
		n = 0;
	for (size_t i = 0; i < n && i < 256; i++) {
		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_NOTE || ph.p_filesz > left)
			continue;
		left -= ph.p_filesz;
		len = notes_build_id(
			elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz,
					     ph.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR),
			ret);
		if (len)
			return len;
	}
	/* a file of debug information alone may have no segments that lie in it */
	while ((scn = elf_nextscn(elf, scn))) {
		if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_NOTE || sh.sh_size > left)
			continue;
		left -= sh.sh_size;
		len = notes_build_id(elf_getdata(scn, NULL), ret);
		if (len)
			return len;
	}
	return 0;
}

/* CRC-32 as in zlib, which is what .gnu_debuglink holds. */
static bool file_crc(int fd, uint32_t *ret)
{
	uint32_t table[256], crc = ~0u;
	_cleanup_free_ uint8_t *buf = malloc(1 << 20);
	ssize_t n;

	if (!buf)
		return false;
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (unsigned k = 0; k < 8; k++)
			c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
		table[i] = c;
	}
	for (off_t at = 0; (n = pread(fd, buf, 1 << 20, at)) > 0; at += n)
		for (ssize_t i = 0; i < n; i++)
			crc = table[(crc ^ buf[i]) & 0xff] ^ crc >> 8;
	*ret = ~crc;
	return n == 0;
}

static bool same_build_id(struct debug_file *f, const uint8_t *id, size_t len)
{
	uint8_t other[MAX_BUILD_ID];

	return len && elf_build_id(f->elf, other) == len && !memcmp(other, id, len);
}

/* The program that a file apart is looked for, and what it is to be known by. */
struct wanted {
	uint64_t owner;
	uint8_t id[MAX_BUILD_ID];
	size_t id_len;
};

int debug_file_open_split(const char *path, uint64_t owner, struct debug_file **ret_file)
{
	int fd = file_open(path, 0, NULL), r;
	struct debug_file *f;

	r = fd < 0 ? fd : file_take(fd, path, &f);
	if (r < 0)
		return r;
	if (f->id.owner != owner && !file_id_trusted(&f->id)) {
		debug_file_free(f);
		return -EPERM;
	}
	*ret_file = f;
	return 0;
}

/* A candidate: taken if it has debug information and the build-id, or (if that is not needed) the
 * checksum. */
static struct debug_file *try_file(const char *path, const struct wanted *w, const uint32_t *crc)
{
	struct debug_file *f;
	uint32_t own;

	if (debug_file_open_split(path, w->owner, &f) < 0)
		return NULL;
	if (has_debug_info(f) &&
	    (same_build_id(f, w->id, w->id_len) || (crc && file_crc(f->fd, &own) && own == *crc)))
		return f;
	debug_file_free(f);
	return NULL;
}

__attribute__((format(printf, 3, 4))) static struct debug_file *
try_format(const struct wanted *w, const uint32_t *crc, const char *fmt, ...)
{
	char path[4096];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	return n > 0 && n < (int)sizeof(path) ? try_file(path, w, crc) : NULL;
}

static struct debug_file *by_build_id(const struct wanted *w)
{
	const char *cache = getenv("DEBUGINFOD_CACHE_PATH"), *xdg = getenv("XDG_CACHE_HOME"),
		   *home = getenv("HOME");
	struct debug_file *f;
	char hex[2 * MAX_BUILD_ID + 1] = "";

	if (w->id_len < 2)
		return NULL;
	for (size_t i = 0; i < w->id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", w->id[i]);
	f = try_format(w, NULL, "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
	if (!f && cache && *cache)
		f = try_format(w, NULL, "%s/%s/debuginfo", cache, hex);
	if (!f && xdg && *xdg)
		f = try_format(w, NULL, "%s/debuginfod_client/%s/debuginfo", xdg, hex);
	if (!f && home)
		f = try_format(w, NULL, "%s/.cache/debuginfod_client/%s/debuginfo", home, hex);
	if (!f && home)
		f = try_format(w, NULL, "%s/.debuginfod_client_cache/%s/debuginfo", home, hex);
	return f;
}

/* The name and the checksum in .gnu_debuglink. */
static bool debuglink(Elf *elf, char *ret_name, size_t size, uint32_t *ret_crc)
{
	size_t names = 0, len, at;
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	if (!section_names_at(elf, &names))
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name =
			gelf_getshdr(scn, &sh) ? elf_strptr(elf, names, sh.sh_name) : NULL;
		Elf_Data *data;

		if (!name || strcmp(name, ".gnu_debuglink") != 0 || sh.sh_size > MAX_LINK_BYTES)
			continue;
		data = elf_rawdata(scn, NULL);
		if (!data || !data->d_buf || !memchr(data->d_buf, 0, data->d_size))
			return false;
		len = strlen(data->d_buf);
		at = (len + 4) & ~(size_t)3;
		if (!len || len >= size || at + 4 > data->d_size || strchr(data->d_buf, '/'))
			return false;
		memcpy(ret_name, data->d_buf, len + 1);
		memcpy(ret_crc, (const char *)data->d_buf + at, 4);
		return true;
	}
	return false;
}

static struct debug_file *by_debuglink(struct debug_file *own, const struct wanted *w)
{
	const char *slash = strrchr(own->path, '/');
	int dir = slash ? (int)(slash - own->path) : 0;
	char name[256];
	struct debug_file *f;
	uint32_t crc;

	if (!debuglink(own->elf, name, sizeof(name), &crc))
		return NULL;
	f = try_format(w, &crc, "%.*s/%s", slash ? dir : 1, slash ? own->path : ".", name);
	if (!f)
		f = try_format(w, &crc, "%.*s/.debug/%s", slash ? dir : 1, slash ? own->path : ".",
			       name);
	if (!f && own->path[0] == '/')
		f = try_format(w, &crc, "/usr/lib/debug%.*s/%s", dir, own->path, name);
	return f;
}

int debug_file_find(int fd, const char *path, struct debug_file **ret_file, struct error *err)
{
	struct debug_file *own, *apart;
	struct wanted w;
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3), r;

	if (copy < 0)
		return error_sys(err, -errno, "%s can't be opened", path);
	r = file_take(copy, path, &own);
	if (r < 0)
		return error_set(err, r == -EINVAL ? -ENODATA : r, "%s is no ELF file", path);
	if (has_debug_info(own)) {
		*ret_file = own;
		return 0;
	}
	w.owner = own->id.owner;
	w.id_len = elf_build_id(own->elf, w.id);
	apart = by_build_id(&w);
	if (!apart)
		apart = by_debuglink(own, &w);
	debug_file_free(own);
	if (!apart)
		return error_set(
			err, -ENODATA,
			"%s has no debug information, and there is none by build-id, debuglink or "
			"in debuginfod's cache: build with `debug = true` in [profile.release]",
			path);
	*ret_file = apart;
	return 0;
}

/* ---- .dwp ---- */

/* Numbers of sections in the index: of version 2 (GNU, for DWARF 4) and of version 5. */
static int index_section(unsigned version, uint32_t id)
{
	switch (id) {
	case 1:
		return DS_INFO;
	case 3:
		return DS_ABBREV;
	case 4:
		return DS_LINE;
	case 5:
		return version == 5 ? DS_LOCLISTS : DS_LOC;
	case 6:
		return DS_STR_OFFSETS;
	case 8:
		return version == 5 ? DS_RNGLISTS : -1;
	default:
		return -1;
	}
}

bool debug_file_dwp_unit(const struct dwarf_span all[DS_N], uint64_t dwo_id,
			 struct dwarf_span ret[DS_N])
{
	const struct dwarf_span *index = &all[DS_CU_INDEX];
	const uint8_t *p = index->data, *hashes, *rows, *ids, *offsets, *sizes;
	uint64_t version, n_sections, n_units, n_slots, slot, step, need;
	uint64_t row = 0;

	if (index->len < 16)
		return false;
	version = dwarf_bytes_u64(p, 4) == 2 ? 2 : dwarf_bytes_u64(p, 2);
	n_sections = dwarf_bytes_u64(p + 4, 4);
	n_units = dwarf_bytes_u64(p + 8, 4);
	n_slots = dwarf_bytes_u64(p + 12, 4);
	/* 32-bit numbers: no overflow in 64 bits, since n_sections is small */
	if ((version != 2 && version != 5) || n_sections > 16 || !n_slots ||
	    n_slots & (n_slots - 1))
		return false;
	need = 16 + n_slots * 12 + n_sections * 4 + n_units * n_sections * 8;
	if (need > index->len)
		return false;
	hashes = p + 16;
	rows = hashes + n_slots * 8;
	ids = rows + n_slots * 4;
	offsets = ids + n_sections * 4;
	sizes = offsets + n_units * n_sections * 4;
	slot = dwo_id & (n_slots - 1);
	step = (dwo_id >> 32 & (n_slots - 1)) | 1;
	for (uint64_t i = 0; i < n_slots; i++, slot = (slot + step) & (n_slots - 1)) {
		row = dwarf_bytes_u64(rows + slot * 4, 4);
		if (!row)
			return false;
		if (dwarf_bytes_u64(hashes + slot * 8, 8) == dwo_id)
			break;
		row = 0;
	}
	if (!row || row > n_units)
		return false;
	memcpy(ret, all, DS_N * sizeof(*ret));
	for (uint64_t i = 0; i < n_sections; i++) {
		int kind =
			index_section((unsigned)version, (uint32_t)dwarf_bytes_u64(ids + i * 4, 4));
		uint64_t cell = ((row - 1) * n_sections + i) * 4;
		uint64_t off = dwarf_bytes_u64(offsets + cell, 4),
			 len = dwarf_bytes_u64(sizes + cell, 4);

		if (kind < 0)
			continue;
		if (off > all[kind].len || len > all[kind].len - off)
			return false;
		ret[kind] = (struct dwarf_span){all[kind].data + off, len};
	}
	return true;
}
