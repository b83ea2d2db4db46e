/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hooks: from scan results to a changed program, and back.
 *
 * Every place is compared with what it must hold before it is touched: a vtable's slot with the
 * function that the file says (plus the bias), a GOT slot with "some function outside of this
 * object", a spawn site with its instruction. A place that holds anything else is not touched, and
 * counted. The same holds for removal: only what still holds the value that pollux wrote is
 * restored, so a slot that other code changed later keeps its new value.
 *
 * Slots are 8 aligned bytes, which the running program sees change at once; each of the two values
 * leads to the same original function, so no order among them matters. A spawn site is an
 * instruction of five bytes or more of which five become a jump: the first, or those after a REX
 * prefix (arch_jump_at()). It is changed only while all threads are stopped and none is inside it;
 * the bytes after the jump are never executed and stay as they are.
 */
#include "process/hooks.h"

#include "arch/code.h"
#include "arch/regs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "base/vec.h"
#include "process/across.h"
#include "process/call_hooks.h"
#include "process/future_hooks.h"
#include "process/libc_hooks.h"
#include "process/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SITE_BYTES 16u /* of the longest instruction, and more */

/* ---- planning ---- */

/* What is hooked of tasks and of their wakers, by their model; AH_NONE: nothing. */
static const struct {
	enum agent_hook_type functions[TF_N], wake;
} hook_types[TASK_N_MODELS] = {
	[TASK_TOKIO] = {{[TF_POLL] = AH_TOKIO_POLL,
			 [TF_SCHEDULE] = AH_TOKIO_SCHEDULE,
			 [TF_FREE] = AH_TOKIO_DEALLOC,
			 [TF_SHUTDOWN] = AH_TOKIO_SHUTDOWN,
			 [TF_READ] = AH_TOKIO_READ},
			AH_TOKIO_WAKE},
	[TASK_ASYNC_TASK] = {{[TF_POLL] = AH_ASYNC_RUN,
			      [TF_SCHEDULE] = AH_ASYNC_SCHEDULE,
			      [TF_FREE] = AH_ASYNC_DESTROY,
			      [TF_DROP_FUTURE] = AH_ASYNC_CANCEL},
			     AH_ASYNC_WAKE},
};

struct hook_plan {
	const struct process *p;
	struct hooks *h;
	const struct hooked_object *o;
	const struct process_maps *maps;
};

/* A slot of a vtable: must hold the function that the file says. */
static int plan_slot(struct hook_plan *plan, const struct find_slot *slot,
		     enum agent_hook_type type, const struct agent_hook *like)
{
	uint64_t bias = plan->o->attach.bias, live;
	struct agent_hook *hook;

	if (!slot->addr)
		return 0;
	plan->h->n_slots++;
	if ((slot->addr + bias) % 8 || memory_read_u64(plan->p, slot->addr + bias, &live) < 0 ||
	    live != slot->function + bias) {
		plan->h->n_slots_other++;
		return 0;
	}
	hook = hooks_add(plan->h);
	if (!hook)
		return -ENOMEM;
	*hook = *like;
	hook->type = (uint16_t)type;
	hook->slot = slot->addr + bias;
	hook->orig = hook->saved = live;
	return 0;
}

static int plan_site(struct hook_plan *plan, const struct scan_site *site,
		     enum agent_hook_type type, uint16_t kind, uint64_t next_id)
{
	uint64_t addr = site->addr + plan->o->attach.bias, saved;
	struct hook_patch patch = {.addr = addr, .len = site->len, .object = plan->o->object};
	struct hooks *h = plan->h;
	int jump_at;

	h->n_sites++;
	if (!site->patchable || site->len > sizeof(site->bytes) ||
	    memory_read(plan->p, addr, patch.live, site->len) < 0 ||
	    memcmp(patch.live, site->bytes, site->len) ||
	    memory_read_u64(plan->p, addr, &saved) < 0 ||
	    (jump_at = arch_jump_at(patch.live, patch.len)) < 0) {
		h->n_sites_left++;
		return 0;
	}
	patch.jump_offset = (uint8_t)jump_at;
	if (!GROW_ONE(h->patches, h->n_patches))
		return -ENOMEM;
	struct agent_hook *hook = hooks_add(h);
	if (!hook)
		return -ENOMEM;
	hook->type = (uint16_t)type;
	hook->kind = kind;
	hook->slot = addr;
	hook->saved = saved;
	hook->spawn.next_id = next_id;
	patch.hook = (uint32_t)(h->n - 1);
	h->patches[h->n_patches++] = patch;
	return 0;
}

static int plan_kind(struct hook_plan *plan, const struct scan_kind *k)
{
	const struct runtime_scan *f = &plan->o->attach.scan;
	uint64_t bias = plan->o->attach.bias;
	uint16_t number = (uint16_t)plan->h->n_kinds;
	struct attach_kind *kind = hooks_add_kind(plan->h);
	const enum agent_hook_type *types = hook_types[find_model(f, k->runtime)].functions;
	const struct find_slot *drop_ref = &k->slots[TF_DROP_REF];

	if (!kind)
		return -ENOMEM;
	kind->object = &plan->o->attach;
	kind->kind = k;
	if (!drop_ref->function)
		drop_ref = &k->slots[TF_FREE];

	struct agent_hook like = {
		.kind = number,
		.task = {.vtable = k->vtable + bias,
			 .drop_ref = drop_ref->function ? drop_ref->function + bias : 0,
			 .id_offset = k->id_offset,
			 .state_offset = k->state_offset,
			 .vtable_offset = k->vtable_offset,
			 .end_offset = k->trailer_offset},
	};
	if (k->role == TR_WORKER)
		like.flags = AGENT_HOOK_WORKER;
	else if (find_kind_is_task(f, k))
		like.flags = AGENT_HOOK_TASK;
	if (plan->o->unwinder == UNWINDER_KNOWN)
		like.flags |= AGENT_HOOK_FRAME;
	for (size_t i = 0; i < TF_N; i++)
		if (types[i])
			TRY(plan_slot(plan, &k->slots[i], types[i], &like));
	uint64_t next_id = f->runtimes[k->runtime].next_id;
	for (size_t i = 0; i < k->n_sites; i++)
		TRY(plan_site(plan, &k->sites[i], AH_SPAWN, number, next_id ? next_id + bias : 0));
	return 0;
}

/* Of the wakers of tasks: which of the header's words are which. */
static struct agent_hook like_waker(const struct hooked_object *o, const struct scan_waker *w)
{
	const struct runtime_scan *f = &o->attach.scan;
	struct agent_hook like = {.kind = AGENT_KIND_NONE,
				  .task.vtable = w->vtable + o->attach.bias};

	/* All kinds of a runtime have the same header: any of them gives its offsets. */
	for (size_t i = 0; i < f->n_kinds && !w->root; i++) {
		const struct scan_kind *k = &f->kinds[i];

		if (k->runtime != w->runtime)
			continue;
		like.task.vtable_offset = k->vtable_offset;
		like.task.state_offset = k->state_offset;
		like.task.poll_offset = (uint16_t)(k->slots[TF_POLL].addr - k->vtable);
		break;
	}
	return like;
}

/* Each block_on whose name is known is a kind of its own. */
static int plan_roots(struct hook_plan *plan, const struct scan_waker *w, uint16_t all)
{
	const struct runtime_scan *f = &plan->o->attach.scan;
	size_t first = plan->h->n_kinds;

	for (size_t i = 0; i < f->n_block_ons; i++) {
		struct attach_kind *kind;

		if (&f->wakers[f->block_ons[i].waker] != w || !f->block_ons[i].name)
			continue;
		kind = hooks_add_kind(plan->h);
		if (!kind)
			return -ENOMEM;
		kind->object = &plan->o->attach;
		kind->waker = w;
		kind->block_on = &f->block_ons[i];
	}
	for (size_t i = 0; i < w->n_sites; i++) {
		size_t before = plan->h->n;
		uint16_t number = all;

		for (size_t k = first; k < plan->h->n_kinds; k++)
			if (plan->h->kinds[k].block_on->site.addr == w->sites[i].addr)
				number = (uint16_t)k;
		TRY(plan_site(plan, &w->sites[i], AH_ROOT_ENTER, number, 0));
		if (plan->h->n > before)
			plan->h->table[before].root.back = w->sites[i].back;
	}
	return 0;
}

static int plan_waker(struct hook_plan *plan, const struct scan_waker *w)
{
	struct agent_hook like = like_waker(plan->o, w);
	enum agent_hook_type type = AH_ROOT_WAKE;

	if (w->root) {
		like.kind = (uint16_t)plan->h->n_kinds;
		struct attach_kind *kind = hooks_add_kind(plan->h);
		if (!kind)
			return -ENOMEM;
		kind->object = &plan->o->attach;
		kind->waker = w;
	} else {
		type = hook_types[find_model(&plan->o->attach.scan, w->runtime)].wake;
	}
	TRY(plan_slot(plan, &w->wake, type, &like));
	TRY(plan_slot(plan, &w->wake_by_ref, type, &like));
	return w->root ? plan_roots(plan, w, like.kind) : 0;
}

static uint16_t call_type(const struct scan_call *c)
{
	return c->call == TB_NONE ? AH_PANIC : c->waits ? AH_WAIT : AH_CALL;
}

/* Wakes past the tables; of a static program also what others have in their GOT. */
static int plan_direct(struct hooks *h, const struct process *p, const struct hooked_object *o)
{
	const struct runtime_scan *f = &o->attach.scan;
	size_t n_before = h->n_calls;
	int rc = 0;

	for (size_t i = 0; i < f->n_wakers && rc == 0; i++) {
		struct agent_hook like = like_waker(o, &f->wakers[i]);

		like.type = hook_types[find_model(f, f->wakers[i].runtime)].wake;
		for (size_t k = 0; k < f->wakers[i].n_direct && rc == 0; k++) {
			const struct scan_direct *d = &f->wakers[i].direct[k];

			rc = call_hooks_plan(h, p, d->addr + o->attach.bias,
					     d->target + o->attach.bias, &like);
		}
	}
	h->n_wakes += h->n_calls - n_before;
	for (size_t i = 0; i < f->n_calls && rc == 0; i++) {
		const struct scan_call *c = &f->calls[i];
		struct agent_hook like = {.type = call_type(c), .kind = c->call};

		if (c->direct)
			rc = call_hooks_plan(h, p, c->slot + o->attach.bias,
					     c->function + o->attach.bias, &like);
	}
	return rc;
}

static int plan_call(struct hook_plan *plan, const struct scan_call *c)
{
	const struct process_object *o = plan->o->object;
	uint64_t slot = c->slot + plan->o->attach.bias, live;
	const struct process_map *target;

	if (c->direct)
		return 0; /* plan_direct() */
	if (c->function)
		return plan_slot(plan, &(struct find_slot){c->slot, c->function}, call_type(c),
				 &(struct agent_hook){.kind = c->call});
	plan->h->n_slots++;
	if (slot % 8 || memory_read_u64(plan->p, slot, &live) < 0) {
		plan->h->n_slots_other++;
		return 0;
	}
	/* Not resolved yet: it leads into this object's own PLT, and the loader will write the slot
	 * at the first call. A program linked with -z now (every Rust program) has none of these.
	 */
	if (live >= o->start && live < o->end) {
		plan->h->n_unbound++;
		return 0;
	}
	target = maps_at(plan->maps, live);
	if (!target || !target->exec) {
		if (live) /* an undefined weak symbol is 0, and never called */
			plan->h->n_slots_other++;
		return 0;
	}
	struct agent_hook *hook = hooks_add(plan->h);
	if (!hook)
		return -ENOMEM;
	hook->type = call_type(c);
	hook->kind = c->call;
	hook->slot = slot;
	hook->orig = hook->saved = live;
	return 0;
}

static int plan_object(struct hook_plan *plan)
{
	const struct runtime_scan *scan = &plan->o->attach.scan;

	for (size_t i = 0; i < scan->n_kinds; i++)
		TRY(plan_kind(plan, &scan->kinds[i]));
	for (size_t i = 0; i < scan->n_wakers; i++)
		TRY(plan_waker(plan, &scan->wakers[i]));
	for (size_t i = 0; i < scan->n_calls; i++)
		TRY(plan_call(plan, &scan->calls[i]));
	return 0;
}

/* Stubs of calls must be in reach, so calls are hooked only in the object next to which the agent is. */
static bool is_near(const struct hooks *h, const struct hooked_object *o)
{
	return h->n_patches ? o->object == h->patches[0].object : o->object->main;
}

static int plan_all(const struct process *p, struct hooked_object *const *objects, size_t n_objects,
		    const struct process_objects *all, const struct process_maps *maps,
		    struct hooks *h, struct error *err)
{
	for (size_t i = 0; i < n_objects; i++)
		TRY(plan_object(
			&(struct hook_plan){.p = p, .h = h, .o = objects[i], .maps = maps}));
	/* Futures come last: of them some may be left out if there are more than can be hooked. */
	for (size_t i = 0; i < n_objects; i++)
		if (is_near(h, objects[i]))
			TRY(plan_direct(h, p, objects[i]));
	TRY(libc_hooks_plan(h, p, all, maps));
	for (size_t i = 0; i < n_objects; i++)
		TRY(future_hooks_plan(h, p, objects[i], is_near(h, objects[i]), err));
	h->flipped = calloc(h->n + 1, sizeof(*h->flipped));
	h->dropped = calloc(h->n + 1, sizeof(*h->dropped));
	return h->flipped && h->dropped ? 0 : -ENOMEM;
}

int hooks_plan(const struct process *p, struct hooked_object *const *objects, size_t n_objects,
	       const struct process_objects *all, struct hooks *ret_hooks, struct error *err)
{
	struct process_maps maps;
	struct hooks h = {0};
	int rc;

	TRY(maps_read(p, &maps, err));
	rc = plan_all(p, objects, n_objects, all, &maps, &h, err);
	maps_done(&maps);
	if (rc < 0) {
		bool many = h.n == AGENT_MAX_HOOKS || h.n_kinds == AGENT_KIND_NONE;
		hooks_done(&h);
		return many ? error_set(err, -E2BIG, "more than %u places to hook", AGENT_MAX_HOOKS)
			    : error_sys(err, rc, "cannot plan the hooks");
	}
	*ret_hooks = h;
	return 0;
}

void hooks_done(struct hooks *h)
{
	free(h->table);
	free(h->flipped);
	free(h->dropped);
	free(h->patches);
	free(h->calls);
	free(h->kinds);
	*h = (struct hooks){0};
}

/* ---- code ---- */

int hooks_want(const struct hooks *h, struct layout *l)
{
	uint32_t n = 0;
	int rc = 0;

	/* Patches are grouped by object. With more objects than blocks the rest stays unpatched. */
	for (size_t i = 0; rc == 0 && i < h->n_patches; i++) {
		n++;
		if (i + 1 < h->n_patches && h->patches[i + 1].object == h->patches[i].object)
			continue;
		rc = layout_want(l, h->patches[i].object, n);
		n = 0;
	}
	return rc == -ENOSPC ? 0 : rc;
}

void hooks_write_stubs(const struct hooks *h, const struct layout *l,
		       const struct agent_image *image, uint8_t *out)
{
	for (size_t i = 0; i < h->n; i++) {
		uint8_t *stub = out + i * AGENT_STUB_BYTES;

		arch_put_padding(stub, AGENT_STUB_BYTES);
		if (h->table[i].type == AH_SPAWN || h->table[i].type == AH_ROOT_ENTER ||
		    h->table[i].type == AH_ROOT_SITE)
			continue; /* reached by trampolines; no hook */
		arch_put_stub(stub, l->stubs + i * AGENT_STUB_BYTES, (uint32_t)i,
			      l->code + image->thunks[h->table[i].type]);
	}
}

void hooks_place(struct hooks *h, struct layout *l)
{
	call_hooks_place(h, l);
	for (size_t i = 0; i < h->n_patches; i++) {
		struct hook_patch *p = &h->patches[i];

		p->trampoline = layout_trampoline(l, p->object);
		if (!p->trampoline) {
			h->n_sites_left++;
			continue;
		}
		arch_put_jump(p->jump, p->addr + p->jump_offset, p->trampoline);
	}
}

void hooks_write_trampolines(const struct hooks *h, const struct layout_block *block,
			     const struct layout *l, const struct agent_image *image, uint8_t *out)
{
	arch_put_padding(out, block->bytes);
	for (size_t i = 0; i < h->n_patches; i++) {
		const struct hook_patch *p = &h->patches[i];

		if (p->object != block->object || !p->trampoline)
			continue;
		arch_put_trampoline(out + (p->trampoline - block->addr), p->trampoline, p->hook,
				    l->code + image->thunks[h->table[p->hook].type], p->live,
				    p->len, p->addr);
	}
}

/* ---- doing and undoing ---- */

static uint64_t stub_of(const struct layout *l, size_t hook)
{
	return l->stubs + hook * AGENT_STUB_BYTES;
}

static bool is_slot(const struct agent_hook *hook)
{
	return hook->type != AH_SPAWN && hook->type != AH_ROOT_ENTER &&
	       hook->type != AH_ROOT_SITE && !hook_is_call(hook);
}

/* What an access says of memory whose object the program has unloaded (dlclose). */
static bool is_unloaded(int rc)
{
	return rc == -EIO || rc == -EFAULT;
}

static int flip(struct hooks *h, const struct process *p, const struct layout *l, size_t i)
{
	const struct agent_hook *hook = &h->table[i];
	uint64_t live;

	int rc = memory_read_u64(p, hook->slot, &live);
	if (rc < 0 && !is_unloaded(rc))
		return rc;
	if (rc < 0 || live != hook->saved) {
		h->n_slots_other++;
		return 0;
	}
	TRY(memory_write_u64(p, hook->slot, stub_of(l, i)));
	h->flipped[i] = true;
	return 0;
}

int hooks_flip(struct hooks *h, struct process *p, const struct layout *l, struct error *err)
{
	for (size_t i = 0; i < h->n; i++) {
		int rc = is_slot(&h->table[i]) && !h->dropped[i] ? flip(h, p, l, i) : 0;

		if (rc < 0) {
			hooks_unflip(h, p, l);
			return error_sys(err, rc, "cannot hook process %d", p->pid);
		}
	}
	return 0;
}

int hooks_unflip(struct hooks *h, struct process *p, const struct layout *l)
{
	int result = 0;

	for (size_t i = 0; i < h->n; i++) {
		uint64_t live;
		int rc;

		if (!h->flipped[i])
			continue;
		rc = memory_read_u64(p, h->table[i].slot, &live);
		if (rc == 0 && live == stub_of(l, i))
			rc = memory_write_u64(p, h->table[i].slot, h->table[i].saved);
		if (rc < 0 && !is_unloaded(rc))
			result = rc;
		else
			h->flipped[i] = false;
	}
	return result;
}

bool hooks_any_flip(const struct hooks *h)
{
	for (size_t i = 0; h->flipped && i < h->n; i++)
		if (h->flipped[i])
			return true;
	return false;
}

/* ---- code in two pages ---- */

static bool is_across(const struct hook_patch *p)
{
	return !memory_in_one_page(p->addr + p->jump_offset, ARCH_JUMP_BYTES);
}

static struct across_change change_of_patch(const struct hook_patch *p)
{
	return (struct across_change){.addr = p->addr + p->jump_offset,
				      .before = p->live + p->jump_offset,
				      .after = p->jump,
				      .len = ARCH_JUMP_BYTES};
}

/* A future's functions, and the parks of block_ons, are hooked at all their places or at none. */
static bool stand_together(const struct agent_hook *a, const struct agent_hook *b)
{
	return a->type == b->type &&
	       (a->type == AH_ROOT_PARK || (a->type == AH_FUTURE && a->orig == b->orig));
}

static void drop(struct hooks *h, uint32_t hook)
{
	h->dropped[hook] = true;
	for (size_t i = 0; i < h->n; i++)
		if (stand_together(&h->table[i], &h->table[hook]))
			h->dropped[i] = true;
}

int hooks_patch_across(struct hooks *h, struct across *x, const struct process_objects *objects,
		       struct error *err)
{
	for (size_t i = 0; i < h->n_patches; i++) {
		struct hook_patch *patch = &h->patches[i];
		const struct across_change change = change_of_patch(patch);

		if (!patch->trampoline || !is_across(patch))
			continue;
		patch->applied = true; /* also if a thread is still on its way */
		int rc = across_make(x, objects, &change, err);
		if (rc < 0)
			return rc;
		patch->applied = rc == 0;
	}
	TRY(call_hooks_patch_across(h, x, objects, err));
	for (size_t i = 0; i < h->n_calls; i++)
		if (h->calls[i].reachable && call_hooks_across(&h->calls[i]) &&
		    !h->calls[i].applied)
			drop(h, h->calls[i].hook);
	/* What was dropped as one of several may have been changed. */
	return hooks_unpatch_across(h, x, objects, true, err);
}

int hooks_unpatch_across(struct hooks *h, struct across *x, const struct process_objects *objects,
			 bool dropped, struct error *err)
{
	int result = call_hooks_unpatch_across(h, x, objects, dropped, err);

	for (size_t i = 0; i < h->n_patches && !dropped; i++) {
		struct hook_patch *patch = &h->patches[i];
		const struct across_change change = change_of_patch(patch);

		if (!patch->applied || !is_across(patch))
			continue;
		int rc = across_undo(x, objects, &change, err);
		patch->applied = rc != 0;
		if (rc != 0)
			result = rc;
	}
	return result;
}

/* Whether a stopped thread is in the middle of these bytes. At their first byte is fine. */
static bool occupied(const uint64_t *pcs, size_t n, const struct hook_patch *patch)
{
	for (size_t i = 0; i < n; i++)
		if (pcs[i] > patch->addr &&
		    pcs[i] < patch->addr + patch->jump_offset + ARCH_JUMP_BYTES)
			return true;
	return false;
}

/*
 * The byte that is written, as it is, is the last one of an instruction which will be changed, and
 * what it was when the hooks were planned. No breakpoint is there (those are at first bytes, and
 * come and go with the tool that set them), and the program doesn't write to a page that it may not
 * write to. What it could write to, and what it shares with others, is left as it is.
 */
static void unshare(const struct process *p, const struct process_maps *maps, uint64_t *last_page,
		    uint64_t addr, uint8_t byte)
{
	const struct process_map *m;

	if (addr / PAGE == *last_page)
		return;
	m = maps_at(maps, addr);
	if (m && !m->write && !m->shared)
		memory_unshare(p, addr, byte);
	*last_page = addr / PAGE;
}

int hooks_prepare(const struct hooks *h, const struct process *p)
{
	uint64_t last_page = 0;
	struct process_maps maps;

	TRY(maps_read(p, &maps, NULL));
	for (size_t i = 0; i < h->n_patches; i++) {
		const struct hook_patch *patch = &h->patches[i];

		if (patch->trampoline)
			unshare(p, &maps, &last_page, patch->addr + patch->len - 1,
				patch->live[patch->len - 1]);
	}
	for (size_t i = 0; i < h->n_calls; i++) {
		const struct hook_call *c = &h->calls[i];

		if (c->reachable)
			unshare(p, &maps, &last_page, c->addr + sizeof(c->original) - 1,
				(uint8_t)(c->original >> 24));
	}
	maps_done(&maps);
	return 0;
}

struct live_sites {
	uint8_t bytes[HOOKS_AT_ONCE][SITE_BYTES];
};

static int read_sites(const struct process *p, const struct hook_patch *patches, size_t n,
		      struct live_sites *ret)
{
	struct memory_piece pieces[HOOKS_AT_ONCE] = {0};

	for (size_t i = 0; i < n; i++)
		pieces[i] = (struct memory_piece){patches[i].addr, ret->bytes[i], patches[i].len};
	return memory_read_pieces(p, pieces, n);
}

/* 1: it was left as it is. */
static int patch_site(struct process *p, struct hook_patch *patch, const uint8_t *live,
		      const uint64_t *pcs, size_t n_pcs)
{
	int rc;

	if (memcmp(live, patch->live, patch->len) || occupied(pcs, n_pcs, patch))
		return 1;
	rc = memory_replace(p, patch->addr + patch->jump_offset, patch->jump, ARCH_JUMP_BYTES);
	if (rc == -EOPNOTSUPP)
		return 1;
	patch->applied = rc == 0;
	return rc;
}

static int patch_some(struct hooks *h, struct process *p, const uint64_t *pcs, size_t n_pcs,
		      size_t first, size_t n)
{
	struct live_sites live;
	/* If one of them can't be read, each is read by itself. */
	bool read = read_sites(p, h->patches + first, n, &live) == 0;

	for (size_t i = 0; i < n; i++) {
		struct hook_patch *patch = &h->patches[first + i];
		int rc = read ? 0 : memory_read(p, patch->addr, live.bytes[i], patch->len);

		if (patch->applied)
			continue; /* by hooks_patch_across() */
		if (rc == 0 && patch->trampoline)
			rc = patch_site(p, patch, live.bytes[i], pcs, n_pcs);
		if (is_unloaded(rc))
			rc = 1;
		if (rc < 0)
			return rc;
		h->n_sites_left += rc > 0;
	}
	return 0;
}

/* Patches and calls are numbered as one; these are some that are changed together. */
struct change_range {
	bool calls;
	size_t first, n;
};

static size_t n_changes(const struct hooks *h)
{
	return h->n_patches + h->n_calls;
}

static struct change_range range_from(const struct hooks *h, size_t number)
{
	struct change_range r = {.calls = number >= h->n_patches};
	size_t end = r.calls ? h->n_calls : h->n_patches;

	r.first = r.calls ? number - h->n_patches : number;
	r.n = end - r.first < HOOKS_AT_ONCE ? end - r.first : HOOKS_AT_ONCE;
	return r;
}

static bool any_applied(const struct hooks *h, const struct change_range *r)
{
	for (size_t i = r->first; i < r->first + r->n; i++)
		if (r->calls ? h->calls[i].applied : h->patches[i].applied)
			return true;
	return false;
}

/* Where the stopped threads are, for free(). */
static uint64_t *read_pcs(const struct process_stop *stopped, size_t *ret_n)
{
	uint64_t *pcs = calloc(stopped->n ? stopped->n : 1, sizeof(*pcs));

	*ret_n = 0;
	for (size_t i = 0; pcs && i < stopped->n; i++) {
		struct arch_regs regs;

		if (stopped->v[i].state != THREAD_GONE &&
		    arch_regs_read(stopped->v[i].tid, &regs) == 0)
			pcs[(*ret_n)++] = regs.pc;
	}
	return pcs;
}

int hooks_patch(struct hooks *h, struct process *p, const struct process_stop *stopped,
		uint64_t until_ns, struct error *err)
{
	size_t n_pcs;
	_cleanup_free_ uint64_t *pcs = read_pcs(stopped, &n_pcs);
	int rc = pcs ? 0 : -ENOMEM;

	while (rc == 0 && h->n_tried < n_changes(h)) {
		const struct change_range r = range_from(h, h->n_tried);

		rc = r.calls ? call_hooks_patch(h, p, r.first, r.n)
			     : patch_some(h, p, pcs, n_pcs, r.first, r.n);
		h->n_tried += r.n;
		if (rc == 0 && h->n_tried < n_changes(h) && clock_monotonic_ns() > until_ns)
			return 1;
	}
	return rc < 0 ? error_sys(err, rc, "cannot patch process %d", p->pid) : rc;
}

static int unpatch_some(struct hooks *h, struct process *p, size_t first, size_t n)
{
	struct live_sites all;
	/* If one of them can't be read, each is read by itself. */
	bool read = read_sites(p, h->patches + first, n, &all) == 0;
	int result = 0;

	for (size_t i = 0; i < n; i++) {
		struct hook_patch *patch = &h->patches[first + i];
		uint8_t *live = all.bytes[i];
		int rc = 0;

		if (!patch->applied || is_across(patch))
			continue;
		if (!read)
			rc = memory_read(p, patch->addr, live, patch->len);
		if (rc == 0 && !memcmp(live + patch->jump_offset, patch->jump, ARCH_JUMP_BYTES))
			rc = memory_replace(p, patch->addr + patch->jump_offset,
					    patch->live + patch->jump_offset, ARCH_JUMP_BYTES);
		if (rc < 0 && !is_unloaded(rc))
			result = rc;
		else
			patch->applied = false;
	}
	return result;
}

int hooks_unpatch(struct hooks *h, struct process *p, uint64_t until_ns)
{
	bool any = false;
	int result = 0;

	for (size_t at = 0; at < n_changes(h);) {
		const struct change_range r = range_from(h, at);

		at += r.n;
		if (!any_applied(h, &r))
			continue;
		if (any && result == 0 && clock_monotonic_ns() > until_ns)
			return 1;
		any = true;
		int rc = r.calls ? call_hooks_unpatch(h, p, r.first, r.n)
				 : unpatch_some(h, p, r.first, r.n);
		if (rc < 0)
			result = rc;
	}
	return result;
}

bool hooks_any_patch(const struct hooks *h)
{
	for (size_t at = 0; at < n_changes(h);) {
		const struct change_range r = range_from(h, at);

		if (any_applied(h, &r))
			return true;
		at += r.n;
	}
	return false;
}
