/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The rings' memory.
 *
 * One list of remote calls makes a memfd, seals and maps it, keeps it out of children and dumps,
 * and closes the memfd. pollux takes its own handle on it while the thread is stopped before the
 * second call; if pollux dies there, the thread continues and closes its own. Meanwhile all other
 * threads are stopped, so that no child is forked that has descriptor or rings.
 *
 * A program that has used its last descriptor, as one that leaks sockets, can make no memfd. Its
 * rings are a System V segment, which needs none: so pollux changes no limit of the program, which
 * a pollux that is killed would leave changed. The segment is removed as soon as it is mapped, and
 * then lives as long as its mappings; by its number pollux can map it all the same.
 */
#include "process/ring_memory.h"

#include "base/cleanup.h"
#include "process/memory.h"

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/memfd.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif
#define NO_MAP ((void *)-1) /* MAP_FAILED, and what shmat() gives */
#define MAX_CALLS 8

struct ring_memory {
	const struct process *process;
	const struct ring_memory_words *words;
	uint64_t bytes, replaced;
	bool segment;
	int ipc_here, ipc_there; /* namespaces, if they differ; else -1 */
	int fd;			 /* of the memfd; -1: it was not taken */
	void *map;		 /* NULL: not mapped here */
	int rc;
	struct error *err;
};

bool ring_memory_is(const char *path)
{
	/* A segment without a key. */
	return !strcmp(path, "/memfd:" RING_MEMORY_NAME) || !strcmp(path, "/SYSV00000000");
}

static uint32_t memfd_flags(void)
{
	struct utsname u;
	unsigned major = 0, minor = 0;

	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	/* Since 6.3 the kernel complains in its log where neither of the exec flags is given. */
	return MFD_CLOEXEC | MFD_ALLOW_SEALING |
	       (major > 6 || (major == 6 && minor >= 3) ? MFD_NOEXEC_SEAL : 0);
}

/* ---- pollux's side ---- */

static int take_memfd(const struct ring_memory *m, int number)
{
	int pidfd = (int)syscall(SYS_pidfd_open, m->process->pid, 0);
	int fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
	char name[32];

	if (pidfd >= 0)
		close(pidfd);
	if (fd >= 0)
		return fd;
	snprintf(name, sizeof(name), "fd/%d", number);
	return openat(m->process->proc_fd, name, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* The number was the target's word: what came is checked to be sealed memory of the right size, so
 * that no later trick of the target can give us a SIGBUS. */
static void *map_memfd(const struct ring_memory *m)
{
	int seals = fcntl(m->fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(m->fd, &st) < 0 ||
	    (uint64_t)st.st_size != m->bytes) {
		errno = EPROTO;
		return NO_MAP;
	}
	return mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, m->fd, 0);
}

/* The same. No segment can be cut but through /proc/PID/map_files, which only root opens. */
static void *map_own_segment(const struct ring_memory *m, int number)
{
	void *map = shmat(number, NULL, 0);
	struct shmid_ds ds;

	/* From now on the number is this segment's. */
	if (map == NO_MAP)
		return map;
	if (shmctl(number, IPC_STAT, &ds) == 0 && ds.shm_segsz == m->bytes &&
	    ds.shm_cpid == m->process->pid) {
		/* The program does the same once it has mapped it, which it can all the same; but it
		 * may be killed first. */
		shmctl(number, IPC_RMID, NULL);
		return map;
	}
	shmdt(map);
	errno = EPROTO;
	return NO_MAP;
}

/* In a container the number is that of another namespace, into which this thread goes for it. */
static void *map_segment(const struct ring_memory *m, int number)
{
	void *map;
	int error;

	if (m->ipc_there < 0)
		return map_own_segment(m, number);
	if (setns(m->ipc_there, CLONE_NEWIPC) < 0)
		return NO_MAP;
	map = map_own_segment(m, number);
	error = errno;
	setns(m->ipc_here, CLONE_NEWIPC);
	errno = error;
	return map;
}

/* The namespaces, before the program may be gone. */
static int open_namespaces(struct ring_memory *m)
{
	if (process_same_ns(m->process, "ipc") != 0)
		return 0;
	m->ipc_here = open("/proc/thread-self/ns/ipc", O_RDONLY | O_CLOEXEC);
	m->ipc_there = openat(m->process->proc_fd, "ns/ipc", O_RDONLY | O_CLOEXEC);
	return m->ipc_here < 0 || m->ipc_there < 0
		       ? error_sys(m->err, -errno, "cannot open the IPC namespace of process %d",
				   m->process->pid)
		       : 0;
}

/* The one that the program has made, if it was killed before it was mapped: no other process
 * knows its number, so it would stay for ever. */
static void remove_left(const struct ring_memory *m)
{
	struct shmid_ds ds;
	struct shm_info info;

	if (m->ipc_there >= 0 && setns(m->ipc_there, CLONE_NEWIPC) < 0)
		return;
	/* Linux gives the highest index that is used. */
	int last = shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info);

	for (int i = 0; i <= last; i++) {
		int number = shmctl(i, SHM_STAT, &ds);

		if (number >= 0 && ds.shm_cpid == m->process->pid && !ds.shm_nattch &&
		    ds.shm_segsz == m->bytes)
			shmctl(number, IPC_RMID, NULL);
	}
	if (m->ipc_there >= 0)
		setns(m->ipc_here, CLONE_NEWIPC);
}

static int refused(const struct ring_memory *m)
{
	return errno == EPROTO ? error_set(m->err, -EPROTO,
					   "process %d shares another object than the rings that "
					   "pollux requested",
					   m->process->pid)
			       : error_sys(m->err, -errno, "cannot share memory with process %d",
					   m->process->pid);
}

/* In between, the memory itself or a handle on it. */
static bool take(void *arg, size_t call, bool alone)
{
	struct ring_memory *m = arg;
	uint64_t number;

	(void)call, (void)alone;

	m->rc = memory_read_u64(m->process, m->words->number, &number);
	/* The call before may have failed: the list's outcome says why. */
	if (m->rc < 0 || number > INT_MAX)
		return true;
	if (m->segment) {
		void *map = map_segment(m, (int)number);

		m->map = map == NO_MAP ? NULL : map;
	} else {
		m->fd = take_memfd(m, (int)number);
	}
	if (!m->map && m->fd < 0)
		m->rc = refused(m);
	return true;
}

/* The list is done. */
static int map_taken(struct ring_memory *m)
{
	void *map = m->fd < 0 ? m->map : map_memfd(m);

	if (!map)
		return m->rc < 0 ? m->rc
				 : error_set(m->err, -EAGAIN,
					     "process %d was stopped (SIGSTOP) or got no CPU while "
					     "it shared memory with pollux: try again",
					     m->process->pid);
	if (map == NO_MAP)
		return refused(m);
	m->map = map;
	return 0;
}

/* ---- the target's side ---- */

/* The calls up to the mapping; how many. */
static size_t memfd_calls(const struct ring_memory *m, struct stub_call calls[MAX_CALLS])
{
	const struct ring_memory_words *w = m->words;
	const uint64_t flags = MAP_SHARED | MAP_NORESERVE | (m->replaced ? MAP_FIXED : 0);
	size_t n = 0;

	calls[n++] = (struct stub_call){.nr = __NR_memfd_create,
					.args = {w->name, memfd_flags()},
					.check = STUB_NO_ERROR,
					.result_at = w->number};
	calls[n++] = (struct stub_call){.nr = __NR_ftruncate,
					.args = {w->number, m->bytes},
					.from_memory = 1,
					.check = STUB_EQUAL};
	calls[n++] = (struct stub_call){
		.nr = __NR_fcntl,
		.args = {w->number, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL},
		.from_memory = 1,
		.check = STUB_EQUAL};
	calls[n++] = (struct stub_call){
		.nr = __NR_mmap,
		.args = {m->replaced, m->bytes, PROT_READ | PROT_WRITE, flags, w->number, 0},
		.from_memory = 1 << 4,
		.check = STUB_NO_ERROR,
		.result_at = w->mapped};
	return n;
}

static size_t segment_calls(const struct ring_memory *m, struct stub_call calls[MAX_CALLS])
{
	const struct ring_memory_words *w = m->words;
	size_t n = 0;

	calls[n++] = (struct stub_call){
		.nr = __NR_shmget,
		.args = {IPC_PRIVATE, m->bytes, IPC_CREAT | 0600 | SHM_NORESERVE},
		.check = STUB_NO_ERROR,
		.result_at = w->number};
	calls[n++] =
		(struct stub_call){.nr = __NR_shmat,
				   .args = {w->number, m->replaced, m->replaced ? SHM_REMAP : 0},
				   .from_memory = 1,
				   .check = STUB_NO_ERROR,
				   .result_at = w->mapped};
	/* It goes with its last mapping, or at once if there is none. */
	calls[n++] = (struct stub_call){
		.nr = __NR_shmctl, .args = {w->number, IPC_RMID}, .from_memory = 1, .always = 1};
	return n;
}

static int share(struct injector *in, struct code_cave *cave, struct ring_memory *m)
{
	const struct ring_memory_words *w = m->words;
	struct stub_call calls[MAX_CALLS];
	size_t n = m->segment ? segment_calls(m, calls) : memfd_calls(m, calls);
	struct remote_calls list = {
		.calls = calls, .hold = 1 << 1, .done_at = w->done, .held = take, .arg = m};
	int rc = memory_write_u64(m->process, w->number, UINT64_MAX);

	/* Neither children nor dumps have it. Without this it does no harm but its size. */
	calls[n++] = (struct stub_call){.nr = __NR_madvise,
					.args = {w->mapped, m->bytes, MADV_DONTFORK},
					.from_memory = 1,
					.always = m->segment,
					.result_at = w->no_fork};
	calls[n++] = (struct stub_call){.nr = __NR_madvise,
					.args = {w->mapped, m->bytes, MADV_DONTDUMP},
					.from_memory = 1,
					.always = m->segment,
					.result_at = w->no_dump};
	/* The target keeps its mapping; its descriptor goes in every case. */
	if (!m->segment)
		calls[n++] = (struct stub_call){
			.nr = __NR_close, .args = {w->number}, .from_memory = 1, .always = 1};
	list.n_calls = n;
	/* Another thread might close the number, and open a file of its own by it: that would be cut. */
	list.alone = m->segment ? 0 : (1ull << n) - 1;
	if (rc < 0)
		return error_sys(m->err, rc, "cannot write into process %d", m->process->pid);
	rc = inject_run(in, cave, &list, m->err);
	if (rc == 0)
		rc = map_taken(m);
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
	if (rc < 0 && m->map) {
		munmap(m->map, m->bytes);
		m->map = NULL;
	}
	return rc;
}

int ring_memory_make(struct injector *in, struct code_cave *cave,
		     const struct ring_memory_words *words, uint64_t bytes, uint64_t replaced,
		     void **ret_map, struct error *err)
{
	struct error none = {0};
	struct ring_memory m = {.process = in->process,
				.words = words,
				.bytes = bytes,
				.replaced = replaced,
				.ipc_here = -1,
				.ipc_there = -1,
				.fd = -1,
				.err = err ? err : &none};
	int rc = share(in, cave, &m);

	bool no_memfd = rc == -EPERM || rc == -ENOSYS; /* a filter's answer */

	if ((rc == -EMFILE || no_memfd) && !m.err->code) {
		m.segment = true;
		rc = open_namespaces(&m);
		rc = rc < 0 ? rc : share(in, cave, &m);
		/* Of one that is killed it may not be seen yet that it ends; one that lives gets an error. */
		if (rc < 0)
			remove_left(&m);
		if (rc < 0 && !m.err->code)
			error_sys(m.err, rc, "it was refused System V shared memory");
		if (rc < 0)
			error_add(m.err,
				  no_memfd ? "process %d is refused memfd_create"
					   : "process %d has no free file descriptor",
				  in->process->pid);
	}
	if (m.ipc_here >= 0)
		close(m.ipc_here);
	if (m.ipc_there >= 0)
		close(m.ipc_there);
	if (rc < 0)
		return m.err->code
			       ? m.err->code
			       : error_sys(m.err, rc, "process %d was refused memory for the rings",
					   in->process->pid);
	*ret_map = m.map;
	return 0;
}
