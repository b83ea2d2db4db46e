/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Trees and layout programs of a coroutine that is described by hand (fixtures/coroutine.S), over
 * memory that the test fills: a tree in every state, what a leaf says, what the agent's program for
 * it does, and how reading twice notices a change.
 *
 * Argument: the folder with the forms of debug information.
 */
#include "agent/ring.h"
#include "binary/dwarf/debug.h"
#include "binary/elf/elf_image.h"
#include "future/await.h"
#include "future/moved.h"
#include "future/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BASE = 0x10000, STATE = 16 /* of the fixture's coroutine */ };

static const char *forms;
static uint8_t memory[8192];

static int read_memory(void *ctx, uint64_t addr, void *out, size_t len)
{
	if (addr < BASE || addr - BASE > sizeof(memory) || len > sizeof(memory) - (addr - BASE))
		return -EFAULT;
	memcpy(out, memory + (addr - BASE), len);
	return 0;
}

struct world {
	struct debug *d;
	const struct dw_type *env;
	struct mem mem;
	struct map names;
};

static int begin(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	const struct elf_symbol *list;
	struct elf_image *image;
	struct dw_function f;
	uint64_t poll = 0;
	char path[4096];
	size_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/co4", forms);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(elf_image_open(fd, path, &image, NULL), 0);
	n = elf_image_symbols(image, &list);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].name, "poll_f"))
			poll = list[i].addr;
	elf_image_free(image);
	assert_int_equal(debug_open_fresh(fd, path, &w->d, NULL), 0);
	close(fd);
	assert_int_equal(debug_function(w->d, poll, &f), 1);
	w->env = dw_type_of(
		w->d, dw_member_type(w->d, dw_find_member(dw_type_of(w->d, f.self_ref), "pointer"))
			      ->target_ref);
	assert_non_null(w->env);
	memset(memory, 0, sizeof(memory));
	mem_init(&w->mem, read_memory, NULL);
	*state = w;
	return 0;
}

static int end(void **state)
{
	struct world *w = *state;
	const struct map_entry *e;
	size_t pos = 0;

	mem_done(&w->mem);
	while ((e = map_next(&w->names, &pos)))
		free(e->value);
	map_done(&w->names);
	debug_free(w->d);
	free(w);
	return 0;
}

static struct await_node *walk_at(struct world *w, const struct dw_type *t, uint64_t addr)
{
	const struct await_context ctx = {.mem = &w->mem, .dwarf = w->d, .names = &w->names};

	mem_clear(&w->mem);
	return await_walk(&ctx, t, addr);
}

static void test_states(void **state)
{
	static const struct {
		uint8_t value;
		enum await_state shown;
	} states[] = {{0, AS_UNPOLLED}, {1, AS_DONE}, {3, AS_SUSPENDED}};
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		struct await_node *n;

		memory[STATE] = states[i].value;
		n = walk_at(w, w->env, BASE);
		assert_non_null(n);
		assert_int_equal(n->kind, AN_ASYNC);
		assert_int_equal(n->state, states[i].shown);
		assert_string_equal(n->name, "app::f");
		assert_string_equal(n->full_name, "app::f::{async_fn_env#0}");
		if (states[i].value == 3) {
			assert_int_equal(n->line, 41);
			assert_string_equal(n->file, "src/main.rs");
		}
		await_node_free(n);
	}
}

static void test_unreadable(void **state)
{
	struct world *w = *state;
	struct await_node *n;

	/* no such state, and no such memory: a note that says so */
	memory[STATE] = 77;
	for (unsigned i = 0; i < 2; i++) {
		n = walk_at(w, w->env, i ? 0x900000 : BASE);
		assert_non_null(n);
		assert_int_equal(n->n_children, 1);
		assert_int_equal(n->children[0]->kind, AN_NOTE);
		assert_non_null(strstr(n->children[0]->name, "unreadable"));
		await_node_free(n);
	}
}

/* A leaf whose type is made here: Tokio's JoinHandle { raw: pointer to a header }. */
static void test_leaf(void **state)
{
	struct world *w = *state;
	struct dw_type raw = {
		.ref = 1, .class = DC_POINTER, .name = "", .full_name = "", .size = 8};
	struct dw_member member = {.name = "raw", .offset = 8, .type_ref = raw.ref};
	struct dw_type handle = {
		.ref = 2,
		.class = DC_STRUCT,
		.name = "JoinHandle<()>",
		.full_name = "tokio::runtime::task::join::JoinHandle<()>",
		.size = 16,
		.members = &member,
		.n_members = 1,
	};
	uint64_t header = 0x5555000012c0;
	struct await_node *n;

	assert_true(await_is_leaf(&handle));
	assert_false(await_is_leaf(w->env));
	memcpy(memory + 8, &header, sizeof(header));
	n = walk_at(w, &handle, BASE);
	assert_non_null(n);
	assert_int_equal(n->kind, AN_LEAF);
	assert_int_equal(n->wait, AW_TASK);
	assert_string_equal(n->name, "join handle");
	/* its member's type is unknown to the debug information: nothing is made up */
	assert_int_equal(n->resource, 0);
	await_node_free(n);
}

static void test_macros(void **state)
{
	assert_string_equal(await_macro("/x/tokio-1.54.1/src/macros/try_join.rs", 259),
			    "try_join!");
	assert_string_equal(await_macro("/x/futures-util-0.3.34/src/async_await/join_mod.rs", 95),
			    "join!");
	assert_string_equal(await_macro("/x/futures-util-0.3.34/src/async_await/join_mod.rs", 105),
			    "try_join!");
	assert_null(await_macro("src/main.rs", 95));
	assert_null(await_macro(NULL, 0));
}

/* The agent's program: from the header to the state, and for the suspended state its place. */
static void test_program(void **state)
{
	struct world *w = *state;
	const struct future_cell cell = {.future = w->env, .offset = 40, .size = 64};
	const struct future_cell cut = {.future = w->env, .offset = 48, .size = 64};
	const struct agent_node *node;
	struct agent_step root;
	struct program p;

	assert_int_equal(program_compile(w->d, &cell, PROGRAM_POINT, NULL, NULL, 7, &p), 0);
	assert_true(p.n_words > 1);
	memcpy(&root, p.words, sizeof(root));
	assert_int_equal(root.delta, 40 + STATE);
	assert_true(root.next && root.next < p.n_words);
	node = (const struct agent_node *)&p.words[root.next];
	assert_int_equal(node->size, 1);
	assert_true(node->base <= 3 && 3 - node->base < node->n);
	assert_int_equal(node->steps[3 - node->base].point, 7);
	for (uint64_t v = node->base; v < 3; v++) /* not polled, returned, panicked */
		assert_int_equal(node->steps[v - node->base].point, 0);
	assert_int_equal(p.n_places, 1);
	assert_string_equal(p.places[0].function, "app::f");
	assert_string_equal(p.places[0].file, "src/main.rs");
	assert_int_equal(p.places[0].line, 41);
	program_done(&p);

	/* a future that does not fit into its cell is not looked at */
	assert_int_equal(program_compile(w->d, &cut, PROGRAM_POINT, NULL, NULL, 1, &p), 0);
	assert_int_equal(p.n_words, 0);
	program_done(&p);
}

static bool stop_now(void *n_asked)
{
	++*(unsigned *)n_asked;
	return true;
}

/* A compiler that is asked to stop does no more than it does between two questions. */
static void test_program_stops(void **state)
{
	struct world *w = *state;
	const struct future_cell cell = {.future = w->env, .offset = 40, .size = 64};
	unsigned n_asked = 0;
	struct program p;

	debug_stop_when(w->d, stop_now, &n_asked);
	for (unsigned i = 0; i < 1000 && !n_asked; i++)
		debug_stopped(w->d);
	assert_int_equal(program_compile(w->d, &cell, PROGRAM_CHAIN, NULL, NULL, 1, &p),
			 -ECANCELED);
	assert_int_equal(p.n_words, 0);
	program_done(&p);
	assert_int_equal(n_asked, 1);
	debug_stop_when(w->d, NULL, NULL);
	assert_int_equal(program_compile(w->d, &cell, PROGRAM_CHAIN, NULL, NULL, 1, &p), 0);
	assert_true(p.n_words > 1);
	program_done(&p);
}

static void test_reading_twice(void **state)
{
	struct world *w = *state;
	struct mem_log log = {0};
	uint64_t v;

	w->mem.log = &log;
	assert_true(mem_u64(&w->mem, BASE + 4092, &v)); /* over the end of a page */
	assert_true(mem_u64(&w->mem, BASE, &v));
	assert_false(mem_u64(&w->mem, 0x900000, &v));
	assert_true(mem_unchanged(&w->mem, &log));
	memory[100] = 1; /* of the same page, but not read */
	assert_true(mem_unchanged(&w->mem, &log));
	memory[4097] = 1;
	assert_false(mem_unchanged(&w->mem, &log));
	mem_forget(&w->mem, &log);
	assert_true(mem_u64(&w->mem, BASE + 4092, &v));
	assert_int_equal(v, 1ULL << 40);
	assert_true(mem_unchanged(&w->mem, &log));
	w->mem.log = NULL;
	mem_log_done(&log);
}

static void test_frozen(void **state)
{
	struct world *w = *state;
	uint64_t v;

	assert_true(mem_u64(&w->mem, BASE, &v));
	memory[0] = 9;
	assert_int_equal(mem_prepare(&w->mem), 0);
	assert_int_equal(mem_refresh(&w->mem), 0);
	assert_true(mem_u64(&w->mem, BASE, &v));
	assert_int_equal(v, 9);
	memory[0] = 8; /* the copy stays */
	assert_true(mem_u64(&w->mem, BASE, &v));
	assert_int_equal(v, 9);
	assert_false(mem_u64(&w->mem, BASE + 4096, &v));
	assert_int_equal(w->mem.n_missed, 1);
	assert_false(mem_has(&w->mem, BASE + 4096));
	/* what was missed is in the next copy; what is taken, in this one */
	mem_take(&w->mem, BASE + 4096, 1);
	assert_true(mem_u64(&w->mem, BASE + 4096, &v));
	mem_thaw(&w->mem);
}

static void put(uint64_t addr, uint64_t word)
{
	memcpy(memory + (addr - BASE), &word, sizeof(word));
}

static bool is_free(struct world *w, uint64_t addr)
{
	mem_clear(&w->mem);
	return moved_is_free(&w->mem, addr);
}

/* Blocks of 112 bytes, as glibc's malloc lays them out. */
static void test_free_blocks(void **state)
{
	enum { A = BASE + 0x110, B = BASE + 0x310, SIZE = 0x70, KEY = 0x1234567 };
	struct world *w = *state;

	put(A - 8, SIZE | 1);
	put(A - 16 + SIZE + 8, SIZE | 1); /* what follows says: in use */
	put(A, 3);			  /* a future */
	assert_false(is_free(w, A));
	put(A, (uint64_t)A >> 12); /* the last of its list */
	assert_true(is_free(w, A));
	put(A, (uint64_t)A >> 12 ^ B); /* B follows it there */
	put(A + 8, KEY);
	assert_false(is_free(w, A));
	put(B - 8, SIZE | 1);
	put(B + 8, KEY + 1);
	assert_false(is_free(w, A));
	put(B + 8, KEY);
	assert_true(is_free(w, A));
	put(B - 8, 2 * SIZE | 1); /* of another size */
	assert_false(is_free(w, A));
	put(A - 16 + SIZE + 8, SIZE); /* the one before what follows is free: of this size */
	assert_false(is_free(w, A));
	put(A - 16 + SIZE, SIZE);
	assert_true(is_free(w, A));
	put(A - 16 + SIZE, SIZE + 0x40); /* with the one before */
	assert_false(is_free(w, A));
	put(A - 16 - 0x40 + 8, (SIZE + 0x40) | 1);
	assert_true(is_free(w, A));
	put(A - 8, SIZE | 9); /* no chunk */
	assert_false(is_free(w, A));
	assert_false(is_free(w, A + 8));
	assert_false(is_free(w, BASE + sizeof(memory)));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_states, begin, end),
		cmocka_unit_test_setup_teardown(test_unreadable, begin, end),
		cmocka_unit_test_setup_teardown(test_leaf, begin, end),
		cmocka_unit_test(test_macros),
		cmocka_unit_test_setup_teardown(test_program, begin, end),
		cmocka_unit_test_setup_teardown(test_program_stops, begin, end),
		cmocka_unit_test_setup_teardown(test_reading_twice, begin, end),
		cmocka_unit_test_setup_teardown(test_frozen, begin, end),
		cmocka_unit_test_setup_teardown(test_free_blocks, begin, end),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s FORMS\n", argv[0]);
		return 2;
	}
	forms = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
