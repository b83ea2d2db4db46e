/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The two ends of the sockets of a process, as the kernel lists them in /proc/PID/net of the
 * process' own network namespace.
 */
#pragma once

#include "base/buf.h"
#include "base/map.h"

#include <stdbool.h>

struct sockets {
	int proc_fd; /* of /proc/PID; not owned */
	bool read;
	struct map by_inode; /* inode -> char *, "127.0.0.1:80 <- 127.0.0.1:51234" */
	struct map by_fd;    /* fd + 1 -> char * of by_inode, or "" */
};

void sockets_init(struct sockets *s, int proc_fd);
void sockets_done(struct sockets *s);
/* "" if the fd is no socket or nothing is known of it. Owned by s. */
const char *sockets_ends(struct sockets *s, unsigned fd);
