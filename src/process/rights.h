/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * May pollux trace this process, and if not, why not and what to do. Every reason has its own
 * sentence. Used before attaching, after a refusal, and by `pollux doctor`.
 */
#pragma once

#include "process/process.h"

#include <stdbool.h>

/* What can be known without trying: 0, or the reason against (gone, zombie, kernel thread, already
 * traced, not a 64-bit x86 program). Needs p->pid and p->proc_fd only. */
int rights_check(const struct process *p, struct error *err);

/* Logs what decides that, of the process and of pollux, in the kernel's words. */
void rights_log(const struct process *p);

/* The reason for a refusal with -EPERM, -EACCES or -ESRCH. Returns `code`. */
int rights_explain(pid_t pid, int code, struct error *err);

/* The capabilities in pollux' effective set, a bit each. */
uint64_t rights_own_caps(void);
/* What we trace gets by an exec what rights it gives: we have CAP_SYS_PTRACE. */
bool rights_any_exec(void);
