/*
 * Which processes run a program: /proc/PID/exe is that file, by device and inode. So it doesn't
 * matter by which path it was started, and one of the same name in another place is another
 * program. What belongs to others can't be looked at without the right to trace it, so it isn't
 * found.
 */
#include "process/running.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

	return (*x > *y) - (*x < *y);
}

int processes_running(const char *exe, pid_t **ret_pids, size_t *ret_n, struct error *err)
{
	_cleanup_free_ pid_t *pids = NULL;
	struct stat wanted, st;
	struct dirent *d;
	size_t n = 0, hidden = 0;
	DIR *proc;
	int rc = find_file(exe, &wanted);

	if (rc < 0)
		return error_sys(err, rc, "cannot find the program %s", exe);
	proc = opendir("/proc");
	if (!proc)
		return error_sys(err, -errno, "cannot read /proc");
	while (rc == 0 && (d = readdir(proc))) {
		pid_t pid = (pid_t)strtol(d->d_name, NULL, 10), *more;
		char link[64];

		if (pid <= 0 || pid == getpid())
			continue;
		snprintf(link, sizeof(link), "%d/exe", pid);
		if (fstatat(dirfd(proc), link, &st, 0) < 0) {
			hidden += errno == EACCES;
			continue;
		}
		if (st.st_dev != wanted.st_dev || st.st_ino != wanted.st_ino)
			continue;
		more = reallocarray(pids, n + 1, sizeof(*pids));
		if (!more) {
			rc = error_sys(err, -ENOMEM, "cannot list processes");
			break;
		}
		pids = more;
		pids[n++] = pid;
	}
	closedir(proc);
	if (rc < 0)
		return rc;
	if (!n)
		return error_set(err, -ESRCH, "no process %sruns %s",
				 hidden ? "that you may look at " : "", exe);
	qsort(pids, n, sizeof(*pids), compare);
	*ret_pids = steal(pids);
	*ret_n = n;
	return 0;
}
