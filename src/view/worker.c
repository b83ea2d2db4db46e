/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The process that makes one answer: a fork of the server, which has no other threads. It keeps the
 * trace and its pipe and closes all else, among it the browser's connections. The kernel ends it
 * where it takes more time or memory than its answer may, and when the server is gone.
 */
#include "view/worker.h"

#include "base/file.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* From first to last. Linux before 5.9 has no call for that. */
static void close_all(unsigned first, unsigned last)
{
	if (close_range(first, last, 0) == 0)
		return;
	if (last == ~0u) {
		closefrom((int)first);
		return;
	}
	for (unsigned fd = first; fd <= last; fd++)
		close((int)fd);
}

void worker_keep_only(int *fds, size_t n)
{
	/* In order, so that gaps between them are closed. */
	unsigned next = STDERR_FILENO + 1;

	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n; k++)
			if (fds[k] < fds[i]) {
				int first = fds[k];
				fds[k] = fds[i];
				fds[i] = first;
			}
	for (size_t i = 0; i < n; i++) {
		if (fds[i] < (int)next)
			continue;
		if ((unsigned)fds[i] > next)
			close_all(next, (unsigned)fds[i] - 1);
		next = (unsigned)fds[i] + 1;
	}
	close_all(next, ~0u);
}

/* Bytes of address space that it has now: a sanitizer's are many. */
static rlim_t has_bytes(void)
{
	char text[64] = "";
	int fd = file_open("/proc/self/statm", FILE_EMPTY, NULL);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	return n <= 0 ? RLIM_INFINITY : strtoull(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void set_limits(const struct view_answer *answer)
{
	struct rlimit cpu = {answer->limit_s, answer->limit_s + 1}, core = {0, 0};
	rlim_t has = has_bytes(), more = (rlim_t)answer->limit_mib << 20;
	struct rlimit memory = {has + more, has + more};

	setrlimit(RLIMIT_CPU, &cpu);
	setrlimit(RLIMIT_CORE, &core);
	if (has != RLIM_INFINITY)
		setrlimit(RLIMIT_AS, &memory);
}

static int status_of(int code)
{
	switch (code) {
	case 0:
		return 200;
	case -EINVAL:
		return 400;
	case -ENOENT:
		return 404;
	case -E2BIG:
		return 413;
	default:
		return 500;
	}
}

static bool begun; /* in the process of an answer */

void view_begin(int fd, int status, const char *type, const char *name)
{
	struct buf head = BUF_INIT;

	buf_printf(&head, "%d %s%s%s\n", status, type, name ? " " : "", name ? name : "");
	if (buf_failed(&head) || io_write(fd, head.data, head.len) < 0)
		_exit(1);
	buf_done(&head);
	begun = true;
}

static bool write_failure(int fd, int code, const struct error *err)
{
	struct buf body = BUF_INIT;
	struct json j;

	json_init(&j, &body, false);
	json_object(&j, NULL);
	json_string(&j, "error", *err->text ? err->text : strerror(-code));
	json_end_object(&j);
	view_begin(fd, status_of(code), "application/json", NULL);
	return !buf_failed(&body) && io_write(fd, body.data, body.len) == 0;
}

static bool write_answer(int fd, const struct view_source *source, const struct view_answer *answer,
			 const struct view_request *request)
{
	struct buf body = BUF_INIT;
	struct error err = {0};
	int code = answer->make(source, request, &body, &err);

	if (code == 0 && buf_failed(&body))
		code = error_set(&err, -ENOMEM, "out of memory for the answer");
	if (code < 0)
		return write_failure(fd, code, &err);
	view_begin(fd, 200, "application/json", NULL);
	return io_write(fd, body.data, body.len) == 0;
}

static bool stream_answer(int fd, const struct view_source *source,
			  const struct view_answer *answer, const struct view_request *request)
{
	struct error err = {0};
	int code = answer->stream(source, request, fd, &err);

	/* What was begun can't be taken back: the connection ends. */
	return code == 0 || (!begun && write_failure(fd, code, &err));
}

static void run(int fd, const struct view_source *source, const struct view_answer *answer,
		const struct view_request *request) __attribute__((noreturn));
static void run(int fd, const struct view_source *source, const struct view_answer *answer,
		const struct view_request *request)
{
	int kept[] = {fd, source->trace, index_fd(source->index), trace_reader_fd(source->tables)};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Ctrl-C is the server's, which ends its children. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	worker_keep_only(kept, sizeof(kept) / sizeof(*kept));
	set_limits(answer);
	struct error changed = {0};
	if (!source->followed && !index_fits(source->index, source->trace)) {
		error_set(&changed, -ESTALE,
			  "the trace has changed since it was opened: end pollux view and start it "
			  "again");
		_exit(write_failure(fd, -ESTALE, &changed) ? 0 : 1);
	}
	bool whole = answer->stream ? stream_answer(fd, source, answer, request)
				    : write_answer(fd, source, answer, request);
	_exit(whole ? 0 : 1);
}

int worker_start(struct worker *w, const struct view_source *source,
		 const struct view_answer *answer, const struct view_request *request)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid == 0)
		run(fds[1], source, answer, request);
	int code = -errno;
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return code;
	}
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	w->pid = pid;
	w->fd = fds[0];
	return 0;
}

bool worker_succeeded(struct worker *w)
{
	int status = -1;

	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	close(w->fd);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void worker_end(struct worker *w)
{
	if (!w->pid)
		return;
	kill(w->pid, SIGKILL);
	worker_succeeded(w);
}
