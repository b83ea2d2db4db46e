/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The cache of answers (base/cache.h): all that was asked of a program's debug information, and
 * what was answered: types, functions, places. References are offsets in the debug information and
 * so mean the same the next time.
 *
 * Who may be believed holds for the program and for all files of debug information that were read
 * for it. The content:
 *
 *    who wrote it; strings; files besides the program; types; other references to types; functions;
 *    cells; vtables; named; awaits; places; frames
 */
#include "binary/dwarf/debug_data.h"
#include "binary/dwarf/debug_file.h"

#include "base/buf.h"
#include "base/cache.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/file.h"

#include <string.h>

static const struct cache_kind kind = {"debug", "plxdebug", 4};

enum {
	MAX_SOURCES = 4096, /* more .dwo files than that, and nothing is kept */
};

/* ---- writing ---- */

struct saving {
	struct buf strings, body;
	struct map numbers; /* (pointer, 0) -> number of the string */
	struct map types;   /* (pointer, 0) -> number of the type, from 1 */
	uint64_t n_strings;
};

/* Numbers go by pointer: most strings are shared, and one that isn't costs a few bytes. */
static void save_str(struct saving *s, const char *str)
{
	uint64_t number = (uint64_t)(uintptr_t)map_get(&s->numbers, (uintptr_t)str, 0);
	size_t len;

	if (str && !number) {
		len = strlen(str);
		number = ++s->n_strings;
		if (map_put(&s->numbers, (uintptr_t)str, 0, (void *)(uintptr_t)number) < 0)
			s->body.failed = true;
		buf_uleb(&s->strings, len);
		buf_add(&s->strings, str, len + 1);
	}
	buf_uleb(&s->body, str ? number : 0);
}

static void save_place(struct saving *s, const char *file, uint32_t line)
{
	save_str(s, file);
	buf_uleb(&s->body, line);
}

static void save_member(struct saving *s, const struct dw_member *m)
{
	save_str(s, m->name);
	buf_uleb(&s->body, m->offset);
	buf_uleb(&s->body, m->type_ref);
	save_place(s, m->file, m->line);
}

static void save_params(struct saving *s, const struct dw_param *p, size_t n)
{
	buf_uleb(&s->body, n);
	for (size_t i = 0; i < n; i++) {
		save_str(s, p[i].name);
		buf_uleb(&s->body, p[i].type_ref);
	}
}

static void save_type(struct saving *s, const struct dw_type *t)
{
	struct buf *b = &s->body;

	buf_uleb(b, t->ref);
	buf_uleb(b, t->class);
	save_str(s, t->name);
	save_str(s, t->full_name);
	buf_uleb(b, t->size);
	buf_uleb(b, (unsigned)t->declaration | (unsigned)t->has_variants << 1);
	buf_uleb(b, t->target_ref);
	buf_uleb(b, t->n_elements);
	buf_uleb(b, t->encoding);
	buf_uleb(b, t->n_members);
	for (size_t i = 0; i < t->n_members; i++)
		save_member(s, &t->members[i]);
	save_params(s, t->params, t->n_params);
	if (!t->has_variants)
		return;
	buf_uleb(b, t->discr_offset);
	buf_uleb(b, t->discr_size);
	buf_uleb(b, t->n_variants);
	for (size_t i = 0; i < t->n_variants; i++) {
		buf_uleb(b, t->variants[i].is_default);
		buf_uleb(b, t->variants[i].value);
		save_member(s, &t->variants[i].member);
	}
}

static void save_sources(struct saving *s, const struct debug *d)
{
	buf_uleb(&s->body, d->n_sources);
	for (size_t i = 0; i < d->n_sources; i++) {
		const struct file_id *id = &d->sources[i].id;

		save_str(s, d->sources[i].path);
		buf_uleb(&s->body, id->dev);
		buf_uleb(&s->body, id->ino);
		buf_uleb(&s->body, id->bytes);
		buf_uleb(&s->body, id->modified_ns);
		buf_uleb(&s->body, id->changed_ns);
		buf_uleb(&s->body, id->owner);
	}
}

static void save_types(struct saving *s, const struct debug *d)
{
	const struct map_entry *e;
	size_t pos = 0, n = 0, n_others = 0;

	while ((e = map_next(&d->types, &pos))) {
		if (((const struct dw_type *)e->value)->ref == e->a)
			n++;
		else
			n_others++;
	}
	buf_uleb(&s->body, n);
	n = 0;
	for (pos = 0; (e = map_next(&d->types, &pos));) {
		const struct dw_type *t = e->value;

		if (t->ref != e->a)
			continue;
		save_type(s, t);
		if (map_put(&s->types, (uintptr_t)t, 0, (void *)(uintptr_t)++n) < 0)
			s->body.failed = true;
	}
	buf_uleb(&s->body, n_others);
	for (pos = 0; (e = map_next(&d->types, &pos));) {
		const struct dw_type *t = e->value;

		if (t->ref == e->a)
			continue;
		buf_uleb(&s->body, e->a);
		buf_uleb(&s->body, (uintptr_t)map_get(&s->types, (uintptr_t)t, 0));
	}
}

static void save_functions(struct saving *s, const struct debug *d)
{
	const struct map_entry *e;
	size_t pos = 0;

	buf_uleb(&s->body, d->functions.n);
	while ((e = map_next(&d->functions, &pos))) {
		const struct dw_function *f = e->value;

		buf_uleb(&s->body, e->a);
		buf_uleb(&s->body, f->low != 0);
		if (!f->low)
			continue;
		save_str(s, f->name);
		save_str(s, f->full_name);
		buf_uleb(&s->body, f->high);
		buf_uleb(&s->body, f->ref);
		buf_uleb(&s->body, f->self_ref);
		save_place(s, f->file, f->line);
		save_params(s, f->params, f->n_params);
	}
}

/* Answers that are types; 0 is "none". */
static void save_answers(struct saving *s, const struct map *m)
{
	const struct map_entry *e;
	size_t pos = 0;

	buf_uleb(&s->body, m->n);
	while ((e = map_next(m, &pos))) {
		buf_uleb(&s->body, e->a);
		buf_uleb(&s->body, (uintptr_t)map_get(&s->types, (uintptr_t)e->value, 0));
	}
}

static void save_places(struct saving *s, const struct map *m)
{
	const struct map_entry *e;
	size_t pos = 0;

	buf_uleb(&s->body, m->n);
	while ((e = map_next(m, &pos))) {
		const struct debug_place_list *l = e->value;

		buf_uleb(&s->body, e->a);
		buf_uleb(&s->body, e->b);
		buf_uleb(&s->body, l->max);
		buf_uleb(&s->body, l->n);
		for (size_t i = 0; i < l->n; i++) {
			save_str(s, l->v[i].function);
			save_place(s, l->v[i].file, l->v[i].line);
		}
	}
}

static void save_frames(struct saving *s, const struct debug *d)
{
	const struct map_entry *e;
	size_t pos = 0;

	buf_uleb(&s->body, d->frames.n);
	while ((e = map_next(&d->frames, &pos))) {
		const struct debug_frame_answer *f = e->value;

		buf_uleb(&s->body, e->a);
		save_str(s, f->block_on);
		save_params(s, f->params, f->n_params);
		buf_uleb(&s->body, f->n_slots);
		for (size_t i = 0; i < f->n_slots; i++) {
			buf_uleb(&s->body, f->slots[i].type_ref);
			buf_uleb(&s->body, (uint64_t)f->slots[i].offset);
			buf_uleb(&s->body, f->slots[i].base);
			buf_uleb(&s->body, f->slots[i].is_value);
		}
	}
}

/* What wrote the file; another pollux may know more or have known less. */
static const char writer[] = "pollux " POLLUX_VERSION;

static bool add_source(struct debug *d, const char *path, const struct file_id *id)
{
	struct debug_source *v = debug_alloc(d, (d->n_sources + 1) * sizeof(*v));
	char *copy = debug_alloc(d, strlen(path) + 1);

	if (!v || !copy)
		return false;
	if (d->n_sources)
		memcpy(v, d->sources, d->n_sources * sizeof(*v));
	memcpy(copy, path, strlen(path) + 1);
	v[d->n_sources++] = (struct debug_source){copy, *id};
	d->sources = v;
	return true;
}

/* Adds the files that were read to those from which the cache's answers came. False: one isn't what
 * it was, or is another's. */
static bool find_sources(struct debug *d)
{
	const struct debug_file *f;
	struct file_id now;

	if (!file_id_read(d->fd, &now) || !file_id_same(&now, &d->id))
		return false;
	for (size_t i = 0; (f = units_file(d->units, i)); i++) {
		const struct file_id *id = debug_file_id(f);
		bool known = file_id_same(id, &d->id);

		if (!file_id_trusted(id) || !debug_file_unchanged(f) || i >= MAX_SOURCES)
			return false;
		for (size_t k = 0; k < d->n_sources && !known; k++) {
			known = file_id_same(id, &d->sources[k].id);
			if (!known && !strcmp(d->sources[k].path, debug_file_path(f)))
				return false;
		}
		if (!known && !add_source(d, debug_file_path(f), id))
			return false;
	}
	return true;
}

void debug_cache_save(struct debug *d)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct saving s = {0};
	const char *missing;

	/* Answers without the files of some units may be worse than those with them. */
	if (!d->units || units_missing(d->units, &missing) || !find_sources(d))
		return;
	save_sources(&s, d);
	save_types(&s, d);
	save_functions(&s, d);
	save_answers(&s, &d->cells);
	save_answers(&s, &d->vtables);
	save_answers(&s, &d->named);
	save_places(&s, &d->awaits);
	save_places(&s, &d->places);
	save_frames(&s, d);
	buf_add(&text, writer, sizeof(writer));
	buf_uleb(&text, s.n_strings);
	buf_add(&text, s.strings.data, s.strings.len);
	buf_add(&text, s.body.data, s.body.len);
	if (!buf_failed(&s.strings) && !buf_failed(&s.body))
		cache_save(&kind, &d->id, &text);
	buf_done(&s.strings);
	buf_done(&s.body);
	map_done(&s.numbers);
	map_done(&s.types);
}

/* ---- reading ---- */

struct loading {
	struct debug *d;
	struct cursor c;
	const char **strings;
	uint64_t n_strings;
	struct dw_type *types;
	uint64_t n_types;
};

/* A count of things that take at least a byte each; what can't be makes the cursor fail. */
static uint64_t load_count(struct loading *l)
{
	uint64_t n = cursor_uleb(&l->c);

	if (n > cursor_left(&l->c)) {
		l->c.failed = true;
		n = 0;
	}
	return cursor_ok(&l->c) ? n : 0;
}

static void *load_array(struct loading *l, uint64_t n, size_t bytes)
{
	void *p = n ? debug_alloc(l->d, n * bytes) : NULL;

	if (n && !p)
		l->c.failed = true;
	return p;
}

static const char *load_str(struct loading *l)
{
	uint64_t number = cursor_uleb(&l->c);

	if (number > l->n_strings)
		l->c.failed = true;
	return number && cursor_ok(&l->c) ? l->strings[number - 1] : NULL;
}

/* Of those that are never NULL. */
static const char *load_name(struct loading *l)
{
	const char *s = load_str(l);

	return s ? s : "";
}

static void load_place(struct loading *l, const char **ret_file, uint32_t *ret_line)
{
	*ret_file = load_str(l);
	*ret_line = (uint32_t)cursor_uleb(&l->c);
}

static void load_strings(struct loading *l)
{
	l->n_strings = load_count(l);
	l->strings = load_array(l, l->n_strings, sizeof(*l->strings));
	for (uint64_t i = 0; i < l->n_strings && cursor_ok(&l->c); i++) {
		uint64_t len = cursor_uleb(&l->c);
		const char *s = len < cursor_left(&l->c) ? cursor_bytes(&l->c, len + 1) : NULL;

		if (!s || s[len] || memchr(s, 0, len))
			l->c.failed = true;
		else
			l->strings[i] = s;
	}
}

static void load_sources(struct loading *l)
{
	uint64_t n = load_count(l);

	if (n > MAX_SOURCES)
		l->c.failed = true;
	l->d->sources = cursor_ok(&l->c) ? load_array(l, n, sizeof(*l->d->sources)) : NULL;
	for (uint64_t i = 0; i < n && cursor_ok(&l->c); i++) {
		struct debug_source *s = &l->d->sources[i];

		s->path = load_name(l);
		s->id.dev = cursor_uleb(&l->c);
		s->id.ino = cursor_uleb(&l->c);
		s->id.bytes = cursor_uleb(&l->c);
		s->id.modified_ns = cursor_uleb(&l->c);
		s->id.changed_ns = cursor_uleb(&l->c);
		s->id.owner = cursor_uleb(&l->c);
		l->d->n_sources = i + 1;
	}
}

static void load_member(struct loading *l, struct dw_member *m)
{
	m->name = load_name(l);
	m->offset = cursor_uleb(&l->c);
	m->type_ref = cursor_uleb(&l->c);
	load_place(l, &m->file, &m->line);
}

static void load_params(struct loading *l, struct dw_param *v, size_t n)
{
	for (size_t i = 0; i < n && cursor_ok(&l->c); i++) {
		v[i].name = load_name(l);
		v[i].type_ref = cursor_uleb(&l->c);
	}
}

static void load_type(struct loading *l, struct dw_type *t)
{
	struct cursor *c = &l->c;
	uint64_t v;

	t->ref = cursor_uleb(c);
	v = cursor_uleb(c);
	if (v < DC_STRUCT || v > DC_OTHER)
		c->failed = true;
	t->class = (enum dw_class)v;
	t->name = load_name(l);
	t->full_name = load_name(l);
	t->size = cursor_uleb(c);
	v = cursor_uleb(c);
	t->declaration = v & 1;
	t->has_variants = v & 2;
	t->target_ref = cursor_uleb(c);
	t->n_elements = cursor_uleb(c);
	t->encoding = (uint8_t)cursor_uleb(c);
	t->n_members = load_count(l);
	t->members = load_array(l, t->n_members, sizeof(*t->members));
	for (size_t i = 0; i < t->n_members && cursor_ok(c); i++)
		load_member(l, &t->members[i]);
	t->n_params = load_count(l);
	t->params = load_array(l, t->n_params, sizeof(*t->params));
	load_params(l, t->params, t->n_params);
	if (!t->has_variants)
		return;
	t->discr_offset = cursor_uleb(c);
	v = cursor_uleb(c);
	if (v > 8)
		c->failed = true;
	t->discr_size = (uint32_t)v;
	t->n_variants = load_count(l);
	t->variants = load_array(l, t->n_variants, sizeof(*t->variants));
	for (size_t i = 0; i < t->n_variants && cursor_ok(c); i++) {
		t->variants[i].is_default = cursor_uleb(c);
		t->variants[i].value = cursor_uleb(c);
		load_member(l, &t->variants[i].member);
	}
}

static void put(struct loading *l, struct map *m, uint64_t a, uint64_t b, void *value)
{
	if (cursor_ok(&l->c) && map_put(m, a, b, value) < 0)
		l->c.failed = true;
}

/* Of a type by its number; `none` for 0. */
static struct dw_type *load_type_number(struct loading *l, struct dw_type *none)
{
	uint64_t number = cursor_uleb(&l->c);

	if (number > l->n_types || (!number && !none))
		l->c.failed = true;
	if (!cursor_ok(&l->c))
		return NULL;
	return number ? &l->types[number - 1] : none;
}

static void load_types(struct loading *l)
{
	uint64_t n;

	l->n_types = load_count(l);
	l->types = load_array(l, l->n_types, sizeof(*l->types));
	uint32_t *notes = load_array(l, l->n_types, sizeof(*notes));
	for (uint64_t i = 0; i < l->n_types && cursor_ok(&l->c); i++) {
		l->types[i].note = &notes[i];
		load_type(l, &l->types[i]);
		put(l, &l->d->types, l->types[i].ref, 0, &l->types[i]);
	}
	n = load_count(l);
	for (uint64_t i = 0; i < n && cursor_ok(&l->c); i++) {
		uint64_t ref = cursor_uleb(&l->c);
		struct dw_type *t = load_type_number(l, NULL);

		put(l, &l->d->types, ref, 0, t);
	}
}

static void load_functions(struct loading *l)
{
	uint64_t n = load_count(l);

	for (uint64_t i = 0; i < n && cursor_ok(&l->c); i++) {
		struct dw_function *f = load_array(l, 1, sizeof(*f));
		uint64_t addr = cursor_uleb(&l->c);

		if (!f)
			return;
		if (cursor_uleb(&l->c)) {
			f->low = addr;
			f->name = load_name(l);
			f->full_name = load_name(l);
			f->high = cursor_uleb(&l->c);
			f->ref = cursor_uleb(&l->c);
			f->self_ref = cursor_uleb(&l->c);
			load_place(l, &f->file, &f->line);
			f->n_params = load_count(l);
			if (f->n_params > sizeof(f->params) / sizeof(*f->params)) {
				l->c.failed = true;
				return;
			}
			load_params(l, f->params, f->n_params);
		}
		put(l, &l->d->functions, addr, 0, f);
	}
}

static void load_answers(struct loading *l, struct map *m)
{
	uint64_t n = load_count(l);

	for (uint64_t i = 0; i < n && cursor_ok(&l->c); i++) {
		uint64_t key = cursor_uleb(&l->c);
		struct dw_type *t = load_type_number(l, &l->d->no_type);

		put(l, m, key, 0, t);
	}
}

static void load_places(struct loading *l, struct map *m)
{
	uint64_t n = load_count(l);

	for (uint64_t i = 0; i < n && cursor_ok(&l->c); i++) {
		uint64_t a = cursor_uleb(&l->c), b = cursor_uleb(&l->c), max = cursor_uleb(&l->c);
		uint64_t n_places = load_count(l);
		struct debug_place_list *list =
			load_array(l, 1, sizeof(*list) + (n_places + 1) * sizeof(list->v[0]));

		if (!list)
			return;
		list->n = n_places;
		list->max = max;
		for (uint64_t k = 0; k < n_places && cursor_ok(&l->c); k++) {
			list->v[k].function = load_str(l);
			load_place(l, &list->v[k].file, &list->v[k].line);
		}
		put(l, m, a, b, list);
	}
}

static void load_frames(struct loading *l)
{
	uint64_t n = load_count(l);

	for (uint64_t i = 0; i < n && cursor_ok(&l->c); i++) {
		uint64_t addr = cursor_uleb(&l->c), n_params, n_slots;
		const char *block_on = load_str(l);
		struct dw_param params[DEBUG_FRAME_PARAMS] = {0};
		struct debug_frame_answer *f;

		n_params = load_count(l);
		if (n_params > DEBUG_FRAME_PARAMS)
			l->c.failed = true;
		else
			load_params(l, params, n_params);
		n_slots = load_count(l);
		f = load_array(l, 1, sizeof(*f) + n_slots * sizeof(f->slots[0]));
		if (!f || !cursor_ok(&l->c))
			return;
		f->block_on = block_on;
		memcpy(f->params, params, sizeof(params));
		f->n_params = n_params;
		f->n_slots = n_slots;
		for (uint64_t k = 0; k < n_slots && cursor_ok(&l->c); k++) {
			f->slots[k].type_ref = cursor_uleb(&l->c);
			f->slots[k].offset = (int64_t)cursor_uleb(&l->c);
			f->slots[k].base = (uint8_t)cursor_uleb(&l->c);
			f->slots[k].is_value = cursor_uleb(&l->c);
		}
		put(l, &l->d->frames, addr, 0, f);
	}
}

static void forget(struct debug *d)
{
	struct map *const maps[] = {&d->types, &d->functions, &d->cells,  &d->vtables,
				    &d->named, &d->awaits,    &d->places, &d->frames};

	for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++)
		map_done(maps[i]);
	d->sources = NULL;
	d->n_sources = 0;
}

bool debug_cache_parse(struct debug *d, const uint8_t *data, size_t len)
{
	struct loading l = {.d = d};

	if (len < sizeof(writer) || memcmp(data, writer, sizeof(writer)) != 0)
		return false;
	cursor_init(&l.c, data + sizeof(writer), len - sizeof(writer));
	load_strings(&l);
	load_sources(&l);
	load_types(&l);
	load_functions(&l);
	load_answers(&l, &d->cells);
	load_answers(&l, &d->vtables);
	load_answers(&l, &d->named);
	load_places(&l, &d->awaits);
	load_places(&l, &d->places);
	load_frames(&l);
	if (cursor_ok(&l.c) && !cursor_left(&l.c))
		return true;
	forget(d);
	return false;
}

static bool same_sources(const struct debug *d)
{
	for (size_t i = 0; i < d->n_sources; i++) {
		_cleanup_close_ int fd = file_open(d->sources[i].path, 0, NULL);
		struct file_id now;

		if (fd < 0 || !file_id_read(fd, &now) || !file_id_same(&now, &d->sources[i].id) ||
		    !file_id_trusted(&now))
			return false;
	}
	return true;
}

bool debug_cache_load(struct debug *d)
{
	_cleanup_free_ uint8_t *data = NULL;
	uint8_t *copy;
	size_t len;

	if (!file_id_read(d->fd, &d->id) || !cache_may_keep(&d->id))
		return false;
	d->cached = true;
	data = cache_load(&kind, &d->id, &len);
	copy = data ? debug_alloc(d, len + 1) : NULL;
	if (!copy)
		return false;
	memcpy(copy, data, len);
	if (!debug_cache_parse(d, copy, len))
		return false;
	if (same_sources(d))
		return true;
	forget(d);
	return false;
}
