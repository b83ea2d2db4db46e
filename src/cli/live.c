/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A reader on a recording's pipe. The pipe is made as large as it may be, so that a reader that
 * stops for a moment, at a terminal say, does not stop the recorder. */
#include "cli/live.h"

#include "base/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#define PIPE_BYTES (1 << 20)

static void *run(void *arg)
{
	struct live *l = arg;
	l->code = trace_reader_open_fd(l->fd, &l->reader, &l->err);
	if (l->code == 0)
		l->code = l->read(l->ctx, l->reader, &l->err);
	/* The reader is gone: the writer has to know. */
	if (l->code < 0) {
		trace_reader_free(l->reader);
		l->reader = NULL;
	}
	return NULL;
}

int live_start(struct live *l, int *ret_fd, struct error *err)
{
	int fds[2];
	sigset_t before;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_sys(err, -errno, "cannot make a pipe");
	fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES); /* less will do */
	l->fd = fds[0];
	l->code = 0;
	l->err = (struct error){0};
	l->reader = NULL;
	file_map_block_signals(&before);
	int code = pthread_create(&l->thread, NULL, run, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code) {
		close(fds[0]);
		close(fds[1]);
		return error_sys(err, -code, "cannot start a thread");
	}
	*ret_fd = fds[1];
	return 0;
}

int live_join(struct live *l, struct error *err)
{
	pthread_join(l->thread, NULL);
	/* Cut before its first byte: the recording failed, and has said why. */
	if (l->code < 0 && l->code != -EBADMSG && err)
		*err = l->err;
	return l->code;
}

void live_done(struct live *l)
{
	trace_reader_free(l->reader);
	l->reader = NULL;
}
