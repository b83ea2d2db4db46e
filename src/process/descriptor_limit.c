/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The limit is the process', and prlimit(2) sets it from outside. It is raised for some
 * milliseconds: what the program opens meanwhile stays open, as if it had been opened before the
 * limit was lowered. A pollux that is killed just then leaves a limit that is larger by one.
 */
#include "process/descriptor_limit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int descriptor_limit_read(const struct process *p, struct descriptor_limit *ret)
{
	int fd = openat(p->proc_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	struct rlimit limit;

	if (!dir || prlimit(p->pid, RLIMIT_NOFILE, NULL, &limit) < 0) {
		int rc = -errno;

		if (dir)
			closedir(dir);
		else if (fd >= 0)
			close(fd);
		return rc;
	}
	*ret = (struct descriptor_limit){.limit = limit.rlim_cur, .hard = limit.rlim_max};
	while ((entry = readdir(dir)))
		ret->open += entry->d_name[0] != '.' &&
			     strtoull(entry->d_name, NULL, 10) < limit.rlim_cur;
	closedir(dir);
	return 0;
}

static bool full(const struct descriptor_limit *d)
{
	return d->open >= d->limit;
}

static int refuse(const struct process *p, const struct descriptor_limit *d, struct error *err)
{
	const char *advice = d->limit < d->hard
				     ? "run pollux as the program's user, or as root with "
				       "CAP_SYS_RESOURCE"
				     : "run pollux as root with CAP_SYS_RESOURCE, or start the "
				       "program with a higher limit (ulimit -Hn)";

	return error_set(err, -EMFILE,
			 "process %d has no free file descriptor (%llu of %llu are open, the hard "
			 "limit is %llu), and pollux as user %ld may not raise its limit: %s",
			 p->pid, (unsigned long long)d->open, (unsigned long long)d->limit,
			 (unsigned long long)d->hard, (long)geteuid(), advice);
}

static bool may_raise(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {{0}};

	return syscall(SYS_capget, &head, sets) == 0 && sets[0].effective >> CAP_SYS_RESOURCE & 1;
}

bool descriptor_limit_refused(const struct process *p, const struct descriptor_limit *d,
			      struct error *err)
{
	const struct rlimit same = {d->limit, d->hard};
	struct rlimit before;
	bool may;

	if (!full(d))
		return false;
	/* Whether pollux may at all, and may raise it above the hard limit. */
	may = prlimit(p->pid, RLIMIT_NOFILE, &same, &before) == 0;
	/* The program has set another one since. */
	if (may && (before.rlim_cur != same.rlim_cur || before.rlim_max != same.rlim_max))
		prlimit(p->pid, RLIMIT_NOFILE, &before, NULL);
	if (may && (d->limit < d->hard || may_raise()))
		return false;
	refuse(p, d, err);
	return true;
}

int descriptor_limit_make_room(const struct process *p, struct descriptor_room *ret,
			       struct error *err)
{
	struct descriptor_limit d;

	*ret = (struct descriptor_room){.is_raised = false};
	/* Where it can't be seen, the remote call shows it. */
	if (descriptor_limit_read(p, &d) < 0 || !full(&d))
		return 0;
	ret->raised = (struct rlimit){d.limit + 1, d.limit < d.hard ? d.hard : d.limit + 1};
	process_step("descriptors");
	if (prlimit(p->pid, RLIMIT_NOFILE, &ret->raised, &ret->before) < 0)
		return refuse(p, &d, err);
	ret->is_raised = true;
	return 0;
}

void descriptor_limit_put_back(const struct process *p, const struct descriptor_room *room)
{
	struct rlimit now;

	if (room->is_raised && prlimit(p->pid, RLIMIT_NOFILE, NULL, &now) == 0 &&
	    now.rlim_cur == room->raised.rlim_cur && now.rlim_max == room->raised.rlim_max)
		prlimit(p->pid, RLIMIT_NOFILE, &room->before, NULL);
}
