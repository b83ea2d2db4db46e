/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which locks a suspended coroutine holds: guards of Tokio's locks and permits of its semaphores
 * among the locals of its current await point, async-lock's guards too, also inside Option,
 * Result, tuples and structures.
 *
 * A captured variable (argument, upvar) stays listed after it was moved away, so it does not count,
 * unless rustc lists it twice: as what was captured and as a live local at the same place.
 *
 * Source: Tokio sync/{mutex,rwlock,semaphore}.rs: guards are { lock: &Mutex or Arc<Mutex>, .. },
 * { s: &Semaphore, .. }, permits { sem: &Semaphore or Arc<Semaphore>, permits }. async-lock 2
 * and 3.
 */
#include "base/vec.h"
#include "future/await.h"
#include "future/held.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD_DEPTH = 5 };

static const char semaphore_type[] = "tokio::sync::batch_semaphore::Semaphore";

void await_add_hold(struct await_node *n, uint64_t lock)
{
	for (size_t i = 0; i < n->n_holds; i++)
		if (n->holds[i] == lock)
			return;
	if (GROW_ONE(n->holds, n->n_holds))
		n->holds[n->n_holds++] = lock;
}

/* The semaphore inside what a guard refers to: &Mutex, Arc<Mutex>, &Semaphore. */
static uint64_t guarded_semaphore(struct walk *w, const struct dw_type *t, uint64_t addr)
{
	static const char *const names[] = {"lock", "s", "sem"};
	const struct dw_type *m = NULL, *lock, *sem;
	uint64_t at = 0, target;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !m; i++)
		if (!await_find_member(w, t, addr, names[i], &m, &at))
			m = NULL;
	lock = m ? await_pointee(w, m) : NULL;
	if (!lock || !mem_u64(w->ctx->mem, at, &target) || !target)
		return 0;
	if (await_starts(lock->full_name, semaphore_type))
		return target;
	return await_find_type(w, lock, target, semaphore_type, &sem, &at) ? at : 0;
}

/* async-lock's MutexGuard(&Mutex), MutexGuardArc(Arc<Mutex>): the lock's own address identifies
 * it. */
static uint64_t guarded_mutex(struct walk *w, const struct dw_type *t, uint64_t addr)
{
	const struct dw_type *x, *lock = await_pointee(w, t);
	uint64_t at, target;

	if (!lock || !mem_u64(w->ctx->mem, addr, &target))
		return 0;
	if (await_starts(lock->full_name, "async_lock::mutex::Mutex<"))
		return target;
	return await_find_type(w, lock, target, "async_lock::mutex::Mutex<", &x, &at) ? at : 0;
}

/* async-lock's guards of a RwLock have `lock` somewhere, &RawRwLock; SemaphoreGuard(&Semaphore). */
static uint64_t guarded_raw(struct walk *w, const struct dw_type *t, uint64_t addr)
{
	const struct dw_type *x;
	uint64_t target;

	if (await_starts(t->full_name, "async_lock::rwlock::") &&
	    !await_find_member(w, t, addr, "lock", &x, &addr))
		return 0;
	return mem_u64(w->ctx->mem, addr, &target) ? target : 0;
}

/* What a guard guards, as leaves name it; 0: it is no guard. */
static uint64_t guarded(struct walk *w, const struct dw_type *t, uint64_t addr)
{
	if (await_starts(t->full_name, "tokio::sync::") &&
	    (strstr(t->name, "Guard<") || strstr(t->name, "SemaphorePermit")))
		return guarded_semaphore(w, t, addr);
	if (await_starts(t->full_name, "async_lock::mutex::") &&
	    (strstr(t->name, "Guard<") || await_starts(t->name, "MutexGuardArc<")))
		return guarded_mutex(w, t, addr);
	if ((await_starts(t->full_name, "async_lock::rwlock::") && strstr(t->name, "Guard<")) ||
	    !strcmp(t->full_name, "async_lock::semaphore::SemaphoreGuard"))
		return guarded_raw(w, t, addr);
	return 0;
}

/* Of what was captured only channels: where they were moved to, the same channel is. */
static void guards_in(struct walk *w, struct await_node *n, const struct dw_type *t, uint64_t addr,
		      unsigned depth, bool captured)
{
	const struct dw_variant *v;
	struct await_held held;
	uint64_t lock;

	if (!t || depth > GUARD_DEPTH || (t->class != DC_STRUCT && t->class != DC_UNION) ||
	    !await_steps(w, 1 + t->n_members) ||
	    t->name[0] == '{') /* other coroutines and closures: not held here, or found when
				* walked */
		return;
	lock = captured ? 0 : guarded(w, t, addr);
	if (lock) {
		await_add_hold(n, lock);
		return;
	}
	if ((!captured && held_guard(w, t, addr, &held)) || held_receiver(w, t, addr, &held)) {
		await_add_held(n, &held);
		return;
	}
	for (size_t i = 0; i < t->n_members; i++)
		guards_in(w, n, dw_member_type(w->dwarf, &t->members[i]),
			  addr + t->members[i].offset, depth + 1, captured);
	v = t->has_variants ? await_variant(w, t, addr) : NULL;
	if (v)
		guards_in(w, n, dw_member_type(w->dwarf, &v->member), addr + v->member.offset,
			  depth + 1, captured);
}

static size_t count_member(const struct dw_type *t, const struct dw_member *m)
{
	size_t n = 0;

	for (size_t i = 0; t && i < t->n_members; i++)
		n += t->members[i].offset == m->offset && t->members[i].type_ref == m->type_ref;
	return n;
}

bool await_is_captured(struct walk *w, const struct dw_type *env, const struct dw_type *locals,
		       const struct dw_member *m)
{
	const struct dw_type *captured = NULL;

	if (!await_steps(w, env->n_variants + 2 * locals->n_members))
		return true;
	for (size_t i = 0; i < env->n_variants; i++)
		if (env->variants[i].value == 0)
			captured = dw_member_type(w->dwarf, &env->variants[i].member);
	return count_member(captured, m) && count_member(locals, m) < 2;
}

void await_collect_lock_guards(struct walk *w, struct await_node *n, const struct dw_type *env,
			       const struct dw_type *locals, uint64_t addr)
{
	for (size_t i = 0; i < locals->n_members; i++) {
		const struct dw_member *m = &locals->members[i];

		if (strcmp(m->name, "__awaitee") != 0)
			guards_in(w, n, dw_member_type(w->dwarf, m), addr + m->offset, 0,
				  await_is_captured(w, env, locals, m));
	}
}
