/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Files whose paths, or whose places, others have a hand in: a traced program names its debug
 * files, a core its program, and a folder such as /tmp takes files of every user. All that pollux
 * reads by such a path and all that it writes is opened here.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- inputs ---- */

/* What may be opened besides a regular file with content. */
enum file_kinds {
	FILE_EMPTY = 1,	 /* a regular file of size 0; the kernel's own files are such, too */
	FILE_PIPE = 2,	 /* a named pipe of our user */
	FILE_FOLDER = 4, /* a directory */
};

/*
 * Opens a file for reading: a descriptor, or negative errno with a sentence (-EINVAL: it is of
 * another kind). A device is never opened, since that alone may act (a watchdog, a tape), and no
 * pipe is waited for unless `also` allows it. If it does, names of this process's descriptors
 * (/dev/stdin, /dev/fd/N) give a copy of these, whatever they are; a regular file is opened again.
 */
int file_open(const char *path, unsigned also, struct error *err);
/* The same for a name in the folder `dir`; `flags` is 0 or O_NOFOLLOW. */
int file_open_at(int dir, const char *name, int flags, unsigned also, struct error *err);
/* The same for the file of an O_PATH descriptor, which stays the caller's. */
int file_reopen(int at, const char *name, unsigned also, struct error *err);

/* ---- outputs ---- */

/* Which files an output may replace: those that have these bytes, and empty ones. */
struct file_replaces {
	const char *description; /* "a pollux trace" */
	const char *begin;	 /* NULL: no file */
	size_t len, at;		 /* len: 0, the text's; at: where in the file they are */
};

struct file_output {
	int fd;	      /* to be written to */
	bool regular; /* a file of its own, which can be cut */
	bool placed;  /* it has its name */
	/* private: */
	int folder;
	const struct file_replaces *replaces; /* NULL: every file */
	char *path, *name; /* name: in the folder; NULL: nothing is to be named */
	char temp[32];	   /* what it is called as yet, "" if it has no name */
	bool in_place;	   /* a file that was there is written */
};
#define FILE_OUTPUT_INIT                                                                           \
	{                                                                                          \
		.fd = -1, .folder = -1                                                             \
	}

/*
 * Opens an output. "-", /dev/stdout and /dev/fd/N are copies of our descriptors; a named pipe of
 * our user and /dev/null are opened. All else becomes a new file (mode 0600) in the path's folder,
 * without a name until file_output_place(): what is there under this name stays until then, and is
 * replaced only if it is a regular file of our user and one of `replaces` (which stays the
 * caller's; NULL: any). Symbolic links are refused.
 */
int file_output_open(struct file_output *o, const char *path, const struct file_replaces *replaces,
		     struct error *err);
/* The same by a name in a folder (an O_PATH descriptor will do, which stays the caller's), over any
 * file; `path` is for messages. */
int file_output_open_at(struct file_output *o, int folder, const char *name, const char *path,
			struct error *err);
/* Gives the file its name. 0 if it has it, or needs none. */
int file_output_place(struct file_output *o, struct error *err);
/* Closes; a file that was not placed leaves nothing. */
void file_output_done(struct file_output *o);

/* -EINVAL with a sentence: writing to `path` ("-": standard output) would replace one of these
 * inputs, or a file of an input that is a folder. */
int file_output_spares(const char *path, const char *const *inputs, size_t n, struct error *err);

/* A private file without a name in this folder, for reading and writing. Negative errno. */
int file_temporary(const char *folder);
