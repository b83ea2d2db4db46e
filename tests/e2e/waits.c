/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that wait in the kernel for what never comes, for LD_PRELOAD into any program: one for each kind of call
 * that a stop may end. Into the descriptor $SAID goes a line for each call that returns, and one
 * ("uring ready") once the kernel has a worker for io_uring.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define HOUR 3600

static int said;

static void tell(const char *what, long result)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "%s: %ld, %s\n", what, result, strerror(errno));

	(void)!write(said, line, (size_t)n);
}

static void *in_epoll(void *none)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;

	for (;;)
		tell("epoll_wait", epoll_wait(fd, &event, 1, -1));
	return none;
}

static void *in_sigwait(void *none)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (;;)
		tell("sigwaitinfo", sigwaitinfo(&set, NULL));
	return none;
}

/* A socket on which nothing may wait for longer than an hour. */
static int limited_socket(void)
{
	const struct timeval hour = {.tv_sec = HOUR};
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
	    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &hour, sizeof(hour)) < 0 ||
	    setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &hour, sizeof(hour)) < 0)
		abort();
	return pair[0];
}

static void *in_recv(void *none)
{
	int fd = limited_socket();
	char byte;

	for (;;)
		tell("recv", recv(fd, &byte, 1, 0));
	return none;
}

static void *in_read(void *none)
{
	int fd = limited_socket();
	char byte;

	for (;;)
		tell("read", read(fd, &byte, 1));
	return none;
}

static void *in_recvmmsg(void *none)
{
	char byte;
	struct iovec part = {&byte, 1};
	struct mmsghdr one = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
	int fd = limited_socket();

	for (;;)
		tell("recvmmsg", recvmmsg(fd, &one, 1, 0, NULL));
	return none;
}

static int full_socket(void)
{
	static const char bytes[4096];
	int fd = limited_socket();

	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	return fd;
}

static void *in_sendfile(void *none)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fd = full_socket();

	for (;;)
		tell("sendfile", sendfile(fd, from, NULL, 4096));
	return none;
}

static void *in_splice(void *none)
{
	int fd = full_socket(), from[2];

	if (pipe(from) < 0 || write(from[1], "byte", 4) != 4)
		abort();
	for (;;)
		tell("splice", splice(from[0], NULL, fd, NULL, 4, 0));
	return none;
}

/* A splice() between two empty pipes: a worker of the kernel's waits in it. */
static void *in_uring(void *none)
{
	struct io_uring_params p = {0};
	int fd = (int)syscall(SYS_io_uring_setup, 4, &p), from[2], to[2];

	if (fd < 0 || pipe(from) < 0 || pipe(to) < 0) {
		tell("uring not to be had", fd);
		return none;
	}
	const int prot = PROT_READ | PROT_WRITE;
	char *sq = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof(unsigned), prot, MAP_SHARED,
			fd, IORING_OFF_SQ_RING);
	char *cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), prot,
			MAP_SHARED, fd, IORING_OFF_CQ_RING);
	struct io_uring_sqe *sqe =
		mmap(NULL, p.sq_entries * sizeof(*sqe), prot, MAP_SHARED, fd, IORING_OFF_SQES);

	*sqe = (struct io_uring_sqe){.opcode = IORING_OP_SPLICE,
				     .flags = IOSQE_ASYNC,
				     .fd = to[1],
				     .splice_fd_in = from[0],
				     .splice_off_in = UINT64_MAX,
				     .off = UINT64_MAX,
				     .len = 1};
	*(unsigned *)(sq + p.sq_off.array) = 0;
	__atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	tell("uring ready", syscall(SYS_io_uring_enter, fd, 1, 0, 0, NULL, 0));
	while (__atomic_load_n((unsigned *)(cq + p.cq_off.tail), __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	tell("splice", ((struct io_uring_cqe *)(cq + p.cq_off.cqes))->res);
	return none;
}

__attribute__((constructor)) static void begin(void)
{
	static const struct {
		const char *name;
		void *(*main)(void *none);
	} threads[] = {
		{"in_epoll", in_epoll},	      {"in_sigwait", in_sigwait},
		{"in_recv", in_recv},	      {"in_read", in_read},
		{"in_uring", in_uring},	      {"in_recvmmsg", in_recvmmsg},
		{"in_sendfile", in_sendfile}, {"in_splice", in_splice},
	};
	pthread_t thread;

	if (!getenv("SAID"))
		return;
	said = atoi(getenv("SAID"));
	for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
		if (pthread_create(&thread, NULL, threads[i].main, NULL))
			abort();
		pthread_setname_np(thread, threads[i].name);
	}
}
