/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Indexes of a trace that grows: see growing.h. */
#include "view/growing.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "trace/trace.h"
#include "view/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the server gets, with the descriptor of the index if it is one. */
struct made {
	int code; /* 0 or negative errno */
	struct index_trace id;
	uint64_t cpu_ns;
	char text[sizeof(((struct error *)NULL)->text)];
};

/* ---- the process ---- */

struct growing_reading {
	int trace, socket;
	struct view_making *making;
	bool asked;
	bool copy; /* it is a copy that ends here */
	uint64_t cpu_ns,
		reported_cpu_ns; /* of the process, without its copies; and when it copied itself last */
	const struct view_progress *progress;
};

static void report_progress(void *ctx, uint64_t done, uint64_t total)
{
	const struct growing_reading *r = ctx;

	if (r->progress && r->progress->emit)
		r->progress->emit(r->progress->ctx, done, total);
}

static void send_made(int socket, const struct made *made, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(fd))];
	} control = {0};
	struct iovec part = {.iov_base = (void *)(uintptr_t)made, .iov_len = sizeof(*made)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		struct cmsghdr *c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	if (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
		_exit(1);
}

static void send_failure(int socket, int code, const char *text)
{
	struct made made = {.code = code};

	snprintf(made.text, sizeof(made.text), "%s", text);
	send_made(socket, &made, -1);
}

/* Until the server asks; without a server there is nothing to do. */
static void wait_for_ask(struct growing_reading *r)
{
	char ask;

	while (!r->asked) {
		ssize_t n = recv(r->socket, &ask, 1, 0);

		if (n == 0 || (n < 0 && errno != EINTR))
			_exit(0);
		r->asked = n > 0;
	}
}

/* In a copy: what it may read again must not move the process's own place in the file. */
static bool read_apart(const struct growing_reading *r)
{
	int shared = trace_reader_fd(r->making->reader);
	int own = view_open_fd(shared, NULL);
	off_t here = lseek(shared, 0, SEEK_CUR);
	bool apart = own >= 0 && here >= 0 && lseek(own, here, SEEK_SET) == here &&
		     dup2(own, shared) == shared;

	if (own >= 0)
		close(own);
	return apart;
}

/* At the file's end. Not asked: waits, and reads what there is by then. Asked: a copy goes on as if the trace
 * ended here, and it waits for the next time. */
static bool more(void *ctx)
{
	struct growing_reading *r = ctx;
	int status = -1;

	if (r->copy)
		return false;
	if (r->asked) {
		r->cpu_ns = clock_cpu_ns();
		pid_t pid = fork();

		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (!read_apart(r))
				_exit(1);
			r->copy = true;
			return false;
		}
		while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
			send_failure(r->socket, -EIO, "the index could not be built");
		r->asked = false;
		r->reported_cpu_ns = r->cpu_ns;
		/* Nothing waits for what is read from now on. */
		r->progress = NULL;
	}
	wait_for_ask(r);
	return true;
}

static void run(struct growing_reading *r) __attribute__((noreturn));
static void run(struct growing_reading *r)
{
	const struct view_progress progress = {report_progress, r};
	int kept[] = {r->trace, r->socket};
	struct view_making making = {.more = more, .more_ctx = r};
	struct error failure = {0};
	struct made made = {0};
	int out = -1;

	r->making = &making;
	worker_keep_only(kept, sizeof(kept) / sizeof(*kept));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	wait_for_ask(r);
	int code = view_make_begin(&making, r->trace, &progress, &failure);
	/* That of a trace that has ended is made by the process itself. */
	if (code == 0) {
		wait_for_ask(r);
		out = view_temporary();
		code = out < 0 ? error_sys(&failure, out, "there is no room for the index")
			       : index_trace_read(r->trace, &made.id);
	}
	if (code == 0)
		code = view_make_end(&making, out, &made.id, &failure);
	int again = code == 0 ? view_open_fd(out, &failure) : code;
	made.cpu_ns = clock_cpu_ns() - r->reported_cpu_ns + (r->copy ? r->cpu_ns : 0);
	if (again < 0)
		send_failure(r->socket, again,
			     *failure.text ? failure.text : "the index could not be built");
	else
		send_made(r->socket, &made, again);
	_exit(0);
}

/* ---- the server ---- */

static int start(struct view_growing *g, int trace, const struct view_progress *progress,
		 struct error *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_sys(err, -errno, "cannot start a process for the index");
	g->pid = fork();
	if (g->pid == 0)
		run(&(struct growing_reading){
			.trace = trace, .socket = ends[1], .progress = progress});
	int code = -errno;
	close(ends[1]);
	g->socket = ends[0];
	if (g->pid > 0)
		return 0;
	g->pid = 0;
	close(ends[0]);
	return error_sys(err, code, "cannot start a process for the index");
}

int view_growing_ask(struct view_growing *g, int trace, const struct view_progress *progress,
		     struct error *err)
{
	/* One that has ended, of a trace that was damaged, say, is started again. */
	if (g->pid && send(g->socket, "", 1, MSG_NOSIGNAL) == 1)
		return 0;
	view_growing_stop(g);
	TRY(start(g, trace, progress, err));
	if (send(g->socket, "", 1, MSG_NOSIGNAL) == 1)
		return 0;
	int code = -errno;
	view_growing_stop(g);
	return error_sys(err, code, "cannot start a process for the index");
}

/* The descriptor of an index, or negative errno. */
static int receive(struct view_growing *g, struct made *ret, struct error *err)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec part = {.iov_base = ret, .iov_len = sizeof(*ret)};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	ssize_t n;
	int fd = -1;

	while ((n = recvmsg(g->socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (n != sizeof(*ret))
		return error_set(err, -EIO, "the index could not be built");
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (fd >= 0)
		return fd;
	ret->text[sizeof(ret->text) - 1] = 0;
	return error_set(err, ret->code < 0 ? ret->code : -EIO, "%s", ret->text);
}

int view_growing_take(struct view_growing *g, struct index **ret_index, struct error *err)
{
	struct made made;
	int fd = receive(g, &made, err);

	g->cpu_ns = fd >= 0 ? made.cpu_ns : 0;
	if (fd >= 0)
		return index_open(fd, &made.id, ret_index, err);
	view_growing_stop(g);
	return fd;
}

void view_growing_stop(struct view_growing *g)
{
	if (!g->pid)
		return;
	kill(g->pid, SIGKILL);
	while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(g->socket);
	g->pid = 0;
}
