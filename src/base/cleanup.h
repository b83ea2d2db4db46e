/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cleanup by scope: `_cleanup_free_ char *s = NULL;`. `steal(p)` gives a pointer away. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_freep(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(cleanup_freep)
#define _cleanup_close_ _cleanup_(cleanup_closep)
#define _cleanup_fclose_ _cleanup_(cleanup_fclosep)

/* Frees what its owner reaches by a pointer to const, since only the owner may change it. */
static inline void free_const(const void *p)
{
	free((void *)(uintptr_t)p);
}

#define steal(p)                                                                                   \
	({                                                                                         \
		__typeof__(p) steal_tmp = (p);                                                     \
		(p) = NULL;                                                                        \
		steal_tmp;                                                                         \
	})
