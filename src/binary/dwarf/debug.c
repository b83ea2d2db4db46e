/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Answers from debug information; see debug.h.
 *
 *    file ─▶ units ─▶ index of units    ─▶ types, functions, places ─▶ cache
 *            units.c  debug_index.c        debug*.c                    debug_cache.c
 *
 * Each answer is kept in memory, and in the cache for the next run. So the units are opened only
 * for a question to which the cache has no answer.
 */
#include "binary/dwarf/debug_data.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "binary/machine.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct debug_block {
	struct debug_block *next;
	size_t used, size;
	char data[];
};

void *debug_alloc(struct debug *d, size_t len)
{
	struct debug_block *b = d->blocks;
	void *p;

	if (len > SIZE_MAX / 2)
		return NULL;
	len = (len + 15) & ~(size_t)15;
	if (!b || b->size - b->used < len) {
		size_t size = len > 65536 ? len : 65536;

		b = malloc(sizeof(*b) + size);
		if (!b)
			return NULL;
		b->next = d->blocks;
		b->used = 0;
		b->size = size;
		d->blocks = b;
	}
	p = b->data + b->used;
	b->used += len;
	memset(p, 0, len);
	return p;
}

static int open_with(int fd, const char *path, bool cached, struct debug **ret_dwarf,
		     struct error *err)
{
	struct debug *d = calloc(1, sizeof(*d));
	uint16_t machine = 0;
	int r = 0;

	if (!d)
		return error_set(err, -ENOMEM, "out of memory");
	d->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	d->path = strdup(path);
	if (d->fd < 0 || !d->path)
		r = error_sys(err, d->fd < 0 ? -errno : -ENOMEM, "%s can't be opened", path);
	else if (pread(d->fd, &machine, sizeof(machine), offsetof(Elf64_Ehdr, e_machine)) > 0)
		d->machine = machine_find(machine);
	if (r == 0 && (!cached || !debug_cache_load(d)))
		r = units_open(d->fd, path, &d->units, err);
	if (d->units)
		units_stop_by(d->units, &d->stop);
	if (r < 0) {
		debug_free(d);
		return r;
	}
	*ret_dwarf = d;
	return 0;
}

int debug_open(int fd, const char *path, struct debug **ret_dwarf, struct error *err)
{
	return open_with(fd, path, true, ret_dwarf, err);
}

int debug_open_fresh(int fd, const char *path, struct debug **ret_dwarf, struct error *err)
{
	return open_with(fd, path, false, ret_dwarf, err);
}

void debug_local(struct debug *d, bool local)
{
	d->local = local;
}

void debug_stop_when(struct debug *d, bool (*ask)(void *ctx), void *ctx)
{
	d->stop = (struct dwarf_stop){.ask = ask, .ctx = ctx};
}

bool debug_stopped(struct debug *d)
{
	return dwarf_step(&d->stop);
}

void debug_keep(struct debug *d, struct map *m, uint64_t a, uint64_t b, const void *answer)
{
	if (!d->stop.stopped && map_put_const(m, a, b, answer) == 0)
		d->changed = true;
}

size_t debug_missing(const struct debug *d, const char **ret_file)
{
	*ret_file = NULL;
	return d->units ? units_missing(d->units, ret_file) : 0;
}

void debug_free(struct debug *d)
{
	if (!d)
		return;
	if (d->cached && d->changed)
		debug_cache_save(d);
	if (d->units)
		units_each(d->units, unit_index_free);
	map_done(&d->types);
	map_done(&d->functions);
	map_done(&d->cells);
	map_done(&d->vtables);
	map_done(&d->awaits);
	map_done(&d->places);
	map_done(&d->named);
	map_done(&d->frames);
	while (d->blocks) {
		struct debug_block *next = d->blocks->next;

		free(d->blocks);
		d->blocks = next;
	}
	debug_index_done(&d->index);
	units_free(d->units);
	if (d->fd >= 0)
		close(d->fd);
	free(d->path);
	free(d);
}

bool debug_units(struct debug *d)
{
	if (d->units || d->units_failed || debug_stopped(d))
		return d->units;
	d->units_failed = units_open(d->fd, d->path, &d->units, NULL) < 0;
	if (d->units)
		units_stop_by(d->units, &d->stop);
	return d->units;
}

const struct debug_index *debug_all(struct debug *d)
{
	if (d->index_made)
		return &d->index;
	if (d->local || !debug_units(d))
		return NULL;
	d->index_made = true;
	debug_index_make(d->units, &d->index);
	return &d->index;
}

/* ---- names ---- */

void debug_decl_place(const struct dwarf_die *die, const char **ret_file, uint32_t *ret_line)
{
	uint64_t file, line;

	*ret_file = NULL;
	*ret_line = 0;
	/* the list of files is made when first asked for, nothing else of the unit changes */
	if (die_u64(die, DW_AT_decl_file, &file))
		*ret_file = unit_file(die->unit, file);
	if (die_u64(die, DW_AT_decl_line, &line) && line <= UINT32_MAX)
		*ret_line = (uint32_t)line;
}

static const char *node_full(struct debug *d, struct dwarf_unit *u, struct unit_index *x,
			     struct index_node *n, unsigned depth)
{
	const char *name, *up = NULL;
	struct dwarf_die die;
	char *full;
	size_t len;

	if (n->full_name)
		return n->full_name;
	if (!die_at(u, n->off, &die))
		return "";
	name = die_name(&die);
	if (n->parent != UINT32_MAX && depth < DEBUG_MAX_DEPTH)
		up = node_full(d, u, x, &x->nodes[n->parent], depth + 1);
	if (!up || !*up) {
		n->full_name = name;
		return name;
	}
	len = strlen(up) + 2 + strlen(name) + 1;
	full = debug_alloc(d, len);
	if (!full)
		return name;
	snprintf(full, len, "%s::%s", up, name);
	n->full_name = full;
	return full;
}

static struct index_node *node_of(const struct dwarf_die *die, struct unit_index **ret_index)
{
	struct unit_index *x = unit_index_of(die->unit);

	*ret_index = x;
	return x ? unit_index_node(x, die->off) : NULL;
}

const char *debug_full_name(struct debug *d, const struct dwarf_die *die)
{
	struct unit_index *x;
	struct index_node *n = node_of(die, &x);

	return n ? node_full(d, die->unit, x, n, 0) : die_name(die);
}

bool debug_path_hash(const struct dwarf_die *die, const char *name, uint64_t *ret)
{
	const struct index_node *path[DEBUG_MAX_DEPTH], *n;
	struct unit_index *x;
	struct dwarf_die at;
	uint64_t hash = INDEX_TOP;
	size_t depth = 0;

	for (n = node_of(die, &x); n; n = n->parent == UINT32_MAX ? NULL : &x->nodes[n->parent]) {
		if (depth == DEBUG_MAX_DEPTH)
			return false;
		path[depth++] = n;
	}
	if (!depth)
		return false;
	while (depth-- > 0) {
		if (!die_at(die->unit, path[depth]->off, &at))
			return false;
		hash = index_hash(hash, !depth && name ? name : die_name(&at));
	}
	*ret = hash;
	return true;
}

/* ---- functions ---- */

static void add_param(struct dw_function *f, const struct dwarf_die *die)
{
	const char *name = die_name(die);

	for (size_t k = 0; k < f->n_params; k++)
		if (!strcmp(f->params[k].name, name))
			return;
	if (f->n_params < sizeof(f->params) / sizeof(*f->params))
		f->params[f->n_params++] = (struct dw_param){name, die_ref(die, DW_AT_type)};
}

uint64_t debug_type_ref(struct debug *d, const struct dwarf_die *die)
{
	struct dwarf_die at = *die;
	uint64_t type = 0;

	for (unsigned i = 0; i < 4 && !type; i++) {
		type = die_ref(&at, DW_AT_type);
		if (!type && !units_die(d->units, die_ref(&at, DW_AT_abstract_origin), &at))
			break;
	}
	return type;
}

/* A concrete function's name and parameters may be in its specification or abstract origin. */
void debug_function_read(struct debug *d, const struct dwarf_die *die, struct dw_function *f)
{
	struct dwarf_die at = *die, child;

	for (unsigned i = 0; i < 4; i++) {
		bool formal = f->self_ref != 0;
		uint64_t next;

		for (bool ok = die_child(&at, &child); ok; ok = die_sibling(&child, &child)) {
			unsigned tag = die_tag(&child);

			if (tag == DW_TAG_template_type_parameter) {
				add_param(f, &child);
			} else if (tag == DW_TAG_formal_parameter && !formal) {
				formal = true;
				f->self_ref = debug_type_ref(d, &child);
			}
		}
		if (!f->name && die_has(&at, DW_AT_name)) {
			f->name = die_name(&at);
			f->full_name = debug_full_name(d, &at);
			debug_decl_place(&at, &f->file, &f->line);
		}
		next = die_ref(&at, DW_AT_specification);
		if (!next)
			next = die_ref(&at, DW_AT_abstract_origin);
		if (!units_die(d->units, next, &at))
			break;
	}
	if (!f->name)
		f->name = f->full_name = "";
}

static bool find_function(struct debug *d, uint64_t addr, struct dw_function *ret)
{
	struct dwarf_unit *u = units_covering(d->units, addr);
	const struct unit_index *x = u ? unit_index_of(u) : NULL;
	const struct index_function *f = x ? unit_index_function(x, addr) : NULL;
	struct dwarf_die die;
	uint64_t low;

	if (!f || f->low != addr || !die_at(u, f->off, &die))
		return false;
	*ret = (struct dw_function){.low = addr, .ref = dwarf_ref(&die)};
	if (!die_low_high(&die, &low, &ret->high))
		ret->high = addr;
	debug_function_read(d, &die, ret);
	return true;
}

int debug_function(struct debug *d, uint64_t addr, struct dw_function *ret)
{
	struct dw_function *f = map_get(&d->functions, addr, 0);

	if (!f) {
		if (!debug_units(d))
			return 0;
		f = debug_alloc(d, sizeof(*f));
		if (!f)
			return 0;
		if (!find_function(d, addr, f))
			f->low = 0;
		debug_keep(d, &d->functions, addr, 0, f);
	}
	if (!f->low)
		return 0;
	*ret = *f;
	return 1;
}

/* ---- types that lead to others ---- */

static const struct dw_type *answer(const struct debug *d, const struct dw_type *t)
{
	return t == &d->no_type ? NULL : t;
}

/* Remembers also that there is none, unless not everything was searched. */
static void remember(struct debug *d, struct map *m, uint64_t key, const struct dw_type *t)
{
	if (!t && d->local)
		return;
	debug_keep(d, m, key, 0, t ? t : &d->no_type);
}

static bool is_cell(struct debug *d, const struct dw_type *t, const uint64_t *params, size_t n)
{
	bool ok = t && t->n_params >= n;

	for (size_t k = 0; ok && k < n; k++)
		ok = debug_same_type(d, t->params[k].type_ref, params[k]);
	return ok;
}

static const struct dw_type *cell_in(struct debug *d, struct dwarf_unit *u, const char *name,
				     const uint64_t *params, size_t n)
{
	const struct unit_index *x = u ? unit_index_of(u) : NULL;

	for (size_t i = 0; x && i < x->cells.n; i++) {
		struct dwarf_die die;
		const struct dw_type *t;

		if (!units_die(d->units, x->cells.v[i].ref, &die) ||
		    strcmp(die_name(&die), name) != 0)
			continue;
		t = dw_type_of(d, x->cells.v[i].ref);
		if (is_cell(d, t, params, n))
			return t;
	}
	return NULL;
}

/* "Cell<T, S>" as rustc names it. For free(). */
static char *cell_name(struct debug *d, const uint64_t *params, size_t n)
{
	char *name = NULL;
	size_t size;
	FILE *f = open_memstream(&name, &size);

	if (!f)
		return NULL;
	fputs("Cell<", f);
	for (size_t i = 0; i < n; i++) {
		const struct dw_type *t = dw_type_of(d, params[i]);

		fprintf(f, "%s%s", i ? ", " : "", t ? t->full_name : "");
	}
	fputc('>', f);
	fclose(f);
	return name;
}

static const struct dw_type *find_cell(struct debug *d, const uint64_t *near_addrs, size_t n_near,
				       const uint64_t *params, size_t n)
{
	_cleanup_free_ char *name = cell_name(d, params, n);
	const struct dw_type *t = NULL;
	const struct debug_index *all;
	const struct index_entry *e;
	size_t n_same;

	if (!name)
		return NULL;
	for (size_t i = 0; !t && i < n_near; i++)
		t = cell_in(d, units_covering(d->units, near_addrs[i]), name, params, n);
	if (t || !(all = debug_all(d)))
		return t;
	e = index_list_find(&all->cells, index_hash(INDEX_TOP, name), &n_same);
	for (size_t i = 0; i < n_same; i++) {
		struct dwarf_die die;

		if (!units_die(d->units, e[i].ref, &die) || strcmp(die_name(&die), name) != 0)
			continue;
		t = dw_type_of(d, e[i].ref);
		if (is_cell(d, t, params, n))
			return t;
	}
	return NULL;
}

const struct dw_type *debug_cell(struct debug *d, const uint64_t *near_addrs, size_t n_near,
				 const uint64_t *param_refs, size_t n_params)
{
	uint64_t key = hash_bytes(0, param_refs, n_params * sizeof(*param_refs));
	const struct dw_type *t;

	t = map_get(&d->cells, key, 0);
	if (!t) {
		if (!debug_units(d))
			return NULL;
		t = find_cell(d, near_addrs, n_near, param_refs, n_params);
		remember(d, &d->cells, key, t);
	}
	return answer(d, t);
}

const struct dw_type *debug_vtable_type(struct debug *d, uint64_t vtable_addr)
{
	const struct dw_type *t = map_get(&d->vtables, vtable_addr, 0);
	const struct debug_index *all;
	const struct index_entry *e;
	size_t n;

	if (t)
		return answer(d, t);
	all = debug_all(d);
	if (!all)
		return NULL;
	e = index_list_find(&all->vtables, vtable_addr, &n);
	for (size_t i = 0; i < n && (!t || t->declaration); i++)
		t = dw_type_of(d, e[i].ref);
	remember(d, &d->vtables, vtable_addr, t);
	return t;
}

/* The parts of "a::b::C", of which none has parameters, hashed as the index does. */
static uint64_t hash_of_name(const char *full)
{
	uint64_t hash = INDEX_TOP;
	char part[128];

	for (const char *p = full, *end; *p; p = *end ? end + 2 : end) {
		end = strstr(p, "::");
		end = end ? end : p + strlen(p);
		if (end - p >= (ptrdiff_t)sizeof(part))
			return 0;
		memcpy(part, p, (size_t)(end - p));
		part[end - p] = 0;
		hash = index_hash(hash, part);
	}
	return hash;
}

const struct dw_type *debug_named_type(struct debug *d, const char *full)
{
	uint64_t key = hash_of_name(full);
	const struct dw_type *t = map_get(&d->named, key, 0);
	const struct debug_index *all;
	const struct index_entry *e;
	size_t n;

	if (t)
		return answer(d, t);
	all = debug_all(d);
	if (!all)
		return NULL;
	e = index_list_find(&all->types, key, &n);
	for (size_t i = 0; i < n && !t; i++) {
		t = dw_type_of(d, e[i].ref);
		if (t && (t->declaration || strcmp(t->full_name, full) != 0))
			t = NULL;
	}
	remember(d, &d->named, key, t);
	return t;
}

const struct dw_type *debug_thread_local(struct debug *d, const char *symbol)
{
	uint64_t key = hash_string(0, symbol);
	const struct dw_type *t = map_get(&d->named, key, 0);
	const struct debug_index *all;
	const struct index_entry *e;
	struct dwarf_die die;
	const char *name;
	size_t n;

	if (t)
		return answer(d, t);
	all = debug_all(d);
	if (!all)
		return NULL;
	e = index_list_find(&all->locals, index_hash(INDEX_TOP, symbol), &n);
	for (size_t i = 0; i < n && !t; i++)
		if (units_die(d->units, e[i].ref, &die) &&
		    (name = die_str(&die, DW_AT_linkage_name)) && !strcmp(name, symbol))
			t = dw_type_of(d, die_ref(&die, DW_AT_type));
	remember(d, &d->named, key, t);
	return t;
}

/* ---- where an await was written ---- */

/* The variable `__awaitee` of this type in a function. */
static bool find_awaitee(struct debug *d, const struct dwarf_die *parent, uint64_t type,
			 unsigned depth, struct dw_place *ret)
{
	struct dwarf_die die;

	if (depth > DEBUG_MAX_DEPTH)
		return false;
	for (bool ok = die_child(parent, &die); ok; ok = die_sibling(&die, &die)) {
		switch (die_tag(&die)) {
		case DW_TAG_variable:
			if (!strcmp(die_name(&die), "__awaitee") &&
			    debug_same_type(d, die_ref(&die, DW_AT_type), type)) {
				debug_decl_place(&die, &ret->file, &ret->line);
				return ret->line != 0;
			}
			break;
		case DW_TAG_lexical_block:
			if (find_awaitee(d, &die, type, depth + 1, ret))
				return true;
			break;
		default:
			break;
		}
	}
	return false;
}

/* "{async_fn_env#0}<T>" is polled by the function "{async_fn#0}<T>". For free(). */
static char *poll_name(const char *env)
{
	const char *cut = strstr(env, "_env#");
	char *name = NULL;

	if (strncmp(env, "{async_", 7) != 0 || !cut || cut > strchrnul(env, '}') ||
	    asprintf(&name, "%.*s%s", (int)(cut - env), env, cut + 4) < 0)
		return NULL;
	return name;
}

static bool find_await(struct debug *d, const struct dw_type *env, uint64_t awaitee,
		       struct dw_place *ret)
{
	_cleanup_free_ char *name = poll_name(env->name);
	const struct debug_index *all;
	const struct index_entry *e;
	struct dwarf_die env_die, die;
	uint64_t want, hash;
	const struct unit_index *x;
	size_t n;

	if (!name || !units_die(d->units, env->ref, &env_die) ||
	    !debug_path_hash(&env_die, name, &want))
		return false;
	/* often in the same unit */
	x = unit_index_of(env_die.unit);
	for (size_t i = 0; x && i < x->coroutines.n; i++)
		if (units_die(d->units, x->coroutines.v[i].ref, &die) &&
		    !strcmp(die_name(&die), name) && debug_path_hash(&die, NULL, &hash) &&
		    hash == want && find_awaitee(d, &die, awaitee, 0, ret))
			return true;
	all = debug_all(d);
	if (!all)
		return false;
	e = index_list_find(&all->coroutines, want, &n);
	for (size_t i = 0; i < n; i++)
		if (units_die(d->units, e[i].ref, &die) && !strcmp(die_name(&die), name) &&
		    find_awaitee(d, &die, awaitee, 0, ret))
			return true;
	return false;
}

bool debug_await_place(struct debug *d, const struct dw_type *env, uint64_t awaitee_ref,
		       const char **ret_file, uint32_t *ret_line)
{
	struct debug_place_list *l = map_get(&d->awaits, env->ref, awaitee_ref);

	if (!l) {
		if (!debug_units(d))
			return false;
		l = debug_alloc(d, sizeof(*l) + sizeof(l->v[0]));
		if (!l)
			return false;
		l->max = 1;
		l->n = find_await(d, env, awaitee_ref, &l->v[0]);
		if (l->n || !d->local)
			debug_keep(d, &d->awaits, env->ref, awaitee_ref, l);
	}
	if (!l->n)
		return false;
	*ret_file = l->v[0].file;
	*ret_line = l->v[0].line;
	return true;
}
