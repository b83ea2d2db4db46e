/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits in epoll_wait() for a byte, while a signal comes that the kernel ignores: SIGWINCH without a handler. It might
 * execute another program. Says what it got, and whether it was traced then.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* A line of /proc/PID/status, behind its name. */
static const char *status_of(pid_t pid, const char *name)
{
	static char line[256];
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, strlen(name))) {
			fclose(f);
			return line + strlen(name);
		}
	}
	exit(2);
}

static void wait_for_sleep(pid_t pid)
{
	while (!strchr("SZ", *status_of(pid, "State:\t")))
		usleep(1000);
}

static void child(pid_t parent, int out)
{
	wait_for_sleep(parent);
	kill(parent, SIGWINCH);
	usleep(200000); /* of a call that was ended it knows by then */
	wait_for_sleep(parent);
	exit(write(out, atoi(status_of(parent, "TracerPid:\t")) ? "t" : "-", 1) != 1);
}

int main(int argc, char **argv)
{
	struct epoll_event event = {.events = EPOLLIN}, got;
	pid_t self = getpid();
	int ends[2], epoll = epoll_create1(0);
	char byte = '?';

	if (argc > 1)
		execv(argv[1], argv + 1);
	if (epoll < 0 || pipe(ends) < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) < 0)
		return 2;
	if (fork() == 0)
		child(self, ends[1]);
	int n = epoll_wait(epoll, &got, 1, -1);
	int error = errno;
	if (n == 1 && read(ends[0], &byte, 1) != 1)
		return 2;
	printf("%s %c\n", n == 1 ? "got" : strerror(error), byte);
	return n != 1;
}
