/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Block_ons that exist at the attach. Nothing that the agent hooks shows them: their waker is made,
 * and a thread that only waits in one (the main thread of most programs) never polls a task. So
 * pollux searches the stacks: a word that is a return address into block_on's code, or into the
 * function that it was inlined into, shows that the thread is in it (runtime/block_on.c).
 *
 * Registers are noted while the threads are stopped for the spawn sites; the stacks are read
 * afterwards, with the threads running: block_on's own frame stays as long as it does, whatever
 * becomes of those below.
 */
#include "process/roots.h"

#include "arch/regs.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "process/memory.h"

#include <asm/unistd.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BYTES (64u << 10)
#define MAX_THREADS 1024u /* more are not looked at */

/* What an interrupted system call gives back that will be restarted (ERESTARTSYS to
 * ERESTART_RESTARTBLOCK), or that the program calls again. */
#define RESTART_FIRST 512
#define RESTART_LAST 516

static uint16_t call_of(const struct arch_regs *regs)
{
	long result = -(long)regs->result;

	if (result != EINTR && (result < RESTART_FIRST || result > RESTART_LAST))
		return TB_NONE;
	switch (regs->call) {
	case __NR_futex:
		return TB_FUTEX;
#ifdef __NR_epoll_wait
	case __NR_epoll_wait:
		return TB_EPOLL_WAIT;
#endif
	case __NR_epoll_pwait:
		return TB_EPOLL_PWAIT;
	case __NR_epoll_pwait2:
		return TB_EPOLL_PWAIT2;
	}
	return TB_NONE;
}

int roots_note(struct roots *r, const struct process_stop *stopped)
{
	free(r->threads);
	r->n_threads = 0;
	r->threads = calloc(stopped->n ? stopped->n : 1, sizeof(*r->threads));
	if (!r->threads)
		return -ENOMEM;
	for (size_t i = 0; i < stopped->n && r->n_threads < MAX_THREADS; i++) {
		struct arch_regs regs;

		if (stopped->v[i].state == THREAD_GONE ||
		    arch_regs_read(stopped->v[i].tid, &regs) < 0)
			continue;
		r->threads[r->n_threads++] = (struct root_thread){
			.tid = stopped->v[i].tid, .sp = regs.sp, .call = call_of(&regs)};
	}
	return 0;
}

/* ---- looking through stacks ---- */

/* Both are the same block_on: a layer of it is a function of its own. */
static bool is_same(const struct scan_block_on *a, const struct scan_block_on *b)
{
	return a == b || (a->name && b->name && !strcmp(a->name, b->name) && a->site.where &&
			  b->site.where && !strcmp(a->site.where, b->site.where));
}

/* The innermost block_on of a stack; NULL. *ret_only: all that is found there is this one, so what
 * an earlier one has left can't be taken for it. */
static const struct scan_waker *waker_on(const uint64_t *words, size_t n,
					 struct hooked_object *const *objects, size_t n_objects,
					 const struct scan_block_on **ret_only)
{
	const struct scan_waker *found = NULL;

	*ret_only = NULL;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < n_objects; k++) {
			const struct process_object *o = objects[k]->object;
			const struct runtime_scan *f = &objects[k]->attach.scan;
			const struct scan_block_on *b;

			if (words[i] < o->start || words[i] >= o->end)
				continue;
			b = block_on_at(f->block_ons, f->n_block_ons, words[i] - o->bias);
			if (b && !found)
				*ret_only = b;
			else if (b && *ret_only && !is_same(b, *ret_only))
				*ret_only = NULL;
			if (b && !found)
				found = &f->wakers[b->waker];
		}
	}
	return found;
}

/* What lies on a stack from sp upwards, less where it ends before. */
static size_t read_stack(const struct process *p, uint64_t sp, uint64_t *words)
{
	size_t bytes = 0;

	sp &= ~7ull;
	while (bytes < STACK_BYTES) {
		size_t n = PAGE - (sp + bytes) % PAGE;

		if (n > STACK_BYTES - bytes)
			n = STACK_BYTES - bytes;
		if (memory_read(p, sp + bytes, (char *)words + bytes, n) < 0)
			break;
		bytes += n;
	}
	return bytes / 8;
}

/* That of the one block_on, or of all with that waker. */
static int kind_of(const struct hooks *h, const struct scan_waker *w,
		   const struct scan_block_on *only, uint16_t *ret_kind)
{
	int rc = -ENOENT;

	for (size_t i = 0; i < h->n_kinds; i++) {
		const struct attach_kind *k = &h->kinds[i];

		if (k->waker != w || (k->block_on && k->block_on != only))
			continue;
		*ret_kind = (uint16_t)i;
		rc = 0;
	}
	return rc;
}

int roots_find(struct roots *r, const struct process *p, const struct hooks *h,
	       struct hooked_object *const *objects, size_t n_objects)
{
	_cleanup_free_ uint64_t *words = malloc(STACK_BYTES);

	r->n = 0;
	for (size_t i = 0; words && i < r->n_threads && r->n < AGENT_MAX_ROOTS; i++) {
		const struct root_thread *t = &r->threads[i];
		size_t n = read_stack(p, t->sp, words);
		const struct scan_block_on *only;
		const struct scan_waker *w = waker_on(words, n, objects, n_objects, &only);
		struct attach_root *root = &r->v[r->n];
		pid_t own = w ? process_own_tid(p, t->tid) : 0;

		*root = (struct attach_root){
			.own_tid = (uint32_t)own, .tid = (uint32_t)t->tid, .call = t->call};
		if (own && kind_of(h, w, only, &root->kind) == 0)
			r->n++;
	}
	return words ? 0 : -ENOMEM;
}

void roots_done(struct roots *r)
{
	free(r->threads);
	r->threads = NULL;
	r->n_threads = 0;
}
