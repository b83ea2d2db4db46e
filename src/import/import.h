/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Old recordings of other tools into a trace, one file each behind struct import_ops. An importer
 * reads its input once, from front to back, in memory that does not grow with it; what it can't
 * understand it counts and steps over, and reports all of that at the end, once.
 *
 *     file ──▶ importer: lines or records ──▶ order ──▶ hits: what they mean ──▶ sink ──▶ trace
 *                  └──────────── what was not understood ──▶ diagnostics ──▶ one summary
 */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct import_options {
	const char *format; /* name of a format; NULL: by the first bytes of each file */
	/* May be NULL; total is 0 if it isn't known. */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
};

struct import_summary {
	const char *format;	/* of the last file */
	uint64_t bytes;		/* read */
	uint64_t n_items;	/* lines, or records of binary formats */
	uint64_t n_diagnostics; /* of those: not understood, or only in part */
	uint64_t n_events, n_threads, n_stacks, n_lost;
	struct buf diagnostics; /* the sentences, one a line; empty if all was understood */
};
void import_summary_done(struct import_summary *s);

/* What a file begins with, for those who have to recognise it. */
struct import_head {
	bool directory;	      /* then the bytes are those of its file "info", or else "data" */
	const uint8_t *bytes; /* followed by a 0 that isn't counted */
	size_t len;
};
#define IMPORT_HEAD_BYTES 65536u

enum { IMPORT_FILE = 1, IMPORT_FOLDER = 2 };

struct input;
struct sink;

struct import_ops {
	const char *name;	 /* "perf-script" */
	const char *description; /* for help: "the text of perf script" */
	const char *item;	 /* what n_items counts: "line", "record" */
	unsigned takes;		 /* IMPORT_FILE, IMPORT_FOLDER, or both */
	bool (*recognise)(const struct import_head *head);
	/* Reads all of it into the sink. Negative errno with a sentence: nothing of use can be
	 * made of it, or the trace can't be written. */
	int (*read)(struct input *in, struct sink *sink, struct error *err);
};

extern const struct import_ops *const import_formats[]; /* NULL-terminated */
const struct import_ops *import_find(const char *name);

/* Reads the files into one trace, one after the other; "-" is standard input. A file with nothing
 * in it that is understood at all is an error. */
int import_run(const char *const *paths, size_t n, const struct import_options *opt,
	       struct trace_writer *w, struct import_summary *ret_summary, struct error *err);
