/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The browser, by xdg-open. Root has none that should open pages. */
#include "view/open.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void view_open(const char *url)
{
	/* The shell ends at once; what it leaves in the background is no child of pollux's to
	 * wait for. */
	const char *const argv[] = {
		"sh", "-c", "command -v xdg-open >/dev/null && xdg-open \"$1\" &", "sh", url, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	pid_t pid;

	if (geteuid() == 0 || (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY")))
		return;
	if (posix_spawn_file_actions_init(&actions))
		return;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&actions);
		return;
	}
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	/* Ctrl-C is not meant for the browser. */
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	if (posix_spawnp(&pid, "sh", &actions, &attr, (char *const *)(const void *)argv, environ) ==
	    0)
		waitpid(pid, NULL, 0);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
}
