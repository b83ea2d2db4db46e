/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tokio's RawWakerVTables: { clone, wake, wake_by_ref, drop }.
 *
 * Tasks have one, not generic (runtime/task/waker.rs). Known by its functions' symbols; without
 * symbols by what they do: clone adds one reference (0x40) to the first word of the header and
 * returns this table, drop subtracts one and may call the third word of the header's vtable
 * (dealloc), wake_by_ref may call its second (schedule).
 *
 * With tokio_unstable and tracing each of them begins with `trace!()` of the task's span, hundreds
 * of bytes after `cmpq $0, tracing_id(header)`. What follows where there is no span is what it
 * does.
 *
 * A block_on's root future has the waker of its thread's parker (runtime/park.rs) or, on a
 * current_thread runtime, of the scheduler's handle (util/wake.rs over it; JoinSet's entries use
 * the same functions for another type). Where their address is taken, outside of clone, a block_on
 * makes its waker. With a profile (PGO) the compiler puts clone itself at the places that call it
 * often, after a comparison of the waker's clone with this one: such a place makes no new waker.
 */
#include "runtime/tokio.h"

#include "agent/runtime_tokio.h"
#include "base/cleanup.h"
#include "runtime/find.h"
#include "runtime/follow.h"
#include "runtime/panic_places.h"
#include "runtime/tables.h"

#include <errno.h>
#include <string.h>

#define HEAD 96u
#define MAX_CLONE_BYTES 192u

/* What to look for in a function or, where the compiler made small functions of it, in its callees.
 */
struct deed {
	struct elf_image *image;
	uint64_t adds; /* constant that is added atomically to the word at a register; 0: none */
	int64_t calls; /* place of the word through which it calls; 0: none */
	bool found;
};

/* The head of a function on the way that it goes where no word that it compares with 0 is set: past
 * what tracing adds. */
static size_t untraced_head(struct elf_image *image, uint64_t function, struct insn *ret,
			    size_t max)
{
	uint64_t start, end;
	struct insn_walk w;
	size_t n = 0;

	if (!elf_image_function(image, function, &start, &end) || start != function ||
	    !insn_walk_init(&w, image, start, end))
		return 0;
	while (n < max && insn_next(&w, &ret[n]) > 0) {
		const struct insn *in = &ret[n++], *before = n > 1 ? in - 1 : NULL;

		if (in->op == INSN_EQUAL && in->target > in->addr && in->target < end && before &&
		    before->op == INSN_CMP && before->has_disp && before->has_imm &&
		    before->imm == 0 && !insn_walk_init(&w, image, in->target, end))
			break;
	}
	return n;
}

static bool shows(const struct deed *d, const struct insn *in, size_t n)
{
	bool constant = false;

	for (size_t i = 0; i < n; i++) {
		constant = constant || (d->adds && in[i].has_imm && in[i].imm == d->adds);
		if (constant && in[i].op == INSN_LOCKED && in[i].has_disp && in[i].disp == 0)
			return true;
		if (d->calls && (in[i].flow == INSN_CALL || in[i].flow == INSN_JUMP) &&
		    in[i].has_disp && in[i].disp == d->calls)
			return true;
	}
	return false;
}

static bool does(const struct deed *d, uint64_t function)
{
	struct insn in[HEAD];

	return shows(d, in, tables_head(d->image, function, in, HEAD)) ||
	       shows(d, in, untraced_head(d->image, function, in, HEAD));
}

/* A short function that returns this table. */
static bool is_clone(struct elf_image *image, uint64_t function, uint64_t table)
{
	uint64_t start, end;
	struct insn in[HEAD];
	size_t n, bytes = 0;

	if (!elf_image_function(image, function, &start, &end) ||
	    !tables_takes(image, function, table))
		return false;
	if (end - start <= MAX_CLONE_BYTES)
		return true;
	n = untraced_head(image, function, in, HEAD);
	for (size_t i = 0; i < n && bytes <= MAX_CLONE_BYTES; i++) {
		bytes += in[i].len;
		if (in[i].ret)
			return true;
	}
	return false;
}

static enum follow_step visit_deed(uint64_t addr, const struct elf_symbol *s, void *opaque)
{
	struct deed *d = opaque;

	(void)s;
	d->found = does(d, addr);
	return d->found ? FOLLOW_STOP : FOLLOW_INTO;
}

static bool does_somewhere(struct follower *follower, struct deed d, uint64_t function)
{
	return does(&d, function) ||
	       (follow(follower, function, 2, visit_deed, &d) == 0 && d.found);
}

static bool behaves_as_task_waker(struct elf_image *image, struct follower *follower,
				  const struct elf_pointer *p)
{
	const struct deed add = {.image = image, .adds = TOKIO_REFERENCE};
	const struct deed subtract = {.image = image, .adds = (uint64_t)0 - TOKIO_REFERENCE};
	const struct deed dealloc = {.image = image, .calls = 8 * TOKIO_SLOT_DEALLOC};
	const struct deed schedule = {.image = image, .calls = 8 * TOKIO_SLOT_SCHEDULE};

	return does_somewhere(follower, add, p[0].target) &&
	       does_somewhere(follower, subtract, p[3].target) &&
	       does_somewhere(follower, dealloc, p[3].target) &&
	       does_somewhere(follower, schedule, p[2].target);
}

/* ROOT: of a block_on, not known of which. */
enum waker { WAKER_NONE, WAKER_TASK, WAKER_PARK, WAKER_HANDLE, WAKER_ROOT };

static enum follow_step visit_handle(uint64_t addr, const struct elf_symbol *s, void *opaque)
{
	bool *found = opaque;

	(void)addr;
	if (!s || strstr(s->name, "idle_notified_set"))
		return FOLLOW_PAST;
	*found = strstr(s->name, "6driver6Handle6unpark") || strstr(s->name, "current_thread") ||
		 (strstr(s->name, "3mio") && strstr(s->name, "5Waker4wake"));
	return *found ? FOLLOW_STOP : FOLLOW_INTO;
}

/* The handle's wake_by_ref unparks the I/O driver, and can panic when that fails; the entries of a
 * JoinSet, with the same functions for another type, have their own file. */
static bool panics_as_handle(struct elf_image *image, struct follower *follower,
			     uint64_t wake_by_ref)
{
	return panic_places_in(image, follower, wake_by_ref, 3, "/src/runtime/io/driver.rs") &&
	       !panic_places_in(image, follower, wake_by_ref, 2, "/src/util/idle_notified_set.rs");
}

static bool is_handle(struct elf_image *image, struct follower *follower,
		      const struct elf_pointer *p)
{
	const struct elf_symbol *s = find_symbol(image, p[2].target, "5tokio4util4wake");
	bool found = s && strstr(s->name, "current_thread"); /* v0 spells the type */

	if (!found)
		follow(follower, p[2].target, 3, visit_handle, &found);
	return found || panics_as_handle(image, follower, p[2].target) ||
	       panic_places_in(image, follower, p[2].target, 2, "/src/runtime/park.rs");
}

/* Without symbols: by what the functions do, and by the files in which they can panic. */
static enum waker classify_stripped(struct elf_image *image, struct follower *follower,
				    const struct elf_pointer *p, size_t left)
{
	if (!tables_run(image, p, left, 4, true) || !is_clone(image, p[0].target, p[0].slot))
		return WAKER_NONE;
	if (behaves_as_task_waker(image, follower, p))
		return WAKER_TASK;
	/* The driver may have a parker itself, so this is checked first. */
	if (panics_as_handle(image, follower, p[2].target))
		return WAKER_HANDLE;
	if (panic_places_in(image, follower, p[2].target, 2, "/src/runtime/park.rs"))
		return WAKER_ROOT;
	return WAKER_NONE;
}

static enum waker classify(struct elf_image *image, struct follower *follower,
			   const struct elf_pointer *p, size_t left)
{
	if (left < 4 || p[3].slot != p[0].slot + 24)
		return WAKER_NONE;
	if (!elf_image_has_symtab(image))
		return classify_stripped(image, follower, p, left);
	if (!elf_image_is_code(image, p[0].target) || !tables_run(image, p, left, 4, false))
		return WAKER_NONE;
	if (find_symbol(image, p[0].target, "5tokio7runtime4task5waker11clone_waker"))
		return find_symbol(image, p[3].target, "5tokio7runtime4task5waker10drop_waker")
			       ? WAKER_TASK
			       : WAKER_NONE;
	if (find_symbol(image, p[0].target, "5tokio7runtime4park5clone"))
		return find_symbol(image, p[2].target, "5tokio7runtime4park11wake_by_ref")
			       ? WAKER_PARK
			       : WAKER_NONE;
	if (find_symbol(image, p[0].target, "5tokio4util4wake13clone_arc_raw") &&
	    find_symbol(image, p[2].target, "5tokio4util4wake19wake_by_ref_arc_raw") &&
	    is_handle(image, follower, p))
		return WAKER_HANDLE;
	return WAKER_NONE;
}

struct callee_walk {
	uint64_t wanted;
	bool found;
};

static enum follow_step visit_callee(uint64_t addr, const struct elf_symbol *s, void *opaque)
{
	struct callee_walk *w = opaque;

	(void)s;
	w->found = addr == w->wanted;
	return w->found ? FOLLOW_STOP : FOLLOW_PAST;
}

/* `refs`: where the waker's table is taken. */
static int add_sites_of(struct elf_image *image, struct follower *follower, struct scan_waker *w,
			struct code_refs *refs)
{
	uint64_t clone = 0;
	int r = 0;

	elf_image_pointer_at(image, w->vtable, &clone);
	r = code_refs_judge(image, refs, clone);
	for (size_t i = 0; i < refs->n && r == 0; i++) {
		struct code_ref *ref = &refs->v[i];
		struct callee_walk walk = {.wanted = ref->function};
		struct scan_site *site;

		if (ref->function == clone || ref->guarded)
			continue;
		r = follow(follower, clone, 1, visit_callee, &walk);
		if (r < 0 || walk.found)
			continue;
		/* One waker serves all polls of its block_on. */
		ref->reused = ref->spared = false;
		site = find_add_site(&w->sites, &w->n_sites);
		r = site ? find_site(image, ref, site) : -ENOMEM;
	}
	return r;
}

/* Of all root wakers, in one pass over the code. */
static int add_root_sites(struct elf_image *image, struct follower *follower,
			  struct runtime_scan *f, size_t first_waker)
{
	_cleanup_free_ uint64_t *tables = calloc(f->n_wakers - first_waker + 1, sizeof(*tables));
	_cleanup_(code_refs_done) struct code_refs refs = {0}, own = {0};
	size_t n = 0;
	int r = tables ? 0 : -ENOMEM;

	for (size_t i = first_waker; i < f->n_wakers && r == 0; i++) {
		size_t k = n;

		if (!f->wakers[i].root)
			continue;
		for (n++; k > 0 && tables[k - 1] > f->wakers[i].vtable; k--)
			tables[k] = tables[k - 1];
		tables[k] = f->wakers[i].vtable;
	}
	if (r == 0)
		r = code_refs_find(image, tables, n, CODE_REFS_TAKEN, &refs);
	own.v = r == 0 ? calloc(refs.n + 1, sizeof(*own.v)) : NULL;
	if (r == 0 && !own.v)
		r = -ENOMEM;
	for (size_t i = first_waker; i < f->n_wakers && r == 0; i++) {
		own.n = 0;
		for (size_t k = 0; k < refs.n; k++)
			if (refs.v[k].target == f->wakers[i].vtable)
				own.v[own.n++] = refs.v[k];
		if (f->wakers[i].root)
			r = add_sites_of(image, follower, &f->wakers[i], &own);
	}
	return r;
}

static int add_waker(struct runtime_scan *f, uint32_t runtime, const struct elf_pointer *p,
		     enum waker what)
{
	static const char *const names[] = {
		[WAKER_TASK] = "task",
		[WAKER_PARK] = "block_on (multi_thread)",
		[WAKER_HANDLE] = "block_on (current_thread)",
		[WAKER_ROOT] = "block_on",
	};
	struct scan_waker *w = find_add_waker(f);

	if (!w)
		return -ENOMEM;
	*w = (struct scan_waker){
		.runtime = runtime,
		.root = what != WAKER_TASK,
		.vtable = p[0].slot,
		.wake = {p[1].slot, p[1].target},
		.wake_by_ref = {p[2].slot, p[2].target},
		.name = strdup(names[what]),
	};
	return w->name ? 0 : -ENOMEM;
}

static int cover(struct runtime_scan *f, size_t n_tasks, size_t first_waker)
{
	size_t roots = 0, sites = 0, patchable = 0;
	int r = find_cover(f, "task wakers", n_tasks, n_tasks ? n_tasks : 1, "%s",
			   n_tasks	    ? ""
			   : f->has_symbols ? "the table of wakers has no symbols"
					    : "no table of wakers was recognised by its code");

	for (size_t i = first_waker; i < f->n_wakers; i++) {
		roots += f->wakers[i].root;
		for (size_t k = 0; f->wakers[i].root && k < f->wakers[i].n_sites; k++) {
			sites++;
			patchable += f->wakers[i].sites[k].patchable;
		}
	}
	if (r < 0)
		return r;
	if (roots == 0)
		return find_cover(f, "block_on", 0, 1, "%s",
				  f->has_symbols ? "no waker of a block_on was found"
						 : "none was recognised by its code");
	return find_cover(f, "block_on", patchable, sites ? sites : roots, "%s",
			  sites == 0 ? "unoptimised code makes new and cloned wakers in one place"
			  : patchable < sites ? "some places can't be patched"
					      : "");
}

/*
 * A constant table may exist more than once: the one that clone returns, and copies of it where
 * wakers are made. A copy has the same functions as a table that was found.
 */
static bool is_copy(const struct runtime_scan *f, size_t first_waker, const struct elf_pointer *p,
		    size_t left, size_t *ret_of)
{
	if (left < 4 || p[3].slot != p[0].slot + 24)
		return false;
	for (size_t i = first_waker; i < f->n_wakers; i++) {
		const struct scan_waker *w = &f->wakers[i];

		if (w->root && w->vtable != p[0].slot && w->wake.function == p[1].target &&
		    w->wake_by_ref.function == p[2].target) {
			*ret_of = i;
			return true;
		}
	}
	return false;
}

static bool is_known(const struct runtime_scan *f, size_t first_waker, uint64_t vtable)
{
	for (size_t i = first_waker; i < f->n_wakers; i++) {
		if (f->wakers[i].vtable == vtable)
			return true;
	}
	return false;
}

static int add_copies(struct elf_image *image, struct runtime_scan *f, uint32_t runtime,
		      size_t first_waker)
{
	const struct elf_pointer *p;
	size_t n = elf_image_pointers(image, &p), of;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		if (!is_copy(f, first_waker, p + i, n - i, &of) ||
		    is_known(f, first_waker, p[i].slot))
			continue;
		r = add_waker(f, runtime, p + i, WAKER_ROOT);
		if (r == 0) {
			struct scan_waker *w = &f->wakers[f->n_wakers - 1];

			free(w->name);
			w->name = strdup(f->wakers[of].name);
			r = w->name ? 0 : -ENOMEM;
		}
	}
	return r;
}

int tokio_add_wakers(struct elf_image *image, struct runtime_scan *f, uint32_t runtime)
{
	struct follower *follower = follower_new(image);
	const struct elf_pointer *p;
	size_t n = elf_image_pointers(image, &p), first_waker = f->n_wakers, n_tasks = 0;
	int r = follower ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && r == 0; i++) {
		enum waker what = classify(image, follower, p + i, n - i);

		if (what == WAKER_NONE)
			continue;
		n_tasks += what == WAKER_TASK;
		r = add_waker(f, runtime, p + i, what);
	}
	if (r == 0)
		r = add_copies(image, f, runtime, first_waker);
	if (r == 0)
		r = add_root_sites(image, follower, f, first_waker);
	follower_free(follower);
	return r < 0 ? r : cover(f, n_tasks, first_waker);
}
