/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Only in the executable that has its libc in it.
 *
 * glibc makes threads and processes by clone3(), and by clone() only where the kernel says that it has no clone3()
 * (ENOSYS). Old container engines answer EPERM to each call that they don't know, also to that. So there no
 * program of glibc 2.34 and later can make a thread, and pollux needs some. Here glibc finds no clone3() at all.
 */
#include <errno.h>
#include <stddef.h>

struct clone_args;

/* glibc's own name of it (sysdeps/unix/sysv/linux/clone-internal.c). NOLINTNEXTLINE(bugprone-reserved-identifier) */
int __clone3(struct clone_args *args, size_t size, int (*fn)(void *arg), void *arg);

/* NOLINTNEXTLINE(bugprone-reserved-identifier) */
int __clone3(struct clone_args *args, size_t size, int (*fn)(void *arg), void *arg)
{
	(void)args, (void)size, (void)fn, (void)arg;
	errno = ENOSYS;
	return -1;
}
