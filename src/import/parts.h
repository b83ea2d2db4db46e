/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Files of one folder that were written at the same time, each nearly in order of time, read as
 * one: the one with the earliest time comes next. Private to this module.
 */
#pragma once

#include "import/input.h"

#define PARTS_MAX 4096u

struct folder_part {
	struct input in;
	uint64_t reached_ns; /* set by the reader: the latest time in it so far */
	bool done;	     /* set by the reader: there is no more of it */
	char name[32];
	void *user; /* the reader's own */
};

struct file_parts {
	struct folder_part **v;
	size_t n;
	struct folder_part *current; /* goes on until it has reached this time */
	uint64_t until_ns;
};

/* Opens all files that have a number between the two ("perf-cpu" 0 ".dat"), at most PARTS_MAX;
 * there may be gaps, and none at all. */
int parts_open(struct input *folder, const char *begin, const char *end, struct file_parts *ret,
	       struct error *err);
void parts_close(struct file_parts *m);
/* The file to read from; NULL: all are done. */
struct folder_part *parts_next(struct file_parts *m);
