/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the tests of importers share: whole files are imported, their events counted and listed, and
 * compared with golden lists. POLLUX_BLESS=1 takes what comes out as the new ones, after showing
 * the difference.
 */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "import/import.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Set from the arguments: tests/import/files, tests/golden/import. */
static const char *files_dir, *golden_dir;

static inline void make_file(char *path, const void *data, size_t len)
{
	strcpy(path, "/tmp/pollux-import-XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

struct result {
	int code;
	struct error err;
	struct import_summary summary;
	struct buf events;
	uint64_t n[TE_N_TYPES];
};

static inline void result_done(struct result *r)
{
	import_summary_done(&r->summary);
	buf_done(&r->events);
}

static inline void list_event(struct trace_reader *r, const struct trace_event *ev, uint64_t base,
			      struct buf *out)
{
	const struct trace_thread *t = trace_reader_thread(r, ev->thread);
	const struct trace_kind *k = trace_reader_kind(r, ev->kind);
	bool has_stack = ev->type == TE_SAMPLE;

	buf_printf(out, "%9" PRIu64 " %s/%u %s %u", (ev->time - base) / 1000,
		   t && t->name ? t->name : "", t ? t->tid : 0, trace_event_type_name(ev->type),
		   ev->arg);
	if (k)
		buf_printf(out, " %s", k->name);
	/* Which stack it is depends on the libraries of the machine. */
	buf_printf(out, " %" PRIu64 " %" PRIu64 "\n", ev->task,
		   has_stack ? (uint64_t) !!ev->value : ev->value);
}

/* Imports the files and lists the events. */
static inline void import_files(const char *const *paths, size_t n, const char *from,
				struct result *ret)
{
	char path[64] = "/tmp/pollux-import-XXXXXX";
	const struct import_options opt = {.format = from};
	struct trace_writer *w;
	struct trace_reader *r;
	struct trace_event ev;
	const char *story;
	uint64_t base = 0;
	int fd = mkstemp(path), code;

	*ret = (struct result){0};
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(trace_writer_open(path, &w, &ret->err), 0);
	ret->code = import_run(paths, n, &opt, w, &ret->summary, &ret->err);
	struct error later = {0};
	assert_int_equal(trace_writer_close(w, &later), 0);
	if (ret->code < 0) {
		assert_true(ret->err.text[0]);
	} else {
		assert_int_equal(trace_reader_open(path, &r, &later), 0);
		while ((code = trace_reader_next(r, &ev, &later)) > 0) {
			if (!base)
				base = ev.time;
			assert_true(ev.type < TE_N_TYPES);
			ret->n[ev.type]++;
			list_event(r, &ev, base, &ret->events);
		}
		assert_int_equal(code, 0);
		assert_false(trace_reader_truncated(r, &story));
		trace_reader_free(r);
	}
	unlink(path);
}

static inline void import_one(const char *name, struct result *ret)
{
	char path[512];
	const char *paths[] = {path};

	snprintf(path, sizeof(path), "%s/%s", files_dir, name);
	import_files(paths, 1, NULL, ret);
	if (ret->code < 0)
		fail_msg("%s: %s", name, ret->err.text);
}

static inline char *read_all(const char *path)
{
	struct buf b = BUF_INIT;
	char part[4096];
	ssize_t n;
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		return NULL;
	while ((n = read(fd, part, sizeof(part))) > 0)
		buf_add(&b, part, (size_t)n);
	close(fd);
	return buf_steal(&b);
}

static inline void compare_golden(const char *name, const char *text)
{
	char path[512], fresh[64], command[700];

	snprintf(path, sizeof(path), "%s/%s.events", golden_dir, name);
	_cleanup_free_ char *expected = read_all(path);
	if (expected && !strcmp(expected, text))
		return;
	make_file(fresh, text, strlen(text));
	snprintf(command, sizeof(command), "diff -u '%s' '%s' >&2", path, fresh);
	bool differs = system(command) != 0;
	unlink(fresh);
	if (!getenv("POLLUX_BLESS")) {
		assert_true(differs);
		fail_msg("%s differs; POLLUX_BLESS=1 takes the new text", path);
	}
	_cleanup_fclose_ FILE *out = fopen(path, "we");
	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, strlen(text), out), strlen(text));
}

static inline void import_text(const char *text, size_t len, const char *from, struct result *ret)
{
	char path[64];
	const char *paths[] = {path};

	make_file(path, text, len);
	import_files(paths, 1, from, ret);
	unlink(path);
}
