/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table of answers, and what they share. */
#include "view/answer.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

static const struct view_answer answers[] = {
	{"api/trace", 20, 256, answer_trace},
	{"api/cells", 20, 128, answer_cells},
	{"api/slices", 20, 512, answer_slices},
	{"api/tasks", 20, 512, answer_tasks},
	{"api/flame", 20, 256, answer_flame},
	{"api/heat", 20, 128, answer_heat},
	{"api/task", 20, 512, answer_task},
	{"api/poll", 20, 512, answer_poll},
	{"api/search", 20, 128, answer_search},
	{"api/report", 600, 1024, answer_report},
	{"download", 600, 1024, NULL, answer_download},
	{"file", 600, 1024, NULL, answer_file},
};

const struct view_answer *view_find_answer(const char *path)
{
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
		if (!strcmp(answers[i].path, path))
			return &answers[i];
	return NULL;
}

int view_open_again(const struct view_source *v, struct error *err)
{
	char name[32];

	/* Opened again, with a position of its own; also if the path is another file's by now. */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", v->trace);
	return file_open(name, FILE_EMPTY, err);
}

int view_reader(const struct view_source *v, struct trace_reader **ret, struct error *err)
{
	int fd = view_open_again(v, err);

	if (fd < 0)
		return fd;
	struct trace_reader *reader;
	TRY(trace_reader_open_fd(fd, &reader, err));
	int code = v->index ? index_use_kinds(v->index, reader, err) : 0;
	if (code < 0) {
		trace_reader_free(reader);
		return code;
	}
	*ret = reader;
	return 0;
}
