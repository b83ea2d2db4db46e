/*
 * Fuzz target for folders of uftrace record. The input holds the files one after the other, each
 * behind a line "@NAME SIZE": make_uftrace.py makes such a one from a folder.
 */
#include "fuzz_import.h"

#include <string.h>
#include <sys/stat.h>

#define MAX_FILES 8u

/* One file; gives what follows it, NULL at the end. The name is one of few: no path. */
static const uint8_t *put_file(const char *folder, const uint8_t *p, const uint8_t *end,
			       char *ret_path, size_t path_size)
{
	char name[32];
	unsigned long size;
	const uint8_t *line_end = memchr(p, '\n', (size_t)(end - p));
	char line[64];

	if (!line_end || (size_t)(line_end - p) >= sizeof(line))
		return NULL;
	memcpy(line, p, (size_t)(line_end - p));
	line[line_end - p] = 0;
	if (sscanf(line, "@%31[a-z0-9.-] %lu", name, &size) != 2 || name[0] == '.')
		return NULL;
	p = line_end + 1;
	if (size > (size_t)(end - p))
		size = (size_t)(end - p);
	snprintf(ret_path, path_size, "%s/%s", folder, name);
	int fd = open(ret_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, p, size) != (ssize_t)size)
		abort();
	close(fd);
	return p + size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char folder[] = "/tmp/fuzz-uftrace-XXXXXX", paths[MAX_FILES][96];
	const uint8_t *p = data, *end = data + size;
	unsigned n = 0;

	if (!mkdtemp(folder))
		abort();
	while (n < MAX_FILES && p && p < end) {
		paths[n][0] = 0;
		p = put_file(folder, p, end, paths[n], sizeof(paths[n]));
		n += p != NULL;
	}
	fuzz_import_path(folder, "uftrace-data");
	while (n)
		unlink(paths[--n]);
	if (rmdir(folder) < 0)
		abort();
	return 0;
}
