/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Opening inputs and outputs.
 *
 * Inputs: the path is opened with O_PATH first, which has no effect on the file; then the file is
 * examined, and opened for reading by the descriptor, not by the path, so that the examined file is
 * the one that is read. O_NONBLOCK: else a lease that the owner holds on the file would make pollux
 * wait.
 *
 * An empty regular file is rarely one that pollux wrote: procfs and tracefs show files of size 0,
 * and reading one may wait, or take data from its other readers (/proc/kmsg, trace_pipe).
 *
 * Outputs: pollux does not write into an existing file, but into a new one next to it, which then
 * takes the name. So no link leads an output into another file, an older output remains whole until
 * the new one is complete, and after a failure nothing has to be removed by a path. The folder is
 * held open meanwhile, so it does not matter if its path leads elsewhere later. The exception is a
 * file in a folder that takes no new files, or one that is itself a mount (a container's -v
 * FILE:FILE): if it is the user's and has one name only, it is written in place.
 */
#include "base/file.h"

#include "base/cleanup.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* ---- both ---- */

/* The number of our own descriptor that the path names, -1 if it is none. */
static int own_descriptor(const char *path)
{
	static const char *const streams[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
	static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
	char *end;

	for (int i = 0; i < 3; i++)
		if (!strcmp(path, streams[i]))
			return i;
	for (size_t i = 0; i < 2; i++) {
		size_t len = strlen(folders[i]);

		if (strncmp(path, folders[i], len) != 0 || path[len] < '0' || path[len] > '9')
			continue;
		unsigned long n = strtoul(path + len, &end, 10);
		return !*end && n < INT32_MAX ? (int)n : -1;
	}
	return -1;
}

static int copy_descriptor(int fd, const char *path, struct error *err)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	return copy < 0 ? error_sys(err, -errno, "cannot use %s", path) : copy;
}

static int open_again(int at, int flags)
{
	char self[32];
	int fd;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
	fd = open(self, flags | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

/* ---- inputs ---- */

static const char *why_not(const struct stat *st, unsigned also)
{
	if (S_ISREG(st->st_mode))
		return st->st_size || also & FILE_EMPTY ? NULL : "it is empty";
	if (S_ISDIR(st->st_mode))
		return also & FILE_FOLDER ? NULL : "it is a folder";
	if (!S_ISFIFO(st->st_mode))
		return "it is no regular file";
	if (!(also & FILE_PIPE))
		return "it is a pipe";
	return st->st_uid == geteuid() ? NULL : "it is a pipe of another user";
}

int file_reopen(int at, const char *name, unsigned also, struct error *err)
{
	const char *reason;
	struct stat st;
	int fd;

	if (fstat(at, &st) < 0)
		return error_sys(err, -errno, "cannot examine %s", name);
	reason = why_not(&st, also);
	if (reason)
		return error_set(err, S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL, "cannot open %s: %s",
				 name, reason);
	fd = open_again(at, O_RDONLY | (S_ISFIFO(st.st_mode) ? 0 : O_NONBLOCK));
	return fd < 0 ? error_sys(err, fd, "cannot open %s", name) : fd;
}

int file_open_at(int dir, const char *name, int flags, unsigned also, struct error *err)
{
	_cleanup_close_ int at = openat(dir, name, O_PATH | O_CLOEXEC | flags);

	if (at < 0)
		return error_sys(err, -errno, "cannot open %s", name);
	return file_reopen(at, name, also, err);
}

int file_open(const char *path, unsigned also, struct error *err)
{
	int own = also & FILE_PIPE ? own_descriptor(path) : -1;
	struct stat st;

	/* a regular file is read from its beginning */
	if (own >= 0 && fstat(own, &st) == 0 && S_ISREG(st.st_mode))
		own = -1;
	return own >= 0 ? copy_descriptor(own, path, err)
			: file_open_at(AT_FDCWD, path, 0, also, err);
}

/* ---- outputs ---- */

static int random_name(char ret_name[static 32])
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(ret_name, 32, ".pollux-%016" PRIx64, number);
	return 0;
}

/* A new file that no other process can open: without a name where the file system can do that, else
 * under an unguessable one. */
static int new_file(int folder, int access, char ret_temp[static 32])
{
	int fd = openat(folder, ".", O_TMPFILE | access | O_CLOEXEC, 0600);

	*ret_temp = 0;
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
		TRY(random_name(ret_temp));
		fd = openat(folder, ret_temp,
			    O_CREAT | O_EXCL | O_NOFOLLOW | access | O_CLOEXEC | O_NOCTTY, 0600);
		if (fd < 0)
			*ret_temp = 0;
	}
	if (fd < 0)
		return -errno;
	fchmod(fd, 0600); /* the umask may have taken from it */
	return fd;
}

static bool may_replace(const struct file_output *o, int at, const struct stat *st)
{
	const struct file_replaces *r = o->replaces;
	_cleanup_close_ int fd = r && st->st_size ? open_again(at, O_RDONLY | O_NONBLOCK) : -1;
	char head[128];
	size_t len = !r || !r->begin ? 0 : r->len ? r->len : strlen(r->begin);

	if (!r || !st->st_size)
		return true;
	return fd >= 0 && len && len <= sizeof(head) &&
	       pread(fd, head, len, (off_t)r->at) == (ssize_t)len && !memcmp(head, r->begin, len);
}

/* What has the output's name now. 0: nothing, or what may be replaced; 1: written as it is. */
static int look(const struct file_output *o, int *ret_at, struct stat *ret_st, struct error *err)
{
	int at = openat(o->folder, o->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat *st = ret_st;

	*ret_at = at;
	if (at < 0 && errno == ENOENT)
		return 0;
	if (at < 0 || fstat(at, st) < 0)
		return error_sys(err, -errno, "cannot create %s", o->path);
	if (S_ISLNK(st->st_mode))
		return error_set(
			err, -ELOOP,
			"cannot create %s: it is a symbolic link, which pollux does not follow",
			o->path);
	if (S_ISDIR(st->st_mode))
		return error_set(err, -EISDIR, "cannot create %s: it is a folder", o->path);
	if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3)) /* /dev/null */
		return 1;
	if (!S_ISREG(st->st_mode) && !S_ISFIFO(st->st_mode))
		return error_set(err, -EINVAL,
				 "cannot write to %s: it is neither a regular file nor a pipe",
				 o->path);
	if (st->st_uid != geteuid())
		return error_set(err, -EPERM,
				 "cannot %s %s: it belongs to another user (uid %u): remove it or "
				 "choose another name",
				 S_ISREG(st->st_mode) ? "replace" : "write to", o->path,
				 (unsigned)st->st_uid);
	if (S_ISREG(st->st_mode) && !may_replace(o, at, st))
		return error_set(
			err, -EEXIST,
			"cannot replace %s: it is not %s: remove it or choose another name",
			o->path, o->replaces->description);
	return S_ISFIFO(st->st_mode);
}

/* A file of this user that can't be replaced by another one. */
static int write_in_place(struct file_output *o, int at, const struct stat *st, struct error *err)
{
	if (st->st_nlink > 1)
		return error_set(err, -EPERM,
				 "cannot replace %s: it has other names (hard links): remove it or "
				 "choose another name",
				 o->path);
	o->fd = open_again(at, O_WRONLY);
	if (o->fd < 0 || fchmod(o->fd, 0600) < 0 || ftruncate(o->fd, 0) < 0)
		return error_sys(err, o->fd < 0 ? o->fd : -errno, "cannot replace %s", o->path);
	o->in_place = true;
	return 0;
}

static int open_in_folder(struct file_output *o, struct error *err)
{
	_cleanup_close_ int at = -1;
	struct stat st, folder;
	int r = look(o, &at, &st, err);

	if (r < 0)
		return r;
	if (r == 1) {
		free(o->name);
		o->name = NULL;
		o->fd = open_again(at, O_WRONLY);
		return o->fd < 0 ? error_sys(err, o->fd, "cannot write to %s", o->path) : 0;
	}
	o->regular = true;
	if (at >= 0 && fstat(o->folder, &folder) == 0 && folder.st_dev != st.st_dev)
		return write_in_place(o, at, &st, err);
	o->fd = new_file(o->folder, O_WRONLY, o->temp);
	if (o->fd < 0 && at >= 0 && (o->fd == -EACCES || o->fd == -EPERM || o->fd == -EROFS))
		return write_in_place(o, at, &st, err);
	return o->fd < 0 ? error_sys(err, o->fd, "cannot create %s", o->path) : 0;
}

/* Its own copies of what the caller gave. */
static int set_names(struct file_output *o, const char *name, const char *path, struct error *err)
{
	o->path = strdup(path);
	o->name = strdup(name);
	return o->path && o->name ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int open_at(struct file_output *o, int folder, const char *name, const char *path,
		   const struct file_replaces *replaces, struct error *err)
{
	int r;

	*o = (struct file_output)FILE_OUTPUT_INIT;
	o->replaces = replaces;
	r = set_names(o, name, path, err);
	if (r == 0 && (o->folder = fcntl(folder, F_DUPFD_CLOEXEC, 3)) < 0)
		r = error_sys(err, -errno, "cannot create %s", path);
	if (r == 0)
		r = open_in_folder(o, err);
	if (r < 0)
		file_output_done(o);
	return r;
}

int file_output_open_at(struct file_output *o, int folder, const char *name, const char *path,
			struct error *err)
{
	return open_at(o, folder, name, path, NULL, err);
}

int file_output_open(struct file_output *o, const char *path, const struct file_replaces *replaces,
		     struct error *err)
{
	int own = strcmp(path, "-") != 0 ? own_descriptor(path) : STDOUT_FILENO;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	_cleanup_free_ char *parent = NULL;
	_cleanup_close_ int folder = -1;

	*o = (struct file_output)FILE_OUTPUT_INIT;
	if (own >= 0) {
		o->fd = copy_descriptor(own, own == STDOUT_FILENO ? "standard output" : path, err);
		return o->fd < 0 ? o->fd : 0;
	}
	if (!*name)
		return error_set(err, *path ? -EISDIR : -ENOENT,
				 "cannot create '%s': it names no file", path);
	parent = slash ? strndup(path, (size_t)(name - path)) : strdup(".");
	if (!parent)
		return error_set(err, -ENOMEM, "out of memory");
	folder = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return error_sys(err, -errno, "cannot create %s", path);
	return open_at(o, folder, name, path, replaces, err);
}

/* A file without a name gets one, which then is changed to the right one: a link replaces nothing.
 */
static int name_it(struct file_output *o)
{
	char self[32];
	int r = 0;

	if (!*o->temp) {
		TRY(random_name(o->temp));
		snprintf(self, sizeof(self), "/proc/self/fd/%d", o->fd);
		if (linkat(AT_FDCWD, self, o->folder, o->temp, AT_SYMLINK_FOLLOW) < 0) {
			r = -errno;
			*o->temp = 0;
			return r;
		}
	}
	return renameat(o->folder, o->temp, o->folder, o->name) < 0 ? -errno : 0;
}

int file_output_place(struct file_output *o, struct error *err)
{
	_cleanup_close_ int at = -1;
	struct stat st;
	int r;

	if (o->in_place)
		o->placed = true;
	if (!o->name || o->placed)
		return 0;
	r = look(o, &at, &st, err);
	if (r < 0)
		return r;
	if (r == 1)
		return error_set(err, -EEXIST, "cannot create %s: it has become something else",
				 o->path);
	r = name_it(o);
	if (r < 0)
		return error_sys(err, r, "cannot create %s", o->path);
	*o->temp = 0;
	o->placed = true;
	return 0;
}

void file_output_done(struct file_output *o)
{
	if (o->in_place && !o->placed && ftruncate(o->fd, 0) < 0) {
		/* a part of it stays */
	}
	if (o->fd >= 0)
		close(o->fd);
	if (*o->temp)
		unlinkat(o->folder, o->temp, 0);
	if (o->folder >= 0)
		close(o->folder);
	free(o->name);
	free(o->path);
	*o = (struct file_output)FILE_OUTPUT_INIT;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

int file_output_spares(const char *path, const char *const *inputs, size_t n, struct error *err)
{
	_cleanup_free_ char *folder = NULL;
	const char *slash = strrchr(path, '/');
	struct stat out, in, parent = {0};

	if (strcmp(path, "-") != 0 ? stat(path, &out) < 0 : fstat(STDOUT_FILENO, &out) < 0)
		return 0;
	folder = slash ? strndup(path, (size_t)(slash + 1 - path)) : strdup(".");
	if (!folder || stat(folder, &parent) < 0)
		parent = (struct stat){0};
	for (size_t i = 0; S_ISREG(out.st_mode) && i < n; i++) {
		bool is_stdin = !strcmp(inputs[i], "-");

		if (is_stdin ? fstat(STDIN_FILENO, &in) < 0 : stat(inputs[i], &in) < 0)
			continue;
		if (same_file(&out, &in) || (S_ISDIR(in.st_mode) && same_file(&parent, &in)))
			return error_set(err, -EINVAL,
					 "cannot write to %s: it is the input: choose another name",
					 path);
	}
	return 0;
}

int file_temporary(const char *folder)
{
	_cleanup_close_ int at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char temp[32];
	int fd;

	if (at < 0)
		return -errno;
	fd = new_file(at, O_RDWR, temp);
	if (fd >= 0 && *temp)
		unlinkat(at, temp, 0);
	return fd;
}
