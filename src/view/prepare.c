/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds or builds the index of a trace: see prepare.h. */
#include "view/prepare.h"

#include "base/buf.h"
#include "base/cache.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/file_id.h"
#include "report/report.h"
#include "trace/trace.h"
#include "view/growing.h"
#include "view/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_CACHED (32 << 20)

static const struct cache_kind cache_kind = {
	.ending = "index", .magic = {'P', 'L', 'X', 'I', 'N', 'D', 'E', 'X'}, .version = 1};

/* ---- building, in a process of its own ---- */

/* Its memory is gone with it. */
struct build {
	pid_t pid;
	int said; /* at its end when the process is */
	int out;
	struct index_trace id;
};

int view_open_fd(int fd, struct error *err)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return file_open(name, FILE_EMPTY, err);
}

/* The time of the first event; 0: there is none. */
static int first_time(struct trace_reader *r, uint64_t *ret_ns, struct error *err)
{
	const struct trace_process *p;
	struct trace_event ev;
	int code = trace_reader_next(r, &ev, err);

	*ret_ns = code > 0 ? ev.time : 0;
	if (code == 0 && (p = trace_reader_process(r, 0)))
		*ret_ns = p->start_ns;
	return code < 0 ? code : trace_reader_rewind(r, err);
}

int view_make_begin(struct view_making *m, int trace, const struct view_progress *progress,
		    struct error *err)
{
	struct fan_out_sink also = {.sink = &index_sink};
	struct report_options opt = {
		.filter = {.lenient = true},
		.also = &also,
		.n_also = 1,
		.progress = progress->emit,
		.progress_ctx = progress->ctx,
	};
	uint64_t base_ns;

	int fd = view_open_fd(trace, err);
	if (fd < 0)
		return fd;
	TRY(trace_reader_open_fd(fd, &m->reader, err));
	if (m->more)
		trace_reader_on_end(m->reader, m->more, m->more_ctx);
	TRY(first_time(m->reader, &base_ns, err));
	m->builder = index_builder_new(m->reader, base_ns);
	if (!m->builder)
		return error_set(err, -ENOMEM, "out of memory for an index");
	also.ctx = m->builder;
	trace_reader_watch_chunks(m->reader, index_builder_chunk, m->builder);
	/* Without these threads it takes longer. A process that follows a growing trace forks: it has none. */
	if (!m->more) {
		trace_reader_read_ahead(m->reader);
		index_builder_start(m->builder);
	}
	return report_make(m->reader, &opt, &m->report, err);
}

int view_make_end(struct view_making *m, int out, const struct index_trace *id, struct error *err)
{
	struct timeline_totals totals;
	struct buf text = BUF_INIT;

	report_json(m->report, &text);
	if (buf_failed(&text))
		return error_set(err, -ENOMEM, "out of memory for an index");
	report_totals(m->report, &totals);
	report_free(m->report);
	int code = index_builder_write(m->builder, out, id, &totals, &text, err);
	index_builder_free(m->builder);
	return code;
}

/* What a process says when it fails. */
static void read_error(int fd, struct error *err)
{
	char text[sizeof(err->text)] = "";
	ssize_t n = read(fd, text, sizeof(text) - 1);

	error_set(err, -EIO, "%s", n > 0 ? text : "the index could not be built");
}

static void run_build(const struct build *b, int trace, int said,
		      const struct view_progress *progress) __attribute__((noreturn));
static void run_build(const struct build *b, int trace, int said,
		      const struct view_progress *progress)
{
	int kept[] = {trace, b->out, said};
	struct error failure = {0};

	/* Among the rest are the browser's connections, when a trace is followed. */
	worker_keep_only(kept, sizeof(kept) / sizeof(*kept));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct view_making making = {0};
	int code = view_make_begin(&making, trace, progress, &failure);
	if (code == 0)
		code = view_make_end(&making, b->out, &b->id, &failure);
	if (code < 0 && write(said, failure.text, strlen(failure.text)) < 0)
		_exit(2);
	_exit(code < 0 ? 1 : 0);
}

static int start_in(struct build *b, int trace, int out, const struct view_progress *progress,
		    struct error *err)
{
	int fds[2];

	b->out = out;
	int code = index_trace_read(trace, &b->id);
	if (code == 0 && pipe2(fds, O_CLOEXEC) < 0)
		code = -errno;
	if (code < 0)
		return error_sys(err, code, "cannot begin an index");
	b->pid = fork();
	if (b->pid == 0)
		run_build(b, trace, fds[1], progress);
	code = -errno;
	close(fds[1]);
	b->said = fds[0];
	if (b->pid > 0)
		return 0;
	b->pid = 0;
	close(fds[0]);
	return error_sys(err, code, "cannot start a process for the index");
}

/* Waits for its end. `out` stays open. */
static int end_in(struct build *b, struct error *err)
{
	int status = -1;

	while (waitpid(b->pid, &status, 0) < 0 && errno == EINTR)
		;
	b->pid = 0;
	int code = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
	if (code < 0)
		read_error(b->said, err);
	close(b->said);
	return code;
}

int view_temporary(void)
{
	const char *folder = getenv("TMPDIR");

	return file_temporary(folder && *folder ? folder : "/tmp");
}

/* ---- where it is kept ---- */

static char *index_path(const char *path)
{
	struct buf b = BUF_INIT;

	buf_str(&b, path);
	buf_str(&b, ".index");
	return buf_steal(&b);
}

/* One that others may have written is none. */
static int open_kept(const char *path, const struct index_trace *id, struct index **ret_index)
{
	struct file_id owner;
	struct stat st;
	int fd = file_open(path, 0, NULL);

	if (fd < 0)
		return fd;
	if (!file_id_read(fd, &owner) || !file_id_trusted(&owner) || fstat(fd, &st) < 0 ||
	    st.st_mode & (S_IWGRP | S_IWOTH)) {
		close(fd);
		return -EPERM;
	}
	return index_open(fd, id, ret_index, NULL);
}

static int open_cached(int trace, const struct index_trace *id, struct index **ret_index)
{
	_cleanup_free_ uint8_t *content = NULL;
	struct file_id of;
	size_t len;

	if (!file_id_read(trace, &of) || !cache_may_keep(&of))
		return -ENOENT;
	content = cache_load(&cache_kind, &of, &len);
	int fd = content ? memfd_create("pollux-index", MFD_CLOEXEC) : -1;
	if (fd < 0)
		return -ENOENT;
	if (write(fd, content, len) != (ssize_t)len) {
		close(fd);
		return -EIO;
	}
	return index_open(fd, id, ret_index, NULL);
}

static void save_cached(int trace, int index)
{
	struct file_id of;
	struct buf content = BUF_INIT;
	struct stat st;

	if (!file_id_read(trace, &of) || !cache_may_keep(&of) || fstat(index, &st) < 0 ||
	    st.st_size > MAX_CACHED || !buf_reserve(&content, (size_t)st.st_size))
		return;
	char *part = malloc(1 << 16);
	for (off_t at = 0; part && at < st.st_size;) {
		ssize_t n = pread(index, part, 1 << 16, at);
		if (n <= 0)
			break;
		buf_add(&content, part, (size_t)n);
		at += n;
	}
	free(part);
	if (!buf_failed(&content) && content.len == (size_t)st.st_size)
		cache_save(&cache_kind, &of, &content);
	buf_done(&content);
}

static int build_next_to(const char *path, int trace, const struct view_progress *progress,
			 struct index **ret_index, struct error *err)
{
	static const struct file_replaces replaces = {"an index of a trace", "\x89PLI\r\n\x1a\n"};
	struct file_output out = FILE_OUTPUT_INIT;
	struct build b = {0};
	bool placed = file_output_open(&out, path, &replaces, NULL) == 0;
	int fd = placed ? fcntl(out.fd, F_DUPFD_CLOEXEC, 3) : view_temporary();
	int code = fd < 0 ? error_sys(err, fd == -1 ? -errno : fd, "there is no room for the index")
			  : start_in(&b, trace, fd, progress, err);

	if (code == 0)
		code = end_in(&b, err);
	/* What was written may be no more than that. */
	int again = code == 0 ? view_open_fd(fd, err) : code;
	if (fd >= 0)
		close(fd);
	if (again >= 0 && placed)
		/* That it has no name is no reason not to use it. */
		placed = file_output_place(&out, NULL) == 0;
	if (again >= 0 && !placed)
		save_cached(trace, again);
	file_output_done(&out);
	return again < 0 ? again : index_open(again, &b.id, ret_index, err);
}

int view_prepare(const char *path, int trace, const struct view_progress *progress,
		 struct view_growing *growing, struct index **ret_index, bool *ret_built,
		 struct error *err)
{
	_cleanup_free_ char *beside = index_path(path);
	struct index_trace id;

	int code = index_trace_read(trace, &id);
	if (code == 0 && !beside)
		code = -ENOMEM;
	if (code < 0)
		return error_sys(err, code, "cannot examine the trace");
	*ret_built = false;
	if (open_kept(beside, &id, ret_index) == 0 || open_cached(trace, &id, ret_index) == 0)
		return 0;
	*ret_built = true;
	if (!growing)
		return build_next_to(beside, trace, progress, ret_index, err);
	TRY(view_growing_ask(growing, trace, progress, err));
	return view_growing_take(growing, ret_index, err);
}
