/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which processes run a program. */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>

/* All processes that execute this file (a path, or a name that is searched in PATH), except pollux,
 * lowest pid first; for free(). -ESRCH with a sentence: there is none. */
int processes_running(const char *exe, pid_t **ret_pids, size_t *ret_n, struct error *err);

/* All processes of this name (of their main thread, or of the file that they execute), likewise. */
int processes_named(const char *name, pid_t **ret_pids, size_t *ret_n, struct error *err);
/* All descendants of a process; for free(). 0 or -ENOMEM. */
int processes_below(pid_t pid, pid_t **ret_pids, size_t *ret_n);
