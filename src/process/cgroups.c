/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "process/cgroups.h"

#include "base/cleanup.h"
#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cgroup_read(const char *folder, const char *name, char *out, size_t size)
{
	_cleanup_close_ int fd = -1;
	char path[4096];

	out[0] = 0;
	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return false;
	fd = file_open(path, FILE_EMPTY, NULL);
	ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
	out[n > 0 ? n : 0] = 0;
	return n > 0;
}

uint64_t cgroup_number(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, word, len) && line[len] == ' ')
			return strtoull(line + len, NULL, 10);
	}
	return 0;
}

/* The group of that path below where they are mounted, and all above it. Whether any is the controller's. */
static bool each_above(const char *mount, const char *path,
		       bool (*fn)(void *arg, const char *folder), void *arg)
{
	char folder[4096];
	size_t least = strlen(mount);
	bool any = false;

	if (snprintf(folder, sizeof(folder), "%s%s", mount, path) >= (int)sizeof(folder))
		return false;
	for (;;) {
		size_t len = strlen(folder);
		if (len > least && folder[len - 1] == '/') {
			folder[len - 1] = 0;
			continue;
		}
		any = fn(arg, folder) || any;
		if (len <= least)
			return any;
		*strrchr(folder, '/') = 0;
	}
}

/* Whether a list such as "cpu,cpuacct" has the controller. */
static bool has_controller(const char *list, size_t len, const char *controller)
{
	for (const char *end = list + len; list < end;) {
		size_t word = strcspn(list, ",:");
		if (word == strlen(controller) && !strncmp(list, controller, word))
			return true;
		list += word + 1;
	}
	return false;
}

void cgroups_each(const struct process *p, const char *controller,
		  bool (*fn)(void *arg, const char *folder), void *arg)
{
	char text[8192], one[64], *rest = text, *line;
	const char *const mounts[2][2] = {
		{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"},
		{one, "/sys/fs/cgroup/cpu,cpuacct"},
	};
	bool any = false;

	snprintf(one, sizeof(one), "/sys/fs/cgroup/%s", controller);
	if (process_read_file(p, "cgroup", text, sizeof(text)) <= 0)
		return;
	while ((line = strsep(&rest, "\n"))) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path || path[1] != '/' || strstr(path, "/.."))
			continue;
		bool v1 = path != controllers + 1;
		if (v1 &&
		    !has_controller(controllers + 1, (size_t)(path - controllers - 1), controller))
			continue;
		for (size_t i = 0; i < 2 && !any; i++)
			any = each_above(mounts[v1][i], path + 1, fn, arg);
	}
}

/* ---- memory ---- */

/* A file with a number of bytes, or "max". */
static uint64_t bytes_in(const char *folder, const char *name)
{
	char text[64];

	if (!cgroup_read(folder, name, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return UINT64_MAX;
	return strtoull(text, NULL, 10);
}

/* What the kernel takes back first. Version 1 has "total_" before what groups below have, too, and does not say
 * how much of the kernel's own memory it can take back. */
static uint64_t caches_in(const char *stat)
{
	uint64_t v1 = cgroup_number(stat, "total_active_file") +
		      cgroup_number(stat, "total_inactive_file");

	return v1 ? v1
		  : cgroup_number(stat, "active_file") + cgroup_number(stat, "inactive_file") +
			       cgroup_number(stat, "slab_reclaimable");
}

/* A limit, if it is the lowest so far. */
static void take_limit(const char *folder, const char *name, uint64_t used, struct cgroup_memory *m)
{
	uint64_t limit = bytes_in(folder, name);

	if (limit == UINT64_MAX || m->left <= (used < limit ? limit - used : 0))
		return;
	m->left = used < limit ? limit - used : 0;
	m->limit = name;
}

bool cgroup_memory_in(const char *folder, struct cgroup_memory *m)
{
	uint64_t used = bytes_in(folder, "memory.current"), cache;
	bool v2 = used != UINT64_MAX;
	char stat[8192];

	used = v2 ? used : bytes_in(folder, "memory.usage_in_bytes");
	if (used == UINT64_MAX)
		return false;
	cache = cgroup_read(folder, "memory.stat", stat, sizeof(stat)) ? caches_in(stat) : 0;
	used = used > cache ? used - cache : 0;
	take_limit(folder, v2 ? "memory.max" : "memory.limit_in_bytes", used, m);
	/* Above it the kernel lets the group's threads sleep until something was taken back. */
	if (v2)
		take_limit(folder, "memory.high", used, m);
	return true;
}

static bool look_at_memory(void *arg, const char *folder)
{
	return cgroup_memory_in(folder, arg);
}

struct cgroup_memory cgroups_memory_left(const struct process *p)
{
	struct cgroup_memory m = {.left = UINT64_MAX};

	cgroups_each(p, "memory", look_at_memory, &m);
	return m;
}
