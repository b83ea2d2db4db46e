/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * process: memory maps from hostile text, holes in an address space, remote calls of a real child
 * that is blocked in each kind of system call, stopping of threads, signals that must not get lost.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/units.h"
#include "process/agent_mapping.h"
#include "process/cgroups.h"
#include "process/filters.h"
#include "process/hooks.h"
#include "process/inject.h"
#include "process/launch.h"
#include "process/maps.h"
#include "process/memory.h"
#include "process/objects.h"
#include "process/open_call.h"
#include "process/programs.h"
#include "process/rights.h"
#include "process/seccomp.h"
#include "process/threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- control groups ---- */

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!text) {
		unlink(path);
		return;
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* The files of a group, and what is left of it. */
static void test_memory_of_groups(void **state)
{
	static const char *const names[] = {"memory.current",	     "memory.max",
					    "memory.high",	     "memory.stat",
					    "memory.usage_in_bytes", "memory.limit_in_bytes"};
	static const struct {
		const char *text[6];
		uint64_t left;
		const char *limit;
		bool none;
	} cases[] = {
		{{"700", "1000", "max", "active_file 100\nslab_reclaimable 50\n"},
		 450,
		 "memory.max"},
		{{"700", "1000", "900", "anon 700\n"}, 200, "memory.high"},
		{{"950", "1000", "900", "inactive_file 10\n"}, 0, "memory.high"},
		{{"700", "max", "max", "anon 700\n"}, UINT64_MAX, NULL},
		{{"700", "1000", "max"}, 300, "memory.max"},
		{{0, 0, 0, "total_inactive_file 100\nslab_reclaimable 9\n", "700", "1000"},
		 400,
		 "memory.limit_in_bytes"},
		{.left = UINT64_MAX, .none = true},
	};
	char folder[] = "/tmp/pollux-group-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(folder));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cgroup_memory m = {.left = UINT64_MAX};

		for (size_t k = 0; k < 6; k++)
			write_file(folder, names[k], cases[i].text[k]);
		assert_int_equal(cgroup_memory_in(folder, &m), !cases[i].none);
		assert_int_equal(m.left, cases[i].left);
		if (cases[i].limit)
			assert_string_equal(m.limit, cases[i].limit);
		else
			assert_null(m.limit);
	}
	for (size_t k = 0; k < 6; k++)
		write_file(folder, names[k], NULL);
	assert_int_equal(rmdir(folder), 0);
}

/* ---- maps ---- */

static struct process_maps parse(const char *text)
{
	struct process_maps m;

	assert_int_equal(maps_parse(strdup(text), &m), 0);
	return m;
}

static void test_maps_lines(void **state)
{
	struct process_maps m = parse(
		"00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/dbus daemon\n"
		"00e03000-00e24000 rw-p 00000000 00:00 0           [heap]\n"
		"7f0000000000-7f0000001000 r--s 00000000 fd:01 18446744073709551615 /x (deleted)\n"
		"7f0000002000-7f0000003000 ---p 00000000 00:00 0\n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n");

	assert_int_equal(m.n, 5);
	assert_int_equal(m.v[0].start, 0x400000);
	assert_int_equal(m.v[0].offset, 0x1000);
	assert_true(m.v[0].exec && m.v[0].read && !m.v[0].write && !m.v[0].shared);
	assert_int_equal(m.v[0].dev_major, 8);
	assert_int_equal(m.v[0].inode, 173521);
	assert_string_equal(m.v[0].path, "/usr/bin/dbus daemon");
	assert_string_equal(m.v[1].path, "[heap]");
	assert_string_equal(m.v[2].path, "/x");
	assert_true(m.v[2].deleted && m.v[2].shared);
	assert_true(m.v[2].inode == UINT64_MAX);
	assert_string_equal(m.v[3].path, "");
	assert_ptr_equal(maps_at(&m, 0x451fff), &m.v[0]);
	assert_null(maps_at(&m, 0x452000));
	assert_null(maps_at(&m, 0));
	maps_done(&m);
}

static void test_maps_hostile(void **state)
{
	static const char *const lines[] = {
		"",
		"\n\n\n",
		"-",
		"400000",
		"400000-",
		"400000-401000",
		"400000-401000 r",
		"400000-401000 r-xp",
		"400000-401000 r-xp 0 0:0",
		"401000-400000 r-xp 00000000 00:00 0 /backwards",
		"400000-400000 r-xp 00000000 00:00 0 /empty",
		"11111111111111111-2 r-xp 00000000 00:00 0 /long",
		"400000-401000 r-xp 00000000 00:00 99999999999999999999999999 /inode",
		"400000-401000 r-xp 00000000 111111111:00 0 /device",
		"zzz-401000 r-xp 00000000 00:00 0 /hex",
		"400000_401000 r-xp 00000000 00:00 0 /dash",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct process_maps m = parse(lines[i]);

		assert_int_equal(m.n, 0);
		maps_done(&m);
	}
	/* Overlapping lines: the second is left out, what follows is kept. */
	struct process_maps m = parse("400000-402000 r-xp 00000000 00:00 0 /a\n"
				      "401000-403000 r-xp 00000000 00:00 0 /b\n"
				      "403000-404000 r-xp 00000000 00:00 0 (deleted)\n"
				      "404000-405000 r-xp 00000000 00:00 0  (deleted)");
	assert_int_equal(m.n, 3);
	assert_string_equal(m.v[1].path, "(deleted)");
	assert_false(m.v[1].deleted);
	maps_done(&m);
}

static void test_holes(void **state)
{
	struct process_maps m = parse("555555554000-555555600000 r-xp 00000000 08:02 1 /app\n"
				      "555555600000-555555601000 rw-p 00000000 08:02 1 /app\n"
				      "555555700000-555555800000 rw-p 00000000 00:00 0 [heap]\n"
				      "7ffff0000000-7ffff7fff000 r-xp 00000000 08:02 2 /lib\n");
	uint64_t at = maps_find_hole(&m, 0x555555554000, 0x555555601000, 0x7f000000, 0x40000);

	assert_true(at && at + 0x40000 <= 0x555555554000);
	assert_true(0x555555601000 - at < 0x80000000);
	assert_int_equal(at % 4096, 0);
	/* Nowhere: the range asked for is larger than what is in reach. */
	assert_int_equal(maps_find_hole(&m, 0x555555554000, 0x555555601000, 0x100000, 0x40000000),
			 0);
	/* Below a low program there is no room, so above, with room for the heap. */
	maps_done(&m);
	m = parse("100000-500000 r-xp 00000000 08:02 1 /app\n"
		  "500000-600000 rw-p 00000000 08:02 1 /app\n");
	at = maps_find_hole(&m, 0x100000, 0x600000, 0x7f000000, 0x40000);
	assert_true(at >= 0x600000 + (256u << 20) && at + 0x40000 - 0x100000 < 0x80000000);
	maps_done(&m);
}

/* Filters without no_new_privs, other users, chosen numbers. */
static void need_root(void)
{
	if (geteuid() == 0)
		return;
	print_message("skipped: needs root\n");
	skip();
}

/* ---- the child ---- */

enum job {
	JOB_NANOSLEEP,
	JOB_CLOCK_ABS,
	JOB_FUTEX,
	JOB_FUTEX_TIMEOUT,
	JOB_READ,
	JOB_POLL,
	JOB_PPOLL,
	JOB_SELECT,
	JOB_WAIT,
	JOB_EPOLL,
	JOB_NO_STACK,
	JOB_BUSY,
	N_JOBS,
	/* those that only a signal ends */
	JOB_PAUSE = N_JOBS,
	JOB_SUSPEND,
	/* with a second thread, which waits */
	JOB_MASKED,
};

struct shared {
	volatile uint32_t ready, stop, futex;
	volatile int64_t result;    /* of the call, -errno */
	volatile uint64_t spent_ns; /* in it */
	volatile uint64_t wrong;    /* busy: registers or flags that changed under it */
	volatile uint64_t signals;
};

static struct shared *shared;

static const struct timespec half_second = {.tv_nsec = 500000000};

/* Sums in registers, with the red zone and the flags in use: anything that a stub leaves changed
 * shows. */
static void be_busy(void)
{
	/* Overflow, sign, zero, adjust, parity and carry flag: all, none, and each second. */
	static const uint64_t patterns[] = {0x8d5, 0, 0x891, 0x44};
	size_t n = 0;

	while (!shared->stop) {
		uint64_t flags = patterns[n++ % 4] | 0x202, flags_then, r15;

		/* `loop` changes no flag. */
		__asm__ volatile("lea -256(%%rsp), %%rsp\n\t"
				 "mov $15, %%r15\n\t"
				 "push %2\n\tpopfq\n\t"
				 "mov $1000000, %%ecx\n"
				 "1: loop 1b\n\t"
				 "pushfq\n\tpop %0\n\t"
				 "mov %%r15, %1\n\t"
				 "lea 256(%%rsp), %%rsp"
				 : "=&r"(flags_then), "=&r"(r15)
				 : "r"(flags)
				 : "rcx", "r15", "memory", "cc");
		if (flags_then != flags || r15 != 15)
			shared->wrong++;

		uint64_t rax = 1, rcx = 2, rdx = 3, rsi = 4, rdi = 5, r8 = 6, r9 = 7, r10 = 8,
			 r11 = 9;
		uint64_t red;

		/* 256 down: past what the compiler keeps in its own red zone. */
		__asm__ volatile("lea -256(%%rsp), %%rsp\n\t"
				 "movq $0x1234, -8(%%rsp)\n\t"
				 "movq $0x5678, -120(%%rsp)\n\t"
				 "std\n\t"
				 "mov $2000000, %%rbx\n"
				 "1: add $0, %%rax\n\t"
				 "dec %%rbx\n\t"
				 "jnz 1b\n\t"
				 "movq -120(%%rsp), %0\n\t"
				 "pushfq\n\tpopq %%rbx\n\t"
				 "cld\n\t"
				 "lea 256(%%rsp), %%rsp\n\t"
				 "shr $10, %%rbx\n\tand $1, %%rbx\n\tadd %%rbx, %0"
				 : "=&r"(red), "+a"(rax), "+c"(rcx), "+d"(rdx), "+S"(rsi), "+D"(rdi)
				 :
				 : "rbx", "memory", "cc");
		register uint64_t a __asm__("r8") = r8;
		register uint64_t b __asm__("r9") = r9;
		register uint64_t c __asm__("r10") = r10;
		register uint64_t d __asm__("r11") = r11;
		__asm__ volatile("mov $1000000, %%ebx\n1: dec %%ebx\n\tjnz 1b"
				 : "+r"(a), "+r"(b), "+r"(c), "+r"(d)
				 :
				 : "rbx", "cc");
		if (rax != 1 || rcx != 2 || rdx != 3 || rsi != 4 || rdi != 5 || a != 6 || b != 7 ||
		    c != 8 || d != 9 || red != 0x5679)
			shared->wrong++;
	}
}

/* Waits with 64 bytes of stack below which there is nothing. */
static long wait_without_stack(void)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long rc = SYS_futex;

	mprotect(pages, 4096, PROT_NONE);
	register long no_timeout __asm__("r10") = 0;
	__asm__ volatile("mov %%rsp, %%r12\n\t"
			 "mov %[stack], %%rsp\n\t"
			 "syscall\n\t"
			 "mov %%r12, %%rsp"
			 : "+a"(rc)
			 : [stack] "r"(pages + 4096 + 64), "D"(&shared->futex), "S"(FUTEX_WAIT),
			   "d"(0), "r"(no_timeout)
			 : "rcx", "r11", "r12", "memory");
	errno = (int)-rc;
	return rc < 0 ? -1 : rc;
}

static void *wait_on(void *unused)
{
	for (;;)
		poll(NULL, 0, -1); /* no better a call than ppoll() without a mask */
	return unused;
}

static int64_t do_job(enum job job, int pipe_fd)
{
	struct pollfd pfd = {.fd = pipe_fd, .events = POLLIN};
	struct epoll_event event = {.events = EPOLLIN};
	struct timespec end;
	fd_set set;
	char byte;
	long rc;

	switch (job) {
	case JOB_NANOSLEEP:
		rc = syscall(SYS_nanosleep, &half_second, NULL);
		break;
	case JOB_CLOCK_ABS:
		clock_gettime(CLOCK_MONOTONIC, &end);
		end.tv_nsec += 500000000;
		end.tv_sec += end.tv_nsec / 1000000000;
		end.tv_nsec %= 1000000000;
		rc = syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
		break;
	case JOB_FUTEX:
		rc = syscall(SYS_futex, &shared->futex, FUTEX_WAIT, 0, NULL, NULL, 0);
		break;
	case JOB_FUTEX_TIMEOUT:
		rc = syscall(SYS_futex, &shared->futex, FUTEX_WAIT, 0, &half_second, NULL, 0);
		break;
	case JOB_READ:
		rc = syscall(SYS_read, pipe_fd, &byte, 1);
		break;
	case JOB_POLL:
		rc = syscall(SYS_poll, &pfd, 1, 500);
		break;
	case JOB_PPOLL:
		end = half_second;
		rc = syscall(SYS_ppoll, &pfd, 1, &end, NULL, 0);
		break;
	case JOB_SELECT:
		FD_ZERO(&set);
		FD_SET(pipe_fd, &set);
		end = half_second;
		rc = syscall(SYS_pselect6, pipe_fd + 1, &set, NULL, NULL, &end, NULL);
		break;
	case JOB_WAIT: {
		pid_t grandchild = fork();
		if (grandchild == 0) {
			nanosleep(&half_second, NULL);
			_exit(0);
		}
		rc = syscall(SYS_wait4, grandchild, NULL, 0, NULL) == grandchild ? 0 : -1;
		break;
	}
	case JOB_EPOLL: {
		int ep = epoll_create1(0);
		epoll_ctl(ep, EPOLL_CTL_ADD, pipe_fd, &event);
		/* The kernel ends it after any stop: a program that uses it must go on itself. */
		do
			rc = syscall(SYS_epoll_wait, ep, &event, 1, -1);
		while (rc < 0 && errno == EINTR);
		break;
	}
	case JOB_NO_STACK:
		rc = wait_without_stack();
		break;
	case JOB_PAUSE:
		rc = pause();
		break;
	case JOB_SUSPEND: {
		sigset_t blocked, none;
		sigemptyset(&none);
		sigemptyset(&blocked);
		sigaddset(&blocked, SIGUSR2);
		sigprocmask(SIG_BLOCK, &blocked, NULL);
		rc = sigsuspend(&none);
		break;
	}
	case JOB_MASKED: {
		pthread_t thread;
		sigset_t blocked;

		sigemptyset(&blocked);
		sigaddset(&blocked, SIGUSR2);
		pthread_create(&thread, NULL, wait_on, NULL);
		rc = ppoll(&pfd, 1, NULL, &blocked);
		break;
	}
	default:
		be_busy();
		rc = 0;
	}
	return rc < 0 ? -errno : rc;
}

static void on_usr1(int number)
{
	shared->signals++;
}

static char state_of(pid_t pid)
{
	char name[32], text[512];
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	f = fopen(name, "r");
	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	fclose(f);
	assert_non_null(strrchr(text, ')'));
	return strrchr(text, ')')[2];
}

/* Returns when the child is in its call. */
static pid_t start_child(enum job job, int *ret_pipe)
{
	int fds[2];
	pid_t pid;

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGUSR1, on_usr1);
		signal(SIGRTMIN, on_usr1);
		shared->ready = 1;
		uint64_t began = clock_monotonic_ns();
		shared->result = do_job(job, fds[0]);
		shared->spent_ns = clock_monotonic_ns() - began;
		/* A call that is over before anybody has come is no reason to end. */
		while (!shared->stop)
			usleep(1000);
		_exit(0);
	}
	close(fds[0]);
	*ret_pipe = fds[1];
	while (!shared->ready || (job != JOB_BUSY && state_of(pid) != 'S'))
		usleep(1000);
	usleep(20000);
	return pid;
}

/* Lets the child's call end in its ordinary way, and the child. */
static int finish_child(pid_t pid, int pipe_fd)
{
	int status = -1;

	shared->stop = 1;
	if (write(pipe_fd, "x", 1) != 1)
		fail();
	shared->futex = 1;
	syscall(SYS_futex, &shared->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(pipe_fd);
	return status;
}

/* ---- remote calls ---- */

/* A child has a copy of this process's stack. A word left there that leads into the stub looks like
 * an address to return to: so there is no address in this struct, and no stub where a mapping that
 * is gone may have begun. */
#define STALE 512
#define STUB_ROOM 320 /* for a list of two calls */

struct remote_calls_test {
	struct process process;
	int rc;
	struct error err;
	bool dirty;
	uint64_t result;
	uint32_t tid_offset;
	uint64_t stop_ns;
	int n_held, n_memfds; /* calls of when_held(), and what was open at the first */
	pid_t tid;	      /* of who has made the last list */
};

/* How many memfds the process has open. */
static int count_memfds(pid_t pid)
{
	char name[300], target[64];
	int n = 0;

	snprintf(name, sizeof(name), "/proc/%d/fd", pid);
	DIR *dir = opendir(name);
	if (!dir)
		return -1;
	for (struct dirent *e; (e = readdir(dir));) {
		snprintf(name, sizeof(name), "/proc/%d/fd/%s", pid, e->d_name);
		ssize_t len = readlink(name, target, sizeof(target) - 1);
		n += len > 7 && !memcmp(target, "/memfd:", 7);
	}
	closedir(dir);
	return n;
}

static bool when_held(void *arg, size_t call, bool alone)
{
	struct remote_calls_test *t = arg;

	t->n_held++;
	if (call == 1)
		t->n_memfds = count_memfds(t->process.pid);
	(void)alone;
	return call != 2; /* which is not made then, but with an address that is refused */
}

static int run_errands(void *arg)
{
	struct remote_calls_test *t = arg;
	struct injector in = {.process = &t->process};
	struct process_maps maps;
	struct code_cave cave;

	t->rc = maps_read(&t->process, &maps, &t->err);
	if (t->rc < 0)
		return 0;
	const uint64_t at = maps_find_hole(&maps, 0, 0, 0, 8192);
	t->rc = inject_find_cave(&t->process, &maps, STUB_ROOM, &cave, &t->err);
	maps_done(&maps);
	if (t->rc < 0)
		return 0;
	const struct stub_call map_call = {
		.nr = SYS_mmap,
		.args = {at, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, UINT64_MAX, 0},
		.check = STUB_EQUAL,
		.expected = at,
	};
	const struct remote_calls map_call_list = {
		.calls = &map_call, .n_calls = 1, .mapped_at = at};
	t->rc = inject_run(&in, &cave, &map_call_list, &t->err);
	t->dirty = cave.dirty;
	if (t->rc < 0)
		return 0;
	/* What was there is there again. */
	t->dirty = t->dirty || !inject_is_free(&t->process, cave.addr, cave.size);

	/* The thread is held while a descriptor is open, which is closed though the list is stopped
	 * before. */
	struct code_cave held_place = {.addr = at + STALE, .size = 4096 - STALE};
	const uint64_t fd_at = at + 4096 + 32, name_at = at + 4096 + 40;
	const struct stub_call held_calls[] = {
		{.nr = SYS_memfd_create,
		 .args = {name_at, 0},
		 .check = STUB_NO_ERROR,
		 .result_at = fd_at},
		{.nr = SYS_getpid},
		{.nr = SYS_madvise, .args = {at, 4096, MADV_NORMAL}, .check = STUB_DONE},
		{.nr = SYS_fcntl, .args = {9999, F_GETFD}, .check = STUB_NO_ERROR},
		{.nr = SYS_exit_group, .args = {66}},
		{.nr = SYS_close, .args = {fd_at}, .from_memory = 1, .always = 1},
	};
	const struct remote_calls held_list = {.calls = held_calls,
					       .n_calls = 6,
					       .done_at = at + 4096,
					       .held = when_held,
					       .arg = t,
					       .hold = 1 << 1 | 1 << 2};
	t->rc = inject_run(&in, &held_place, &held_list, &t->err);
	if (t->rc != -EBADF || held_place.dirty)
		return 0;

	/* The third remote call: results go to memory and come from there; a failing call ends the
	 * list. */
	struct code_cave place = {.addr = at + STALE, .size = 4096 - STALE};
	const struct stub_call calls[] = {
		{.nr = SYS_getpid, .check = STUB_NO_ERROR, .result_at = at + 4096 + 8},
		{.nr = SYS_getpgid,
		 .args = {at + 4096 + 8},
		 .from_memory = 1,
		 .check = STUB_NO_ERROR,
		 .result_at = at + 4096 + 16},
		{.nr = SYS_close, .args = {9999}, .check = STUB_NO_ERROR},
		{.nr = SYS_exit_group, .args = {66}},
	};
	const struct remote_calls remote_calls = {
		.calls = calls, .n_calls = 4, .done_at = at + 4096};
	t->rc = inject_run(&in, &place, &remote_calls, &t->err);
	t->dirty = t->dirty || place.dirty;
	memory_read_u64(&t->process, at + 4096 + 8, &t->result);
	t->tid_offset = inject_tid_offset(&in);
	t->stop_ns = in.stop_ns;
	t->tid = in.last_tid;
	return 0;
}

static void calls_in(enum job job, bool poke_only)
{
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;
	int pipe_fd;
	pid_t pid = start_child(job, &pipe_fd);

	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	t.process.poke_only = poke_only;
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	tracer_call(tracer, run_errands, &t);
	tracer_end(tracer);
	if (t.rc != -EBADF)
		print_error("job %d: %d %s\n", job, t.rc, t.err.text);
	assert_int_equal(t.rc, -EBADF); /* of the close */
	assert_int_equal(t.result, pid);
	assert_int_equal(t.n_held, 2);
	assert_int_equal(t.n_memfds, 1);
	assert_int_equal(count_memfds(pid), 0);
	assert_false(t.dirty);
	assert_int_equal(t.tid_offset, 0x2d0); /* glibc's */
	assert_true(t.stop_ns > 0);
	assert_true(process_alive(&t.process));

	int status = finish_child(pid, pipe_fd);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_false(process_alive(&t.process));
	assert_int_equal(shared->wrong, 0);
	switch (job) {
	case JOB_FUTEX_TIMEOUT:
		/* woken by us, or its time was over: never EINTR */
		assert_true(shared->result == 0 || shared->result == -EAGAIN ||
			    shared->result == -ETIMEDOUT);
		break;
	case JOB_FUTEX:
	case JOB_NO_STACK:
		/* The word had changed when it came back to the call. */
		assert_true(shared->result == 0 || shared->result == -EAGAIN);
		break;
	case JOB_POLL:
	case JOB_PPOLL:
	case JOB_SELECT:
		/* on a busy machine the time may be over */
		assert_true(shared->result == 1 ||
			    (shared->result == 0 && shared->spent_ns >= 500000000));
		break;
	case JOB_READ:
	case JOB_EPOLL:
		assert_int_equal(shared->result, 1);
		break;
	default:
		assert_int_equal(shared->result, 0);
	}
	if (job == JOB_NANOSLEEP || job == JOB_CLOCK_ABS || job == JOB_WAIT) {
		assert_true(shared->spent_ns >= 500000000);
		assert_true(shared->spent_ns < 5000000000);
	}
	process_close(&t.process);
}

/* What thunk_call pushes, on a stack on which words of a frame before it are left. */
static void test_open_call(void **state)
{
	enum { CODE = 0x10000, HOOKS = 0x20000, N = 16 };
	struct agent_hook table[4] = {{.type = AH_WAIT, .kind = TB_POLL},
				      {.type = AH_CALL, .kind = AC_READ},
				      {.type = AH_CALL, .kind = AC_PTHREAD_MUTEX_LOCK},
				      {.type = AH_CALL, .kind = TB_GETADDRINFO}};
	const uint64_t of = sizeof(struct agent_hook);
	const struct hooks hooks = {.table = table, .n = 4};
	const struct layout layout = {.code = CODE, .code_bytes = 0x1000, .hooks = HOOKS};
	uint64_t words[N] = {[1] = CODE + 8,
			     [3] = HOOKS + of,
			     [4] = CODE + 0x1000,
			     [6] = HOOKS + of,
			     /* the frame */
			     [9] = CODE + 0x20,
			     4711,
			     HOOKS + of,
			     99,
			     5};
	struct attach_open_call c = {0};

	assert_true(open_call_find(words, N, &layout, &hooks, 0, &c)); /* the left one, for fd 0 */
	assert_false(open_call_find(words, N, &layout, &hooks, 5, &c));
	words[1] = 0;
	assert_true(open_call_find(words, N, &layout, &hooks, 5, &c));
	assert_int_equal(c.call, AC_READ);
	assert_int_equal(c.ticks, 4711);
	assert_false(open_call_find(words, N, &layout, &hooks, 6, &c));
	assert_false(open_call_find(words, 13, &layout, &hooks, 5, &c));
	words[11] = HOOKS + 2 * of;
	assert_true(open_call_find(words, N, &layout, &hooks, 5 + 4, &c));
	assert_int_equal(c.call, AC_PTHREAD_MUTEX_LOCK);
	assert_false(open_call_find(words, N, &layout, &hooks, 5 + 64, &c));
	/* getaddrinfo's is above libc's own, in which there may be others' */
	words[1] = CODE + 8;
	words[11] = HOOKS + 3 * of;
	assert_true(open_call_find(words, N, &layout, &hooks, 77, &c));
	assert_int_equal(c.call, TB_GETADDRINFO);
	assert_int_equal(c.ticks, 4711);
	words[1] = 0;
	words[11] = HOOKS; /* a wait's: its begin is recorded */
	assert_false(open_call_find(words, N, &layout, &hooks, 5, &c));
	words[11] = HOOKS + 4 * of;
	assert_false(open_call_find(words, N, &layout, &hooks, 5, &c));
	words[11] = HOOKS + of + 8;
	assert_false(open_call_find(words, N, &layout, &hooks, 5, &c));
	(void)state;
}

static void test_errands(void **state)
{
	for (int job = 0; job < N_JOBS; job++)
		calls_in(job, false);
}

/* The child's thread gets no turn on its CPU for a while: that is no reason to give up. */
static void test_errands_without_cpu(void **state)
{
	const struct sched_param real_time = {.sched_priority = 1};
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;
	int pipe_fd, status;
	cpu_set_t before, one;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &before))
			CPU_SET(i, &one);
	pid_t pid = start_child(JOB_BUSY, &pipe_fd);
	assert_int_equal(sched_setaffinity(pid, sizeof(one), &one), 0);
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	shared->ready = 0;
	pid_t other = fork();
	if (other == 0) {
		sched_setaffinity(0, sizeof(one), &one);
		bool is_first = sched_setscheduler(0, SCHED_FIFO, &real_time) == 0;
		uint64_t until = clock_monotonic_ns() + 600000000;

		shared->ready = 1;
		while (is_first && clock_monotonic_ns() < until)
			;
		_exit(!is_first);
	}
	while (!shared->ready)
		usleep(1000);
	tracer_call(tracer, run_errands, &t);
	tracer_end(tracer);
	assert_int_equal(waitpid(other, &status, 0), other);
	if (t.rc != -EBADF)
		print_error("%d %s\n", t.rc, t.err.text);
	assert_int_equal(t.rc, -EBADF);
	process_close(&t.process);
	assert_int_equal(finish_child(pid, pipe_fd), 0);
	assert_int_equal(shared->wrong, 0);
	if (status) {
		print_message("skipped: needs real-time priority\n");
		skip();
	}
}

static void on_usr2(int number)
{
	usleep(300000);
	shared->signals++;
}

static pid_t signalled; /* at the next "setregs" */

static void signal_at_setregs(const char *what)
{
	if (signalled && !strcmp(what, "setregs")) {
		kill(signalled, SIGUSR2);
		signalled = 0;
	}
}

/* A signal that comes just then has its handler run when the thread is out of the stub, to which it would
 * come back otherwise after whatever time. */
static void test_errand_interrupted(void **state)
{
	const struct sigaction act = {.sa_handler = on_usr2, .sa_flags = SA_RESTART};
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct sigaction before;
	struct tracer *tracer;
	int pipe_fd, status;

	sigaction(SIGUSR2, &act, &before);
	pid_t pid = start_child(JOB_READ, &pipe_fd);
	sigaction(SIGUSR2, &before, NULL);
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	signalled = pid;
	process_step_hook = signal_at_setregs;
	tracer_call(tracer, run_errands, &t);
	process_step_hook = NULL;
	tracer_end(tracer);
	if (t.rc != -EBADF)
		print_error("%d %s\n", t.rc, t.err.text);
	assert_int_equal(t.rc, -EBADF);
	assert_false(t.dirty);
	process_close(&t.process);
	status = finish_child(pid, pipe_fd);
	assert_int_equal(shared->signals, 1);
	assert_int_equal(status, 0);
	assert_int_equal(shared->result, 1);
}

/* A signal that comes while the thread makes the list finds it in its own call, as far as the program
 * can see: one whose handler does not ask for a restart ends that, and pause() and sigsuspend() end
 * whatever it asks for. */
static void signal_ends(enum job job, int flags)
{
	const struct sigaction act = {.sa_handler = on_usr1, .sa_flags = flags};
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct sigaction before;
	struct tracer *tracer;
	int pipe_fd;

	sigaction(SIGUSR2, &act, &before);
	pid_t pid = start_child(job, &pipe_fd);
	sigaction(SIGUSR2, &before, NULL);
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	signalled = pid;
	process_step_hook = signal_at_setregs;
	tracer_call(tracer, run_errands, &t);
	process_step_hook = NULL;
	tracer_end(tracer);
	if (t.rc != -EBADF)
		print_error("job %d: %d %s\n", job, t.rc, t.err.text);
	assert_int_equal(t.rc, -EBADF);
	for (uint64_t until = clock_monotonic_ns() + 10000000000; !shared->spent_ns;) {
		assert_true(clock_monotonic_ns() < until); /* it waits on */
		usleep(1000);
	}
	if (shared->result != -EINTR)
		print_error("job %d: %ld\n", job, (long)shared->result);
	assert_int_equal(shared->result, -EINTR);
	assert_int_equal(shared->signals, 1);
	process_close(&t.process);
	assert_int_equal(finish_child(pid, pipe_fd), 0);
}

static void test_errand_and_interrupted_calls(void **state)
{
	static const enum job jobs[] = {JOB_NANOSLEEP, JOB_CLOCK_ABS, JOB_FUTEX, JOB_FUTEX_TIMEOUT,
					JOB_READ,      JOB_POLL,      JOB_PPOLL, JOB_SELECT,
					JOB_PAUSE,     JOB_SUSPEND,   JOB_WAIT};

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		signal_ends(jobs[i], 0);
	signal_ends(JOB_PAUSE, SA_RESTART);
	signal_ends(JOB_SUSPEND, SA_RESTART);
	(void)state;
}

/* A thread whose call has a signal mask of its own is not chosen if there is another one: so a signal that is
 * blocked in there does not end the call. */
static void test_errand_beside_masked_call(void **state)
{
	const struct sigaction act = {.sa_handler = on_usr1};
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct sigaction before;
	struct tracer *tracer;
	int pipe_fd;

	sigaction(SIGUSR2, &act, &before);
	pid_t pid = start_child(JOB_MASKED, &pipe_fd);
	sigaction(SIGUSR2, &before, NULL);
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	tracer_call(tracer, run_errands, &t);
	tracer_end(tracer);
	assert_int_equal(t.rc, -EBADF);
	assert_int_not_equal(t.tid, pid);
	assert_int_not_equal(t.tid, 0);
	process_close(&t.process);
	assert_int_equal(finish_child(pid, pipe_fd), 0);
	assert_int_equal(shared->result, 1);
	(void)state;
}

static uint64_t signals_when_held;

/* Signals that are queued: each one counts. */
static void signal_at_each_setregs(const char *what)
{
	if (!strcmp(what, "setregs"))
		kill(signalled, SIGRTMIN);
	if (!strcmp(what, "held"))
		signals_when_held = shared->signals;
}

static void read_mask(pid_t pid, char mask[17])
{
	char name[32], line[256];
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	f = fopen(name, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) && sscanf(line, "SigBlk: %16s", mask) != 1)
		;
	fclose(f);
}

/* A program gets signals all the time (a profiler's timer): they wait until the list is done for
 * which its other threads are stopped. */
static void test_errand_under_signals(void **state)
{
	struct remote_calls_test t = {.process = PROCESS_INIT};
	char before[17] = "", after[17] = "";
	struct tracer *tracer;
	int pipe_fd;
	pid_t pid = start_child(JOB_READ, &pipe_fd);

	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	read_mask(pid, before);
	signalled = pid;
	process_step_hook = signal_at_each_setregs;
	tracer_call(tracer, run_errands, &t);
	process_step_hook = NULL;
	signalled = 0;
	tracer_end(tracer);
	assert_int_equal(t.rc, -EBADF);
	assert_int_equal(t.n_held, 2);
	/* Of the list before, if its thread has got a turn since; not this list's. */
	assert_true(signals_when_held <= 1);
	while (shared->signals < 3) /* one of each list */
		usleep(1000);
	read_mask(pid, after);
	assert_string_equal(before, after);
	process_close(&t.process);
	assert_int_equal(finish_child(pid, pipe_fd), 0);
	assert_int_equal(shared->result, 1);
}

static const struct process *of_two_threads;
static unsigned most_stopped; /* at a list's end */

/* Each stop is short, all together are long: as where the thread waits for a CPU at each of them. */
static void stop_slowly(const char *what)
{
	pid_t *tids;
	size_t n;

	if (!strcmp(what, "syscall"))
		usleep(40000);
	if (strcmp(what, "take out"))
		return;
	assert_int_equal(threads_list(of_two_threads, &tids, &n), 0);
	unsigned stopped = 0;
	for (size_t i = 0; i < n; i++)
		stopped += process_thread_state(of_two_threads, tids[i]) == 't';
	free(tids);
	assert_int_equal(n, 2);
	most_stopped = stopped > most_stopped ? stopped : most_stopped;
}

static void *pause_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* The other threads don't stand still for as long as a list takes that is slow. */
static void test_slow_list(void **state)
{
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;
	pthread_t thread;
	size_t n = 0;
	int status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		pthread_create(&thread, NULL, pause_for_ever, NULL);
		pause_for_ever(NULL);
	}
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	while (n < 2) {
		pid_t *tids;

		assert_int_equal(threads_list(&t.process, &tids, &n), 0);
		free(tids);
	}
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	of_two_threads = &t.process;
	most_stopped = 0;
	process_step_hook = stop_slowly;
	tracer_call(tracer, run_errands, &t);
	process_step_hook = NULL;
	tracer_end(tracer);
	process_close(&t.process);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(t.rc, -EBADF);
	assert_int_equal(t.n_held, 2);
	assert_int_equal(most_stopped, 1);
}

/* The same on a kernel that allows no write to read-only pages through /proc. */
static void test_errands_by_poke(void **state)
{
	calls_in(JOB_FUTEX, true);
	calls_in(JOB_BUSY, true);
}

/* ---- restartable sequences ---- */

/* Is half of its time inside of one. Interrupted there, it must come out at its abort handler: one
 * that comes to its end though the kernel has forgotten it wasn't atomic. */
static void be_restartable(void)
{
	char *area;

	__asm__("movq %%fs:0, %0" : "=r"(area));
	area += __rseq_offset;
	while (!shared->stop) {
		uint64_t aborted, section;

		__asm__ volatile(".pushsection __rseq_cs, \"aw\"\n\t"
				 ".balign 32\n"
				 "1: .long 0, 0\n\t"
				 ".quad 2f, 4f - 2f, 5f\n\t"
				 ".popsection\n\t"
				 "leaq 1b(%%rip), %0\n\t"
				 "movq %0, 8(%2)\n"
				 "2: movl $20000, %%ecx\n"
				 "3: decl %%ecx\n\t"
				 "jnz 3b\n\t"
				 "movq 8(%2), %1\n"
				 "4: xorl %k0, %k0\n\t"
				 "jmp 6f\n\t"
				 ".byte 0x0f, 0xb9, 0x3d\n\t" /* the signature, as an operand */
				 ".long %c3\n"
				 "5: movl $1, %k0\n"
				 "6: movl $20000, %%ecx\n"
				 "7: decl %%ecx\n\t"
				 "jnz 7b"
				 : "=&a"(aborted), "=&d"(section)
				 : "r"(area), "i"(RSEQ_SIG)
				 : "rcx", "memory", "cc");
		if (aborted)
			shared->signals++;
		else if (!section)
			shared->wrong++;
	}
}

static void test_errands_restartable(void **state)
{
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;
	int status;

	if (!__rseq_size) {
		print_message("skipped: no rseq here\n");
		skip();
	}
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		shared->ready = 1;
		be_restartable();
		_exit(0);
	}
	while (!shared->ready)
		usleep(1000);
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	/* Until it was stopped there at least once; in between it runs. */
	for (int i = 0; i < 6 || (i < 500 && !shared->signals); i++) {
		tracer_call(tracer, run_errands, &t);
		if (t.rc != -EBADF)
			print_error("%d: %s\n", t.rc, t.err.text);
		assert_int_equal(t.rc, -EBADF);
		usleep(137 * (unsigned)i);
	}
	tracer_end(tracer);
	shared->stop = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(shared->wrong, 0);
	assert_true(shared->signals > 0);
	process_close(&t.process);
}

/* ---- syscall user dispatch ---- */

#define DISPATCH_CONFIG 0x4211 /* PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG */
#define SET_DISPATCH 59	       /* PR_SET_SYSCALL_USER_DISPATCH */

static int asks_dispatch(void *arg)
{
	struct remote_calls_test *t = arg;
	struct stopped_thread thread;
	uint64_t config[4];
	int rc = thread_stop(&t->process, t->process.pid, 1000000000, &thread);

	if (rc < 0)
		return rc;
	rc = ptrace(DISPATCH_CONFIG, thread.tid, sizeof(config), config) < 0 ? -errno : 0;
	thread_resume(&thread);
	return rc;
}

static void test_errands_dispatched(void **state)
{
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;
	int status;

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	pid_t pid = fork();
	if (pid == 0) {
		static volatile char selector; /* 0: calls go to the kernel, 1: to us */

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(SET_DISPATCH, 1, 0, 0, &selector);
		selector = 1;
		shared->ready = 1;
		while (!shared->stop)
			;
		selector = 0;
		_exit(0);
	}
	while (!shared->ready)
		usleep(1000);
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	const int emitted = tracer_call(tracer, asks_dispatch, &t);
	for (int forced = 0; emitted == 0 && forced < 2; forced++) {
		t.process.forced = forced;
		t.err = (struct error){0};
		tracer_call(tracer, run_errands, &t);
		assert_int_equal(t.rc, -EPERM);
		assert_non_null(strstr(t.err.text, "syscall user dispatch"));
	}
	tracer_end(tracer);
	shared->stop = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	process_close(&t.process);
	if (emitted == -EIO) {
		print_message("skipped: needs Linux 6.4\n");
		skip();
	}
	assert_int_equal(emitted, 0);
}

/* ---- seccomp ---- */

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)

static void test_seccomp_filters(void **state)
{
	/* As systemd's MemoryDenyWriteExecute: mmap with PROT_WRITE and PROT_EXEC together. */
	static const struct sock_filter deny_wx[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 5),
		LOAD(offsetof(struct seccomp_data, args[2])),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
		BPF_STMT(BPF_ST, 3),
		BPF_STMT(BPF_LDX | BPF_MEM, 3),
		BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
		ANSWER(SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_MISC | BPF_TXA, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_WRITE | PROT_EXEC, 0, 1),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
		ANSWER(SECCOMP_RET_ALLOW),
	};
	static const struct sock_filter nonsense[] = {
		LOAD(4096),
	};
	static const struct sock_filter far[] = {
		BPF_JUMP(BPF_JMP | BPF_JA, UINT32_MAX, 0, 0),
		ANSWER(SECCOMP_RET_ALLOW),
	};
	static const struct sock_filter by_zero[] = {
		BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0),
		ANSWER(SECCOMP_RET_ALLOW),
	};
	static const struct sock_filter endless[] = {
		LOAD(0),
	};
	struct seccomp_data data = {.nr = SYS_mmap, .args = {0, 0, PROT_READ | PROT_EXEC}};

	assert_int_equal(filters_run(deny_wx, 12, &data, 0), SECCOMP_RET_ALLOW);
	data.args[2] |= PROT_WRITE;
	assert_int_equal(filters_run(deny_wx, 12, &data, 0), SECCOMP_RET_KILL_PROCESS);
	data.nr = SYS_read;
	assert_int_equal(filters_run(deny_wx, 12, &data, 0), SECCOMP_RET_ALLOW);
	/* What is not known is not guessed: the flags, then something that no caller asks for. */
	data.nr = SYS_mmap;
	data.args[2] = PROT_READ;
	assert_int_equal(filters_run(deny_wx, 12, &data, 1u << 8), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(filters_run(deny_wx, 12, &data, 1u << 10), SECCOMP_RET_ALLOW);
	assert_int_equal(filters_run(nonsense, 1, &data, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(filters_run(far, 2, &data, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(filters_run(by_zero, 2, &data, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(filters_run(endless, 1, &data, 0), SECCOMP_RET_KILL_PROCESS);
}

/* A child that would be killed for what the remote call asks is not asked. */
static void test_seccomp_child(void **state)
{
	static const struct sock_filter no_mmap[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
		ANSWER(SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = 4,
					   .filter = (struct sock_filter *)(uintptr_t)no_mmap};
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;
	int fds[2], status;

	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	if (pid == 0) {
		char byte;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
		_exit(read(fds[0], &byte, 1) == 1 ? 0 : 1);
	}
	usleep(50000);
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	tracer_call(tracer, run_errands, &t);
	tracer_end(tracer);
	assert_int_equal(t.rc, -EPERM);
	assert_non_null(strstr(t.err.text, "seccomp"));
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	process_close(&t.process);
	close(fds[0]);
	close(fds[1]);
}

/* ---- a tracer under filters itself, which can't read any ---- */

enum {
	AROUND = 1,	    /* a filter around tool and target */
	AROUND_DENY = 2,    /* the same, and it forbids what the remote call asks */
	TOOL_ADDS = 4,	    /* one more around the tool */
	TARGET_ADDS = 8,    /* around the target, */
	TARGET_DENIES = 16, /* which forbids it */
	FIXED = 32,	    /* no more can be added */
	NO_NEW = 64,	    /* no_new_privs for the tool */
	OTHER_NS = 128,	    /* the target is in another namespace */
	LAUNCHED = 256,
	FORCED = 512,
};

struct sandboxed {
	int rc;
	char text[1024];
	int target_status;
};

static void add_filter(bool deny)
{
	static const struct sock_filter filters[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
		ANSWER(SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = deny ? 4 : 1,
					   .filter = (struct sock_filter *)(uintptr_t)filters +
						     (deny ? 0 : 3)};

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(1);
}

#define TRIED 60u
#define LONG_MS 1300 /* longer than a child may wait in a call */

static int64_t ms_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

/* What a trial of calls gives that use the CPU for as long, or that wait. */
static int try_for_long(bool waits)
{
	static uint8_t random[64 << 20];
	struct stub_call calls[TRIED] = {{.nr = SYS_pause}};
	size_t bytes = 1 << 20;
	int64_t began;

	for (; bytes < sizeof(random); bytes *= 2) {
		began = ms_now();
		if (syscall(SYS_getrandom, random, bytes, 0) < 0)
			return 1;
		if ((ms_now() - began) * TRIED > LONG_MS)
			break;
	}
	for (size_t i = 0; i < TRIED && !waits; i++)
		calls[i] =
			(struct stub_call){.nr = SYS_getrandom, .args = {(uintptr_t)random, bytes}};
	return seccomp_try(calls, waits ? 1 : TRIED).rc;
}

/* The child of pollux is slow where it gets little CPU; that is no answer of the filter's. One that waits is given
 * up. */
static void test_seccomp_slow_child(void **state)
{
	(void)state;
	for (int waits = 0; waits < 2; waits++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			add_filter(false);
			_exit(-try_for_long(waits));
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), waits ? EAGAIN : 0);
	}
}

static void drop_administration(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) < 0 ||
	    syscall(SYS_capget, &header, data) < 0)
		_exit(1);
	data[0].effective &= ~(1u << CAP_SYS_ADMIN);
	data[0].permitted &= ~(1u << CAP_SYS_ADMIN);
	data[0].inheritable &= ~(1u << CAP_SYS_ADMIN);
	if (syscall(SYS_capset, &header, data) < 0)
		_exit(1);
}

static int run_getpgid(void *arg)
{
	struct remote_calls_test *t = arg;
	struct injector in = {.process = &t->process};
	struct process_maps maps;
	struct code_cave cave;

	t->rc = maps_read(&t->process, &maps, &t->err);
	if (t->rc < 0)
		return 0;
	t->rc = inject_find_cave(&t->process, &maps, STUB_ROOM, &cave, &t->err);
	const uint64_t at = maps_find_hole(&maps, 0, 0, 0, 4096);
	maps_done(&maps);
	const struct stub_call calls[] = {
		{.nr = SYS_getpgid},
		{.nr = SYS_mmap,
		 .args = {at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			  UINT64_MAX, 0},
		 .check = STUB_EQUAL,
		 .expected = at},
	};
	const struct remote_calls remote_calls = {.calls = calls, .n_calls = 2, .mapped_at = at};
	if (t->rc == 0)
		t->rc = inject_run(&in, &cave, &remote_calls, &t->err);
	return 0;
}

static void be_tool(unsigned how, pid_t target, struct sandboxed *ret)
{
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;

	if (how & TOOL_ADDS)
		add_filter(false);
	if (how & NO_NEW)
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	t.rc = process_open(target, &t.process, &t.err);
	t.process.launched = how & LAUNCHED;
	t.process.forced = how & FORCED;
	if (t.rc == 0)
		t.rc = tracer_start(&tracer, &t.err);
	if (t.rc == 0) {
		tracer_call(tracer, run_getpgid, &t);
		tracer_end(tracer);
	}
	ret->rc = t.rc;
	memcpy(ret->text, t.err.text, sizeof(ret->text));
}

/* A process that is what a container's runtime is to both. */
static void be_runtime(unsigned how, struct sandboxed *ret)
{
	int ready[2], go[2];
	char byte;

	if (pipe(ready) < 0 || pipe(go) < 0)
		_exit(1);
	if (how & (AROUND | AROUND_DENY))
		add_filter(how & AROUND_DENY);
	pid_t target = fork();
	if (target == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (how & OTHER_NS && unshare(CLONE_NEWUTS) < 0)
			_exit(1);
		if (how & (TARGET_ADDS | TARGET_DENIES))
			add_filter(how & TARGET_DENIES);
		if (how & FIXED)
			drop_administration();
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		_exit(read(go[0], &byte, 1) == 1 ? 0 : 1);
	}
	if (how & FIXED)
		drop_administration();
	if (read(ready[0], &byte, 1) != 1)
		_exit(1);
	be_tool(how, target, ret);
	if (write(go[1], "x", 1) != 1 || waitpid(target, &ret->target_status, 0) != target)
		_exit(1);
	_exit(0);
}

/* What the remote call gives; the target is unharmed in every case. */
static int calls_under_filters(unsigned how, char *ret_text)
{
	struct sandboxed *s =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, rc;

	assert_true(s != MAP_FAILED);
	s->target_status = -1;
	pid_t pid = fork();
	if (pid == 0)
		be_runtime(how, s);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (s->target_status)
		print_error("0x%x: target ends with 0x%x\n", how, s->target_status);
	assert_int_equal(status, 0);
	assert_int_equal(s->target_status, 0);
	rc = s->rc;
	memcpy(ret_text, s->text, sizeof(s->text));
	munmap(s, 4096);
	return rc;
}

static void test_seccomp_unreadable(void **state)
{
	static const struct {
		unsigned how;
		const char *why; /* NULL: it is done */
	} cases[] = {
		/* As many as we have are not ours. */
		{TOOL_ADDS | TARGET_DENIES, "isn't proven"},
		{TOOL_ADDS | TARGET_ADDS, "--force"},
		{TOOL_ADDS | TARGET_ADDS | FORCED, NULL},
		{AROUND | TARGET_DENIES, "isn't proven"},
		/* A program that we started has ours. */
		{AROUND | LAUNCHED, NULL},
		{AROUND_DENY | LAUNCHED, "forbids"},
		{AROUND_DENY | LAUNCHED | FORCED, "forbids"},
		{AROUND | LAUNCHED | TARGET_DENIES, "isn't proven"},
		/* A container. */
		{AROUND | FIXED, NULL},
		{AROUND_DENY | FIXED, "forbids"},
		{AROUND | FIXED | TARGET_DENIES, "isn't proven"},
		{AROUND | FIXED | OTHER_NS, "isn't proven"},
		{AROUND | FIXED | NO_NEW, "isn't proven"},
		{AROUND, "isn't proven"},
		/* Read: by a tool that is under none. */
		{TARGET_ADDS, NULL},
		{TARGET_DENIES, "forbids"},
		{TARGET_DENIES | FORCED, "forbids"},
	};

	need_root();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[1024];
		int rc = calls_under_filters(cases[i].how, text);

		if (cases[i].why ? rc != -EPERM || !strstr(text, cases[i].why) : rc != 0)
			print_error("case %zu: %d %s\n", i, rc, text);
		assert_int_equal(rc, cases[i].why ? -EPERM : 0);
		if (cases[i].why)
			assert_non_null(strstr(text, cases[i].why));
	}
}

/* ---- a tracer that dies ---- */

static int steps_left;

static void die_at_step(const char *what)
{
	if (steps_left-- == 0)
		kill(getpid(), SIGKILL);
}

/* Runs the remote calls in a process of their own that kills itself before step k. True if it got
 * to the end. */
static bool killed_at(int k, pid_t target)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct remote_calls_test t = {.process = PROCESS_INIT};
		struct tracer *tracer;

		steps_left = k;
		process_step_hook = die_at_step;
		if (process_open(target, &t.process, &t.err) < 0 ||
		    tracer_start(&tracer, &t.err) < 0)
			_exit(3);
		tracer_call(tracer, run_errands, &t);
		if (t.rc != -EBADF)
			dprintf(STDERR_FILENO, "%d: %s\n", t.rc, t.err.text);
		_exit(t.rc == -EBADF ? 0 : 4);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGKILL);
		return false;
	}
	assert_int_equal(WEXITSTATUS(status), 0);
	return true;
}

static void kill_at_each_step(enum job job)
{
	bool through = false;

	for (int k = 0; !through; k++) {
		int pipe_fd, status;
		pid_t pid = start_child(job, &pipe_fd);

		assert_true(k < 200);
		through = killed_at(k, pid);
		usleep(5000);
		for (int i = 0; count_memfds(pid) && i < 1000; i++)
			usleep(10000);
		assert_int_equal(count_memfds(pid), 0);
		status = finish_child(pid, pipe_fd);
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			print_error("killed before step %d: status %x\n", k, status);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		assert_int_equal(shared->wrong, 0);
		assert_int_equal(shared->result, job == JOB_READ);
	}
}

static void test_killed_waiting(void **state)
{
	kill_at_each_step(JOB_READ);
}

static void test_killed_running(void **state)
{
	kill_at_each_step(JOB_BUSY);
}

/* ---- code on two pages ---- */

#define CODE "\x48\x8d\x05\x01\x02"
#define JUMP "\xe9\x10\x20\x30\x40"

static pid_t start_paused(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

/* A child with code across two pages that it may not write. */
static pid_t start_with_code(uint8_t **ret_at)
{
	uint8_t *pages =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*ret_at = pages + 4096 - 2;
	memcpy(*ret_at, CODE, 5);
	mprotect(pages, 8192, PROT_READ | PROT_EXEC);
	return start_paused();
}

/* Of such a change a pollux that is killed, with all its children, may leave the half: it is not begun. */
static void test_replace_on_two_pages(void **state)
{
	struct process p = PROCESS_INIT;
	struct error err = {0};
	uint8_t live[5], *at;
	int status;
	pid_t pid = start_with_code(&at);

	(void)state;
	assert_int_equal(process_open(pid, &p, &err), 0);
	for (int poke_only = 0; poke_only < 2; poke_only++) {
		p.poke_only = poke_only;
		assert_int_equal(memory_replace(&p, (uint64_t)at, JUMP, 5), -EOPNOTSUPP);
		assert_int_equal(memory_read(&p, (uint64_t)at, live, 5), 0);
		assert_memory_equal(live, CODE, 5);
	}
	p.poke_only = false;
	assert_int_equal(memory_replace(&p, (uint64_t)at - 3, JUMP, 5), 0);
	munmap(at + 2 - 4096, 8192);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	process_close(&p);
}

/* Before the stop the pages of the sites become the process' own: in it no page is copied any more,
 * on the way there and back. What it may write to, and shares with others, is left alone. */
#define SITES (3u * HOOKS_AT_ONCE + 8)

static pid_t start_with_sites(uint8_t **ret_code)
{
	int fd = memfd_create("code", MFD_CLOEXEC);
	uint8_t *code;

	assert_int_equal(ftruncate(fd, SITES * 4096), 0);
	code = mmap(NULL, SITES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (unsigned i = 0; i < SITES; i++)
		memcpy(code + i * 4096 + 100, CODE "\x03\x04", 7);
	munmap(code, SITES * 4096);
	*ret_code = mmap(NULL, SITES * 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	return start_paused();
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

static void plan_sites(struct hooks *h, const uint8_t *code)
{
	h->patches = calloc(SITES, sizeof(*h->patches));
	h->n_patches = SITES;
	for (unsigned i = 0; i < SITES; i++) {
		struct hook_patch *patch = &h->patches[i];

		patch->addr = (uint64_t)(code + i * 4096 + 100);
		patch->len = 7;
		memcpy(patch->live, CODE "\x03\x04", 7);
		patch->jump_offset = 1;
		memcpy(patch->jump, JUMP, 5);
		patch->trampoline = 1;
	}
}

static void assert_sites(const struct process *p, const uint8_t *code, const char *there)
{
	uint8_t live[7];

	for (unsigned i = 0; i < SITES; i++) {
		assert_int_equal(memory_read(p, (uint64_t)(code + i * 4096 + 100), live, 7), 0);
		assert_memory_equal(live, there, 7);
	}
}

/* What was changed when there was no time left is whole, and each further stop changes some more. */
static void test_patch_in_stops(void **state)
{
	static const struct process_stop none = {0};
	struct process p = PROCESS_INIT;
	struct hooks h = {0};
	struct error err = {0};
	unsigned n_stops = 1;
	uint8_t *code;
	pid_t pid = start_with_sites(&code);
	int rc, status;

	(void)state;
	assert_int_equal(process_open(pid, &p, &err), 0);
	plan_sites(&h, code);
	while ((rc = hooks_patch(&h, &p, &none, 0, &err)) == 1) {
		for (unsigned i = 0; i < SITES; i++) {
			const char *wanted =
				i < n_stops * HOOKS_AT_ONCE ? "\x48" JUMP "\x04" : CODE "\x03\x04";
			uint8_t live[7];

			assert_int_equal(
				memory_read(&p, (uint64_t)(code + i * 4096 + 100), live, 7), 0);
			assert_memory_equal(live, wanted, 7);
		}
		n_stops++;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(n_stops, (SITES + HOOKS_AT_ONCE - 1) / HOOKS_AT_ONCE);
	assert_sites(&p, code, "\x48" JUMP "\x04");
	while ((rc = hooks_unpatch(&h, &p, 0)) == 1) {
		assert_true(hooks_any_patch(&h));
		n_stops--;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(n_stops, 1);
	assert_false(hooks_any_patch(&h));
	assert_sites(&p, code, CODE "\x03\x04");
	hooks_done(&h);
	process_close(&p);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(code, SITES * 4096);
}

static uint8_t *to_unmap;

static void unmap_one(int number)
{
	munmap(to_unmap, 4096);
	shared->signals++;
}

/* The program unloads (dlclose) what some of the sites are in, before they are changed or after it: the others are
 * changed and restored all the same. */
static void sites_unloaded(bool before)
{
	static const struct process_stop none = {0};
	struct process p = PROCESS_INIT;
	struct hooks h = {0};
	struct error err = {0};
	struct sigaction act = {.sa_handler = unmap_one}, was;
	size_t gone = 2 * HOOKS_AT_ONCE + 3;
	uint8_t *code, live[7];
	int rc, status;

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGUSR1, &act, &was);
	pid_t pid = start_with_sites(&code);
	sigaction(SIGUSR1, &was, NULL);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* once more, with the address known */
	to_unmap = code + gone * 4096;
	sigaction(SIGUSR1, &act, &was);
	pid = start_paused();
	sigaction(SIGUSR1, &was, NULL);
	assert_int_equal(process_open(pid, &p, &err), 0);
	plan_sites(&h, code);
	for (int turn = 0; turn < 2; turn++) {
		if (turn != before) {
			kill(pid, SIGUSR1);
			while (!shared->signals)
				usleep(1000);
		}
		while ((rc = turn ? hooks_unpatch(&h, &p, 0)
				  : hooks_patch(&h, &p, &none, 0, &err)) == 1)
			;
		assert_int_equal(rc, 0);
		for (size_t i = 0; i < SITES; i++) {
			if (i == gone)
				continue;
			assert_int_equal(
				memory_read(&p, (uint64_t)(code + i * 4096 + 100), live, 7), 0);
			assert_memory_equal(live, turn ? CODE "\x03\x04" : "\x48" JUMP "\x04", 7);
		}
	}
	assert_false(hooks_any_patch(&h));
	assert_int_equal(h.n_sites_left, before ? 1 : 0);
	hooks_done(&h);
	process_close(&p);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(code, SITES * 4096);
}

static void test_sites_unloaded(void **state)
{
	sites_unloaded(false);
	sites_unloaded(true);
	(void)state;
}

static unsigned n_resumes;

/* As if the machine were slow. */
static void write_slowly(const char *what)
{
	if (!strcmp(what, "mem write"))
		usleep(1000);
	n_resumes += !strcmp(what, "detach");
}

struct undo_test {
	struct process process;
	struct stale_agents left;
	uint64_t stop_ns;
	int rc;
	struct error err;
};

static int undo_left(void *arg)
{
	static const struct process_objects none;
	struct undo_test *t = arg;

	t->rc = stale_agents_undo(&t->left, &t->process, &none, &t->stop_ns, &t->err);
	return 0;
}

/* What a pollux that was killed has left in code is taken out in several stops, not in one. */
static void test_undo_in_stops(void **state)
{
	static uint64_t stubs[2], live = 1;
	static struct agent_hook table[SITES];
	struct undo_test t = {.process = PROCESS_INIT};
	struct stale_agent agent = {.hooks = (uint64_t)table,
				    .n_hooks = SITES,
				    .stubs = (uint64_t)stubs,
				    .live = (uint64_t)&live};
	struct tracer *tracer;
	uint8_t *code, there[8];
	unsigned i;
	int fd = memfd_create("code", MFD_CLOEXEC), status;

	(void)state;
	assert_int_equal(ftruncate(fd, SITES * 4096), 0);
	code = mmap(NULL, SITES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (i = 0; i < SITES; i++) {
		memcpy(code + i * 4096 + 100, "\x48" JUMP "\x04", 7);
		table[i] = (struct agent_hook){.type = AH_SPAWN,
					       .slot = (uint64_t)(code + i * 4096 + 100)};
		memcpy(&table[i].saved, CODE "\x03\x04", 7);
	}
	pid_t pid = start_paused();
	t.left = (struct stale_agents){.v = &agent, .n = 1};
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	n_resumes = 0;
	process_step_hook = write_slowly;
	tracer_call(tracer, undo_left, &t);
	process_step_hook = NULL;
	tracer_end(tracer);
	assert_int_equal(t.rc, 0);
	/* One stop alone would take 200 ms; longer than it took to stop, and 16 sites, none is. */
	assert_true(n_resumes > 1);
	for (i = 0; i < SITES; i++) {
		assert_int_equal(memory_read(&t.process, table[i].slot, there, 8), 0);
		assert_memory_equal(there, CODE "\x03\x04", 7);
	}
	process_close(&t.process);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(code, SITES * 4096);
	close(fd);
}

static void test_patch_copies_no_page(void **state)
{
	static const struct process_stop none = {0};
	struct process p = PROCESS_INIT;
	struct hooks h = {0};
	struct error err = {0};
	uint8_t *code;
	pid_t pid = start_with_sites(&code);
	long before, copied;
	int status;

	assert_int_equal(process_open(pid, &p, &err), 0);
	plan_sites(&h, code);
	/* Once without: a copy a site, and what the allocator takes. */
	before = faults();
	assert_int_equal(hooks_patch(&h, &p, &none, UINT64_MAX, &err), 0);
	copied = faults() - before;
	assert_true(copied >= (long)SITES);
	assert_sites(&p, code, "\x48" JUMP "\x04");
	assert_int_equal(hooks_unpatch(&h, &p, UINT64_MAX), 0);
	assert_sites(&p, code, CODE "\x03\x04");
	hooks_done(&h);
	process_close(&p);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(code, SITES * 4096);

	pid = start_with_sites(&code);
	assert_int_equal(process_open(pid, &p, &err), 0);
	plan_sites(&h, code);
	assert_int_equal(hooks_prepare(&h, &p), 0);
	assert_sites(&p, code, CODE "\x03\x04");
	before = faults();
	assert_int_equal(hooks_patch(&h, &p, &none, UINT64_MAX, &err), 0);
	assert_true(faults() - before <= copied - (long)SITES * 3 / 4);
	assert_sites(&p, code, "\x48" JUMP "\x04");
	before = faults();
	assert_int_equal(hooks_unpatch(&h, &p, UINT64_MAX), 0);
	assert_true(faults() - before <= copied - (long)SITES * 3 / 4);
	assert_sites(&p, code, CODE "\x03\x04");
	hooks_done(&h);
	process_close(&p);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(code, SITES * 4096);
}

/* The program has written other code there since the sites were found. */
static void test_prepare_leaves_new_code(void **state)
{
	static const uint8_t other = 0x5a;
	struct process p = PROCESS_INIT;
	struct hooks h = {0};
	struct error err = {0};
	uint8_t *code, now;
	pid_t pid = start_with_sites(&code);
	uint64_t last;
	int status;

	assert_int_equal(process_open(pid, &p, &err), 0);
	plan_sites(&h, code);
	last = h.patches[0].addr + h.patches[0].len - 1;
	assert_int_equal(memory_write(&p, last, &other, 1), 0);
	assert_int_equal(hooks_prepare(&h, &p), 0);
	assert_int_equal(memory_read(&p, last, &now, 1), 0);
	assert_int_equal(now, other);
	hooks_done(&h);
	process_close(&p);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(code, SITES * 4096);
}

/* What was started has ended, its end was waited for, and its number is another process' now. */
static void test_abort_by_handle(void **state)
{
	struct process p = PROCESS_INIT;
	int status;
	pid_t gone = fork();

	(void)state;
	if (gone == 0)
		_exit(0);
	p.pidfd = (int)syscall(SYS_pidfd_open, gone, 0);
	assert_true(p.pidfd >= 0);
	assert_int_equal(waitpid(gone, &status, 0), gone);
	p.pid = start_paused();
	const pid_t other = p.pid;
	launch_abort(&p);
	assert_int_equal(waitpid(other, &status, WNOHANG), 0);
	kill(other, SIGKILL);
	assert_int_equal(waitpid(other, &status, 0), other);
}

/* ---- flags and places of hooks ---- */

static struct agent_hook *learning;

/* As an agent does: between what pollux reads of the flags and what it writes. */
static void learn_worker(const char *what)
{
	if (!strcmp(what, "mem write"))
		__atomic_fetch_or(&learning->flags, AGENT_HOOK_WORKER, __ATOMIC_RELAXED);
}

/* Flags that the agent sets stay, and those that pollux sets, whichever comes first. */
static void test_flags_of_both(void **state)
{
	struct process p = PROCESS_INIT;
	struct error err = {0};
	struct agent_hook table[1] = {{.type = AH_FUTURE, .kind = 3, .flags = AGENT_HOOK_FRAME}};
	bool flipped[1] = {true};
	const struct hooks hooks = {.table = table, .n = 1, .flipped = flipped};
	int status;

	(void)state;
	learning = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(learning != MAP_FAILED);
	*learning = table[0];
	const struct layout layout = {.hooks = (uint64_t)learning};
	pid_t pid = start_paused();
	assert_int_equal(process_open(pid, &p, &err), 0);
	process_step_hook = learn_worker;
	assert_int_equal(programs_flag(&p, &hooks, &layout, 3, AGENT_HOOK_HANDLER), 0);
	process_step_hook = NULL;
	assert_int_equal(learning->flags,
			 AGENT_HOOK_FRAME | AGENT_HOOK_WORKER | AGENT_HOOK_HANDLER);
	process_close(&p);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(learning, 4096);
}

/* A program with more futures than can be hooked: these are left out, and not what keeps it safe. */
static void test_too_many_futures(void **state)
{
	enum { N_USES = 1285, N_FUTURES = AGENT_MAX_HOOKS / N_USES };
	static uint64_t words[N_USES];
	static struct code_ref uses[N_USES];
	static struct scan_future futures[N_FUTURES];
	struct process_objects all = {0};
	struct process_maps maps = {0};
	struct process p = PROCESS_INIT;
	struct error err = {0};
	struct hooks h = {0};
	size_t n_hooked = 0, n_left = 0;
	int status;

	(void)state;
	for (size_t i = 0; i < N_USES; i++) {
		words[i] = (uint64_t)&futures;
		uses[i] = (struct code_ref){.kind = REF_WORD,
					    .operand = (uint64_t)&words[i],
					    .target = (uint64_t)&futures};
	}
	for (size_t i = 0; i < N_FUTURES; i++)
		futures[i] = (struct scan_future){.name = "f", .uses = uses, .n_uses = N_USES};
	pid_t pid = start_paused();
	assert_int_equal(process_open(pid, &p, &err), 0);
	assert_int_equal(maps_read(&p, &maps, &err), 0);
	assert_int_equal(objects_read(&p, &maps, &all, &err), 0);
	maps_done(&maps);
	struct hooked_object object = {.object = &all.v[0],
				       .unwinder = UNWINDER_KNOWN,
				       .futures = {.v = futures, .n = N_FUTURES, .boxed = true}};
	struct hooked_object *objects[] = {&object};
	assert_int_equal(hooks_plan(&p, objects, 1, &all, &h, &err), 0);
	for (size_t i = 0; i < N_FUTURES; i++)
		n_left += futures[i].trouble != NULL;
	assert_true(n_left > 0 && n_left < N_FUTURES);
	for (size_t i = 0; i < h.n; i++)
		n_hooked += h.table[i].type == AH_FORK;
	assert_true(n_hooked > 0); /* we call fork() */
	hooks_done(&h);
	objects_done(&all);
	process_close(&p);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* ---- stopping ---- */

#define N_THREADS 40

static void *wait_for_stop(void *arg)
{
	while (!shared->stop)
		usleep(500);
	return NULL;
}

static void end_main_thread(int number)
{
	syscall(SYS_exit, 0);
}

static pid_t start_threads(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();

	if (pid == 0) {
		pthread_t threads[N_THREADS];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGUSR1, on_usr1);
		signal(SIGUSR2, end_main_thread);
		for (int i = 0; i < N_THREADS; i++)
			pthread_create(&threads[i], NULL, wait_for_stop, NULL);
		shared->ready = 1;
		for (int i = 0; i < N_THREADS; i++)
			pthread_join(threads[i], NULL);
		_exit(0);
	}
	while (!shared->ready)
		usleep(1000);
	return pid;
}

struct stop_test {
	struct process process;
	struct error err;
	int rc;
	size_t n_stopped;
	uint64_t stop_ns;
};

static int stop_all(void *arg)
{
	struct stop_test *t = arg;
	struct process_stop stopped;

	t->rc = threads_stop(&t->process, 60000000000, &stopped, &t->err);
	if (t->rc < 0)
		return 0;
	for (size_t i = 0; i < stopped.n; i++) {
		char name[48], text[512];

		snprintf(name, sizeof(name), "task/%d/stat", stopped.v[i].tid);
		if (process_read_file(&t->process, name, text, sizeof(text)) > 0)
			t->n_stopped += strrchr(text, ')')[2] == 't';
	}
	threads_resume(&stopped);
	t->stop_ns = stopped.stop_ns;
	return 0;
}

static void test_stop_all(void **state)
{
	struct stop_test t = {.process = PROCESS_INIT};
	pid_t pid = start_threads();
	struct tracer *tracer;
	int status;

	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	tracer_call(tracer, stop_all, &t);
	assert_int_equal(t.rc, 0);
	assert_int_equal(t.n_stopped, N_THREADS + 1);
	assert_true(t.stop_ns > 0);

	/* Signals on their way when the stop comes arrive all the same. */
	uint64_t sent = 0;
	for (int i = 0; i < 300; i++) {
		uint64_t before = shared->signals;

		kill(pid, SIGUSR1);
		sent++;
		t.n_stopped = 0;
		tracer_call(tracer, stop_all, &t);
		assert_int_equal(t.rc, 0);
		for (int wait = 0; wait < 30000 && shared->signals == before; wait++)
			usleep(1000);
		assert_int_equal(shared->signals, sent);
	}
	tracer_end(tracer);
	shared->stop = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	process_close(&t.process);
}

/* A thread that waits for a vfork can't stop: the others don't wait for it. Here it waits for what
 * two others do after they were stopped, one made before it and one made after it, so a tracer that
 * kept one of these stopped would wait for ever. */
#define TURNS 100 /* more than are made until an interrupt has come */

static void *make_vfork(void *arg)
{
	pid_t pid = vfork();

	if (pid == 0) {
		shared->ready = 1;
		while (!shared->futex || shared->signals < TURNS || shared->wrong < TURNS)
			usleep(500);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return wait_for_stop(arg);
}

static void *take_turns(void *turns)
{
	volatile uint64_t *n = turns;

	while (!shared->stop) {
		if (shared->futex)
			++*n;
		usleep(500);
	}
	return NULL;
}

static void note_interrupt(const char *what)
{
	if (!strcmp(what, "interrupt"))
		shared->futex = 1;
}

static void test_stop_with_vfork(void **state)
{
	struct stop_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;
	int status;

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();
	if (pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, make_vfork, NULL);
		while (!shared->ready)
			usleep(500);
		pthread_create(&thread, NULL, take_turns, (void *)(uintptr_t)&shared->wrong);
		shared->ready = 2;
		take_turns((void *)(uintptr_t)&shared->signals);
		_exit(0);
	}
	while (shared->ready < 2)
		usleep(1000);
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	process_step_hook = note_interrupt;
	tracer_call(tracer, stop_all, &t);
	process_step_hook = NULL;
	tracer_end(tracer);
	assert_int_equal(t.rc, 0);
	assert_int_equal(t.n_stopped, 3);
	assert_true(shared->signals >= TURNS && shared->wrong >= TURNS);
	shared->stop = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	process_close(&t.process);
}

/* Of two that can't stop, the first one goes on when it has: the other waits for what it does then. */
static void *make_first_vfork(void *arg)
{
	pid_t pid = vfork();

	if (pid == 0) {
		shared->ready++;
		while (!shared->futex)
			usleep(500);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	take_turns((void *)(uintptr_t)&shared->signals);
	return arg;
}

static void *make_second_vfork(void *arg)
{
	pid_t pid = vfork();

	if (pid == 0) {
		uint64_t until = clock_monotonic_ns() + 20 * NSEC_PER_SEC;

		shared->ready++;
		while (shared->signals < TURNS && !shared->wrong)
			if (clock_monotonic_ns() > until)
				shared->wrong = 1;
			else
				usleep(500);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return wait_for_stop(arg);
}

static void test_late_one_by_one(void **state)
{
	struct stop_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;
	int status;

	(void)state;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();
	if (pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, make_first_vfork, NULL);
		while (shared->ready < 1)
			usleep(500);
		pthread_create(&thread, NULL, make_second_vfork, NULL);
		wait_for_stop(NULL);
		_exit(0);
	}
	while (shared->ready < 2)
		usleep(1000);
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	process_step_hook = note_interrupt;
	tracer_call(tracer, stop_all, &t);
	process_step_hook = NULL;
	tracer_end(tracer);
	assert_int_equal(t.rc, 0);
	assert_int_equal(t.n_stopped, 3);
	assert_int_equal(shared->wrong, 0);
	shared->stop = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	process_close(&t.process);
}

/* The room that a list is to map may be the program's when the list comes there: that is not taken
 * for what the list has mapped, and stays as it is. */
static int map_what_is_taken(void *arg)
{
	struct remote_calls_test *t = arg;
	struct injector in = {.process = &t->process};
	const uint64_t taken = (uint64_t)(uintptr_t)shared, word_at = taken + 2048;
	const uint64_t flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	struct process_maps maps;
	struct code_cave cave;

	assert_int_equal(maps_read(&t->process, &maps, &t->err), 0);
	const uint64_t at = maps_find_hole(&maps, 0, 0, 0, 4096);
	assert_int_equal(inject_find_cave(&t->process, &maps, STUB_ROOM, &cave, &t->err), 0);
	maps_done(&maps);
	const struct stub_call calls[] = {
		{.nr = SYS_mmap,
		 .args = {taken, 4096, PROT_READ | PROT_WRITE, flags, UINT64_MAX, 0},
		 .check = STUB_EQUAL,
		 .expected = taken},
		{.nr = SYS_mmap,
		 .args = {at, 4096, PROT_READ | PROT_EXEC, flags, UINT64_MAX, 0},
		 .result_at = word_at},
	};
	const struct remote_calls list = {
		.calls = calls, .n_calls = 2, .mapped_at = word_at, .mapped_value = at};

	t->rc = inject_run(&in, &cave, &list, &t->err);
	t->dirty = cave.dirty;
	assert_int_equal(memory_read_u64(&t->process, word_at, &t->result), 0);
	return 0;
}

static void test_room_is_taken(void **state)
{
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;
	int pipe_fd, status;
	pid_t pid = start_child(JOB_READ, &pipe_fd);

	(void)state;
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	tracer_call(tracer, map_what_is_taken, &t);
	tracer_end(tracer);
	assert_int_equal(t.rc, -ENOMEM);
	assert_false(t.dirty);
	assert_int_equal(t.result, 0);
	status = finish_child(pid, pipe_fd);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	process_close(&t.process);
}

/* A process that is held by job control can't run a remote call: the error says so, and it is held
 * afterwards.
 */
static void test_held(void **state)
{
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;
	int pipe_fd, status;
	pid_t pid = start_child(JOB_READ, &pipe_fd);

	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_int_equal(process_open(pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	tracer_call(tracer, run_errands, &t);
	tracer_end(tracer);
	assert_int_equal(t.rc, -EBUSY);
	assert_non_null(strstr(t.err.text, "kill -CONT"));
	char text[512];
	assert_true(process_read_file(&t.process, "stat", text, sizeof(text)) > 0);
	assert_int_equal(strrchr(text, ')')[2], 'T');
	kill(pid, SIGCONT);
	status = finish_child(pid, pipe_fd);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(shared->result, 1);
	process_close(&t.process);
}

/* ---- who is who ---- */

#define IMAGE_AT ((uint8_t *)0x20000000)

/* What a child becomes that executes this file again: other bytes at the same address, at which it
 * waits. */
static int be_other_image(void)
{
	uint8_t *at = mmap(IMAGE_AT, 4096, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	char byte;

	if (at != IMAGE_AT)
		return 1;
	memset(at, 0x22, 4096);
	if (write(STDOUT_FILENO, "x", 1) != 1)
		return 1;
	while (read(STDIN_FILENO, &byte, 1) == 1)
		if (at[0] != 0x22)
			return 1;
	return at[0] == 0x22 ? 0 : 2;
}

struct executing {
	pid_t pid;
	int in[2], out[2];
};

/* A child without random addresses that executes another program when it is written to. */
static void start_executing(struct executing *e)
{
	char byte;

	assert_int_equal(pipe(e->in), 0);
	assert_int_equal(pipe(e->out), 0);
	e->pid = fork();
	if (e->pid == 0) {
		personality(ADDR_NO_RANDOMIZE);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(e->in[0], STDIN_FILENO);
		dup2(e->out[1], STDOUT_FILENO);
		close(e->in[1]);
		uint8_t *at = mmap(IMAGE_AT, 4096, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (at != IMAGE_AT)
			_exit(1);
		memset(at, 0x11, 4096);
		if (write(STDOUT_FILENO, "x", 1) != 1 || read(STDIN_FILENO, &byte, 1) != 1)
			_exit(1);
		execl("/proc/self/exe", "test_process", "--other-image", NULL);
		_exit(1);
	}
	close(e->in[0]);
	close(e->out[1]);
	assert_int_equal(read(e->out[0], &byte, 1), 1);
}

static void let_execute(struct executing *e)
{
	char byte;

	assert_int_equal(write(e->in[1], "x", 1), 1);
	assert_int_equal(read(e->out[0], &byte, 1), 1);
}

static int end_executing(struct executing *e)
{
	int status;

	close(e->in[1]);
	assert_int_equal(waitpid(e->pid, &status, 0), e->pid);
	close(e->out[0]);
	return status;
}

static struct executing *executing; /* at the next "seize" */

static void execute_at_seize(const char *what)
{
	struct executing *e = executing;

	if (e && !strcmp(what, "seize")) {
		executing = NULL;
		let_execute(e);
	}
}

/* A stopped thread is killed by the exec of another one before it is let go: nobody but its tracer
 * can take its end, for which the exec waits, and for the exec the next seizing. */
struct killed_test {
	struct process process;
	int pipe_fd, rc;
};

static struct killed_test *killing; /* at the next "detach" */

static void *pause_as_first(void *none)
{
	shared->futex = (uint32_t)syscall(SYS_gettid);
	pause();
	return none;
}

static void *execute_on_command(void *arg)
{
	char byte;

	if (read(*(int *)arg, &byte, 1) == 1)
		execl("/bin/true", "true", NULL);
	_exit(1);
}

static void kill_at_detach(const char *what)
{
	struct killed_test *t = killing;

	if (!t || strcmp(what, "detach"))
		return;
	killing = NULL;
	assert_int_equal(write(t->pipe_fd, "x", 1), 1);
	while (process_thread_state(&t->process, (pid_t)shared->futex) != 'Z')
		usleep(1000);
}

static int stop_two(void *arg)
{
	struct killed_test *t = arg;
	struct stopped_thread thread;

	assert_int_equal(
		thread_stop(&t->process, (pid_t)shared->futex, THREAD_STOP_TIMEOUT, &thread), 0);
	thread_resume(&thread);
	t->rc = thread_stop(&t->process, t->process.pid, THREAD_STOP_TIMEOUT, &thread);
	if (t->rc == 0)
		thread_resume(&thread);
	return 0;
}

static void test_exec_before_detach(void **state)
{
	struct killed_test t = {.process = PROCESS_INIT};
	struct error err = {0};
	struct tracer *tracer;
	int fds[2], status;

	(void)state;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(pipe(fds), 0);
	t.pipe_fd = fds[1];
	pid_t pid = fork();
	if (pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, pause_as_first, NULL);
		pthread_create(&thread, NULL, execute_on_command, &fds[0]);
		pause();
	}
	while (!shared->futex)
		usleep(1000);
	assert_int_equal(process_open(pid, &t.process, &err), 0);
	assert_int_equal(tracer_start(&tracer, &err), 0);
	killing = &t;
	process_step_hook = kill_at_detach;
	tracer_call(tracer, stop_two, &t);
	process_step_hook = NULL;
	tracer_end(tracer);
	assert_null(killing);
	assert_true(t.rc < 0); /* it is another program, or has ended */
	process_close(&t.process);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(fds[0]);
	close(fds[1]);
}

struct write_test {
	struct process process;
	int rc;
};

static int write_word(void *arg)
{
	struct write_test *t = arg;

	t->rc = memory_write_u64(&t->process, (uint64_t)IMAGE_AT, 0x3333333333333333);
	return 0;
}

/* Where a kernel allows no write through /proc, a thread is stopped for it: not one that runs
 * another program by then, which may have more rights. */
static void test_exec_before_poke(void **state)
{
	struct write_test t = {.process = PROCESS_INIT};
	struct error err = {0};
	struct tracer *tracer;
	struct executing e;
	int status;

	start_executing(&e);
	assert_int_equal(process_open(e.pid, &t.process, &err), 0);
	assert_int_equal(tracer_start(&tracer, &err), 0);
	t.process.poke_only = true;
	tracer_call(tracer, write_word, &t);
	assert_int_equal(t.rc, 0); /* so that would have worked */
	executing = &e;
	process_step_hook = execute_at_seize;
	tracer_call(tracer, write_word, &t);
	process_step_hook = NULL;
	assert_null(executing);
	assert_int_equal(t.rc, -ESRCH);
	tracer_end(tracer);
	assert_int_equal(process_lost(&t.process, &err), -ESRCH);
	assert_non_null(strstr(err.text, "executed another program"));
	process_close(&t.process);
	status = end_executing(&e);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The same for remote calls: the thread is stopped as another program. */
static void test_exec_before_remote_calls(void **state)
{
	struct remote_calls_test t = {.process = PROCESS_INIT};
	struct tracer *tracer;
	struct executing e;
	int status;

	start_executing(&e);
	assert_int_equal(process_open(e.pid, &t.process, &t.err), 0);
	assert_int_equal(tracer_start(&tracer, &t.err), 0);
	executing = &e;
	process_step_hook = execute_at_seize;
	tracer_call(tracer, run_errands, &t);
	process_step_hook = NULL;
	tracer_end(tracer);
	assert_null(executing);
	assert_true(t.rc < 0 && t.rc != -EBADF);
	process_close(&t.process);
	status = end_executing(&e);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static pid_t process_numbered(pid_t number)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number, .set_tid_size = 1};
	pid_t pid;

	/* The number is free a moment after its thread can't be seen any more. */
	for (int i = 0; i < 1000; i++) {
		pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
		if (pid >= 0 || errno != EEXIST)
			break;
		usleep(1000);
	}
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static const struct process *renumbered_in; /* at the next "seize" */
static pid_t renumbered, stranger;

static void renumber_at_seize(const char *what)
{
	if (!renumbered_in || strcmp(what, "seize"))
		return;
	shared->stop = 1;
	while (process_has_thread(renumbered_in, renumbered))
		usleep(100);
	renumbered_in = NULL;
	stranger = process_numbered(renumbered);
}

static long tracer_of(pid_t pid)
{
	struct process p = PROCESS_INIT;
	char text[4096];
	long tracer = -1;

	assert_int_equal(process_open(pid, &p, NULL), 0);
	if (process_read_file(&p, "status", text, sizeof(text)) > 0)
		tracer = process_status_number(text, "TracerPid", false);
	process_close(&p);
	return tracer;
}

struct number_test {
	struct process process;
	pid_t tid;
	int rc;
};

static int stop_number(void *arg)
{
	struct number_test *t = arg;
	struct stopped_thread stopped;

	t->rc = thread_stop(&t->process, t->tid, 1000000000, &stopped);
	if (t->rc == 0)
		thread_resume(&stopped);
	return 0;
}

/* A number of another process' thread, from the beginning or because it was given away just before
 * the thread is seized: it is left alone. */
static void test_stranger(void **state)
{
	struct number_test t = {.process = PROCESS_INIT};
	struct error err = {0};
	struct tracer *tracer;
	pid_t *tids, pid = start_threads();
	int status;
	size_t n;

	need_root();
	assert_int_equal(process_open(pid, &t.process, &err), 0);
	assert_int_equal(tracer_start(&tracer, &err), 0);
	assert_int_equal(threads_list(&t.process, &tids, &n), 0);
	assert_true(n > 2);
	t.tid = tids[n - 1];
	free(tids);
	tracer_call(tracer, stop_number, &t);
	assert_int_equal(t.rc, 0);

	renumbered = t.tid;
	renumbered_in = &t.process;
	process_step_hook = renumber_at_seize;
	tracer_call(tracer, stop_number, &t);
	process_step_hook = NULL;
	assert_null(renumbered_in);
	assert_int_equal(stranger, t.tid);
	assert_int_equal(t.rc, -ESRCH);
	assert_int_equal(tracer_of(stranger), 0);
	tracer_call(tracer, stop_number, &t);
	assert_int_equal(t.rc, -ESRCH);
	tracer_end(tracer);
	process_close(&t.process);
	kill(stranger, SIGKILL);
	assert_int_equal(waitpid(stranger, &status, 0), stranger);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- one at a time ---- */

/* Another user may hold all that they can open of a process: that forbids nothing. */
static void test_lock(void **state)
{
	struct process one = PROCESS_INIT, two = PROCESS_INIT;
	struct error err = {0};
	int ready[2], status;
	char path[32], byte;
	pid_t pid = start_paused();

	need_root();
	assert_int_equal(pipe(ready), 0);
	snprintf(path, sizeof(path), "/proc/%d", pid);
	pid_t other = fork();
	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
			_exit(1);
		int fd = open(path, O_RDONLY | O_DIRECTORY);
		for (const char *const *name = (const char *const[]){"mem", "environ", NULL}; *name;
		     name++)
			if (openat(fd, *name, O_RDONLY) >= 0)
				_exit(2);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0 || write(ready[1], "x", 1) != 1)
			_exit(3);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(process_open(pid, &one, &err), 0);
	assert_int_equal(process_open(pid, &two, &err), 0);
	assert_true(process_lock(&one, false));
	assert_false(process_lock(&two, false));
	assert_false(process_lock(&two, true));
	process_unlock(&one);
	assert_true(process_lock(&two, true));
	assert_true(process_lock(&one, true));
	assert_false(process_lock(&one, false));
	process_close(&two);
	assert_true(process_lock(&one, false));
	process_close(&one);
	kill(other, SIGKILL);
	assert_int_equal(waitpid(other, &status, 0), other);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* ---- rights ---- */

static void test_rights(void **state)
{
	struct process p = PROCESS_INIT;
	struct error err = {0};
	int status;

	assert_int_equal(process_open(0x3ffffff, &p, &err), -ESRCH);
	assert_non_null(strstr(err.text, "there is no process"));

	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	err = (struct error){0};
	assert_int_equal(process_open(pid, &p, &err), -ESRCH);
	assert_non_null(strstr(err.text, "zombie"));
	waitpid(pid, &status, 0);

	/* Its main thread has ended, another goes on. */
	pid = start_threads();
	assert_int_equal(process_open(pid, &p, &err), 0);
	assert_int_equal(process_lost(&p, &err), 0);
	syscall(SYS_tgkill, pid, pid, SIGUSR2);
	while (process_lost(&p, &err) == 0)
		usleep(1000);
	assert_non_null(strstr(err.text, "main thread"));
	process_close(&p);
	err = (struct error){0};
	assert_int_equal(process_open(pid, &p, &err), -ESRCH);
	assert_non_null(strstr(err.text, "main thread"));
	shared->stop = 1;
	waitpid(pid, &status, 0);

	/* Traced by another process. */
	int pipe_fd;
	pid = start_child(JOB_READ, &pipe_fd);
	pid_t tracer = fork();
	if (tracer == 0) {
		ptrace(PTRACE_SEIZE, pid, 0, 0);
		shared->ready = 2;
		pause();
	}
	while (shared->ready != 2)
		usleep(1000);
	err = (struct error){0};
	assert_int_equal(process_open(pid, &p, &err), -EBUSY);
	assert_non_null(strstr(err.text, "already traced"));
	kill(tracer, SIGKILL);
	waitpid(tracer, &status, 0);
	status = finish_child(pid, pipe_fd);
	assert_true(WIFEXITED(status));
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--other-image"))
		return be_other_image();

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_maps_lines),
		cmocka_unit_test(test_maps_hostile),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_open_call),
		cmocka_unit_test(test_errands),
		cmocka_unit_test(test_errands_without_cpu),
		cmocka_unit_test(test_errand_interrupted),
		cmocka_unit_test(test_errand_and_interrupted_calls),
		cmocka_unit_test(test_errand_beside_masked_call),
		cmocka_unit_test(test_slow_list),
		cmocka_unit_test(test_errand_under_signals),
		cmocka_unit_test(test_errands_by_poke),
		cmocka_unit_test(test_errands_restartable),
		cmocka_unit_test(test_errands_dispatched),
		cmocka_unit_test(test_seccomp_filters),
		cmocka_unit_test(test_seccomp_child),
		cmocka_unit_test(test_seccomp_slow_child),
		cmocka_unit_test(test_seccomp_unreadable),
		cmocka_unit_test(test_killed_waiting),
		cmocka_unit_test(test_killed_running),
		cmocka_unit_test(test_replace_on_two_pages),
		cmocka_unit_test(test_patch_in_stops),
		cmocka_unit_test(test_sites_unloaded),
		cmocka_unit_test(test_undo_in_stops),
		cmocka_unit_test(test_patch_copies_no_page),
		cmocka_unit_test(test_prepare_leaves_new_code),
		cmocka_unit_test(test_abort_by_handle),
		cmocka_unit_test(test_flags_of_both),
		cmocka_unit_test(test_too_many_futures),
		cmocka_unit_test(test_stop_all),
		cmocka_unit_test(test_stop_with_vfork),
		cmocka_unit_test(test_late_one_by_one),
		cmocka_unit_test(test_room_is_taken),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_exec_before_detach),
		cmocka_unit_test(test_exec_before_poke),
		cmocka_unit_test(test_exec_before_remote_calls),
		cmocka_unit_test(test_stranger),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_rights),
		cmocka_unit_test(test_memory_of_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
