/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A filter comes by prctl(), by seccomp(), for which libcs have no function but syscall(), or by
 * libseccomp's seccomp_load(), which calls one of them; a child by fork(). Each is reached by a
 * word of some object's GOT, of whichever object, or in a static program by a direct call. All of
 * these are hooked.
 *
 * What makes the system call by an instruction of its own is not seen, nor an object that is loaded
 * later: for filters the tool looks at the threads, too (seccomp_watch.h).
 */
#include "process/libc_hooks.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/error.h"
#include "binary/code/code_refs.h"
#include "process/call_hooks.h"
#include "process/memory.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct function {
	const char *name;
	uint16_t type, kind;
} functions[] = {
	{"prctl", AH_CONFINE, AGENT_CONFINE_PRCTL},
	{"syscall", AH_CONFINE, AGENT_CONFINE_SYSCALL},
	{"seccomp_load", AH_CONFINE, AGENT_CONFINE_LOAD},
	{"fork", AH_FORK, 0},
	{"_Fork", AH_FORK, 0},
};
#define N_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))
#define MAX_LOCALS                                                                                 \
	(4 *                                                                                       \
	 N_FUNCTIONS) /* a static program may have two of a name, or a weak alias              \
			   */

struct libc_hook_plan {
	struct hooks *h;
	const struct process *p;
	const struct process_objects *objects;
	const struct process_maps *maps;
	/* Of those functions that were looked for: only_definition() */
	uint64_t definition[N_FUNCTIONS];
	bool known[N_FUNCTIONS];
};

static const struct function *find_function(const char *name)
{
	for (size_t i = 0; i < N_FUNCTIONS; i++)
		if (!strcmp(functions[i].name, name))
			return &functions[i];
	return NULL;
}

/* syscall() may be hooked where a thread waits: that hook looks for filters, too. */
static bool is_hooked(const struct hooks *h, uint64_t slot)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->table[i].slot == slot)
			return true;
	return false;
}

/* Where the process has the function, if it has just one of that name; else 0. */
static uint64_t only_definition(const struct process_objects *objects, const char *name)
{
	const struct elf_symbol *s;
	uint64_t found = 0;

	for (size_t i = 0; i < objects->n; i++) {
		const struct process_object *o = &objects->v[i];
		size_t n = o->image ? elf_image_symbols(o->image, &s) : 0;

		if (!o->image)
			return 0; /* it may have another one */
		for (size_t k = 0; k < n; k++) {
			if (s[k].type != STT_FUNC || strcmp(s[k].name, name) != 0)
				continue;
			if (found && found != s[k].addr + o->bias)
				return 0;
			found = s[k].addr + o->bias;
		}
	}
	return found;
}

static uint64_t definition_of(struct libc_hook_plan *at, const struct function *f)
{
	size_t i = (size_t)(f - functions);

	if (!at->known[i])
		at->definition[i] = only_definition(at->objects, f->name);
	at->known[i] = true;
	return at->definition[i];
}

/* A word through which an object calls the function. If the loader would fill it at the first call,
 * it leads into the object's own PLT. */
static int plan_word(struct libc_hook_plan *at, const struct process_object *o, uint64_t slot,
		     const struct function *f)
{
	const struct process_map *target;
	struct agent_hook *hook;
	uint64_t live, orig;

	if (slot % 8 || is_hooked(at->h, slot) || memory_read_u64(at->p, slot, &live) < 0 || !live)
		return 0;
	orig = live;
	if (live >= o->start && live < o->end && !elf_image_is_code(o->image, live - o->bias))
		orig = definition_of(at, f);
	target = maps_at(at->maps, orig);
	if (!target || !target->exec)
		return 0;
	hook = hooks_add(at->h);
	if (!hook)
		return -ENOMEM;
	hook->type = f->type;
	hook->kind = f->kind;
	hook->slot = slot;
	hook->saved = live;
	hook->orig = orig;
	return 0;
}

static int plan_imports(struct libc_hook_plan *at, const struct process_object *o)
{
	const struct elf_import *imports;
	size_t n = elf_image_imports(o->image, &imports);

	for (size_t i = 0; i < n; i++) {
		const struct function *f = find_function(imports[i].name);

		if (f)
			TRY(plan_word(at, o, imports[i].slot + o->bias, f));
	}
	return 0;
}

/* The functions that a static program has itself; sorted. */
static size_t find_locals(struct elf_image *image, uint64_t ret[MAX_LOCALS])
{
	const struct elf_symbol *s;
	size_t n = elf_image_symbols(image, &s), found = 0;

	for (size_t i = 0; i < n && found < MAX_LOCALS; i++)
		if (s[i].type == STT_FUNC && find_function(s[i].name))
			ret[found++] = s[i].addr;
	qsort(ret, found, sizeof(*ret), compare_u64);
	return found;
}

static int plan_use(struct libc_hook_plan *at, const struct process_object *o,
		    const struct code_ref *u)
{
	const struct elf_symbol *s = elf_image_symbol_at(o->image, u->target);
	const struct function *f = s ? find_function(s->name) : NULL;

	if (!f || is_hooked(at->h, u->operand + o->bias))
		return 0;
	if (u->kind == REF_WORD)
		return plan_word(at, o, u->operand + o->bias, f);
	if (u->kind == REF_BRANCH)
		return call_hooks_plan(at->h, at->p, u->operand + o->bias, u->target + o->bias,
				       &(struct agent_hook){.type = f->type, .kind = f->kind});
	return 0;
}

static int plan_calls(struct libc_hook_plan *at, const struct process_object *o)
{
	_cleanup_(code_refs_done) struct code_refs uses = {0};
	uint64_t locals[MAX_LOCALS];
	size_t n = find_locals(o->image, locals);

	TRY(n ? code_refs_find(o->image, locals, n, CODE_REFS_ALL, &uses) : 0);
	for (size_t i = 0; i < uses.n; i++)
		TRY(plan_use(at, o, &uses.v[i]));
	return 0;
}

int libc_hooks_plan(struct hooks *h, const struct process *p, const struct process_objects *objects,
		    const struct process_maps *maps)
{
	struct libc_hook_plan at = {.h = h, .p = p, .objects = objects, .maps = maps};

	for (size_t i = 0; i < objects->n; i++) {
		const struct process_object *o = &objects->v[i];

		if (!o->image)
			continue;
		TRY(plan_imports(&at, o));
		if (o->main && elf_image_is_static(o->image))
			TRY(plan_calls(&at, o));
	}
	return 0;
}
