/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The files are few (one a processor), so the one with the earliest time is searched for in all of
 * them; it is then read until another is earlier. */
#include "import/parts.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int add(struct input *folder, const char *name, struct file_parts *m, struct error *err)
{
	struct folder_part *f = GROW_ONE(m->v, m->n) ? calloc(1, sizeof(*f)) : NULL;

	if (!f)
		return error_set(err, -ENOMEM, "out of memory");
	snprintf(f->name, sizeof(f->name), "%s", name);
	int r = input_open_small(folder, f->name, INPUT_SMALL_BUFFER, &f->in, err);
	if (r < 0) {
		free(f);
		return r;
	}
	m->v[m->n++] = f;
	return 0;
}

/* The number of "perf-cpu12.dat"; -1: it is none. */
static long number_of(const char *name, const char *begin, const char *end)
{
	size_t n = strlen(begin);
	char *digits_end;

	if (strncmp(name, begin, n) != 0 || name[n] < '0' || name[n] > '9')
		return -1;
	long number = strtol(name + n, &digits_end, 10);
	bool plain = name[n] != '0' || digits_end == name + n + 1;
	return plain && number <= INT_MAX && !strcmp(digits_end, end) ? number : -1;
}

static int compare(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return ASCENDING(x, y);
}

int parts_open(struct input *folder, const char *begin, const char *end, struct file_parts *ret,
	       struct error *err)
{
	int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	_cleanup_free_ long *numbers = calloc(PARTS_MAX, sizeof(*numbers));
	const struct dirent *d;
	char name[32];
	size_t n = 0;

	*ret = (struct file_parts){0};
	if (!dir || !numbers) {
		r = error_sys(err, dir ? -ENOMEM : -errno, "cannot list %s", folder->path);
		if (dir)
			closedir(dir);
		else if (fd >= 0)
			close(fd);
		return r;
	}
	while (n < PARTS_MAX && (d = readdir(dir)))
		if ((numbers[n] = number_of(d->d_name, begin, end)) >= 0)
			n++;
	closedir(dir);
	qsort(numbers, n, sizeof(*numbers), compare);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct error why = {0};

		snprintf(name, sizeof(name), "%s%ld%s", begin, numbers[i], end);
		r = add(folder, name, ret, &why);
		/* A pipe or a folder of such a name is none of the tool's. */
		if (r == -EINVAL || r == -EISDIR)
			r = 0;
		else if (r < 0)
			*err = why;
	}
	if (r < 0)
		parts_close(ret);
	return r;
}

void parts_close(struct file_parts *m)
{
	for (size_t i = 0; i < m->n; i++) {
		input_close(&m->v[i]->in);
		free(m->v[i]);
	}
	free(m->v);
	*m = (struct file_parts){0};
}

struct folder_part *parts_next(struct file_parts *m)
{
	struct folder_part *first = NULL;

	if (m->current && !m->current->done && m->current->reached_ns <= m->until_ns)
		return m->current;
	m->until_ns = UINT64_MAX;
	for (size_t i = 0; i < m->n; i++) {
		struct folder_part *f = m->v[i];
		if (f->done)
			continue;
		if (!first || f->reached_ns < first->reached_ns) {
			if (first)
				m->until_ns = first->reached_ns;
			first = f;
		} else if (f->reached_ns < m->until_ns) {
			m->until_ns = f->reached_ns;
		}
	}
	return m->current = first;
}
