/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A panic walks over the agent's frames only if the unwinder that walks knows them. A process may
 * have several: libgcc_s, a second copy of it that a Python wheel brought along, libgcc's or LLVM's
 * linked into a library. Which of them an object calls is in its GOT: the words for _Unwind_*, as
 * the loader has filled them in this process, whatever the order of symbols was. Where such a word
 * isn't filled before the first call, it may become any unwinder of the process.
 *
 * Only libgcc's __register_frame takes a whole .eh_frame. LLVM's takes one entry, and may have
 * libgcc's names as well; it has some of its own, too. The agent asks again, when it has registered
 * its frames, whether they are known.
 */
#include "process/unwinders.h"

#include "process/memory.h"

#include <string.h>

#define PREFIX "_Unwind_"

static bool is_unwinders(const char *name)
{
	return !strncmp(name, PREFIX, sizeof(PREFIX) - 1);
}

/* The unwinder that an object defines, if it is libgcc's. */
static bool libgcc_in(const struct process_object *o, struct agent_unwinder *ret)
{
	struct agent_unwinder found = {0};
	const struct elf_symbol *s;
	size_t n = o->image ? elf_image_symbols(o->image, &s) : 0;
	bool info = false;

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(s[i].name, "__register_frame"))
			found.register_frame = s[i].addr + o->bias;
		else if (!strcmp(s[i].name, "_Unwind_Find_FDE"))
			found.find_fde = s[i].addr + o->bias;
		else if (!strcmp(s[i].name, "_Unwind_GetGR"))
			found.get_register = s[i].addr + o->bias;
		else if (!strcmp(s[i].name, "__register_frame_info"))
			info = true;
		else if (!strncmp(s[i].name, "__unw_", 6))
			return false; /* LLVM's */
	}
	if (!info || !found.register_frame || !found.find_fde || !found.get_register)
		return false;
	*ret = found;
	return true;
}

static bool add(struct unwinders *u, const struct process_object *o)
{
	struct agent_unwinder found;

	if (!libgcc_in(o, &found))
		return false;
	for (uint32_t i = 0; i < u->n; i++)
		if (u->v[i].register_frame == found.register_frame)
			return true;
	if (u->n == AGENT_MAX_UNWINDERS)
		return false;
	u->v[u->n++] = found;
	return true;
}

/* Whether an object defines a function; 0: at any address of the process. */
static bool defines(const struct process_object *o, const char *name, uint64_t addr)
{
	const struct elf_symbol *s;
	size_t n = elf_image_symbols(o->image, &s);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(s[i].name, name) && (!addr || s[i].addr + o->bias == addr))
			return true;
	return false;
}

static const struct process_object *object_at(const struct process_objects *objects, uint64_t addr)
{
	for (size_t i = 0; i < objects->n; i++)
		if (addr >= objects->v[i].start && addr < objects->v[i].end)
			return &objects->v[i];
	return NULL;
}

/* What a call becomes that the loader binds when it is made. */
static enum unwinder unbound(struct unwinders *u, const struct process_objects *objects,
			     const char *name)
{
	enum unwinder found = UNWINDER_UNBOUND;

	for (size_t i = 0; i < objects->n; i++) {
		const struct process_object *o = &objects->v[i];

		if (!o->image)
			return UNWINDER_UNBOUND; /* it may be there */
		if (!defines(o, name, 0))
			continue;
		if (!add(u, o))
			return UNWINDER_OTHER;
		found = UNWINDER_KNOWN;
	}
	return found;
}

static enum unwinder of_slot(struct unwinders *u, const struct process *p,
			     const struct process_objects *objects, const struct process_object *o,
			     const struct elf_import *import)
{
	const struct process_object *in;
	uint64_t live;

	if (memory_read_u64(p, import->slot + o->bias, &live) < 0 || !live)
		return UNWINDER_UNBOUND;
	in = object_at(objects, live);
	/* It leads into the object's own PLT. */
	if (in == o && !elf_image_is_code(o->image, live - o->bias))
		return unbound(u, objects, import->name);
	if (in && in->image && defines(in, import->name, live) && add(u, in))
		return UNWINDER_KNOWN;
	return in == o ? UNWINDER_OWN : UNWINDER_OTHER;
}

enum unwinder unwinders_add(struct unwinders *u, const struct process *p,
			    const struct process_objects *objects, const struct process_object *o)
{
	enum unwinder found = UNWINDER_KNOWN;
	const struct elf_import *imports;
	size_t n = elf_image_imports(o->image, &imports);
	bool any = false;

	for (size_t i = 0; i < n && found == UNWINDER_KNOWN; i++) {
		if (!is_unwinders(imports[i].name))
			continue;
		any = true;
		found = of_slot(u, p, objects, o, &imports[i]);
	}
	if (!any)
		found = add(u, o) ? UNWINDER_KNOWN : UNWINDER_OWN;
	return found;
}

void unwinders_add_libraries(struct unwinders *u, const struct process_objects *objects)
{
	for (size_t i = 1; i < objects->n; i++)
		if (strstr(objects->v[i].path, "/libgcc_s"))
			add(u, &objects->v[i]);
}

/* A mangled function of std or core, of another file: linked with -C prefer-dynamic. */
static bool is_stds(const char *name)
{
	return name[0] == '_' && (strstr(name, "3std") || strstr(name, "4core"));
}

bool unwinders_abort(const struct process_object *o)
{
	const struct elf_import *imports;
	size_t n = elf_image_imports(o->image, &imports);
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(imports[i].name, "_Unwind_RaiseException") || is_stds(imports[i].name))
			return false;
		any = any || is_unwinders(imports[i].name);
	}
	return any;
}
