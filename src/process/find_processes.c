/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which processes run a program: /proc/PID/exe is that file, by device and inode. So it doesn't
 * matter by which path it was started, and one of the same name in another place is another
 * program. What belongs to others can't be looked at without the right to trace it, so it isn't
 * found.
 */
#include "process/find_processes.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/vec.h"
#include "process/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* As execvp(3) searches it. */
static int find_file(const char *exe, struct stat *ret)
{
	const char *path = getenv("PATH");

	if (stat(exe, ret) == 0)
		return 0;
	if (strchr(exe, '/') || !path)
		return -errno;
	for (const char *at = path; *at;) {
		_cleanup_buf_ struct buf name = BUF_INIT;
		size_t len = strcspn(at, ":");

		buf_printf(&name, "%.*s/%s", (int)len, at, exe);
		if (!buf_failed(&name) && stat(name.data, ret) == 0 && S_ISREG(ret->st_mode))
			return 0;
		at += len + (at[len] == ':');
	}
	return -ENOENT;
}

static int compare(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return ASCENDING(*x, *y);
}

/* All processes but ourselves that are wanted, lowest pid first. */
static int list(bool (*wanted)(void *ctx, int proc, pid_t pid), void *ctx, pid_t **ret_pids,
		size_t *ret_n, struct error *err)
{
	_cleanup_free_ pid_t *pids = NULL;
	DIR *proc = opendir("/proc");
	struct dirent *d;
	size_t n = 0;
	int rc = 0;

	if (!proc)
		return error_sys(err, -errno, "cannot read /proc");
	while (rc == 0 && (d = readdir(proc))) {
		pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);

		if (pid <= 0 || pid == getpid() || !wanted(ctx, dirfd(proc), pid))
			continue;
		if (!GROW_ONE(pids, n)) {
			rc = error_sys(err, -ENOMEM, "cannot list processes");
			break;
		}
		pids[n++] = pid;
	}
	closedir(proc);
	if (rc < 0)
		return rc;
	if (n)
		qsort(pids, n, sizeof(*pids), compare);
	*ret_pids = steal(pids);
	*ret_n = n;
	return 0;
}

struct by_file {
	struct stat file;
	size_t n_hidden;
};

static bool executes(void *ctx, int proc, pid_t pid)
{
	struct by_file *by = ctx;
	struct stat st;
	char link[64];

	snprintf(link, sizeof(link), "%d/exe", pid);
	if (fstatat(proc, link, &st, 0) < 0) {
		by->n_hidden += errno == EACCES;
		return false;
	}
	return st.st_dev == by->file.st_dev && st.st_ino == by->file.st_ino;
}

int processes_running(const char *exe, pid_t **ret_pids, size_t *ret_n, struct error *err)
{
	struct by_file by = {.n_hidden = 0};
	int rc = find_file(exe, &by.file);

	if (rc < 0)
		return error_sys(err, rc, "cannot find the program %s", exe);
	rc = list(executes, &by, ret_pids, ret_n, err);
	if (rc == 0 && !*ret_n) {
		free(*ret_pids);
		rc = error_set(err, -ESRCH, "no process %sruns %s",
			       by.n_hidden ? "that you may look at " : "", exe);
	}
	return rc;
}

static bool is_named(void *ctx, int proc, pid_t pid)
{
	_cleanup_free_ char *exe = process_exe(pid);
	const char *name = ctx, *slash = exe ? strrchr(exe, '/') : NULL;
	char path[64], comm[64] = "";

	snprintf(path, sizeof(path), "%d/comm", pid);
	_cleanup_close_ int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, comm, sizeof(comm) - 1);
	if (n > 0 && comm[n - 1] == '\n')
		comm[n - 1] = 0;
	return !strcmp(comm, name) || (slash && !strcmp(slash + 1, name));
}

int processes_named(const char *name, pid_t **ret_pids, size_t *ret_n, struct error *err)
{
	TRY(list(is_named, (void *)(uintptr_t)name, ret_pids, ret_n, err));
	if (!*ret_n) {
		free(*ret_pids);
		return error_set(err, -ESRCH, "there is no process '%s'", name);
	}
	return 0;
}

struct by_parent {
	pid_t root;
	const pid_t *known;
	size_t n_known;
};

static bool is_below(void *ctx, int proc, pid_t pid)
{
	const struct by_parent *by = ctx;
	char path[64], status[PROCESS_STATUS_BYTES];

	snprintf(path, sizeof(path), "%d/status", pid);
	_cleanup_close_ int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, status, sizeof(status) - 1);
	status[n > 0 ? n : 0] = 0;
	long parent = process_status_number(status, "PPid", false);
	bool below = parent == by->root;
	for (size_t i = 0; i < by->n_known && !below; i++)
		below = parent == by->known[i];
	return below;
}

int processes_below(pid_t pid, pid_t **ret_pids, size_t *ret_n)
{
	struct by_parent by = {.root = pid};
	pid_t *pids = NULL;
	size_t n = 0, before;
	int rc;

	/* A generation more each time. */
	do {
		pid_t *more;

		by.known = pids;
		by.n_known = before = n;
		rc = list(is_below, &by, &more, &n, NULL);
		if (rc < 0)
			break;
		free(pids);
		pids = more;
	} while (n != before);
	if (rc < 0) {
		free(pids);
		return rc;
	}
	*ret_pids = pids;
	*ret_n = n;
	return 0;
}
