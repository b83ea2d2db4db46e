/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Debug information in every form in which it comes (fixtures/make_debug.sh): the same answers from
 * each. A coroutine as rustc describes it, by hand; what a C compiler makes of layouts and
 * inlining; and the cache of answers, which must neither be believed nor left open to others.
 *
 * Arguments: the folder with the forms, and layout.c.
 */
#include "binary/dwarf/debug.h"
#include "binary/dwarf/debug_data.h"
#include "binary/elf/elf_image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *forms, *layout_source;

static int open_form(const char *name)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", forms, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail_msg("cannot open %s", path);
	return fd;
}

static bool there(const char *name, const char *suffix)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s%s", forms, name, suffix);
	return access(path, F_OK) == 0;
}

static struct debug *load_with(const char *name, bool cached)
{
	char path[4096];
	int fd = open_form(name), r;
	struct debug *d;
	struct error err = {0};

	snprintf(path, sizeof(path), "%s/%s", forms, name);
	r = cached ? debug_open(fd, path, &d, &err) : debug_open_fresh(fd, path, &d, &err);
	close(fd);
	if (r < 0)
		fail_msg("%s: %s", name, err.text);
	return d;
}

static uint64_t symbol(const char *name, const char *which)
{
	struct elf_image *image;
	const struct elf_symbol *list;
	int fd = open_form(name);
	struct error err = {0};
	uint64_t addr = 0;
	size_t n;

	if (elf_image_open(fd, name, &image, &err) < 0)
		fail_msg("%s", err.text);
	close(fd);
	n = elf_image_symbols(image, &list);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].name, which))
			addr = list[i].addr;
	elf_image_free(image);
	if (!addr)
		fail_msg("%s has no symbol %s", name, which);
	return addr;
}

/* ---- a coroutine ---- */

static void check_coroutine(struct debug *d, const char *form)
{
	struct dw_function f;
	const struct dw_type *pin, *env, *state, *leaf, *holder, *option;
	const char *file = NULL;
	uint32_t line = 0;

	assert_int_equal(debug_function(d, symbol(form, "poll_f"), &f), 1);
	assert_string_equal(f.full_name, "app::f::{async_fn#0}");
	assert_string_equal(f.file, "src/main.rs");
	assert_int_equal(f.line, 19);
	assert_int_equal(debug_function(d, symbol(form, "poll_f") + 1, &f), 0);

	pin = dw_type_of(d, f.self_ref);
	env = dw_type_of(d, dw_member_type(d, dw_find_member(pin, "pointer"))->target_ref);
	assert_string_equal(env->full_name, "app::f::{async_fn_env#0}");
	assert_int_equal(env->size, 24);
	assert_true(env->has_variants);
	assert_int_equal(env->discr_offset, 16);
	assert_int_equal(env->discr_size, 1);
	assert_int_equal(env->n_variants, 3);
	assert_int_equal(env->variants[2].value, 3);
	assert_false(env->variants[2].is_default);
	assert_int_equal(env->variants[2].member.line, 41);
	assert_string_equal(env->variants[2].member.file, "src/main.rs");
	state = dw_member_type(d, &env->variants[2].member);
	assert_string_equal(state->full_name, "app::f::{async_fn_env#0}::Suspend0");
	assert_int_equal(dw_find_member(state, "count")->offset, 8);
	leaf = dw_member_type(d, dw_find_member(state, "__awaitee"));
	assert_string_equal(leaf->full_name, "app::Leaf");
	assert_int_equal(leaf->size, 8);

	/* not the variable of the same type that is no __awaitee */
	assert_true(debug_await_place(d, env, leaf->ref, &file, &line));
	assert_string_equal(file, "src/main.rs");
	assert_int_equal(line, 42);
	assert_false(debug_await_place(d, env, env->ref, &file, &line));
	assert_false(debug_await_place(d, leaf, leaf->ref, &file, &line));

	/* name and namespace of a concrete method are in its declaration */
	assert_int_equal(debug_function(d, symbol(form, "poll_generic"), &f), 1);
	assert_string_equal(f.full_name, "app::Holder::method<T>");
	assert_int_equal(f.n_params, 1);
	assert_string_equal(f.params[0].name, "T");
	assert_ptr_equal(dw_type_of(d, f.params[0].type_ref), leaf);

	assert_ptr_equal(debug_vtable_type(d, symbol(form, "vtable_f")), env);
	assert_null(debug_vtable_type(d, symbol(form, "vtable_f") + 8));

	assert_int_equal(debug_function(d, symbol(form, "poll_task"), &f), 1);
	assert_int_equal(f.n_params, 2);
	assert_ptr_equal(dw_type_of(d, f.params[0].type_ref), env);
	{
		const uint64_t near[1] = {f.low};
		const uint64_t params[2] = {f.params[0].type_ref, f.params[1].type_ref};
		const uint64_t swapped[2] = {f.params[1].type_ref, f.params[0].type_ref};
		const struct dw_type *cell = debug_cell(d, near, 1, params, 2);

		assert_non_null(cell);
		assert_int_equal(cell->size, 64);
		/* it only knows declarations: they lead to what they declare */
		assert_ptr_equal(dw_param_type(d, cell, "T"), env);
		assert_string_equal(dw_member_type(d, &cell->members[0])->full_name,
				    "app::Nowhere");
		assert_true(dw_member_type(d, &cell->members[0])->declaration);
		assert_null(debug_cell(d, near, 1, swapped, 2));
	}

	/* across units */
	assert_int_equal(debug_function(d, symbol(form, "caller"), &f), 1);
	assert_ptr_equal(dw_type_of(d, f.self_ref), leaf);

	/* a niche: what is not None is Some */
	{
		const struct debug_index *all = debug_all(d);
		const struct index_entry *e;
		uint64_t hash = index_hash(index_hash(INDEX_TOP, "app"), "Holder");
		size_t n;

		e = index_list_find(&all->types, hash, &n);
		assert_int_equal(n, 1);
		holder = dw_type_of(d, e->ref);
		hash = index_hash(index_hash(INDEX_TOP, "app"), "Other");
		e = index_list_find(&all->types, hash, &n);
		assert_int_equal(n, 1);
		assert_string_equal(dw_member_type(d, &dw_type_of(d, e->ref)->members[1])->name,
				    "u64");
	}
	option = dw_member_type(d, dw_find_member(holder, "option"));
	assert_int_equal(option->discr_size, 8);
	assert_int_equal(option->n_variants, 2);
	assert_int_equal(option->variants[0].value, 0x7f);
	assert_true(option->variants[1].is_default);
	assert_string_equal(option->variants[1].member.name, "Some");
	assert_int_equal(dw_member_type(d, dw_find_member(holder, "list"))->n_elements, 4);
	assert_int_equal(dw_member_type(d, dw_find_member(holder, "list"))->size, 32);

	/* garbage in, nothing out */
	assert_null(dw_type_of(d, 0));
	assert_null(dw_type_of(d, 1));
	assert_null(dw_type_of(d, 1ULL << 39));
	assert_null(dw_type_of(d, 77ULL << 40 | 20));
}

/* The line table, and a function that was inlined. */
static void check_places(struct debug *d, const char *form)
{
	uint64_t caller = symbol(form, "caller"), poll = symbol(form, "poll_f");
	struct dw_place p[4];

	assert_int_equal(debug_places(d, caller, p, 4), 1);
	assert_string_equal(p[0].function, "app::caller");
	assert_int_equal(p[0].line, 80);
	assert_int_equal(debug_places(d, caller + 1, p, 1), 1);
	assert_string_equal(p[0].function, "app::spawn");
	assert_int_equal(p[0].line, 90);
	assert_int_equal(debug_places(d, caller + 1, p, 4), 2);
	assert_string_equal(p[0].function, "app::spawn");
	assert_string_equal(p[1].function, "app::caller");
	assert_int_equal(p[1].line, 80);
	assert_string_equal(p[1].file, "src/main.rs");
	assert_int_equal(debug_places(d, poll + 2, p, 4), 1);
	assert_int_equal(p[0].line, 42);
	assert_int_equal(debug_places(d, 1, p, 4), 0);
}

static void test_coroutine_in_every_form(void **state)
{
	static const char *const names[] = {
		"co4",
		"co5",
		"co5_zlib",
		"co4_zlib_gnu",
		"co5_zstd",
		"link/co4_linked",
		"beside/co4_beside",
		"crc/co4_crc",
		"co5_id",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct debug *d;

		if (!strcmp(names[i], "co5_zstd") && !there(names[i], "")) {
			print_message("SKIPPED co5_zstd: this objcopy can't compress so\n");
			continue;
		}
		print_message("form %s\n", names[i]);
		d = load_with(names[i], false);
		check_coroutine(d, names[i]);
		check_places(d, names[i]);
		debug_free(d);
	}
}

static void check_none(const char *name)
{
	struct error err = {0};
	struct debug *d;
	char path[4096];
	int fd = open_form(name);

	snprintf(path, sizeof(path), "%s/%s", forms, name);
	assert_int_equal(debug_open_fresh(fd, path, &d, &err), -ENODATA);
	close(fd);
	assert_non_null(strstr(err.text, name));
	assert_non_null(strstr(err.text, "debug = true"));
}

static void test_none(void **state)
{
	check_none("co4_stripped");
	/* a file of the right name that belongs to another program */
	check_none("wrong/co4_wrong");
	check_none("crc_wrong/co4_crc_wrong");
}

/* While local, what is elsewhere is not found, and that is not remembered. */
static void test_local(void **state)
{
	struct debug *d = load_with("co4", false);
	uint64_t vtable = symbol("co4", "vtable_f");

	debug_local(d, true);
	assert_null(debug_vtable_type(d, vtable));
	debug_local(d, false);
	assert_non_null(debug_vtable_type(d, vtable));
	debug_free(d);
}

/* ---- asked to stop ---- */

struct stopping {
	unsigned n_asked, at; /* at: from this question on */
};

static bool stop_at(void *ctx)
{
	struct stopping *s = ctx;

	return ++s->n_asked >= s->at;
}

/* To be asked to stop at that step: what d->stop.n_steps will be then. */
static uint64_t load_stopped(const char *form, uint64_t step, struct stopping *s,
			     struct debug **ret)
{
	struct debug *d = load_with(form, false);

	*s = (struct stopping){.at = (unsigned)((step - 1) / DWARF_STOP_STEPS + 1)};
	debug_stop_when(d, stop_at, s);
	d->stop.n_steps = DWARF_STOP_STEPS - 1 - (step - 1) % DWARF_STOP_STEPS;
	*ret = d;
	return d->stop.n_steps + step;
}

/* Each reads all units, or the one with the function. */
static void find_all(struct debug *d, uint64_t vtable, uint64_t poll)
{
	struct dw_function f;

	debug_vtable_type(d, vtable);
	debug_named_type(d, "app::Leaf");
	debug_function(d, poll, &f);
}

static void check_kept(const struct debug *d, struct debug *whole)
{
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&d->types, &pos))) {
		const struct dw_type *t = e->value, *want = dw_type_of(whole, e->a);

		assert_non_null(want);
		assert_string_equal(t->full_name, want->full_name);
		assert_int_equal(t->declaration, want->declaration);
	}
	pos = 0;
	while ((e = map_next(&d->vtables, &pos)))
		assert_ptr_not_equal(e->value, &d->no_type);
	pos = 0;
	while ((e = map_next(&d->named, &pos)))
		assert_ptr_not_equal(e->value, &d->no_type);
	pos = 0;
	while ((e = map_next(&d->functions, &pos)))
		assert_int_not_equal(((const struct dw_function *)e->value)->low, 0);
}

static void test_stop_within_bounded_steps(void **state)
{
	uint64_t vtable = symbol("co4", "vtable_f"), poll = symbol("co4", "poll_f"), last;
	struct debug *whole = load_with("co4", false), *d;
	struct stopping s;
	bool stopped = true;
	uint64_t step = 0;

	(void)state;
	find_all(whole, vtable, poll);
	while (stopped) {
		last = load_stopped("co4", ++step, &s, &d);
		find_all(d, vtable, poll);
		stopped = s.n_asked >= s.at;
		if (stopped) {
			assert_int_equal(s.n_asked, s.at);
			assert_int_equal(d->stop.n_steps, last);
			assert_true(debug_stopped(d));
			check_kept(d, whole);
		}
		debug_free(d);
	}
	/* a step is one DIE: two walks of all of them, at least */
	assert_true(step > 64);
	debug_free(whole);
}

/* ---- what a C compiler says ---- */

static uint32_t mark(const char *word)
{
	FILE *f = fopen(layout_source, "r");
	char line[256], want[64];
	uint32_t n = 0, found = 0;

	assert_non_null(f);
	snprintf(want, sizeof(want), "/* mark: %s */", word);
	while (fgets(line, sizeof(line), f)) {
		n++;
		if (strstr(line, want))
			found = n;
	}
	fclose(f);
	assert_int_not_equal(found, 0);
	return found;
}

static bool ends(const char *s, const char *end)
{
	return s && strlen(s) >= strlen(end) && !strcmp(s + strlen(s) - strlen(end), end);
}

static void check_layout(struct debug *d, const char *form)
{
	const struct dw_type *pointer, *outer, *t;
	uint64_t work = symbol(form, "work");
	struct dw_place p[4];
	struct dw_function f;
	bool inlined = false;

	assert_int_equal(debug_function(d, work, &f), 1);
	assert_string_equal(f.name, "work");
	assert_int_equal(f.line, mark("work"));
	assert_true(ends(f.file, "layout.c"));
	assert_true(f.high > f.low);
	pointer = dw_type_of(d, f.self_ref);
	assert_int_equal(pointer->class, DC_POINTER);
	outer = dw_type_of(d, pointer->target_ref);
	assert_string_equal(outer->full_name, "outer");
	assert_int_equal(outer->n_members, 5);
	assert_int_equal(outer->size, 48);

	t = dw_member_type(d, &outer->members[0]);
	assert_string_equal(t->name, "inner");
	assert_int_equal(t->members[1].offset, 8);
	/* word is a typedef */
	assert_int_equal(dw_member_type(d, &t->members[1])->class, DC_BASE);
	assert_int_equal(dw_member_type(d, &t->members[1])->size, 8);
	t = dw_type_of(d, dw_member_type(d, &outer->members[1])->target_ref);
	assert_string_equal(t->name, "inner"); /* through const */
	t = dw_member_type(d, &outer->members[2]);
	assert_int_equal(t->class, DC_UNION);
	assert_int_equal(t->n_members, 2);
	t = dw_member_type(d, &outer->members[3]);
	assert_int_equal(t->class, DC_ARRAY);
	assert_int_equal(t->n_elements, 5);
	assert_int_equal(t->size, 10);
	t = dw_member_type(d, &outer->members[4]);
	assert_int_equal(t->class, DC_ENUM); /* through volatile */
	assert_int_equal(t->n_params, 2);
	assert_string_equal(t->params[1].name, "GREEN");
	assert_int_equal(t->params[1].type_ref, 7);

	for (uint64_t at = f.low; at < f.high && !inlined; at++) {
		if (debug_places(d, at, p, 4) != 2)
			continue;
		inlined = true;
		assert_string_equal(p[0].function, "twice");
		assert_string_equal(p[1].function, "work");
		assert_int_equal(p[1].line, mark("call"));
		assert_true(ends(p[1].file, "layout.c"));
		assert_true(ends(p[0].file, "layout.c"));
	}
	assert_true(inlined);
}

static void test_layout_in_every_form(void **state)
{
	static const char *const names[] = {
		"lay4", "lay5", "lay4_dwo", "lay5_dwo", "pack4/lay4_dwp", "pack5/lay5_dwp",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct debug *d;
		const char *file;

		if (strstr(names[i], "_dwp") && !there(names[i], ".dwp")) {
			print_message("SKIPPED %s: no dwp, or no llvm-dwp\n", names[i]);
			continue;
		}
		print_message("form %s\n", names[i]);
		d = load_with(names[i], false);
		check_layout(d, names[i]);
		assert_int_equal(debug_missing(d, &file), 0);
		debug_free(d);
	}
}

static void test_lost_split_units(void **state)
{
	static const char *const names[] = {"lost4/lay4_lost", "lost5/lay5_lost"};

	for (size_t i = 0; i < 2; i++) {
		struct debug *d = load_with(names[i], false);
		struct dw_function f;
		const char *file;

		assert_int_equal(debug_function(d, symbol(names[i], "work"), &f), 0);
		assert_int_equal(debug_missing(d, &file), 1);
		assert_true(ends(file, "lay.dwo"));
		debug_free(d);
	}
}

/* ---- the cache ---- */

static char cache[64];

/* The one file in the cache. */
static void cache_file(char *ret, size_t size)
{
	char dir[128];
	const struct dirent *entry;
	DIR *stream;
	size_t n = 0;

	snprintf(dir, sizeof(dir), "%s/pollux", cache);
	stream = opendir(dir);
	assert_non_null(stream);
	while ((entry = readdir(stream)))
		if (entry->d_name[0] != '.' && ++n)
			snprintf(ret, size, "%s/%s", dir, entry->d_name);
	closedir(stream);
	assert_int_equal(n, 1);
}

static void ask_all(struct debug *d)
{
	check_coroutine(d, "co4");
	check_places(d, "co4");
}

static int cache_begin(void **state)
{
	snprintf(cache, sizeof(cache), "/tmp/pollux-test-XXXXXX");
	if (!mkdtemp(cache))
		return -1;
	return setenv("XDG_CACHE_HOME", cache, 1);
}

static int cache_end(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", cache);
	return system(command);
}

static void test_cache(void **state)
{
	struct debug *d = load_with("co4", true);
	char path[512];
	struct stat st;

	ask_all(d);
	assert_non_null(d->units);
	debug_free(d);
	cache_file(path, sizeof(path));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	snprintf(path, sizeof(path), "%s/pollux", cache);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);

	/* now nothing is opened, but for what the test itself looks up in the index */
	d = load_with("co4", true);
	assert_null(d->units);
	check_places(d, "co4");
	assert_non_null(debug_vtable_type(d, symbol("co4", "vtable_f")));
	assert_null(debug_vtable_type(d, symbol("co4", "vtable_f") + 8));
	assert_null(d->units);
	ask_all(d);
	debug_free(d);

	/* another program has another file */
	d = load_with("co5", true);
	assert_non_null(d->units);
	debug_free(d);
}

static void rewrite(const char *path, const uint8_t *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

static size_t slurp(const char *path, uint8_t *data, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, data, size);
	assert_true(n > 0 && (size_t)n < size);
	close(fd);
	return (size_t)n;
}

/* A damaged file counts as absent, and is replaced. */
static void test_damaged_cache(void **state)
{
	static uint8_t good[1 << 20], bad[1 << 20];
	struct debug *d = load_with("co4", true);
	char path[512];
	size_t len;

	ask_all(d);
	debug_free(d);
	cache_file(path, sizeof(path));
	len = slurp(path, good, sizeof(good));
	for (size_t cut = 0; cut < len; cut += 1 + len / 50) {
		rewrite(path, good, cut);
		d = load_with("co4", true);
		assert_non_null(d->units);
		ask_all(d);
		debug_free(d);
		assert_int_equal(slurp(path, bad, sizeof(bad)), len);
	}
	for (size_t at = 0; at < len; at += 1 + len / 50) {
		memcpy(bad, good, len);
		bad[at] ^= 0x41;
		rewrite(path, bad, len);
		d = load_with("co4", true);
		assert_non_null(d->units);
		ask_all(d);
		debug_free(d);
	}
}

/* One that is wrong on purpose, with a right checksum: read within its bounds, whatever it says. */
static void test_hostile_cache(void **state)
{
	static uint8_t good[1 << 20];
	struct debug *d = load_with("co4", true);
	uint64_t seed = 1;
	size_t len, n_read = 0;
	char path[512];

	ask_all(d);
	debug_free(d);
	cache_file(path, sizeof(path));
	len = slurp(path, good, sizeof(good)) - 32;
	for (unsigned round = 0; round < 20000; round++) {
		uint8_t *bad = malloc(len);

		assert_non_null(bad);
		memcpy(bad, good + 32, len);
		for (unsigned k = 0; k <= round % 4; k++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			bad[(seed >> 20) % len] = (uint8_t)(seed >> 56);
		}
		d = calloc(1, sizeof(*d));
		assert_non_null(d);
		d->fd = -1;
		n_read += debug_cache_parse(d, bad, len);
		debug_free(d);
		free(bad);
	}
	/* many changes make sense, most of those to counts don't */
	assert_in_range(n_read, 1000, 19000);
}

static void test_foreign_cache(void **state)
{
	struct debug *d = load_with("co4", true);
	char path[512], folder[128];

	ask_all(d);
	debug_free(d);
	/* others can write into the folder */
	snprintf(folder, sizeof(folder), "%s/pollux", cache);
	assert_int_equal(chmod(folder, 0777), 0);
	d = load_with("co4", true);
	assert_non_null(d->units);
	debug_free(d);
	assert_int_equal(chmod(folder, 0700), 0);
	d = load_with("co4", true);
	assert_null(d->units);
	debug_free(d);
	/* a link instead of a file */
	cache_file(path, sizeof(path));
	assert_int_equal(rename(path, "/dev/null") < 0, 1);
	snprintf(folder, sizeof(folder), "%s/elsewhere", cache);
	assert_int_equal(rename(path, folder), 0);
	assert_int_equal(symlink(folder, path), 0);
	d = load_with("co4", true);
	assert_non_null(d->units);
	debug_free(d);
}

/* ---- whose files they are ---- */

/* Copies of forms, in the cache's folder: "co4 link/co4.debug" as a/co4 and a/co4.debug. */
static void copy_forms(const char *folder, const char *names)
{
	char command[1024];

	snprintf(command, sizeof(command), "mkdir -p %s/%s && cd %s && cp -p %s %s/%s/", cache,
		 folder, forms, names, cache, folder);
	assert_int_equal(system(command), 0);
}

/* Loads such a copy and asks; whether the cache had the answers. -ENODATA: no debug information. */
static int load_copy(const char *name)
{
	struct error err = {0};
	struct debug *d;
	char path[512];
	int fd, r;
	bool known;

	snprintf(path, sizeof(path), "%s/%s", cache, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	r = debug_open(fd, path, &d, &err);
	close(fd);
	if (r < 0)
		return r;
	known = !d->units;
	ask_all(d);
	debug_free(d);
	return known;
}

static void give(const char *name, uid_t owner)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", cache, name);
	assert_int_equal(chown(path, owner, (gid_t)-1), 0);
}

enum { STRANGER = 65533 };

/* Another's file has no entry and gets none, whatever build-id and size it says. */
static void test_cache_of_strangers(void **state)
{
	char folder[128];

	if (geteuid() != 0) {
		print_message("SKIPPED: needs root\n");
		skip();
	}
	copy_forms("a", "co4");
	copy_forms("b", "co4");
	give("a/co4", STRANGER);
	assert_int_equal(load_copy("a/co4"), false);
	assert_int_equal(load_copy("a/co4"), false);
	snprintf(folder, sizeof(folder), "%s/pollux", cache);
	assert_int_equal(access(folder, F_OK), -1);
	/* the same content, this user's */
	assert_int_equal(load_copy("b/co4"), false);
	assert_int_equal(load_copy("b/co4"), true);
	assert_int_equal(load_copy("a/co4"), false);
	/* what was this user's and cached, given away */
	give("b/co4", STRANGER);
	assert_int_equal(load_copy("b/co4"), false);
	(void)state;
}

/* A file that is written again is another one, also with its old size and time. */
static void test_cache_of_changed_file(void **state)
{
	struct timespec times[2];
	char path[512];
	struct stat st;
	char byte;
	int fd;

	copy_forms("a", "co4");
	assert_int_equal(load_copy("a/co4"), false);
	assert_int_equal(load_copy("a/co4"), true);
	snprintf(path, sizeof(path), "%s/a/co4", cache);
	assert_int_equal(stat(path, &st), 0);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0 && pread(fd, &byte, 1, 0) == 1);
	usleep(20000); /* the kernel's clock of files ticks */
	assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
	assert_int_equal(load_copy("a/co4"), false);
	assert_int_equal(load_copy("a/co4"), true);
	(void)state;
}

/* The same of a file of debug information apart. */
static void test_cache_of_file_apart(void **state)
{
	char path[512], aside[512];

	copy_forms("a", "link/co4_linked link/co4.debug");
	assert_int_equal(load_copy("a/co4_linked"), false);
	assert_int_equal(load_copy("a/co4_linked"), true);
	/* replaced by one that says the same */
	snprintf(path, sizeof(path), "%s/a/co4.debug", cache);
	snprintf(aside, sizeof(aside), "%s/aside", cache);
	assert_int_equal(rename(path, aside), 0);
	copy_forms("a", "link/co4.debug");
	assert_int_equal(load_copy("a/co4_linked"), false);
	assert_int_equal(load_copy("a/co4_linked"), true);
	if (geteuid() != 0) {
		print_message("SKIPPED the rest: needs root\n");
		return;
	}
	/* another's counts only for a program that is his, and is not kept then */
	give("a/co4.debug", STRANGER);
	assert_int_equal(load_copy("a/co4_linked"), -ENODATA);
	give("a/co4_linked", STRANGER);
	assert_int_equal(load_copy("a/co4_linked"), false);
	assert_int_equal(load_copy("a/co4_linked"), false);
	give("a/co4.debug", 0);
	assert_int_equal(load_copy("a/co4_linked"), false);
	assert_int_equal(load_copy("a/co4_linked"), false);
	(void)state;
}

/* With another user's $HOME nothing is made in it. */
static void test_cache_in_foreign_home(void **state)
{
	char folder[128];

	if (geteuid() != 0) {
		print_message("SKIPPED: needs root\n");
		skip();
	}
	copy_forms("a", "co4");
	snprintf(folder, sizeof(folder), "%s/home", cache);
	assert_int_equal(mkdir(folder, 0755), 0);
	give("home", STRANGER);
	setenv("XDG_CACHE_HOME", "", 1);
	setenv("HOME", folder, 1);
	assert_int_equal(load_copy("a/co4"), false);
	unsetenv("HOME");
	assert_int_equal(rmdir(folder), 0);
	(void)state;
}

/* What is missing now may be there the next time: nothing is kept. */
static void test_no_cache_of_lost_units(void **state)
{
	struct debug *d = load_with("lost5/lay5_lost", true);
	struct dw_function f;

	assert_int_equal(debug_function(d, symbol("lost5/lay5_lost", "work"), &f), 0);
	debug_free(d);
	d = load_with("lost5/lay5_lost", true);
	assert_non_null(d->units);
	debug_free(d);
}

/* ---- an owner who changes his file ---- */

/* A copy of a form, to be changed: its descriptor, and its path. */
static int copy_form(const char *name, char *ret_path, size_t size)
{
	int from = open_form(name), fd;
	struct stat st;
	char *data;

	snprintf(ret_path, size, "%s/copy", cache);
	fd = open(ret_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fstat(from, &st), 0);
	data = malloc((size_t)st.st_size);
	assert_non_null(data);
	assert_int_equal(pread(from, data, (size_t)st.st_size, 0), st.st_size);
	assert_int_equal(pwrite(fd, data, (size_t)st.st_size, 0), st.st_size);
	free(data);
	close(from);
	return fd;
}

/* While it is in use: a mapped file would end us with SIGBUS. */
static void test_file_cut_in_use(void **state)
{
	static const char *const names[] = {"co4", "co5"};

	for (size_t i = 0; i < 2; i++) {
		struct error err = {0};
		struct debug *d;
		char path[128];
		int fd = copy_form(names[i], path, sizeof(path));

		assert_int_equal(debug_open_fresh(fd, path, &d, &err), 0);
		assert_non_null(d->units);
		assert_int_equal(ftruncate(fd, 0), 0);
		check_coroutine(d, names[i]);
		check_places(d, names[i]);
		debug_free(d);
		close(fd);
		unlink(path);
	}
}

/* A section of 3 GiB that is a hole costs its owner nothing: it must not cost us memory. */
static void test_hole_in_a_section(void **state)
{
	struct error err = {0};
	struct rusage before, after;
	struct debug *d;
	char path[128], name[16] = "";
	int fd = copy_form("co4", path, sizeof(path));
	Elf64_Ehdr eh;
	Elf64_Shdr sh, names;
	off_t at = 0;

	assert_int_equal(pread(fd, &eh, sizeof(eh), 0), sizeof(eh));
	assert_int_equal(pread(fd, &names, sizeof(names),
			       (off_t)(eh.e_shoff + eh.e_shstrndx * sizeof(names))),
			 sizeof(names));
	for (unsigned i = 1; strcmp(name, ".debug_info") != 0; i++) {
		assert_true(i < eh.e_shnum);
		at = (off_t)(eh.e_shoff + i * sizeof(sh));
		assert_int_equal(pread(fd, &sh, sizeof(sh), at), sizeof(sh));
		assert_true(pread(fd, name, 12, (off_t)(names.sh_offset + sh.sh_name)) > 0);
	}
	sh.sh_offset = 1 << 20;
	sh.sh_size = 3ULL << 30;
	assert_int_equal(pwrite(fd, &sh, sizeof(sh), at), sizeof(sh));
	assert_int_equal(ftruncate(fd, (off_t)(sh.sh_offset + sh.sh_size)), 0);
	assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
	assert_int_equal(debug_open_fresh(fd, path, &d, &err), -ENODATA);
	assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
	assert_true(after.ru_maxrss < before.ru_maxrss + (256 << 10)); /* KiB */
	close(fd);
	unlink(path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_coroutine_in_every_form),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_local),
		cmocka_unit_test(test_stop_within_bounded_steps),
		cmocka_unit_test(test_layout_in_every_form),
		cmocka_unit_test(test_lost_split_units),
		cmocka_unit_test_setup_teardown(test_cache, cache_begin, cache_end),
		cmocka_unit_test_setup_teardown(test_damaged_cache, cache_begin, cache_end),
		cmocka_unit_test_setup_teardown(test_hostile_cache, cache_begin, cache_end),
		cmocka_unit_test_setup_teardown(test_foreign_cache, cache_begin, cache_end),
		cmocka_unit_test_setup_teardown(test_cache_of_strangers, cache_begin, cache_end),
		cmocka_unit_test_setup_teardown(test_cache_of_changed_file, cache_begin, cache_end),
		cmocka_unit_test_setup_teardown(test_cache_of_file_apart, cache_begin, cache_end),
		cmocka_unit_test_setup_teardown(test_cache_in_foreign_home, cache_begin, cache_end),
		cmocka_unit_test_setup_teardown(test_no_cache_of_lost_units, cache_begin,
						cache_end),
		cmocka_unit_test_setup_teardown(test_file_cut_in_use, cache_begin, cache_end),
		cmocka_unit_test_setup_teardown(test_hole_in_a_section, cache_begin, cache_end),
	};
	char own_cache[4096];

	if (argc < 3) {
		fprintf(stderr, "usage: %s FORMS LAYOUT.C\n", argv[0]);
		return 1;
	}
	forms = argv[1];
	layout_source = argv[2];
	/* where debuginfod's files are; no other cache of this machine's */
	snprintf(own_cache, sizeof(own_cache), "%s/cache", forms);
	setenv("XDG_CACHE_HOME", own_cache, 1);
	unsetenv("DEBUGINFOD_CACHE_PATH");
	unsetenv("HOME");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
