/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading a map beyond the end of a file that was cut raises SIGBUS. A handler looks the address up
 * among the maps that this file has made, and maps zeros from there to the map's end, so that the
 * read goes on. It takes no lock and calls mmap() only, so it may run on any thread and at any
 * point. A slot of the list is taken by its flag; its range is set before the map is used, and
 * cleared before the map is removed. For any other address, SIGBUS does what it did before.
 *
 * SIGBUS kills a thread that blocks it, so no thread of pollux may (file_map_block_signals).
 */
#include "base/file_map.h"

#include "base/units.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Callers copy further files. */
#define MAX_MAPS 1024u

static struct guarded {
	bool taken, damaged;
	uintptr_t start, end; /* end 0: no map */
} maps[MAX_MAPS];

static struct sigaction before;

static void on_bus(int number, siginfo_t *info, void *context)
{
	const uintptr_t at = (uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1);
	const int saved = errno;

	(void)number;
	(void)context;
	for (unsigned i = 0; i < MAX_MAPS; i++) {
		struct guarded *m = &maps[i];
		const uintptr_t end = __atomic_load_n(&m->end, __ATOMIC_ACQUIRE);

		if (at < __atomic_load_n(&m->start, __ATOMIC_ACQUIRE) || at >= end)
			continue;
		if (mmap((void *)at, end - at, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			 -1, 0) == MAP_FAILED)
			break;
		__atomic_store_n(&m->damaged, true, __ATOMIC_RELEASE);
		errno = saved;
		return;
	}
	/* In none of the maps: the read is repeated, under the handler from before. */
	sigaction(SIGBUS, &before, NULL);
	errno = saved;
}

static void guard(void)
{
	struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, &before);
}

/* A group with the owner's number has only the owner in it, as most distributions make them. */
static bool only_user_can_write(const struct stat *st)
{
	const bool group = st->st_mode & S_IWGRP && st->st_gid != st->st_uid;

	return (st->st_uid == 0 || st->st_uid == geteuid()) && !group && !(st->st_mode & S_IWOTH);
}

static bool take_slot(unsigned *ret)
{
	for (unsigned i = 0; i < MAX_MAPS; i++) {
		if (__atomic_exchange_n(&maps[i].taken, true, __ATOMIC_ACQ_REL))
			continue;
		maps[i].damaged = false;
		*ret = i;
		return true;
	}
	return false;
}

int file_map_open(int fd, struct file_map *ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct stat st;
	unsigned slot;
	void *data;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0)
		return -EINVAL;
	if (!only_user_can_write(&st))
		return -EPERM;
	if (!take_slot(&slot))
		return -ENFILE;
	pthread_once(&once, guard);
	/* Not MAP_PRIVATE: the kernel puts the breakpoints of uprobes into such maps. */
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED) {
		int rc = -errno;

		__atomic_store_n(&maps[slot].taken, false, __ATOMIC_RELEASE);
		return rc;
	}
	*ret = (struct file_map){data, (size_t)st.st_size, slot};
	__atomic_store_n(&maps[slot].start, (uintptr_t)data, __ATOMIC_RELEASE);
	__atomic_store_n(&maps[slot].end,
			 ((uintptr_t)data + ret->len + PAGE - 1) & ~(uintptr_t)(PAGE - 1),
			 __ATOMIC_RELEASE);
	return 0;
}

bool file_map_damaged(const struct file_map *m)
{
	return m->data && __atomic_load_n(&maps[m->slot].damaged, __ATOMIC_ACQUIRE);
}

void file_map_close(struct file_map *m)
{
	if (!m->data)
		return;
	__atomic_store_n(&maps[m->slot].end, 0, __ATOMIC_RELEASE);
	munmap((void *)maps[m->slot].start, m->len);
	__atomic_store_n(&maps[m->slot].taken, false, __ATOMIC_RELEASE);
	*m = (struct file_map){0};
}

void file_map_block_signals(sigset_t *ret_before)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, ret_before);
}
