/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory of a process through /proc/PID/mem. One system call moves any number of pages, ignores
 * page protection (the kernel breaks copy-on-write for us, so files and other processes never
 * change) and needs no stopped thread. Kernels since 6.12 can forbid that last part
 * (proc_mem.force_override): then the same words go through PTRACE_POKEDATA, which keeps its right
 * to do so.
 */
#include "process/memory.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "process/threads.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

int memory_read(const struct process *p, uint64_t addr, void *out, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(p->mem_fd, (char *)out + done, len - done, (off_t)(addr + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ESRCH; /* the address space is gone */
		done += n;
	}
	return 0;
}

/* One system call's worth; returns how many pieces at the front were read. */
static size_t read_some(const struct process *p, const struct memory_piece *v, size_t n)
{
	struct iovec here[IOV_MAX], there[IOV_MAX];
	size_t done = 0;
	ssize_t len;

	for (size_t i = 0; i < n; i++) {
		here[i] = (struct iovec){v[i].out, v[i].len};
		there[i] = (struct iovec){(void *)(uintptr_t)v[i].addr, v[i].len};
	}
	len = process_vm_readv(p->pid, here, n, there, n, 0);
	while (done < n && len >= (ssize_t)v[done].len)
		len -= (ssize_t)v[done++].len;
	return done;
}

int memory_read_pieces(const struct process *p, const struct memory_piece *v, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t some = n - i < IOV_MAX ? n - i : IOV_MAX, done = read_some(p, v + i, some);
		int rc = 0;

		i += done;
		if (done <
		    some) { /* this one can't be read so, or the kernel doesn't do it at all */
			rc = memory_read(p, v[i].addr, v[i].out, v[i].len);
			i++;
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

int memory_read_u64(const struct process *p, uint64_t addr, uint64_t *ret_value)
{
	return memory_read(p, addr, ret_value, sizeof(*ret_value));
}

static int poke(const struct process *p, pid_t tid, uint64_t addr, const uint8_t *data, size_t len)
{
	while (len) {
		uint64_t at = addr & ~7ull, word;

		/* What fits into a word goes as one, so that it is there whole or not at all. */
		if (len <= 8 && addr + len > at + 8 && addr % PAGE + len <= PAGE)
			at = addr + len - 8;
		size_t skip = addr - at, n = 8 - skip;
		if (n > len)
			n = len;
		if (n < 8)
			TRY(memory_read(p, at, &word, 8));
		memcpy((uint8_t *)&word + skip, data, n);
		process_step("poke");
		if (ptrace(PTRACE_POKEDATA, tid, at, word) < 0)
			return -errno;
		addr += n;
		data += n;
		len -= n;
	}
	return 0;
}

static int stop_and_poke(const struct process *p, uint64_t addr, const void *data, size_t len)
{
	_cleanup_free_ pid_t *tids = NULL;
	uint64_t until;
	size_t n;
	int rc;

	TRY(threads_list(p, &tids, &n));
	rc = -ESRCH;
	until = clock_monotonic_ns() + THREAD_STOP_TIMEOUT;
	for (size_t i = 0; i < n; i++) {
		struct stopped_thread t;
		uint64_t now = clock_monotonic_ns();

		/* Of the time for one stop each has its share: a crowd may be unable to stop. */
		rc = thread_stop(p, tids[i], now < until ? (until - now) / (n - i) : 0, &t);
		if (rc == 0) {
			rc = poke(p, t.tid, addr, data, len);
			thread_resume(&t);
			break;
		}
	}
	return rc;
}

static ssize_t proc_write(const struct process *p, uint64_t addr, const void *data, size_t len)
{
	if (p->poke_only)
		return -EIO;
	ssize_t n = pwrite(p->mem_fd, data, len, (off_t)addr);
	return n < 0 ? -errno : n;
}

int memory_write(const struct process *p, uint64_t addr, const void *data, size_t len)
{
	const uint8_t *bytes = data;

	while (len) {
		process_step("mem write");
		ssize_t n = proc_write(p, addr, bytes, len);

		if (n == -EINTR)
			continue;
		if (n == -EIO || n == -EACCES || n == -EPERM)
			return p->stopped_tid ? poke(p, p->stopped_tid, addr, bytes, len)
					      : stop_and_poke(p, addr, bytes, len);
		if (n < 0)
			return (int)n;
		if (n == 0)
			return -ESRCH;
		addr += (uint64_t)n;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

int memory_store(const struct process *p, uint64_t addr, const void *data, size_t len)
{
	ssize_t n = pwrite(p->mem_fd, data, len, (off_t)addr);

	return n < 0 ? -errno : n == (ssize_t)len ? 0 : -ESRCH;
}

void memory_unshare(const struct process *p, uint64_t addr, uint8_t byte)
{
	uint8_t live;

	process_step("unshare");
	/* The program may have made the page writable since, and have changed it. */
	if (memory_read(p, addr, &live, 1) == 0 && live == byte)
		proc_write(p, addr, &byte, 1);
}

int memory_write_u64(const struct process *p, uint64_t addr, uint64_t value)
{
	return memory_write(p, addr, &value, sizeof(value));
}

int memory_replace(const struct process *p, uint64_t addr, const void *bytes, size_t len)
{
	return memory_in_one_page(addr, len) ? memory_write(p, addr, bytes, len) : -EOPNOTSUPP;
}
