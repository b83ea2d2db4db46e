/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Filters are only ever added, so a thread has a further one if it has more than it had. The agent
 * sees those that come through libc by itself (libc_hooks.h); this is for all others.
 */
#include "process/seccomp_watch.h"

#include "base/cleanup.h"
#include "process/seccomp.h"
#include "process/threads.h"

#include <stdlib.h>

#define AT_A_TIME 8u

int seccomp_watch_begin(struct seccomp_watch *w, const struct process *p)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n;

	TRY(threads_list(p, &tids, &n));
	for (size_t i = 0; i < n; i++) {
		long count = seccomp_count(p, tids[i]);

		if (count < 0)
			continue;
		if (count > w->most)
			w->most = count;
		TRY(map_put(&w->known, (uint64_t)tids[i], 0, (void *)(count + 1)));
	}
	return 0;
}

void seccomp_watch_done(struct seccomp_watch *w)
{
	map_done(&w->known);
	free(w->tids);
	*w = (struct seccomp_watch){0};
}

static bool has_more(const struct seccomp_watch *w, const struct process *p, pid_t tid)
{
	const void *known = map_get(&w->known, (uint64_t)tid, 0);

	return seccomp_count(p, tid) > (known ? (long)known - 1 : w->most);
}

bool seccomp_watch_all(const struct seccomp_watch *w, const struct process *p)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n;

	if (threads_list(p, &tids, &n) < 0)
		return true;
	for (size_t i = 0; i < n; i++)
		if (has_more(w, p, tids[i]))
			return true;
	return false;
}

bool seccomp_watch_some(struct seccomp_watch *w, const struct process *p)
{
	if (has_more(w, p, p->pid))
		return true;
	if (w->next == w->n) {
		free(w->tids);
		w->tids = NULL;
		w->n = w->next = 0;
		if (threads_list(p, &w->tids, &w->n) < 0)
			return false; /* it is gone */
	}
	for (size_t i = 0; i < AT_A_TIME && w->next < w->n; i++)
		if (has_more(w, p, w->tids[w->next++]))
			return true;
	return false;
}
