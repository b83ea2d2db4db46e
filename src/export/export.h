/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The formats of other tools, one file each with a struct export_ops. Each exporter streams the
 * trace through the timeline, in memory that does not grow with the trace's length. It keeps to
 * what its viewer can show; the output and the summary say what was cut.
 */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "timeline/replay.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What a stack's value is. */
enum export_weight {
	WEIGHT_IDLE = 0, /* waiting and scheduled */
	WEIGHT_WAITING,
	WEIGHT_SCHEDULED,
	WEIGHT_POLLING,
	WEIGHT_BLOCKED,
	WEIGHT_CPU,
};

enum export_lanes { LANES_AUTO = 0, LANES_TASK, LANES_PACKED };

/* A finding of the report, for a timeline. The caller's, until the export is done. */
struct export_finding {
	const char *title, *text; /* "long polls"; the sentence */
	const char *advice;	  /* NULL: there is none */
	uint64_t from_ns, to_ns;  /* CLOCK_MONOTONIC; 0: all of the window. Equal: a moment */
};

/* A folder with a file per table. open() opens one for writing, which the caller closes; NULL
 * with a sentence. */
struct export_folder {
	FILE *(*open)(void *ctx, const char *table, struct error *err);
	void *ctx;
};

struct export_options {
	struct replay_filter filter;
	enum export_lanes lanes;
	uint64_t max_slices; /* 0: the format's default */
	uint64_t max_lanes;  /* 0: the format's default */
	const struct export_finding *findings;
	size_t n_findings;
	unsigned weight;   /* enum export_weight, of formats with stacks of one value */
	const char *table; /* of formats with tables: only this one; NULL: the format's default */
	const struct export_folder *folder; /* the same: a file per table; NULL: one file */
	bool force;			    /* also more than viewers are known to handle */
	void (*progress)(void *ctx, uint64_t done, uint64_t total); /* may be NULL */
	void *progress_ctx;
};

/* The size of the output, for the line that the command prints at its end. */
struct export_summary {
	uint64_t slices, flows, lanes, bytes;
	uint64_t rows;	      /* of formats without lanes */
	const char *row_name; /* "stacks"; NULL: it has lanes */
	uint64_t cut_slices, cut_tasks;
	char notice[256]; /* "" or what was cut and how to get it */
};

struct export_ops {
	const char *name;      /* "chrome" */
	const char *extension; /* ".json" */
	const char *viewers;   /* for people: "Chrome's trace viewer" */
	const char *reads;     /* words for --for, separated by spaces: "catapult" */
	/* Bytes that each of its files has at `begin_at`: such a file may be replaced by another.
	 * NULL: none may. */
	const char *begin;
	size_t begin_len; /* 0: the text's */
	size_t begin_at;
	bool findings; /* draws them */
	bool tables;   /* several, which may be chosen, or go into files of their own */
	bool lanes;    /* a timeline, with limits of lanes and slices (export_options) */
	bool weights;  /* stacks of one value, which may be chosen */
	/* Writes the export to `out` (NULL with a folder). A format that takes two passes needs a
	 * seekable trace. -EPIPE when the reader of `out` has gone, which is no error for the user.
	 * -EFBIG, and nothing is written, when it would be more than viewers are known to handle and
	 * !force. */
	int (*write)(struct trace_reader *r, const struct export_options *opt, FILE *out,
		     struct export_summary *ret_summary, struct error *err);
};

extern const struct export_ops *const export_formats[]; /* NULL-terminated */
const struct export_ops *export_find(const char *name);
/* The one whose files are called like this one, by their ending; NULL: none. */
const struct export_ops *export_find_by_ending(const char *path);
/* Whether formats with tables have one of this name; all their names, separated by commas. */
bool export_has_table(const char *name);
void export_table_names(struct buf *out);
/* The format that a viewer reads best, by its word in `reads`. */
const struct export_ops *export_find_for(const char *viewer);
