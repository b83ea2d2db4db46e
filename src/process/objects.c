/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loaded ELF objects.
 *
 * The program itself is /proc/PID/exe, whatever its path says now; its bias is AT_ENTRY less the
 * linked entry, which holds also when its text was moved to huge pages. A library is a mapping of a
 * file with execute permission (a file mapped for reading only, as backtrace printers do with the
 * program itself, is data). Its file is opened through /proc/PID/map_files (needs root) or by its
 * path below /proc/PID/root, no link leading out of it; a path is the target's word, so the file
 * must then show itself to be what is in memory: the same device and inode, or, since overlayfs and
 * btrfs show different numbers in maps and in stat, the same first page (ELF header, segments and,
 * as linkers lay it out, the build-id).
 */
#include "process/objects.h"

#include "arch/arch.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/units.h"
#include "base/vec.h"
#include "process/memory.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define MAX_PHDRS 128
#define MAX_OBJECTS 4096

struct elf_head {
	Elf64_Ehdr ehdr;
	Elf64_Phdr load[MAX_PHDRS];
	size_t n_load;
};

uint64_t process_auxv(const struct process *p, uint64_t type)
{
	uint64_t auxv[128];
	ssize_t n = process_read_file(p, "auxv", (char *)auxv, sizeof(auxv));

	for (ssize_t i = 0; n > 0 && i + 1 < n / 8; i += 2)
		if (auxv[i] == type)
			return auxv[i + 1];
	return 0;
}

size_t process_headers(const struct process *p, Elf64_Phdr ret[PROCESS_MAX_HEADERS],
		       uint64_t *ret_bias)
{
	uint64_t at = process_auxv(p, AT_PHDR), n = process_auxv(p, AT_PHNUM);

	*ret_bias = 0;
	if (n > PROCESS_MAX_HEADERS || memory_read(p, at, ret, n * sizeof(*ret)) < 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (ret[i].p_type == PT_PHDR)
			*ret_bias = at - ret[i].p_vaddr;
	return n;
}

static bool read_head(int fd, struct elf_head *h)
{
	Elf64_Phdr phdr;

	if (pread(fd, &h->ehdr, sizeof(h->ehdr), 0) != sizeof(h->ehdr) ||
	    memcmp(h->ehdr.e_ident, ELFMAG, SELFMAG) || h->ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->ehdr.e_machine != ARCH_ELF_MACHINE || h->ehdr.e_phentsize != sizeof(phdr) ||
	    h->ehdr.e_phnum > MAX_PHDRS || h->ehdr.e_phoff > INT64_MAX - PAGE)
		return false;
	h->n_load = 0;
	for (unsigned i = 0; i < h->ehdr.e_phnum; i++) {
		off_t at = (off_t)(h->ehdr.e_phoff + i * sizeof(phdr));

		if (pread(fd, &phdr, sizeof(phdr), at) != sizeof(phdr))
			return false;
		if (phdr.p_type == PT_LOAD)
			h->load[h->n_load++] = phdr;
	}
	return h->n_load > 0;
}

static void set_range(struct process_object *o, const struct elf_head *h)
{
	o->start = UINT64_MAX;
	o->end = 0;
	for (size_t i = 0; i < h->n_load; i++) {
		uint64_t start = (o->bias + h->load[i].p_vaddr) & ~(PAGE - 1);
		uint64_t end = (o->bias + h->load[i].p_vaddr + h->load[i].p_memsz + PAGE - 1) &
			       ~(PAGE - 1);

		if (start < o->start)
			o->start = start;
		if (end > o->end)
			o->end = end;
	}
}

/* What we have too little of ourselves says nothing about the program. */
static bool own(int rc)
{
	return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
}

/*
 * A path of the program's, in its root, as an O_PATH descriptor: no link leads out of it. Linux before 5.6 has
 * no call for that, and old filters of containers answer EPERM to it; then no link is followed at all,
 * for the kernel names a mapped file without one.
 */
static int open_in_root(int root, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int at = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

	if (at >= 0 || (errno != ENOSYS && errno != EPERM))
		return at < 0 ? -errno : at;
	at = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (at >= 0) {
		char name[NAME_MAX + 1];
		size_t n;

		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n == 0)
			return at;
		if (n >= sizeof(name) || (n == 2 && path[0] == '.' && path[1] == '.')) {
			close(at);
			return -ENAMETOOLONG;
		}
		memcpy(name, path, n);
		name[n] = '\0';
		path += n;
		int next = openat(at, name,
				  O_PATH | O_NOFOLLOW | O_CLOEXEC | (*path ? O_DIRECTORY : 0));
		int rc = next < 0 ? -errno : 0;
		close(at);
		if (rc < 0)
			return rc;
		at = next;
	}
	return -errno;
}

/* *ret_certain: by what is mapped, not by its path. */
static int open_mapped(const struct process *p, const struct process_map *m, bool *ret_certain)
{
	char name[80];
	int fd;

	snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)m->start,
		 (unsigned long long)m->end);
	fd = file_open_at(p->proc_fd, name, 0, 0, NULL);
	*ret_certain = fd >= 0;
	if (fd >= 0 || fd == -EINVAL || own(fd) || m->path[0] != '/' || m->deleted)
		return fd;

	_cleanup_close_ int root = openat(p->proc_fd, "root", O_PATH | O_CLOEXEC);
	if (root < 0)
		return -errno;
	_cleanup_close_ int at = open_in_root(root, m->path);
	return at < 0 ? at : file_reopen(at, m->path, 0, NULL);
}

static bool has_inode(const struct stat *st, const struct process_map *m)
{
	return st->st_ino == m->inode && major(st->st_dev) == m->dev_major &&
	       minor(st->st_dev) == m->dev_minor;
}

/* A loader maps an object from its beginning on. A piece of its code alone is no object: V8 maps
 * some of its program's a second time, and runs that. */
static bool is_piece(const struct process_maps *maps, const struct process_map *m,
		     const struct elf_head *h, uint64_t bias)
{
	const Elf64_Phdr *first = &h->load[0];
	uint64_t at = (bias + first->p_vaddr) & ~(PAGE - 1);
	const struct process_map *begin = maps_at(maps, at);

	return !begin || begin->inode != m->inode || begin->dev_major != m->dev_major ||
	       begin->dev_minor != m->dev_minor ||
	       begin->offset + (at - begin->start) != (first->p_offset & ~(PAGE - 1));
}

/* Is the file what lies in memory at o->bias? */
static bool same_file(const struct process *p, int fd, const struct process_map *m,
		      const struct elf_head *h, uint64_t bias)
{
	unsigned char in_file[PAGE], in_memory[PAGE];
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	if (m && has_inode(&st, m))
		return true;
	const Elf64_Phdr *first = &h->load[0];
	if (first->p_offset != 0 || first->p_filesz < 64)
		return false;
	size_t len = first->p_filesz < PAGE ? first->p_filesz : PAGE;
	return pread(fd, in_file, len, 0) == (ssize_t)len &&
	       memory_read(p, bias + first->p_vaddr, in_memory, len) == 0 &&
	       !memcmp(in_file, in_memory, len);
}

static bool bias_of(const struct elf_head *h, const struct process_map *m, uint64_t *ret_bias)
{
	for (size_t i = 0; i < h->n_load; i++) {
		const Elf64_Phdr *l = &h->load[i];
		uint64_t first = l->p_offset & ~(PAGE - 1);

		if ((l->p_flags & PF_X) && m->offset >= first &&
		    m->offset < l->p_offset + l->p_filesz) {
			*ret_bias = m->start - (l->p_vaddr - l->p_offset + m->offset);
			return true;
		}
	}
	return false;
}

static struct process_object *add(struct process_objects *list)
{
	if (!GROW_ONE(list->v, list->n))
		return NULL;
	list->v[list->n] = (struct process_object){0};
	return &list->v[list->n++];
}

static int add_main(const struct process *p, struct process_objects *list, struct error *err)
{
	_cleanup_close_ int fd = file_open_at(p->proc_fd, "exe", 0, 0, NULL);
	struct process_object *o = add(list);
	char path[4096];
	struct elf_head h;

	if (!o)
		return error_sys(err, -ENOMEM, "cannot list the objects of process %d", p->pid);
	if (fd < 0)
		return error_sys(err, fd, "cannot open the program of process %d", p->pid);
	if (!read_head(fd, &h))
		return error_set(err, -ENOEXEC,
				 "the program of process %d is no " ARCH_NAME " ELF file", p->pid);
	ssize_t n = readlinkat(p->proc_fd, "exe", path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = 0;
	char *remark = strstr(path, " (deleted)");
	if (remark && !remark[10])
		*remark = 0;
	o->path = strdup(path);
	if (!o->path)
		return error_sys(err, -ENOMEM, "cannot list the objects of process %d", p->pid);
	o->main = true;
	o->bias = process_auxv(p, AT_ENTRY) - h.ehdr.e_entry;
	set_range(o, &h);
	return elf_image_open_resting(fd, o->path, &o->image, err);
}

static int add_library(const struct process *p, const struct process_maps *maps,
		       const struct process_map *m, struct process_objects *list, struct error *err)
{
	bool certain = false;
	_cleanup_close_ int fd = open_mapped(p, m, &certain);
	struct process_object *o, made = {0};
	struct elf_head h;
	struct stat st;

	if (fd == -EINVAL)
		return 0; /* a device */
	if (fd == -EMFILE || fd == -ENFILE)
		return error_sys(err, fd,
				 "cannot open %s, of process %d: raise the limit of pollux' open "
				 "files (ulimit -n)",
				 m->path, p->pid);
	if (fd >= 0) {
		if (!read_head(fd, &h) || !bias_of(&h, m, &made.bias))
			return 0;
		certain = certain || (fstat(fd, &st) == 0 && has_inode(&st, m));
		if (certain && is_piece(maps, m, &h, made.bias))
			return 0;
		set_range(&made, &h);
		for (size_t i = 0; i < list->n; i++)
			if (made.start < list->v[i].end && list->v[i].start < made.end)
				return 0; /* another piece of an object that we have */
		if (same_file(p, fd, m, &h, made.bias)) {
			struct error why = {0};
			int rc = elf_image_open_resting(fd, m->path, &made.image, &why);

			if (own(rc))
				return error_set(err, rc, "%s", why.text);
			if (rc < 0)
				made.reason = strdup(why.text);
		} else {
			made.reason = strdup("the file at its path is another one than in memory");
		}
	} else {
		made.start = m->start;
		made.end = m->end;
		made.reason = strdup(m->deleted ? "its file was deleted; as root pollux can read it"
						: "its file can't be opened");
	}
	made.path = strdup(m->path);
	o = add(list);
	if (!o || !made.path || (!made.image && !made.reason)) {
		elf_image_free(made.image);
		free(made.path);
		free(made.reason);
		if (o)
			list->n--;
		return error_sys(err, -ENOMEM, "cannot list the objects of process %d", p->pid);
	}
	*o = made;
	return 0;
}

int objects_read(const struct process *p, const struct process_maps *maps,
		 struct process_objects *ret_objects, struct error *err)
{
	struct process_objects list = {0};
	int rc = add_main(p, &list, err);

	for (size_t i = 0; rc == 0 && i < maps->n && list.n < MAX_OBJECTS; i++) {
		const struct process_map *m = &maps->v[i];
		bool known = false;

		if (!m->exec || !m->inode)
			continue;
		for (size_t k = 0; k < list.n && !known; k++)
			known = m->start >= list.v[k].start && m->start < list.v[k].end;
		if (!known)
			rc = add_library(p, maps, m, &list, err);
	}
	if (rc < 0) {
		objects_done(&list);
		return rc;
	}
	*ret_objects = list;
	return 0;
}

void objects_done(struct process_objects *o)
{
	for (size_t i = 0; i < o->n; i++) {
		elf_image_free(o->v[i].image);
		free(o->v[i].path);
		free(o->v[i].reason);
	}
	free(o->v);
	*o = (struct process_objects){0};
}
