/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Debug information and memory from a stranger: everything in the file is asked for, and every
 * coroutine in it is walked over memory that is the file's last bytes. It may tell nothing or
 * nonsense, but never read beyond, hang, or leave memory behind.
 *
 * An input that begins with "cache:" is read as a cache of answers instead.
 */
#include "fuzz.h"

#include "binary/dwarf/debug.h"
#include "binary/dwarf/debug_data.h"
#include "future/await.h"
#include "future/memory_cache.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	MAX_ASKED = 3000, /* types, functions, places: of each so many, to keep an input short */
	MAX_WALKS = 64,
	MEMORY = 4096,
};

struct bytes {
	const uint8_t *data;
	size_t size;
};

/* The memory repeats all over the lower half, so that most made-up pointers lead somewhere. */
static int read_memory(void *ctx, uint64_t addr, void *out, size_t len)
{
	const struct bytes *b = ctx;
	uint8_t *p = out;

	if (!b->size || addr < 0x1000 || addr >> 47 || len > 1 << 20)
		return -EFAULT;
	for (size_t i = 0; i < len; i++)
		p[i] = b->data[(addr + i) % b->size];
	return 0;
}

static bool dyn_type(void *ctx, uint64_t vtable, struct debug **ret_dwarf,
		     const struct dw_type **ret_type)
{
	struct debug *d = ((struct debug **)ctx)[0];
	const struct index_list *all = &debug_all(d)->vtables;

	*ret_dwarf = d;
	*ret_type = all->n ? dw_type_of(d, all->v[vtable / 8 % all->n].ref) : NULL;
	return *ret_type;
}

static void walk(struct debug *d, const struct dw_type *t, const struct bytes *memory)
{
	struct mem mem;
	struct map names = {0};
	const struct map_entry *e;
	size_t pos = 0;
	const struct await_context ctx = {
		.mem = &mem,
		.dwarf = d,
		.dyn_type = dyn_type,
		.ctx = &d,
		.names = &names,
		.max_depth = 32,
		.max_nodes = 2000,
	};

	mem_init(&mem, read_memory, (void *)(uintptr_t)memory);
	for (uint64_t at = 0x10000; at < 0x10000 + 64; at += 8)
		await_node_free(await_walk(&ctx, t, at));
	mem_done(&mem);
	while ((e = map_next(&names, &pos)))
		free(e->value);
	map_done(&names);
}

static void ask_type(struct debug *d, const struct dw_type *t)
{
	for (size_t i = 0; i < t->n_members && i < 100; i++)
		dw_member_type(d, &t->members[i]);
	for (size_t i = 0; i < t->n_variants && i < 100; i++) {
		const struct dw_type *v = dw_member_type(d, &t->variants[i].member);
		const struct dw_member *m = dw_find_member(v, "__awaitee");
		const char *file;
		uint32_t line;

		if (m)
			debug_await_place(d, t, m->type_ref, &file, &line);
	}
	for (size_t i = 0; t->class != DC_ENUM && i < t->n_params && i < 8; i++)
		dw_param_type(d, t, t->params[i].name);
	dw_type_of(d, t->target_ref);
}

static void ask_function(struct debug *d, uint64_t low)
{
	struct dw_place places[8];
	struct dw_function f;
	uint64_t params[2];

	if (!debug_function(d, low, &f))
		return;
	dw_type_of(d, f.self_ref);
	for (uint64_t at = f.low; at < f.low + 8; at++)
		debug_places(d, at, places, 8);
	if (f.n_params >= 2) {
		params[0] = f.params[0].type_ref;
		params[1] = f.params[1].type_ref;
		debug_cell(d, &f.low, 1, params, 2);
	}
}

static void ask_all(struct debug *d, const struct bytes *memory)
{
	const struct debug_index *all = debug_all(d);
	size_t n_types = 0, n_functions = 0, n_walks = 0;

	for (size_t i = 0; i < units_n(d->units) && i < 1000; i++) {
		struct dwarf_unit *u = units_get(d->units, i);
		const struct unit_index *x = u ? unit_index_of(u) : NULL;

		for (size_t k = 0; x && k < x->n_functions && n_functions < MAX_ASKED;
		     k++, n_functions++)
			ask_function(d, x->functions[k].low);
		for (size_t k = 0; x && k < x->n_nodes && n_types < MAX_ASKED; k++, n_types++) {
			const struct dw_type *t =
				dw_type_of(d, (uint64_t)u->source->number << DWARF_REF_SHIFT |
						      x->nodes[k].off);

			if (!t)
				continue;
			ask_type(d, t);
			if (t->has_variants && n_walks < MAX_WALKS && strstr(t->name, "_env#")) {
				n_walks++;
				walk(d, t, memory);
			}
		}
	}
	for (size_t i = 0; all && i < all->vtables.n && i < 100; i++)
		debug_vtable_type(d, all->vtables.v[i].key);
}

static const char cache_mark[] = "cache:";

/* What stands in a cache file behind its head and the name of the pollux that wrote it. */
static void parse_cache(const uint8_t *data, size_t size)
{
	static const char writer[] = "pollux " POLLUX_VERSION;
	struct debug *d = calloc(1, sizeof(*d));
	uint8_t *copy = malloc(sizeof(writer) + size);

	if (!d || !copy)
		abort();
	memcpy(copy, writer, sizeof(writer));
	memcpy(copy + sizeof(writer), data, size);
	d->fd = -1;
	debug_cache_parse(d, copy, sizeof(writer) + size);
	debug_free(d);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes memory = {data, size};
	struct error err = {0};
	struct debug *d;
	int fd;

	if (size >= sizeof(cache_mark) - 1 && !memcmp(data, cache_mark, sizeof(cache_mark) - 1)) {
		parse_cache(data + sizeof(cache_mark) - 1, size - (sizeof(cache_mark) - 1));
		return 0;
	}
	if (size > MEMORY)
		memory = (struct bytes){data + size - MEMORY, MEMORY};
	/* no file of this machine's may be found by a build-id or a debuglink */
	setenv("XDG_CACHE_HOME", "/nonexistent", 1);
	setenv("HOME", "/nonexistent", 1);
	fd = fuzz_file(data, size);
	if (debug_open_fresh(fd, "/nonexistent/fuzz", &d, &err) == 0) {
		if (debug_all(d))
			ask_all(d, &memory);
		debug_free(d);
	}
	close(fd);
	return 0;
}
