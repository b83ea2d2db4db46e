/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The folder of the cache, and its files; see cache.h. */
#include "base/cache.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	MAX_FILE = 64 << 20,
	MAX_FOLDER = 256 << 20,
	NAME_BYTES = FILE_ID_TEXT + 32,
};

struct cache_head {
	char magic[8];
	uint32_t version, head_bytes;
	uint64_t bytes, checksum;
};
_Static_assert(sizeof(struct cache_head) == 32, "cache_head is a file format");

/* Makes nothing in another user's folder: root may have that user's $HOME. */
static void folder_make(const char *path)
{
	_cleanup_free_ char *parent = strdup(path);
	char *slash = parent ? strrchr(parent, '/') : NULL;
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (!slash)
		return;
	*slash = 0;
	fd = open(slash == parent ? "/" : parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid())
		mkdirat(fd, slash + 1, 0700);
}

/* The cache folder, made if `make`; -1: there is none that only this user can write to. */
static int folder_open(const char *path, bool make)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int ret;

	if (make) {
		_cleanup_free_ char *parent = strdup(path);
		char *slash = parent ? strrchr(parent, '/') : NULL;

		if (slash && slash != parent) {
			*slash = 0;
			folder_make(parent);
		}
		folder_make(path);
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || st.st_mode & 022)
		return -1;
	ret = fd;
	fd = -1;
	return ret;
}

static char *folder_path(void)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char *path = NULL;

	if (xdg && *xdg == '/') {
		if (asprintf(&path, "%s/pollux", xdg) < 0)
			path = NULL;
	} else if (home && *home == '/') {
		if (asprintf(&path, "%s/.cache/pollux", home) < 0)
			path = NULL;
	}
	return path;
}

/* "IDENTITY.ENDING" */
static void file_name(const struct cache_kind *kind, const struct file_id *id, char *ret,
		      size_t size)
{
	char text[FILE_ID_TEXT];

	file_id_text(id, text);
	snprintf(ret, size, "%s.%s", text, kind->ending);
}

struct old_file {
	struct timespec mtime;
	off_t bytes;
	char name[256];
};

static int by_age(const void *a, const void *b)
{
	const struct old_file *x = a, *y = b;

	return ASCENDING(x->mtime.tv_sec, y->mtime.tv_sec)
		       ?: ASCENDING(x->mtime.tv_nsec, y->mtime.tv_nsec);
}

/* "IDENTITY.ENDING", or whatever has that name: the folder may have held other things before. */
static bool is_cache_file(const char *name)
{
	static const char temporary[] = ".pollux-";

	if (!strncmp(name, temporary, sizeof(temporary) - 1))
		return true;
	for (unsigned i = 0; i < FILE_ID_NUMBERS; i++) {
		size_t n = strspn(name, "0123456789abcdef");

		if (!n || name[n] != (i < FILE_ID_NUMBERS - 1 ? '-' : '.'))
			return false;
		name += n + 1;
	}
	return true;
}

/* Makes room for `more` bytes: removes the files that were written longest ago. */
static void folder_trim(int folder, off_t more)
{
	_cleanup_free_ struct old_file *v = NULL;
	int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;
	off_t sum = more;
	size_t n = 0;

	if (!dir && copy >= 0)
		close(copy);
	while (dir && (entry = readdir(dir))) {
		struct stat st;

		if (!is_cache_file(entry->d_name) ||
		    fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		if (!GROW_ONE(v, n))
			break;
		v[n] = (struct old_file){.mtime = st.st_mtim, .bytes = st.st_size};
		snprintf(v[n++].name, sizeof(v->name), "%s", entry->d_name);
		sum += st.st_size;
	}
	if (dir)
		closedir(dir);
	if (n)
		qsort(v, n, sizeof(*v), by_age);
	for (size_t i = 0; i < n && sum > MAX_FOLDER; i++)
		if (unlinkat(folder, v[i].name, 0) == 0)
			sum -= v[i].bytes;
}

bool cache_may_keep(const struct file_id *id)
{
	return file_id_trusted(id);
}

void cache_save(const struct cache_kind *kind, const struct file_id *id, const struct buf *content)
{
	_cleanup_free_ char *path = folder_path();
	_cleanup_close_ int folder = -1;
	struct file_output out;
	char name[NAME_BYTES];
	struct cache_head head = {
		.version = kind->version,
		.head_bytes = sizeof(head),
		.bytes = content->len,
		.checksum = hash_bytes(0, content->data, content->len),
	};

	if (!path || !cache_may_keep(id) || buf_failed(content) || content->len >= MAX_FILE)
		return;
	folder = folder_open(path, true);
	if (folder < 0)
		return;
	memcpy(head.magic, kind->magic, sizeof(head.magic));
	folder_trim(folder, (off_t)content->len);
	file_name(kind, id, name, sizeof(name));
	if (file_output_open_at(&out, folder, name, name, NULL) < 0)
		return;
	if (io_write(out.fd, &head, sizeof(head)) == 0 &&
	    io_write(out.fd, content->data, content->len) == 0)
		file_output_place(&out, NULL);
	file_output_done(&out);
}

/* What follows the head; NULL: it isn't as it was written. */
static uint8_t *file_read(const struct cache_kind *kind, int fd, size_t *ret_len)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct cache_head head;
	struct stat st;
	size_t len;

	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || st.st_size > MAX_FILE ||
	    read(fd, &head, sizeof(head)) != sizeof(head) ||
	    memcmp(head.magic, kind->magic, 8) != 0 || head.version != kind->version ||
	    head.head_bytes != sizeof(head) || head.bytes != (uint64_t)st.st_size - sizeof(head))
		return NULL;
	len = head.bytes;
	data = malloc(len + 1);
	if (!data || io_read(fd, data, len) != (ssize_t)len ||
	    hash_bytes(0, data, len) != head.checksum)
		return NULL;
	*ret_len = len;
	return steal(data);
}

uint8_t *cache_load(const struct cache_kind *kind, const struct file_id *id, size_t *ret_len)
{
	_cleanup_free_ char *path = folder_path();
	_cleanup_close_ int folder = -1, fd = -1;
	char name[NAME_BYTES];

	if (!path || !cache_may_keep(id))
		return NULL;
	folder = folder_open(path, false);
	if (folder < 0)
		return NULL;
	file_name(kind, id, name, sizeof(name));
	fd = file_open_at(folder, name, O_NOFOLLOW, 0, NULL);
	return fd < 0 ? NULL : file_read(kind, fd, ret_len);
}
