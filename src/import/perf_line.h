/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One line of the text of perf script, taken apart. The text has many forms, since its columns are
 * the user's choice and the command may hold spaces and colons; what all have is a time followed by
 * a colon, and the columns are found from there. Private to this module.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_text {
	const char *p;
	size_t len;
};

/* "tokio worker 0  4920/4921 [001]   746.150187:  1001001 sdt_tokio:task_poll_begin: (55ea) a=7" */
struct perf_head {
	struct perf_text comm; /* trimmed; empty if the thread has none (":436557") */
	uint32_t pid, tid;     /* pid 0: unknown; tid UINT32_MAX: of one that is gone */
	uint64_t time;
	uint64_t period;	/* 0: unknown */
	struct perf_text event; /* "sdt_tokio:task_poll_begin", without the colon after it */
	struct perf_text rest;	/* trimmed on the left */
};

/* False: it is no such line. */
bool perf_head_parse(const char *line, size_t len, struct perf_head *ret);

/* "\t            b4a4 p::task_poll_begin+0x4 (/home/u/seedbfd)" */
struct perf_frame {
	uint64_t addr;
	struct perf_text function; /* empty: not known */
	struct perf_text object;   /* empty: not known */
	bool is_inlined;
};
bool perf_frame_parse(const char *line, size_t len, struct perf_frame *ret);

/* One after the other of "(55ea) arg1=7 name="x" NR": what isn't NAME=VALUE is stepped over. */
struct perf_field {
	struct perf_text name;
	uint64_t value;	       /* decimal, with sign, or hexadecimal after 0x */
	struct perf_text text; /* the value's text, of strings without their quotes */
	bool is_string, is_number;
};
/* False: no more. Steps *rest forward. */
bool perf_field_next(struct perf_text *rest, struct perf_field *ret);

/* A number at the beginning of a text, with sign, 0x allowed; *text moves past it. */
bool perf_number(struct perf_text *text, uint64_t *ret);
bool perf_text_is(const struct perf_text *t, const char *s);
bool perf_text_starts(const struct perf_text *t, const char *s);
