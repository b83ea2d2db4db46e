/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Debug information calls the type of a function's item `fn()`, as it calls a pointer's: what
 * spawn_blocking(work) calls is not in the type. It is in the code: what is generic over that type
 * (BlockingTask::poll, call_once, a closure of a library's) calls it, or has it inlined. So the code
 * from the poll function on is searched, within the runtime and libraries, for functions of the
 * program's own whose caller has `fn(` among its parameters. Only if there is one it is the item.
 */
#include "runtime/fn_item.h"

#include "base/text.h"
#include "binary/code/insn.h"
#include "binary/elf/elf_image.h"
#include "binary/names.h"
#include "runtime/crates.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FUNCTIONS = 48, MAX_CODE = 32 << 10, MAX_PLACES = 32 };

struct search {
	struct debug *debug;
	struct elf_image *image;
	const char *libraries;
	uint64_t functions[MAX_FUNCTIONS];
	size_t n;
	char *found;
	bool several;
};

static bool contains_any(const char *s, const char *const *parts)
{
	for (; *parts; parts++)
		if (strstr(s, *parts))
			return true;
	return false;
}

/* What is no part of a poll's own way. */
static bool is_aside(const char *function)
{
	static const char *const parts[] = {
		"drop_in_place",	 "::drop<",   "Drop>::drop", "core::panicking",
		"std::panicking::begin", "core::fmt", "GlobalAlloc", NULL};

	return contains_any(function, parts);
}

static bool is_own(const struct search *s, const struct dw_place *p)
{
	return p->function && strstr(p->function, "::") &&
	       !(p->file && text_library_file(p->file)) && !crates_runtime_function(p->function) &&
	       !name_is_library(p->function, s->libraries);
}

static bool is_generic(const struct dw_place *p)
{
	return p->function && strstr(p->function, "fn(");
}

static void found(struct search *s, const char *function)
{
	if (s->found && strcmp(s->found, function) != 0)
		s->several = true;
	else if (!s->found)
		s->found = strdup(function);
}

static void follow_call(struct search *s, uint64_t target, const struct dw_place *caller)
{
	struct dw_place places[MAX_PLACES];
	size_t n = debug_places(s->debug, target, places, MAX_PLACES);
	const struct dw_place *callee = n ? &places[n - 1] : NULL;

	if (!callee || !callee->function || is_aside(callee->function))
		return;
	if (is_own(s, callee)) {
		if (is_generic(caller))
			found(s, callee->function);
		return;
	}
	if (!is_generic(callee))
		return;
	for (size_t i = 0; i < s->n; i++)
		if (s->functions[i] == target)
			return;
	if (s->n < MAX_FUNCTIONS)
		s->functions[s->n++] = target;
}

static void look_at(struct search *s, const struct insn *in, uint64_t start, uint64_t end)
{
	struct dw_place places[MAX_PLACES];
	size_t n = debug_places(s->debug, in->addr, places, MAX_PLACES);
	uint64_t target = in->target;

	for (size_t i = 0; i < n; i++)
		if (places[i].function && is_aside(places[i].function))
			return;
	for (size_t i = n; i-- > 0;) {
		if (!is_own(s, &places[i]))
			continue;
		if (i + 1 < n && is_generic(&places[i + 1]))
			found(s, places[i].function);
		return;
	}
	if (in->flow == INSN_CALL && !target && in->slot)
		elf_image_pointer_at(s->image, in->slot, &target);
	if (n && target && (in->flow == INSN_CALL || target < start || target >= end))
		follow_call(s, target, &places[0]);
}

char *fn_item_find(struct debug *d, struct elf_image *image, uint64_t poll, const char *libraries)
{
	struct search s = {.debug = d,
			   .image = image,
			   .libraries = libraries ? libraries : "",
			   .functions = {poll},
			   .n = 1};

	for (size_t i = 0; i < s.n && !s.several; i++) {
		uint64_t start, end;
		struct insn_walk walk;
		struct insn in;

		if (!elf_image_function(image, s.functions[i], &start, &end) ||
		    end - start > MAX_CODE || !insn_walk_init(&walk, image, start, end))
			continue;
		while (!s.several && insn_next(&walk, &in))
			look_at(&s, &in, start, end);
	}
	if (s.several) {
		free(s.found);
		s.found = NULL;
	}
	return s.found;
}
