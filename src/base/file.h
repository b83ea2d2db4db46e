/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Files whose paths others may have chosen, or in folders that others can write to: a traced
 * program names its debug files, a core its program, and every user can make files in /tmp. pollux
 * opens all files that it reads by such a path, and all that it writes, by these functions.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- inputs ---- */

/* What may be opened besides a regular file with content. */
enum file_kinds {
	FILE_EMPTY = 1,	 /* a regular file of size 0, as files of /proc are, too */
	FILE_PIPE = 2,	 /* a named pipe of the user of pollux */
	FILE_FOLDER = 4, /* a directory */
};

/*
 * Opens a file for reading: a descriptor, or negative errno with a sentence (-EINVAL: it is of
 * another kind). It never opens a device, since opening may have an effect (a watchdog, a tape),
 * and waits for no pipe unless `also` allows pipes. If it does, the names of this process's
 * descriptors (/dev/stdin, /dev/fd/N) give a copy of the descriptor, whatever it is; a regular
 * file is opened again.
 */
int file_open(const char *path, unsigned also, struct error *err);
/* The same for a name in the folder `dir`; `flags` is 0 or O_NOFOLLOW. */
int file_open_at(int dir, const char *name, int flags, unsigned also, struct error *err);
/* The same for the file of an O_PATH descriptor, which stays the caller's. */
int file_reopen(int at, const char *name, unsigned also, struct error *err);

/* ---- outputs ---- */

/* Which files an output may replace: empty ones, and those that have these bytes. */
struct file_replaces {
	const char *description; /* "a pollux trace" */
	const char *begin;	 /* NULL: no file */
	size_t len, at;		 /* len: of the bytes, 0: strlen(begin); at: offset in the file */
};

struct file_output {
	int fd;	      /* to be written to */
	bool regular; /* a regular file, which can be truncated */
	bool placed;  /* the file has its name */
	/* private: */
	int folder;
	const struct file_replaces *replaces; /* NULL: every file */
	char *path, *name; /* name: in the folder; NULL: the output gets no name */
	char temp[32];	   /* its name until then, "" if it has none */
	bool in_place;	   /* an existing file is written */
};
#define FILE_OUTPUT_INIT                                                                           \
	{                                                                                          \
		.fd = -1, .folder = -1                                                             \
	}

/*
 * Opens an output. "-", /dev/stdout and /dev/fd/N give copies of pollux's descriptors; a named
 * pipe of the user and /dev/null are opened. Any other path gives a new file (mode 0600) in the
 * path's folder, which gets the name at file_output_place(). A file of that name remains until
 * then, and is replaced only if it is a regular file of the user and one of `replaces` (which
 * stays the caller's; NULL: any). Symbolic links are refused.
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
