/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The answers. Each is made in a process of its own (server.c), which may take its time and memory
 * and is gone after it: so nothing here frees for the sake of the next request, and a trace that
 * makes it fail costs one answer.
 */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "index/index.h"
#include "trace/trace.h"
#include "view/request.h"

#include <stdio.h>

struct export_ops;

/* What all answers are made from; the same for the whole life of the server. */
struct view_source {
	const char *path; /* of the trace, for people */
	int trace;	  /* descriptor; read only by what opens it again (view_reader()) */
	bool followed;	  /* it was still written when it was opened: it may change */
	bool live;	  /* it is still written */
	struct index *index;
	struct trace_reader *tables; /* that has read all but the events */
	const struct export_ops
		*viewer; /* the format of the foreign viewer that was opened; NULL */
};

struct view_answer {
	const char *path;   /* "api/trace" */
	unsigned limit_s;   /* of CPU time */
	unsigned limit_mib; /* of memory, more than the server has */
	/* Writes the body. 0; -EINVAL with a sentence: the query is wrong; -ENOENT: there is no such thing; -E2BIG:
	 * it would cost too much; other negative errno: it failed. */
	int (*make)(const struct view_source *v, const struct view_request *q, struct buf *out,
		    struct error *err);
	/* In place of that: view_begin(), then the body, piece by piece. */
	int (*stream)(const struct view_source *v, const struct view_request *q, int fd,
		      struct error *err);
};

/* NULL: there is none of that path. */
const struct view_answer *view_find_answer(const char *path);

/* Begins what a stream writes: "STATUS TYPE NAME\n", the name of a file that the browser saves, or NULL. */
void view_begin(int fd, int status, const char *type, const char *name);

int answer_trace(const struct view_source *v, const struct view_request *q, struct buf *out,
		 struct error *err);
int answer_cells(const struct view_source *v, const struct view_request *q, struct buf *out,
		 struct error *err);
int answer_slices(const struct view_source *v, const struct view_request *q, struct buf *out,
		  struct error *err);
int answer_tasks(const struct view_source *v, const struct view_request *q, struct buf *out,
		 struct error *err);
int answer_report(const struct view_source *v, const struct view_request *q, struct buf *out,
		  struct error *err);
int answer_flame(const struct view_source *v, const struct view_request *q, struct buf *out,
		 struct error *err);
int answer_heat(const struct view_source *v, const struct view_request *q, struct buf *out,
		struct error *err);
int answer_task(const struct view_source *v, const struct view_request *q, struct buf *out,
		struct error *err);
int answer_poll(const struct view_source *v, const struct view_request *q, struct buf *out,
		struct error *err);
int answer_search(const struct view_source *v, const struct view_request *q, struct buf *out,
		  struct error *err);
int answer_download(const struct view_source *v, const struct view_request *q, int fd,
		    struct error *err);
int answer_file(const struct view_source *v, const struct view_request *q, int fd,
		struct error *err);
