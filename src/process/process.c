/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Handles on a process, and its small /proc files.
 *
 * Everything is opened relative to one directory handle on /proc/PID: when the process is gone and
 * its number given to another, the handle answers ESRCH and never the stranger's files. The memory
 * handle is taken once, at the beginning, and pins the address space (not its pages): see
 * process.h.
 */
#include "process/process.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/units.h"
#include "process/rights.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

void (*process_step_hook)(const char *what);

void process_step(const char *what)
{
	if (process_step_hook)
		process_step_hook(what);
}

int process_same_ns(const struct process *p, const char *kind)
{
	char own[32], theirs[32];
	struct stat a, b;

	/* Who may trace may look. */
	snprintf(own, sizeof(own), "/proc/self/ns/%s", kind);
	snprintf(theirs, sizeof(theirs), "ns/%s", kind);
	if (stat(own, &a) < 0 || fstatat(p->proc_fd, theirs, &b, 0) < 0)
		return -1;
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/*
 * Identifies what exec gave the program that a thread runs: a hash of its auxiliary vector, with
 * the random addresses of stack, loader and vDSO, and whether it runs with more rights. 0: unknown.
 * *ret_mapped: an address that is mapped in it.
 */
static uint64_t image_of(const struct process *p, pid_t tid, uint64_t *ret_mapped)
{
	uint64_t entry[2];
	char name[48], auxv[1024];

	snprintf(name, sizeof(name), "task/%d/auxv", tid);
	ssize_t n = process_read_file(p, name, auxv, sizeof(auxv));
	if (n < (ssize_t)sizeof(entry))
		return 0;
	for (ssize_t i = 0; i + (ssize_t)sizeof(entry) <= n; i += sizeof(entry)) {
		memcpy(entry, auxv + i, sizeof(entry));
		if (entry[0] == AT_SYSINFO_EHDR || (entry[0] == AT_PHDR && !*ret_mapped))
			*ret_mapped = entry[1];
	}
	return hash_bytes(0, auxv, (size_t)n);
}

int process_open(pid_t pid, struct process *ret_process, struct error *err)
{
	struct process p = {.pid = pid, .proc_fd = -1, .mem_fd = -1, .pidfd = -1};
	char path[32];
	int rc;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	p.proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p.proc_fd < 0)
		return rights_explain(pid, errno == ENOENT ? -ESRCH : -errno, err);
	rights_log(&p);
	rc = rights_check(&p, err);
	if (rc < 0)
		goto fail;
	p.mem_fd = openat(p.proc_fd, "mem", O_RDWR | O_CLOEXEC);
	if (p.mem_fd < 0) {
		rc = rights_explain(pid, -errno, err);
		goto fail;
	}
	p.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	/* Where it can't be known the numbers are compared by NSpid. */
	p.other_pid_ns = process_same_ns(&p, "pid") <= 0;
	p.image = image_of(&p, pid, &(uint64_t){0});
	*ret_process = p;
	return 0;
fail:
	process_close(&p);
	return rc;
}

void process_close(struct process *p)
{
	if (p->mem_fd >= 0)
		close(p->mem_fd);
	if (p->proc_fd >= 0)
		close(p->proc_fd);
	if (p->pidfd >= 0)
		close(p->pidfd);
	p->mem_fd = p->proc_fd = p->pidfd = -1;
}

/* Linux include/uapi/linux/pidfd.h, the first version, which later ones only extend. */
struct pidfd_info {
	uint64_t mask, cgroup;
	uint32_t ids[11];
	int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_info) == 64, "the kernel knows it by its size");
#define GET_INFO _IOWR(0xff, 11, struct pidfd_info)
#define INFO_EXIT 8

/* Its memory is gone some time before it has ended. */
#define END_WAIT_MS 100

int process_end_status(const struct process *p)
{
	struct pidfd_info info = {.mask = INFO_EXIT};
	struct pollfd ended = {.fd = p->pidfd, .events = POLLIN};
	char stat[1024];

	if (p->pidfd < 0 || poll(&ended, 1, END_WAIT_MS) <= 0)
		return -1;
	if (ioctl(p->pidfd, GET_INFO, &info) == 0 && info.mask & INFO_EXIT)
		return info.exit_code;
	/* Until its parent has asked it is there still, and the last number says it. */
	if (process_read_file(p, "stat", stat, sizeof(stat)) <= 0 || !strrchr(stat, ' '))
		return -1;
	return atoi(strrchr(stat, ' '));
}

/* The old memory of a process that has executed another program can't be read: its last user is
 * gone. Unless it shares its memory with another process (vfork): then the program is another. */
bool process_same_memory(const struct process *p, pid_t tid)
{
	uint64_t mapped = 0;
	uint8_t byte;

	return image_of(p, tid, &mapped) == p->image && p->image &&
	       pread(p->mem_fd, &byte, 1, (off_t)mapped) == 1;
}

bool process_has_thread(const struct process *p, pid_t tid)
{
	char name[32];
	struct stat st;

	/* Not faccessat(), for which libc asks the kernel for a newer call: an old filter
	 * answers EPERM. */
	snprintf(name, sizeof(name), "task/%d", tid);
	return fstatat(p->proc_fd, name, &st, 0) == 0;
}

/* "PID (comm) STATE ...": comm may hold anything, so from the last parenthesis. */
char process_thread_state(const struct process *p, pid_t tid)
{
	char name[48], text[512];

	snprintf(name, sizeof(name), "task/%d/stat", tid);
	if (process_read_file(p, name, text, sizeof(text)) <= 0)
		return 'X';
	const char *state = strrchr(text, ')');
	return state && state[1] == ' ' ? state[2] : 'X';
}

/* Linux include/linux/sched.h: what these bits mean since which version. */
#define IO_WORKER 0x10u	    /* PF_IO_WORKER, 5.12 */
#define USER_WORKER 0x4000u /* PF_USER_WORKER, 6.4 */

static unsigned worker_flags(void)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return 0;
	const unsigned version = major * 1000 + minor;
	return (version >= 5012 ? IO_WORKER : 0) | (version >= 6004 ? USER_WORKER : 0);
}

bool process_is_worker(const struct process *p, pid_t tid)
{
	char name[48], text[512];
	unsigned flags = 0;

	snprintf(name, sizeof(name), "task/%d/stat", tid);
	if (process_read_file(p, name, text, sizeof(text)) <= 0 || !strrchr(text, ')'))
		return false;
	sscanf(strrchr(text, ')') + 1, " %*c %*d %*d %*d %*d %*d %u", &flags);
	return flags & worker_flags();
}

void process_thread_name(pid_t pid, pid_t tid, char ret_name[static 16])
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	ret_name[0] = 0;
	if (file && fgets(ret_name, 16, file))
		ret_name[strcspn(ret_name, "\n")] = 0;
}

bool process_alive(const struct process *p)
{
	char state = process_thread_state(p, p->pid);

	return state != 'Z' && state != 'X' && process_same_memory(p, p->pid);
}

/* How often, each ms, the end of a main thread is looked for that has begun: that of a process, or
 * of one in which another thread executes a program, takes its time on a busy machine. */
#define END_LOOKS 500
#define ENDS 0x4 /* PF_EXITING, Linux include/linux/sched.h: set before the memory goes */

/* One look, since a thread may end between two. */
struct main_thread {
	int error;  /* of the look, if it says nothing of the thread: no descriptor was left, say */
	char state; /* X: there is none */
	bool ends;
	int n_threads; /* of the process */
};

static struct main_thread look_at_main_thread(const struct process *p)
{
	struct main_thread m = {.state = 'X'};
	unsigned flags = 0;
	char text[512];
	ssize_t n = process_read_file(p, "stat", text, sizeof(text));

	if (n < 0 && n != -ENOENT && n != -ESRCH)
		m.error = (int)n;
	if (n > 0 && strrchr(text, ')'))
		sscanf(strrchr(text, ')') + 1,
		       " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d",
		       &m.state, &flags, &m.n_threads);
	m.ends = flags & ENDS || strchr("XZ", m.state);
	return m;
}

int process_lost(const struct process *p, struct error *err)
{
	struct main_thread m = {0};

	for (unsigned i = 0; i < END_LOOKS; i++) {
		bool same = process_same_memory(p, p->pid);

		m = look_at_main_thread(p);
		if (m.error)
			return error_sys(err, m.error, "cannot look at process %d", p->pid);
		if (!m.ends && same)
			return 0;
		if (!m.ends)
			return error_set(
				err, -ESRCH,
				"process %d has executed another program meanwhile: try again",
				p->pid);
		if (m.state == 'X' || (m.state == 'Z' && m.n_threads <= 1))
			break;
		clock_sleep(NSEC_PER_MSEC);
	}
	if (m.n_threads > 1)
		return error_set(err, -ESRCH,
				 "the main thread of process %d has ended, and without it the "
				 "kernel hides the threads that continue",
				 p->pid);
	return error_set(err, -ESRCH, "process %d has ended", p->pid);
}

bool process_lock(const struct process *p, bool shared)
{
	return flock(p->mem_fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
}

pid_t process_lock_holder(const struct process *p)
{
	_cleanup_close_ int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
	FILE *locks = fd < 0 ? NULL : fdopen(fd, "r");
	unsigned long inode;
	struct stat st;
	char line[256];
	int pid, found = 0;

	if (locks)
		fd = -1;
	while (locks && !found && fstat(p->mem_fd, &st) == 0 && fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*s FLOCK %*s %*s %d %*x:%*x:%lu", &pid, &inode) == 2 &&
		    inode == st.st_ino && pid > 0)
			found = pid;
	if (locks)
		fclose(locks);
	return found;
}

void process_unlock(const struct process *p)
{
	flock(p->mem_fd, LOCK_UN);
}

ssize_t process_read_file(const struct process *p, const char *name, char *out, size_t size)
{
	_cleanup_close_ int fd = openat(p->proc_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return -errno;
	len = io_read(fd, out, size - 1);
	if (len >= 0)
		out[len] = 0;
	return len;
}

int process_read_whole(const struct process *p, const char *name, size_t max, char **ret_text,
		       size_t *ret_len)
{
	_cleanup_close_ int fd = openat(p->proc_fd, name, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	size_t len = 0, cap = 0;

	if (fd < 0)
		return -errno;
	do {
		ssize_t n;
		char *more;

		cap = cap ? cap * 2 : 16384;
		if (cap > max)
			return -EFBIG;
		more = realloc(text, cap);
		if (!more)
			return -ENOMEM;
		text = more;
		n = io_read(fd, text + len, cap - 1 - len);
		if (n < 0)
			return (int)n;
		len += (size_t)n;
	} while (len == cap - 1);
	text[len] = 0;
	*ret_text = steal(text);
	*ret_len = len;
	return 0;
}

char *process_exe(pid_t pid)
{
	char link[32], path[4096];

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	ssize_t n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = 0;
	char *remark = strstr(path, " (deleted)");
	if (remark && !remark[10])
		*remark = 0;
	return *path ? strdup(path) : NULL;
}

bool process_read_status(const struct process *p, pid_t tid, char ret_text[PROCESS_STATUS_BYTES])
{
	char name[48] = "status";

	if (tid)
		snprintf(name, sizeof(name), "task/%d/status", tid);
	return process_read_file(p, name, ret_text, PROCESS_STATUS_BYTES) > 0;
}

int process_descriptor(const struct process *p, uint32_t fd, unsigned *ret_flags)
{
	char file[32], text[256], *flags, *end;

	snprintf(file, sizeof(file), "fdinfo/%u", fd);
	ssize_t n = process_read_file(p, file, text, sizeof(text));
	if (n < 0)
		return (int)n;
	flags = strstr(text, "flags:");
	if (!flags)
		return -ENOENT;
	*ret_flags = (unsigned)strtoul(flags + strlen("flags:"), &end, 8);
	return *end == '\n' ? 0 : -EINVAL;
}

long process_status_number(const char *status, const char *key, bool last)
{
	size_t len = strlen(key);

	for (const char *line = status; line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (strncmp(line, key, len) || line[len] != ':')
			continue;
		long value = -1;
		for (const char *at = line + len + 1; *at && *at != '\n';) {
			char *end;

			while (*at == ' ' || *at == '\t')
				at++;
			if (!isdigit((unsigned char)*at))
				break;
			value = strtol(at, &end, 10);
			if (!last)
				break;
			at = end;
		}
		return value;
	}
	return -1;
}

pid_t process_own_tid(const struct process *p, pid_t tid)
{
	char status[PROCESS_STATUS_BYTES];

	if (!p->other_pid_ns)
		return tid;
	if (!process_read_status(p, tid, status))
		return 0;
	long own = process_status_number(status, "NSpid", true);
	return own > 0 ? (pid_t)own : 0;
}
