/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table of answers. */
#include "view/answer.h"

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
