/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/own_command.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "pollux"

static const char *started = NAME; /* argv[0] */
static const char *command = NAME;

static bool is_this(const char *path)
{
	struct stat own, st;

	return stat("/proc/self/exe", &own) == 0 && stat(path, &st) == 0 &&
	       own.st_dev == st.st_dev && own.st_ino == st.st_ino;
}

/* Whether NAME starts this program in a shell. */
static bool in_path(void)
{
	_cleanup_free_ char *path = strdup(getenv("PATH") ? getenv("PATH") : "");
	bool found = false, own = false;

	for (char *save, *folder = path ? strtok_r(path, ":", &save) : NULL; folder && !found;
	     folder = strtok_r(NULL, ":", &save)) {
		_cleanup_buf_ struct buf file = BUF_INIT;

		buf_printf(&file, "%s/" NAME, folder);
		found = !buf_failed(&file) && access(file.data, X_OK) == 0;
		own = found && is_this(file.data);
	}
	return own;
}

void own_command_set(const char *argv0)
{
	started = argv0;
}

static void find(void)
{
	struct buf word = BUF_INIT;

	if (!strchr(started, '/') || in_path())
		return;
	text_shell_word(&word, started);
	if (!buf_failed(&word))
		command = buf_steal(&word);
}

const char *own_command(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return command;
}
