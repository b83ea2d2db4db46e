/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attach: from a pid to flowing events, and back.
 *
 * The steps are in this order so that after each of them the program is whole, whatever happens to
 * pollux next:
 *
 *   look        maps, objects, what can be hooked,         reads only
 *               an earlier pollux' stale agents
 *   take over   stale agents: off, slots and bytes back       each is one word
 *   make        mappings by remote calls of one thread          unused memory
 *               (inject.c)
 *   write       code, rings, hook table, state             nothing uses them yet
 *   across      what lies in two pages, by one thread      both pages at once (across.c)
 *   flip        slots, one aligned word each               both values lead to the same function
 *   patch       spawn sites, all threads stopped, for      each is whole; its jump leads around
 *               some milliseconds at a time                and back
 *   enable      one word, last
 *
 * Between flip and enable the hooks are there and pass everything through: a program that loses its
 * pollux here runs on, some nanoseconds slower per poll; while recording, the agent switches itself
 * off when the rings are full and pollux has not renewed the deadline. Detach goes the same way
 * back: disable, slots, sites; the mapping stays, since a thread may be inside it, and is used
 * again by the next attach.
 *
 * One pollux per process: a lock on its /proc/PID/mem, which only those who may trace it can open,
 * and which the kernel drops when we end.
 */
#include "process/attach.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/units.h"
#include "base/vec.h"
#include "process/agent_mapping.h"
#include "process/cover.h"
#include "process/future_hooks.h"
#include "process/launch.h"
#include "process/memory.h"
#include "process/open_call.h"
#include "process/programs.h"
#include "process/roots.h"
#include "process/seccomp.h"
#include "process/seccomp_watch.h"
#include "runtime/debug_names.h"
#include "runtime/scan_cache.h"
#include "runtime/futures.h"
#include "trace/coverage.h"

#include <asm/unistd.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Blocking calls shorter than this are counted only. */
#define CALL_MIN_NS 10000
/* A process that ends or executes another program takes some ms. */
#define LOST_LOOKS 200u
/* As a wait for a lock is long enough for pollux hist. */
#define LOCK_MIN_NS 100000
/* Of calls that took longer the stack is copied, if AGENT_STACKS_CALLS asks for that. */
#define CALL_STACK_NS 1000000
/* What was not asked for by name is not missed. */
#define STACKS_BY_NAME (AGENT_STACKS_SPAWNS | AGENT_STACKS_LOCKS)
#define NO_RING_NS NSEC_PER_MSEC

struct attach {
	struct process process;
	struct tracer *tracer;
	struct tracer *spare;	  /* so that a detach does not fail because no thread can be made */
	struct entry_stop parked; /* parked.tid is 0 once it runs */
	bool followed;		  /* it goes on if pollux ends */
	struct process_objects objects;
	struct hooked_object **hooked;
	const struct attach_object **public_objects; /* the same, as others see them */
	size_t n_hooked;
	struct unwinders unwinders;
	struct hooks hooks;
	struct layout layout;
	struct agent_rings rings;
	struct roots roots;
	struct programs programs;
	struct coverage_list coverage;
	bool loaded;
	bool reused;
	uint64_t stop_ns, began_ns, total_ns;
	struct clock_pair began;
	const struct futures_wanted *futures;
	bool deep;
	uint32_t stacks, n_rings_wanted;
	bool starting;
	uint32_t may_call; /* enum agent_may, as far as we know */
	struct seccomp_watch filters;
	bool shut_in;	   /* a further filter has come */
	bool no_clock;	   /* a thread has forbidden itself to read the clock: the agent is off */
	struct error *err; /* of the call that runs on the tracer */
};

/* ---- scan ---- */

static double ms_since(uint64_t began_ns)
{
	return (double)(clock_monotonic_ns() - began_ns) / 1e6;
}

static bool has_something(const struct runtime_scan *f)
{
	return f->n_runtimes && f->n_kinds;
}

/* The polls of futures in it, if they are asked for. */
static int find_futures(struct attach *a, struct hooked_object *h, struct error *err)
{
	struct debug *d = NULL;
	int rc;

	if (!a->futures) {
		rc = a->deep ? found_boxed_find(h->object->image, &h->futures) : 0;
		return rc < 0 ? error_sys(err, rc, "cannot look for futures in %s", h->object->path)
			      : 0;
	}
	if (debug_open(elf_image_fd(h->object->image), h->object->path, &d, NULL) < 0)
		d = NULL;
	rc = found_futures_find(h->object->image, d, a->futures, &h->futures);
	if (rc == 0)
		rc = root_polls_find(h->object->image, d, a->futures, &h->futures, &h->root_polls);
	debug_free(d);
	return rc < 0 ? error_sys(err, rc, "cannot look for futures in %s", h->object->path) : 0;
}

static int keep_object(struct attach *a, const struct process_object *o, struct runtime_scan *found)
{
	struct hooked_object *h = calloc(1, sizeof(*h));

	if (!h || !GROW_ONE(a->hooked, a->n_hooked)) {
		free(h);
		return -ENOMEM;
	}
	h->attach.scan = *found;
	h->attach.bias = o->bias;
	h->object = o;
	a->hooked[a->n_hooked++] = h;
	*found = (struct runtime_scan){0};
	return 0;
}

static void hooked_free(struct hooked_object *h)
{
	runtime_scan_done(&h->attach.scan);
	found_futures_done(&h->futures);
	root_polls_done(&h->root_polls);
	free(h);
}

static bool has_futures(const struct hooked_object *h)
{
	for (size_t i = 0; i < h->futures.n; i++)
		if (!h->futures.v[i].trouble)
			return true;
	return h->root_polls.n > 0;
}

/* An object with something to hook: tasks, or where futures are recorded the program itself, in
 * which a block_on may poll some without a task. */
static int add_object(struct attach *a, const struct process_object *o, struct runtime_scan *found,
		      uint64_t *deadline_ns, struct error *err)
{
	bool tasks = has_something(found);
	struct hooked_object *h;
	uint64_t began_ns;
	int rc;

	if (!tasks && !(a->futures && o == a->objects.v))
		return 0;
	free(found->path);
	found->path = strdup(o->path);
	if (!*deadline_ns)
		*deadline_ns = clock_monotonic_ns() + DEBUG_WAIT_NS;
	began_ns = clock_monotonic_ns();
	debug_names(o->image, o->path, found, *deadline_ns);
	log_debug(LOG_DEBUG, "%s: names of %zu kinds from debug information took %.3f ms", o->path,
		  found->n_kinds, ms_since(began_ns));
	rc = keep_object(a, o, found);
	if (rc < 0)
		return error_sys(err, rc, "cannot look at process %d", a->process.pid);
	h = a->hooked[a->n_hooked - 1];
	TRY(find_futures(a, h, err));
	h->attach.holds = h->futures.holds;
	if (!tasks && !has_futures(h)) {
		a->n_hooked--;
		*found = h->attach.scan;
		h->attach.scan = (struct runtime_scan){0};
		hooked_free(h);
	}
	return 0;
}

static void log_found(const char *path, const struct runtime_scan *f)
{
	log_debug(LOG_FIND, "%s: %zu kinds, %zu wakers, %zu calls, %zu block_ons%s%s%s", path,
		  f->n_kinds, f->n_wakers, f->n_calls, f->n_block_ons,
		  f->has_symbols ? "" : ", no symbols", f->is_static ? ", static" : "",
		  f->is_musl ? ", musl" : "");
	for (size_t i = 0; i < f->n_runtimes; i++) {
		const struct scan_runtime *r = &f->runtimes[i];

		log_debug(LOG_FIND, "%s: runtime %s, version %s", path, r->name ? r->name : "?",
			  r->version ? r->version : "not known");
	}
}

static int look_at(struct attach *a, struct process_object *o, uint64_t *deadline_ns,
		   struct buf *notes, struct error *err)
{
	struct runtime_scan found = {0};
	struct error why = {0};
	uint64_t began_ns;
	size_t noted = notes->len;
	int rc;

	if (!o->image) {
		log_debug(LOG_FIND, "%s: not read: %s", o->path, o->reason ? o->reason : "?");
		buf_printf(notes, "%s not looked at: %s; ", o->path, o->reason ? o->reason : "?");
		return 0;
	}
	began_ns = clock_monotonic_ns();
	rc = scan_cache_get(o->image, &found, &why);
	log_debug(LOG_FIND, "%s: scan took %.3f ms%s%s", o->path, ms_since(began_ns),
		  rc < 0 ? " and failed: " : "", rc < 0 ? why.text : "");
	if (rc == -ENOMEM)
		return error_set(err, rc, "%s", why.text);
	if (rc < 0) {
		/* A library that can't be read is no reason to give up the program. */
		buf_printf(notes, "%s not understood: %s; ", o->path, why.text);
		return 0;
	}
	log_found(o->path, &found);
	rc = add_object(a, o, &found, deadline_ns, err);
	/* A runtime that is there and can't be hooked says why. */
	scan_reasons(&found, notes);
	if (notes->len > noted && notes->data)
		log_debug(LOG_FIND, "%s: refused: %.*s", o->path, (int)(notes->len - noted),
			  notes->data + noted);
	runtime_scan_done(&found);
	return rc;
}

/* Everything that can be hooked in this process. */
static int look(struct attach *a, struct error *err)
{
	_cleanup_buf_ struct buf notes = BUF_INIT;
	struct process_maps maps;
	uint64_t deadline_ns = 0; /* of the names */
	int rc;

	TRY(maps_read(&a->process, &maps, err));
	rc = objects_read(&a->process, &maps, &a->objects, err);
	maps_done(&maps);
	log_debug(LOG_ATTACH, "process %d has %zu objects", a->process.pid, a->objects.n);
	for (size_t i = 0; rc == 0 && i < a->objects.n; i++) {
		rc = look_at(a, &a->objects.v[i], &deadline_ns, &notes, err);
		/* Of many large libraries only one at a time lies in memory. */
		if (a->objects.v[i].image)
			elf_image_rest(a->objects.v[i].image);
	}
	if (rc < 0)
		return rc;
	if (!a->n_hooked)
		return error_set(err, -ENOENT,
				 "process %d (%s) has no Tokio, async-std or smol runtime that "
				 "pollux can see%s%.*s",
				 a->process.pid, a->objects.v[0].path, notes.len ? ": " : "",
				 notes.len >= 2 ? (int)notes.len - 2 : 0,
				 notes.data ? notes.data : "");
	if (notes.len >= 2 && notes.data)
		coverage_add(&a->coverage, "objects", a->objects.n, a->objects.n, notes.data);

	a->public_objects = calloc(a->n_hooked, sizeof(*a->public_objects));
	if (!a->public_objects)
		return error_sys(err, -ENOMEM, "cannot look at process %d", a->process.pid);
	for (size_t i = 0; i < a->n_hooked; i++)
		a->public_objects[i] = &a->hooked[i]->attach;
	return 0;
}

/* ---- loading ---- */

static int too_early(struct error *err)
{
	return error_set(err, -EAGAIN, "the loader has not finished setting up the program");
}

/* Through which unwinder the panics of each object go. */
static int find_unwinders(struct attach *a, struct error *err)
{
	for (size_t i = 0; i < a->n_hooked; i++) {
		struct hooked_object *h = a->hooked[i];

		h->unwinder = unwinders_add(&a->unwinders, &a->process, &a->objects, h->object);
		if (a->starting && h->unwinder == UNWINDER_UNBOUND)
			return too_early(err);
	}
	unwinders_add_libraries(&a->unwinders, &a->objects);
	return 0;
}

static uint32_t ticks_of(const struct attach *a, uint64_t duration_ns)
{
	struct clock_pair now;

	clock_pair_read(&now);
	uint64_t ns = now.ns - a->began.ns, ticks = now.ticks - a->began.ticks;
	return ns ? (uint32_t)((unsigned __int128)ticks * duration_ns / ns) : 0;
}

/*
 * The system calls that the agent makes itself, on any thread and at any time (agent/arch.h). A
 * filter may kill the program for them, and a program may install one while pollux records. So the
 * agent makes each only where it must and all threads may. It sees a later filter before that is
 * installed (libc_hooks.h); otherwise pollux finds it soon after (seccomp_watch.h).
 */
static const struct stub_call gettid_call = {.nr = __NR_gettid};
/* rt_sigprocmask with no valid `how`: can this word be read? */
static const struct stub_call readable_call = {
	.nr = __NR_rt_sigprocmask, .args = {0x7fffffff, 0, 0, 8}, .from_memory = 1 << 1};

/* The agent's copy of its own process' memory. */
static const struct stub_call copy_calls[] = {
	{.nr = __NR_gettid},
	{.nr = __NR_process_vm_readv,
	 .args = {0, 0, 1, 0, 1, 0},
	 .from_memory = 1 << 0 | 1 << 1 | 1 << 3},
};

/* Stacks, futures and messages are not worth a risk. */
static bool may_without_force(struct attach *a, const struct stub_call *calls, size_t n)
{
	struct error ignored = {0};
	const bool forced = a->process.forced;

	a->process.forced = false;
	bool may = seccomp_allows_all(&a->process, calls, n, &ignored) == 0;
	a->process.forced = forced;
	return may;
}

/* What the agent may do, of enum agent_may: those calls that it needs. */
static int find_may_call(struct attach *a, bool knows_tids, struct error *err)
{
	int rc = seccomp_watch_begin(&a->filters, &a->process);

	if (rc < 0)
		return error_sys(err, rc, "cannot look at process %d", a->process.pid);
	if (!knows_tids) {
		TRY(seccomp_allows_all(&a->process, &gettid_call, 1, err));
		a->may_call |= AGENT_MAY_GETTID;
	}
	if (may_without_force(a, &readable_call, 1))
		a->may_call |= AGENT_MAY_ASK;
	if (may_without_force(a, copy_calls, sizeof(copy_calls) / sizeof(copy_calls[0])))
		a->may_call |= AGENT_MAY_COPY;
	if (!a->process.launched && seccomp_none(&a->process))
		a->may_call |= AGENT_MAY_WAKE;
	return 0;
}

/* A filter has come: the agent makes no more calls. */
static void shut_in(struct attach *a)
{
	const uint32_t none = 0;

	memory_store(&a->process, a->layout.data + offsetof(struct agent_state, may_call), &none,
		     sizeof(none));
	if (a->stacks & STACKS_BY_NAME && a->may_call & AGENT_MAY_ASK)
		coverage_add(&a->coverage, "stacks", 0, 1,
			     "the program put itself under a further seccomp filter: from then on "
			     "none were taken");
	if (a->futures && a->may_call & AGENT_MAY_ASK)
		coverage_add(
			&a->coverage, "futures' memory", 0, 1,
			"the program put itself under a further seccomp filter: from then on "
			"what lies behind pointers, or far from the polled future, was left out");
	if (a->may_call & AGENT_MAY_GETTID)
		coverage_add(&a->coverage, "new threads", 0, 1,
			     "the program put itself under a further seccomp filter, and pollux "
			     "did not find where libc has thread ids: threads that were new to the "
			     "agent from then on were not recorded");
	a->may_call = 0;
	a->shut_in = true;
}

static int write_state(struct attach *a, struct injector *in, struct error *err)
{
	const struct agent_image *image = agent_mapping_image(NULL);
	const struct layout *l = &a->layout;
	const uint32_t tid_offset = inject_tid_offset(in);
	int rc;

	TRY(find_may_call(a, tid_offset, err));
	const bool may_ask = a->may_call & AGENT_MAY_ASK;
	struct agent_state state = {
		.magic = AGENT_MAGIC,
		.abi = AGENT_ABI,
		.n_hooks = (uint32_t)a->hooks.n,
		.area = l->code,
		.area_bytes = l->code_bytes + l->data_bytes + l->rings_bytes,
		.stubs = l->stubs,
		.hooks = l->hooks,
		.live = l->live,
		.rings = l->rings,
		.tid_offset = tid_offset,
		.n_unwinders = a->unwinders.n,
		.eh_frame = l->code + image->eh_frame,
		.call_min_ticks = ticks_of(a, CALL_MIN_NS),
		.stacks = may_ask ? a->stacks : 0,
		.lock_min_ticks = ticks_of(a, LOCK_MIN_NS),
		.call_stack_ticks = ticks_of(a, CALL_STACK_NS),
		.may_call = a->may_call,
		.n_rings = a->rings.n_rings,
		.ring_bytes = a->rings.ring_bytes,
		.no_ring_ticks = ticks_of(a, NO_RING_NS),
	};
	memcpy(state.unwinders, a->unwinders.v, sizeof(state.unwinders));
	if (a->rings.cut)
		coverage_add(&a->coverage, "event buffers", a->rings.n_rings, a->n_rings_wanted,
			     a->rings.cut);
	if (a->rings.in_children)
		coverage_add(&a->coverage, "children without rings", 0, 1,
			     "the kernel refused MADV_DONTFORK: children that the program forks "
			     "meanwhile have the event buffers mapped");
	if (a->rings.in_dumps)
		coverage_add(&a->coverage, "dumps without rings", 0, 1,
			     "the kernel refused MADV_DONTDUMP: a core dump of the program has the "
			     "event buffers in it");
	if (!tid_offset)
		coverage_add(&a->coverage, "thread ids", 0, 1,
			     "pollux did not find where libc has them: a thread that uses a dead "
			     "one's memory counts as that one");
	if (a->stacks & STACKS_BY_NAME && !state.stacks)
		coverage_add(&a->coverage, "stacks", 0, 1,
			     "the program runs under a seccomp filter, and it is not proven that "
			     "this allows the agent to ask the kernel how far a stack reaches");
	if (a->futures && !may_ask)
		coverage_add(&a->coverage, "futures' memory", 0, 1,
			     "the program runs under a seccomp filter, and it is not proven that "
			     "this allows the agent to ask the kernel what can be read: futures "
			     "behind pointers, or far from the polled one, are left out");
	/* The state's magic makes the area one that a later attach takes over: after the table. */
	rc = memory_write(&a->process, l->hooks, a->hooks.table,
			  a->hooks.n * sizeof(*a->hooks.table));
	if (rc == 0)
		rc = memory_write(&a->process, l->data, &state, sizeof(state));
	return rc < 0 ? error_sys(err, rc, "cannot write into process %d", a->process.pid) : 0;
}

/* Whether a block_on can be distinguished from other code at all. */
static bool has_roots(const struct attach *a)
{
	for (size_t i = 0; i < a->hooks.n_kinds; i++)
		if (a->hooks.kinds[i].waker)
			return true;
	return false;
}

/* While all threads are stopped, each of which will run the agent. 1: not all is patched. */
static int patch_stopped(void *attach, const struct process_stop *stopped, uint64_t until_ns,
			 struct error *err)
{
	struct attach *a = attach;

	for (size_t i = 0; i < stopped->n; i++)
		TRY(seccomp_undispatched(&a->process, stopped->v[i].tid, err));
	int rc = hooks_patch(&a->hooks, &a->process, stopped, until_ns, err);
	return rc != 0 || !has_roots(a) ? rc : roots_note(&a->roots, stopped);
}

static int restore_stopped(void *attach, const struct process_stop *stopped, uint64_t until_ns,
			   struct error *err)
{
	struct attach *a = attach;
	int rc = hooks_unpatch(&a->hooks, &a->process, until_ns);

	(void)stopped;
	return rc < 0 ? error_sys(err, rc, "cannot restore process %d", a->process.pid) : rc;
}

static const struct process_stop no_others;

static int patch_sites(struct attach *a, struct error *err)
{
	int rc;

	if (a->parked.tid)
		return hooks_patch(&a->hooks, &a->process, &no_others, UINT64_MAX, err);
	rc = hooks_prepare(&a->hooks, &a->process);
	if (rc == 0)
		rc = threads_in_stops(&a->process, patch_stopped, a, &a->stop_ns, err);
	return rc < 0 && err && !err->code ? error_sys(err, rc, "cannot attach") : rc;
}

/* Those in two pages, once nothing else is changed in them. */
static int restore_across(struct attach *a, struct error *err)
{
	struct injector in = {.process = &a->process,
			      .parked = a->parked.tid ? &a->parked : NULL,
			      .avoid_start = a->layout.code,
			      .avoid_end = a->layout.code + a->layout.code_bytes};
	struct across x = agent_mapping_across(&in, &a->layout);
	int rc = hooks_unpatch_across(&a->hooks, &x, &a->objects, false, err);

	a->stop_ns += in.stop_ns;
	return rc > 0 ? error_set(err, -EBUSY,
				  "a hook in process %d that lies in two pages could not be "
				  "removed now; the next recording of it does that",
				  a->process.pid)
		      : rc;
}

static int restore_sites(struct attach *a, struct error *err)
{
	if (!hooks_any_patch(&a->hooks))
		return 0;
	int rc = a->parked.tid
			 ? restore_stopped(a, &no_others, UINT64_MAX, err)
			 : threads_in_stops(&a->process, restore_stopped, a, &a->stop_ns, err);
	return rc == 0 && hooks_any_patch(&a->hooks) ? restore_across(a, err) : rc;
}

static int patch_across(struct attach *a, struct injector *in, struct error *err)
{
	struct across x = agent_mapping_across(in, &a->layout);

	TRY(hooks_patch_across(&a->hooks, &x, &a->objects, err));
	future_hooks_cover_dropped(&a->hooks, a->hooked, a->n_hooked);
	return 0;
}

/* Gives the agent the threads that are in a block_on. */
static int emit_roots(struct attach *a, struct error *err)
{
	uint32_t words[1 + AGENT_MAX_ROOTS] = {0};
	int rc = roots_find(&a->roots, &a->process, &a->hooks, a->hooked, a->n_hooked);

	_Static_assert(offsetof(struct agent_state, roots) ==
			       offsetof(struct agent_state, n_roots) + sizeof(uint32_t),
		       "written as one");
	words[0] = (uint32_t)a->roots.n;
	for (size_t i = 0; i < a->roots.n; i++)
		words[1 + i] = a->roots.v[i].own_tid;
	if (rc == 0 && a->roots.n)
		rc = memory_write(&a->process,
				  a->layout.data + offsetof(struct agent_state, n_roots), words,
				  sizeof(words));
	return rc < 0 ? error_sys(err, rc, "cannot look for block_on in process %d", a->process.pid)
		      : 0;
}

static int set_enabled(struct attach *a, uint32_t enabled)
{
	return memory_write(&a->process, a->layout.live, &enabled, sizeof(enabled));
}

/* The program may do that at any time, and turns the agent off then: what comes is not seen. */
static void look_for_clock(struct attach *a)
{
	if (a->no_clock || !agent_mapping_no_clock(&a->process, a->layout.live))
		return;
	a->no_clock = true;
	coverage_add(&a->coverage, "end of the events", 0, 1,
		     "the program forbade itself to read the processor's clock (PR_SET_TSC), which "
		     "the agent does for each event: from then on nothing was recorded");
}

static int enable(struct attach *a)
{
	int rc = set_enabled(a, 1);

	/* Just before that: the program has written both words, first the one that stays. */
	look_for_clock(a);
	return rc == 0 && a->no_clock ? set_enabled(a, 0) : rc;
}

static int load_agent(struct attach *a, struct injector *in, struct stale_agents *old,
		      struct error *err)
{
	struct error ignored = {0};
	int rc;

	TRY(stale_agents_undo(old, &a->process, &a->objects, &a->stop_ns, err));
	TRY(find_unwinders(a, err));
	TRY(hooks_plan(&a->process, a->hooked, a->n_hooked, &a->objects, &a->hooks, err));
	if (a->starting && a->hooks.n_slots_other > a->hooks.n_slots / 2)
		TRY(too_early(err));
	for (size_t i = 0; a->futures && i < a->hooks.n; i++) {
		struct agent_hook *hook = &a->hooks.table[i];

		if (hook->type == AH_TOKIO_POLL || hook->type == AH_ASYNC_RUN ||
		    hook->type == AH_FUTURE || hook->type == AH_ROOT_SITE)
			hook->flags |= AGENT_HOOK_LIST;
	}
	TRY(agent_mapping_make(in, &a->hooks, &a->layout, old, &a->objects.v[0], &a->rings,
			       &a->reused, err));
	log_debug(LOG_ATTACH, "agent mapping at %#lx%s, %u rings of %u bytes, %zu hooks",
		  (unsigned long)a->layout.code, a->reused ? " (used again)" : "", a->rings.n_rings,
		  a->rings.ring_bytes, a->hooks.n);
	programs_begin(&a->programs, &a->process, &a->layout, a->reused);
	TRY(write_state(a, in, err));
	rc = patch_across(a, in, err);
	if (rc == 0)
		rc = hooks_flip(&a->hooks, &a->process, &a->layout, err);
	log_debug(LOG_ATTACH, "%zu slots are hooked, %zu of them held something unexpected",
		  a->hooks.n_slots, a->hooks.n_slots_other);
	if (rc == 0)
		rc = patch_sites(a, err);
	if (rc == 0)
		rc = emit_roots(a, err);
	if (rc == 0) {
		/* One that came in between, before its ways were hooked. */
		if (a->may_call && seccomp_watch_all(&a->filters, &a->process))
			shut_in(a);
		cover_objects(&a->coverage, a->hooked, a->n_hooked, &a->hooks, a->futures != NULL);
		rc = coverage_result(&a->coverage);
	}
	a->loaded = rc == 0;
	if (rc < 0) {
		restore_sites(a, &ignored);
		hooks_unflip(&a->hooks, &a->process, &a->layout);
	}
	return rc;
}

/* On a tracer: all steps of the head comment. */
static int load(void *arg)
{
	struct attach *a = arg;
	struct error *err = a->err;
	struct injector in = {.process = &a->process, .parked = a->parked.tid ? &a->parked : NULL};
	struct process_maps maps;
	_cleanup_(stale_agents_done) struct stale_agents old = {0};
	int rc = look(a, err);

	if (rc < 0)
		return rc;
	TRY(maps_read(&a->process, &maps, err));
	rc = stale_agents_find(&a->process, &maps, &old);
	maps_done(&maps);
	if (rc < 0)
		return error_sys(err, rc, "cannot look at process %d", a->process.pid);
	rc = load_agent(a, &in, &old, err);
	a->stop_ns += in.stop_ns;
	return rc;
}

static uint32_t power_of_two(uint32_t v)
{
	uint32_t p = AGENT_MIN_RING_BYTES;

	while (p < v && p < 1u << 30)
		p <<= 1;
	return p;
}

static int attach_new(const struct attach_options *opt, struct attach **ret_attach,
		      struct error *err)
{
	struct attach *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return error_set(err, -ENOMEM, "out of memory");
	rc = tracer_start(&a->tracer, err);
	if (rc == 0)
		rc = tracer_start(&a->spare, err);
	if (rc < 0) {
		tracer_end(a->tracer);
		free(a);
		return rc;
	}
	a->process = (struct process)PROCESS_INIT;
	a->rings.ring_bytes = power_of_two(opt->ring_bytes);
	a->rings.n_rings = opt->n_rings < AGENT_MAX_RINGS ? opt->n_rings : AGENT_MAX_RINGS;
	if (!a->rings.n_rings)
		a->rings.n_rings = 1;
	a->n_rings_wanted = a->rings.n_rings;
	a->futures = opt->futures;
	a->deep = opt->deep;
	a->stacks = opt->stacks;
	a->starting = opt->starting;
	clock_pair_read(&a->began);
	a->began_ns = a->began.ns;
	*ret_attach = a;
	return 0;
}

/* What the former one holds still is let go. */
static int next_tracer(struct attach *a)
{
	tracer_end(a->tracer);
	a->tracer = a->spare;
	a->spare = NULL;
	return a->tracer ? 0 : tracer_start(&a->tracer, NULL);
}

static int restore(void *arg)
{
	struct error ignored = {0};

	return restore_sites(arg, &ignored);
}

/* A thread that did not stop in time is its tracer's until that ends: no other stop is possible
 * with it. So what is left to be restored then is restored by another tracer. */
static int restore_anew(struct attach *a)
{
	TRY(next_tracer(a));
	return tracer_call(a->tracer, restore, a);
}

static int run_load(struct attach *a, struct error *err)
{
	struct error local = {0};
	int rc;

	if (!process_lock(&a->process, false)) {
		pid_t holder = process_lock_holder(&a->process);
		char who[32] = "";

		if (holder)
			snprintf(who, sizeof(who), " (process %d)", holder);
		return error_set(err, -EBUSY,
				 "another pollux%s is recording process %d: end that one first",
				 who, a->process.pid);
	}
	a->err = err ? err : &local;
	rc = tracer_call(a->tracer, load, a);
	if (rc < 0 && !a->parked.tid && hooks_any_patch(&a->hooks))
		restore_anew(a);
	a->total_ns = clock_monotonic_ns() - a->began_ns;
	log_debug(LOG_ATTACH, "attach to %d took %.3f ms, threads stopped for %.3f ms: %s",
		  a->process.pid, (double)a->total_ns / 1e6, (double)a->stop_ns / 1e6,
		  rc < 0 ? a->err->text : "done");
	a->err = NULL;
	return rc;
}

/* Whether the process' end, or its next program, is why something failed: a moment later, if it is
 * in the middle of that. */
static bool was_lost(const struct attach *a, int rc, struct error *err)
{
	const bool unclear = rc == -ESRCH || rc == -ENOMEM || rc == -EAGAIN || rc == -EIO;

	for (unsigned i = 0; i < (unclear ? LOST_LOOKS : 1); i++) {
		if (process_lost(&a->process, err) < 0)
			return true;
		if (unclear)
			clock_sleep(NSEC_PER_MSEC);
	}
	return false;
}

int attach_open(pid_t pid, const struct attach_options *opt, struct attach **ret_attach,
		struct error *err)
{
	struct attach *a;
	int rc = attach_new(opt, &a, err);

	if (rc < 0)
		return error_add(err, "cannot attach to %d", pid);
	rc = process_open(pid, &a->process, err);
	if (rc < 0)
		goto fail;
	a->process.launched = opt->launched;
	a->process.forced = opt->force;
	rc = run_load(a, err);
	if (rc < 0 && !opt->starting && was_lost(a, rc, err))
		rc = -ESRCH;
	if (rc == 0)
		rc = next_tracer(a);
	if (rc < 0)
		goto fail;
	*ret_attach = a;
	return 0;
fail:
	attach_free(a);
	/* Of a launched one that is no failure yet. */
	return rc == -ENOENT && opt->launched ? rc : error_add(err, "cannot attach to %d", pid);
}

uint64_t attach_code_hash(pid_t pid)
{
	struct process p = PROCESS_INIT;
	struct process_maps maps = {0};
	uint64_t hash = 1;

	if (process_open(pid, &p, NULL) < 0)
		return 0;
	if (maps_read(&p, &maps, NULL) < 0)
		hash = 0;
	for (size_t i = 0; i < maps.n; i++) {
		const struct process_map *m = &maps.v[i];
		const uint64_t words[] = {m->start, m->inode, m->dev_minor};

		if (m->exec)
			hash = hash_bytes(hash, words, sizeof(words));
	}
	maps_done(&maps);
	process_close(&p);
	return hash;
}

/*
 * Whether a program at its start, its libraries loaded, may execute another one: some object
 * imports a function for it. The others need not be traced; being traced is no harm to most, but
 * LeakSanitizer, which wants to trace its own process at its end, makes the program fail.
 */
static bool may_execute(const struct process_objects *objects)
{
	bool found = false;

	for (size_t i = 0; i < objects->n; i++) {
		const struct process_object *o = &objects->v[i];
		const struct elf_import *imports;

		if (!o->image || elf_image_wake(o->image, NULL) < 0)
			return true;
		size_t n = elf_image_imports(o->image, &imports);
		for (size_t k = 0; k < n; k++) {
			if (!strcmp(imports[k].name, "__asan_init"))
				return false;
			found = found || !strncmp(imports[k].name, "exec", 4) ||
				!strcmp(imports[k].name, "fexecve");
		}
		/* What it calls can't be seen in its imports. */
		found = found || (o->main && elf_image_is_static(o->image));
		elf_image_rest(o->image);
	}
	return found;
}

/* Nothing to record in a program that is held at its start: it continues, released at the latest by
 * the end of its tracer. Frees a. */
static void run_on(struct attach *a, struct follow **ret_follow)
{
	if (may_execute(&a->objects) &&
	    launch_follow(a->tracer, &a->process, &a->parked, ret_follow) == 0)
		a->tracer = NULL;
	else
		launch_go(a->tracer, &a->process, &a->parked, NULL);
	attach_free(a);
}

int attach_launch(char *const argv[], const struct attach_options *opt, pid_t *ret_pid,
		  struct attach **ret_attach, struct follow **ret_follow, struct error *err)
{
	struct attach *a;
	int rc;

	TRY(attach_new(opt, &a, err));
	*ret_follow = NULL;
	rc = launch_parked(a->tracer, argv, &a->process, &a->parked, err);
	if (rc < 0)
		goto fail;
	a->process.forced = opt->force;
	rc = run_load(a, err);
	if (rc < 0 && rc != -ENOENT) {
		launch_abort(&a->process);
		error_add(err, "cannot record %s", argv[0]);
		goto fail;
	}
	*ret_pid = a->process.pid;
	*ret_attach = rc == 0 ? a : NULL;
	if (rc == -ENOENT)
		run_on(a, ret_follow);
	return 0;
fail:
	attach_free(a);
	return rc;
}

int attach_followed(struct follow **follow, pid_t pid, const struct attach_options *opt,
		    struct attach **ret_attach, int *ret_status, struct error *err)
{
	struct tracer *tracer = follow_take(*follow);
	bool alive;
	struct attach *a;
	int rc = attach_new(opt, &a, err);

	*follow = NULL;
	if (rc < 0) {
		tracer_end(tracer);
		return rc;
	}
	tracer_end(a->tracer);
	a->tracer = tracer;
	a->followed = true;
	*ret_attach = NULL;
	rc = launch_next(tracer, pid, &a->process, &a->parked, ret_status, err);
	a->process.forced = opt->force;
	if (rc == 0)
		rc = run_load(a, err);
	if (rc == 0) {
		*ret_attach = a;
		return 0;
	}
	if (rc == -ENOENT) {
		run_on(a, follow);
		return 0;
	}
	if (a->parked.tid)
		attach_go(a, &alive, NULL);
	attach_free(a); /* whatever its tracer holds is let go */
	return rc;
}

int attach_go(struct attach *a, bool *ret_alive, struct error *err)
{
	int rc = a->loaded ? enable(a) : 0;

	/* Nothing can be written into memory that is gone. */
	*ret_alive = a->loaded ? rc == 0 : attach_alive(a);
	if (rc < 0)
		error_sys(err, rc, "cannot enable the agent in process %d", a->process.pid);
	if (!a->parked.tid)
		return rc < 0 && attach_alive(a) ? rc : 0; /* gone: the drain sees that */
	if (rc == 0)
		rc = launch_go(a->tracer, &a->process, &a->parked, err);
	if (rc < 0 && !a->followed)
		launch_abort(&a->process);
	a->parked = (struct entry_stop){0};
	next_tracer(a);
	return rc;
}

/* ---- detaching ---- */

static int unload(void *arg)
{
	struct attach *a = arg;
	int rc = set_enabled(a, 0);

	look_for_clock(a);
	if (rc == 0)
		rc = hooks_unflip(&a->hooks, &a->process, &a->layout);
	if (rc < 0)
		return error_sys(a->err, rc, "cannot restore process %d", a->process.pid);
	return restore_sites(a, a->err);
}

static bool is_hooked(const struct attach *a)
{
	return hooks_any_patch(&a->hooks) || hooks_any_flip(&a->hooks);
}

int attach_close(struct attach *a, struct error *err)
{
	struct error local = {0};
	int rc = 0;

	if (!a->loaded)
		return 0;
	a->loaded = false;
	if (!attach_alive(a)) {
		/* It may have executed another program, which is to be attached to. */
		process_unlock(&a->process);
		return 0;
	}
	if (!a->tracer)
		TRY(tracer_start(&a->tracer, err));
	a->err = &local;
	rc = tracer_call(a->tracer, unload, a);
	if (rc == -ETIMEDOUT && !a->parked.tid)
		rc = restore_anew(a);
	tracer_end(a->tracer);
	a->tracer = NULL;
	a->err = NULL;
	/* A process that ended meanwhile, or ends now, needs nothing restored. */
	if (rc < 0 && (!attach_alive(a) || process_lost(&a->process, NULL) < 0))
		return 0;
	if (rc < 0 && err)
		*err = local;
	return rc < 0 ? error_add(err, "cannot detach from %d", a->process.pid) : 0;
}

void attach_free(struct attach *a)
{
	if (!a)
		return;
	agent_rings_done(&a->rings);
	/* They had most of our address space, for want of which it may not have been restored. */
	if (a->hooks.n && !a->parked.tid && is_hooked(a) && attach_alive(a) && next_tracer(a) == 0)
		tracer_call(a->tracer, unload, a);
	tracer_end(a->tracer);
	tracer_end(a->spare);
	for (size_t i = 0; i < a->n_hooked; i++)
		hooked_free(a->hooked[i]);
	free(a->hooked);
	free(a->public_objects);
	coverage_done(&a->coverage);
	roots_done(&a->roots);
	hooks_done(&a->hooks);
	seccomp_watch_done(&a->filters);
	objects_done(&a->objects);
	process_close(&a->process);
	free(a);
}

/* ---- looking ---- */

pid_t attach_pid(const struct attach *a)
{
	return a->process.pid;
}

bool attach_alive(const struct attach *a)
{
	uint8_t byte;

	/* The memory handle reads nothing once its address space is gone, by exit or by exec. */
	return memory_read(&a->process, a->layout.live, &byte, 1) == 0;
}

int attach_end_status(const struct attach *a)
{
	return attach_alive(a) ? -1 : process_end_status(&a->process);
}

void attach_rings(const struct attach *a, struct attach_rings *ret)
{
	*ret = (struct attach_rings){a->rings.areas, a->rings.n_rings, a->rings.ring_bytes};
}

int attach_give_ring(const struct attach *a, uint32_t i, uint32_t own_tid)
{
	uint64_t at = agent_mapping_owner(&a->layout, i);
	struct agent_owner owner;

	TRY(memory_read(&a->process, at, &owner, sizeof(owner)));
	if ((uint32_t)owner.claim != own_tid)
		return -ESTALE;
	owner.dead = (uint32_t)(owner.claim >> 32);
	return memory_store(&a->process, at + offsetof(struct agent_owner, dead), &owner.dead,
			    sizeof(owner.dead));
}

int attach_set_deadline(const struct attach *a, uint64_t ticks)
{
	return memory_store(&a->process, a->layout.data + offsetof(struct agent_state, deadline),
			    &ticks, sizeof(ticks));
}

size_t attach_objects(const struct attach *a, const struct attach_object *const **ret)
{
	*ret = a->public_objects;
	return a->n_hooked;
}

size_t attach_kinds(const struct attach *a, const struct attach_kind **ret)
{
	*ret = a->hooks.kinds;
	return a->hooks.n_kinds;
}

size_t attach_roots(const struct attach *a, const struct attach_root **ret)
{
	*ret = a->roots.v;
	return a->roots.n;
}

int attach_open_call(const struct attach *a, uint32_t tid, struct attach_open_call *ret)
{
	uint64_t words[OPEN_CALL_WORDS_DEEP];
	size_t n = OPEN_CALL_WORDS_DEEP;
	char name[48], text[256], again[256];
	unsigned long long number, first, sp;

	snprintf(name, sizeof(name), "task/%u/syscall", tid);
	if (process_read_file(&a->process, name, text, sizeof(text)) <= 0)
		return -ESRCH;
	if (sscanf(text, "%llu %llx %*x %*x %*x %*x %*x %llx", &number, &first, &sp) != 3)
		return -EAGAIN; /* "running" */
	/* Up to the stack's end. */
	while (memory_read(&a->process, sp, words, n * sizeof(*words)) < 0)
		if ((n /= 2) < OPEN_CALL_WORDS)
			return -ENOENT;
	ret->number = number;
	if (!open_call_find(words, n, &a->layout, &a->hooks, first, ret))
		return -ENOENT;
	if (process_read_file(&a->process, name, again, sizeof(again)) <= 0 || strcmp(text, again))
		return -EAGAIN;
	return 0;
}

size_t attach_coverage(const struct attach *a, const struct trace_coverage **ret)
{
	*ret = a->coverage.v;
	return a->coverage.n;
}

uint64_t attach_stop_ns(const struct attach *a)
{
	return a->stop_ns;
}

uint64_t attach_total_ns(const struct attach *a)
{
	return a->total_ns;
}

int attach_no_ring(struct attach *a, uint64_t *ret_events)
{
	return memory_read_u64(&a->process, a->layout.data + offsetof(struct agent_state, no_ring),
			       ret_events);
}

int attach_read(const void *attach, uint64_t addr, void *out, size_t len)
{
	const struct attach *a = attach;

	return memory_read(&a->process, addr, out, len);
}

int attach_object_fd(const void *attach, const struct attach_object *o)
{
	const struct attach *a = attach;

	for (size_t i = 0; i < a->n_hooked; i++)
		if (&a->hooked[i]->attach == o)
			return elf_image_fd(a->hooked[i]->object->image);
	return -1;
}

bool attach_may_wake(struct attach *a)
{
	uint32_t may_call;

	look_for_clock(a);
	if (!a->may_call)
		return false;
	if (memory_read(&a->process, a->layout.data + offsetof(struct agent_state, may_call),
			&may_call, sizeof(may_call)) < 0)
		return false;
	if (!may_call || seccomp_watch_some(&a->filters, &a->process))
		shut_in(a);
	return a->may_call & AGENT_MAY_WAKE;
}

bool attach_shut_in(const struct attach *a)
{
	return a->shut_in;
}

int attach_program(struct attach *a, uint32_t kind, const uint64_t *words, size_t n_words,
		   uint64_t task_bytes)
{
	return programs_add(&a->programs, &a->process, &a->hooks, &a->layout, kind, words, n_words,
			    task_bytes);
}

int attach_held(struct attach *a, uint32_t kind, const struct place_held *held)
{
	return programs_held(&a->process, &a->hooks, &a->layout, kind, held);
}

int attach_result(struct attach *a, uint32_t kind, const struct agent_result *returns,
		  uint64_t pending)
{
	return programs_result(&a->process, &a->hooks, &a->layout, kind, returns, pending);
}

int attach_owner(struct attach *a, uint32_t kind, bool handler)
{
	return programs_flag(&a->process, &a->hooks, &a->layout, kind,
			     handler ? AGENT_HOOK_HANDLER : AGENT_HOOK_SERVES);
}

static int by_own_tid(const void *a, const void *b)
{
	const struct attach_thread *x = a, *y = b;

	return ASCENDING(x->own_tid, y->own_tid);
}

int attach_threads(const struct attach *a, struct attach_thread **ret_threads, size_t *ret_n)
{
	_cleanup_free_ pid_t *tids = NULL;
	struct attach_thread *threads;
	size_t n, kept = 0;

	TRY(threads_list(&a->process, &tids, &n));
	threads = calloc(n ? n : 1, sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		pid_t own = process_own_tid(&a->process, tids[i]);

		if (own)
			threads[kept++] = (struct attach_thread){.own_tid = (uint32_t)own,
								 .tid = (uint32_t)tids[i]};
	}
	qsort(threads, kept, sizeof(*threads), by_own_tid);
	*ret_threads = threads;
	*ret_n = kept;
	return 0;
}

bool attach_same_tids(const struct attach *a)
{
	return !a->process.other_pid_ns;
}

const struct process *attach_process(const struct attach *a)
{
	return &a->process;
}

void attach_thread_name(const struct attach *a, uint32_t tid, char ret_name[static 16])
{
	char file[32], text[64];

	snprintf(file, sizeof(file), "task/%u/comm", tid);
	ssize_t n = process_read_file(&a->process, file, text, sizeof(text));
	if (n < 0)
		n = 0;
	if (n && text[n - 1] == '\n')
		n--;
	if (n > 15)
		n = 15;
	memcpy(ret_name, text, (size_t)n);
	ret_name[n] = 0;
}

char *attach_exe(const struct attach *a)
{
	return strdup(a->objects.n ? a->objects.v[0].path : "");
}

char *attach_cmdline(const struct attach *a)
{
	char *text;
	size_t len;

	if (process_read_whole(&a->process, "cmdline", 1 << 20, &text, &len) < 0)
		return strdup("");
	for (size_t i = 0; i + 1 < len; i++)
		if (!text[i])
			text[i] = ' ';
	return text;
}
