/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A process by handles that can't be fooled by pid reuse or by exec: its /proc directory and its
 * memory. The memory handle belongs to one address space: after an exec it reads and writes
 * nothing any more, so a stale pollux can't scribble into a new program.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t pid;
	int proc_fd;	   /* directory /proc/PID */
	int mem_fd;	   /* /proc/PID/mem, for reading and writing */
	int pidfd;	   /* says how it ended; -1: the kernel has none */
	pid_t stopped_tid; /* a tid that the calling thread has stopped, 0 if none: lets writes fall
			    * back to PTRACE_POKEDATA */
	bool other_pid_ns; /* its threads know themselves by other numbers than we do */
	uint64_t image;	   /* what exec gave the program that mem_fd is of */
	bool launched;	   /* we have started it: it has our seccomp filters, and perhaps more */
	bool forced;	   /* seccomp filters that can't be read are risked */
	bool poke_only;	   /* nothing is written through mem_fd, as on a kernel that forbids it */
};

#define PROCESS_INIT                                                                               \
	{                                                                                          \
		.proc_fd = -1, .mem_fd = -1, .pidfd = -1                                           \
	}

/* Opens the handles; a refusal is explained (rights.h). */
int process_open(pid_t pid, struct process *ret_process, struct error *err);
void process_close(struct process *p);
/* False once it is gone, a zombie, or has another address space (exec). */
bool process_alive(const struct process *p);
/* Why it is not what it was: -ESRCH with a sentence. 0, and nothing said: it still is. */
int process_lost(const struct process *p, struct error *err);
/* How it ended, as waitpid() says; -1: it has not, or that can't be known (before Linux 6.15 only
 * until its parent has asked). */
int process_end_status(const struct process *p);
/* Whether a number is that of a thread of this process: it may have been given to another's. */
bool process_has_thread(const struct process *p, pid_t tid);
/* Whether a thread runs in the memory of the handle. For a stopped thread the answer stays. */
bool process_same_memory(const struct process *p, pid_t tid);

/* Whether it is in our namespace of a kind ("pid", "mnt"): 1, 0, -1 if that can't be known. */
int process_same_ns(const struct process *p, const char *kind);

/* One pollux at a time changes a process; any number may rely on it that none does (shared). Only
 * those who may trace the process can hold the lock; the kernel drops it with the handle. False:
 * another process holds it. */
bool process_lock(const struct process *p, bool shared);
/* The process that holds it; 0: none, or unknown. */
pid_t process_lock_holder(const struct process *p);
void process_unlock(const struct process *p);

/* Reads a small file of /proc/PID ("status", "task/12/comm") into a 0-terminated buffer; length or
 * negative errno. Longer files are cut. */
ssize_t process_read_file(const struct process *p, const char *name, char *out, size_t size);
/* A whole file, for the caller to free. */
int process_read_whole(const struct process *p, const char *name, size_t max, char **ret_text,
		       size_t *ret_len);
/* The path of the program that a process executes, as /proc has it, for free(); NULL: none. */
char *process_exe(pid_t pid);
/* The status file of a thread, or with tid 0 of the process; false if it is gone. */
#define PROCESS_STATUS_BYTES 8192
bool process_read_status(const struct process *p, pid_t tid, char ret_text[PROCESS_STATUS_BYTES]);
/* How a descriptor was opened (O_NONBLOCK, ...); 0 or negative errno: it is gone. */
int process_descriptor(const struct process *p, uint32_t fd, unsigned *ret_flags);
/* A thread's state as /proc has it: R, S, D, T, t, Z; X: it is gone. */
char process_thread_state(const struct process *p, pid_t tid);
/* Whether it is a thread that only the kernel executes: one that does what io_uring or vhost were asked for.
 * It is in the list of the process' threads, but never runs its code. */
bool process_is_worker(const struct process *p, pid_t tid);
/* A thread's name as of now, "" if it is gone; the main thread's is the process'. */
void process_thread_name(pid_t pid, pid_t tid, char ret_name[static 16]);
/* The number after "KEY:" of a status file, last column (the innermost pid namespace for NSpid), -1
 * if it isn't there. */
long process_status_number(const char *status, const char *key, bool last);
/* The tid by which a thread knows itself; 0 if it is gone. */
pid_t process_own_tid(const struct process *p, pid_t tid);

/* Tests set this to be called before each operation on a target, by name ("mem write", "seize"): to
 * count them, or to die right there. */
extern void (*process_step_hook)(const char *what);
void process_step(const char *what);
