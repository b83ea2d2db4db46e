/*
 * Tokio 1.23 and newer (seen up to 1.54).
 *
 * A task is a Cell<T, S> on the heap; its header's third word points at a static Vtable of its
 * kind:
 *
 *     poll  schedule  dealloc  try_read_output  drop_join_handle_slow  drop_abort_handle  shutdown
 *     trailer_offset  scheduler_offset  id_offset  (spawn_location_offset with tokio_unstable)
 *
 * (tokio/src/runtime/task/raw.rs). With symbols a table is one whose first word is a function
 * tokio::runtime::task::raw::poll; the shape is checked as well, so an older Tokio's tables, which
 * are laid out in another way, are never taken for these. Without symbols the shape alone must do:
 * seven words that point at the beginnings of functions, three offsets that fit a Cell, and code
 * that takes exactly this address, since every table is taken where its tasks are made.
 */
#include "runtime/find.h"
#include "runtime/kind_name.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

#define VTABLE_FUNCTIONS 7u
#define HEADER_VTABLE_OFFSET 16u
#define MIN_HEADER_BYTES 32u
#define MAX_CELL_ALIGN 4096u
#define MAX_SCHEDULER_BYTES 256u
#define MAX_OFFSET 0xfff8u

enum { SLOT_POLL, SLOT_SCHEDULE, SLOT_DEALLOC, SLOT_SHUTDOWN = 6 };

static const char poll_symbol[] = "5tokio7runtime4task3raw4poll";

struct tables {
	uint64_t *addrs;
	size_t n, n_other_layout; /* poll functions in tables that aren't laid out as known */
	bool by_symbol;
};

static void tables_done(struct tables *t)
{
	free(t->addrs);
}

static bool offsets_fit(uint64_t trailer, uint64_t scheduler, uint64_t id)
{
	if (trailer % 8 || scheduler % 8 || id % 8)
		return false;
	/* Core begins behind the header, at its own alignment, with the scheduler: an Arc, or the
	 * blocking pool's, which may be empty; then the id, then the future. */
	return scheduler >= MIN_HEADER_BYTES && scheduler <= MAX_CELL_ALIGN && id >= scheduler &&
	       id - scheduler <= MAX_SCHEDULER_BYTES && trailer > id && trailer < (1ULL << 40);
}

static bool read_word(const struct elf_image *image, uint64_t addr, uint64_t *ret)
{
	size_t left;
	const uint8_t *p = elf_image_bytes(image, addr, &left);

	if (!p || left < 8)
		return false;
	memcpy(ret, p, 8);
	return true;
}

/* Seven pointers to code, one after the other, then three words that are no pointers. */
static bool has_shape(struct elf_image *image, const struct elf_pointer *p, size_t left)
{
	uint64_t trailer, scheduler, id;

	if (left < VTABLE_FUNCTIONS)
		return false;
	for (size_t i = 0; i < VTABLE_FUNCTIONS; i++) {
		if (p[i].slot != p[0].slot + i * 8 || !elf_image_is_code(image, p[i].target))
			return false;
	}
	if (left > VTABLE_FUNCTIONS && p[VTABLE_FUNCTIONS].slot < p[0].slot + 80)
		return false;
	return read_word(image, p[0].slot + 56, &trailer) &&
	       read_word(image, p[0].slot + 64, &scheduler) &&
	       read_word(image, p[0].slot + 72, &id) && offsets_fit(trailer, scheduler, id);
}

/* Without a symbol: every word must be the beginning of a function, and the word before the table
 * must not be one more of the same run. */
static bool has_strict_shape(struct elf_image *image, const struct elf_pointer *p)
{
	for (size_t i = 0; i < VTABLE_FUNCTIONS; i++) {
		if (!find_is_function(image, p[i].target))
			return false;
	}
	return true;
}

static int find_tables(struct elf_image *image, struct tables *ret)
{
	const struct elf_pointer *p;
	size_t n = elf_image_pointers(image, &p), cap = 0;

	ret->by_symbol = elf_image_has_symtab(image);
	for (size_t i = 0; i < n; i++) {
		bool poll, shape;

		if (!elf_image_is_code(image, p[i].target))
			continue;
		shape = has_shape(image, p + i, n - i);
		/* In an object with symbols only they count: nothing there is left to be guessed.
		 */
		poll = ret->by_symbol && find_symbol(image, p[i].target, poll_symbol);
		if (poll && !shape)
			ret->n_other_layout++;
		if (!shape || (ret->by_symbol ? !poll : !has_strict_shape(image, p + i)))
			continue;
		if (ret->n == cap) {
			uint64_t *grown = reallocarray(ret->addrs, cap ? cap * 2 : 64, 8);

			if (!grown)
				return -ENOMEM;
			ret->addrs = grown;
			cap = cap ? cap * 2 : 64;
		}
		ret->addrs[ret->n++] = p[i].slot;
		i += VTABLE_FUNCTIONS - 1;
	}
	return 0;
}

static uint16_t clip(uint64_t offset)
{
	return (uint16_t)(offset < MAX_OFFSET ? offset : MAX_OFFSET);
}

static int add_kind(struct elf_image *image, struct finding *f, uint32_t runtime, uint64_t vtable)
{
	struct find_kind *k = find_add_kind(f);
	uint64_t trailer, scheduler, id;

	if (!k)
		return -ENOMEM;
	*k = (struct find_kind){
		.runtime = runtime,
		.role = TR_TASK,
		.vtable = vtable,
		.poll_slot = vtable + 8 * SLOT_POLL,
		.schedule_slot = vtable + 8 * SLOT_SCHEDULE,
		.dealloc_slot = vtable + 8 * SLOT_DEALLOC,
		.shutdown_slot = vtable + 8 * SLOT_SHUTDOWN,
		.vtable_offset = HEADER_VTABLE_OFFSET,
		.state_offset = 0,
	};
	if (!elf_image_pointer_at(image, k->poll_slot, &k->poll) ||
	    !elf_image_pointer_at(image, k->schedule_slot, &k->schedule) ||
	    !elf_image_pointer_at(image, k->dealloc_slot, &k->dealloc) ||
	    !elf_image_pointer_at(image, k->shutdown_slot, &k->shutdown) ||
	    !read_word(image, vtable + 56, &trailer) ||
	    !read_word(image, vtable + 64, &scheduler) || !read_word(image, vtable + 72, &id))
		return -EINVAL;
	k->trailer_offset = clip(trailer);
	k->scheduler_offset = clip(scheduler);
	k->id_offset = clip(id);
	return 0;
}

/* The references to each table become its kind's spawn sites. */
static int add_sites(struct elf_image *image, struct finding *f, size_t first_kind,
		     const struct refs *refs)
{
	size_t seen = 0, total = 0, k = first_kind;
	const char *trouble = NULL;
	int r;

	for (size_t i = 0; i < refs->n; i++) {
		struct find_site *site;

		for (k = first_kind; k < f->n_kinds; k++) {
			if (f->kinds[k].vtable == refs->refs[i].target)
				break;
		}
		if (k == f->n_kinds)
			continue;
		site = find_add_site(&f->kinds[k].sites, &f->kinds[k].n_sites);
		if (!site)
			return -ENOMEM;
		r = find_site(image, &refs->refs[i], site);
		if (r < 0)
			return r;
		total++;
		seen += site->patchable;
		if (!site->patchable)
			trouble = find_site_trouble(&refs->refs[i]);
	}
	return find_cover(f, "spawn sites", seen, total, "%s", trouble ? trouble : "");
}

/* Tables that were found by shape alone and that no code takes are something else. */
static void drop_unused(struct tables *t, const struct refs *refs)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		for (size_t k = 0; k < refs->n; k++) {
			if (refs->refs[k].target == t->addrs[i]) {
				t->addrs[n++] = t->addrs[i];
				break;
			}
		}
	}
	t->n = n;
}

static const struct {
	const char *function, *name;
	bool root;
} waker_clones[] = {
	{"5tokio7runtime4task5waker11clone_waker", "task", false},
	{"5tokio7runtime4park5clone", "block_on (multi_thread)", true},
};

/* Waker tables by the symbols of their functions: { clone, wake, wake_by_ref, drop }. */
static int add_wakers(struct elf_image *image, struct finding *f, uint32_t runtime)
{
	const struct elf_pointer *p;
	size_t n = elf_image_pointers(image, &p);

	for (size_t i = 0; i + 4 <= n; i++) {
		for (size_t k = 0; k < sizeof(waker_clones) / sizeof(waker_clones[0]); k++) {
			struct find_waker *w;

			if (p[i + 3].slot != p[i].slot + 24 ||
			    !find_symbol(image, p[i].target, waker_clones[k].function))
				continue;
			w = find_add_waker(f);
			if (!w)
				return -ENOMEM;
			*w = (struct find_waker){
				.runtime = runtime,
				.root = waker_clones[k].root,
				.vtable = p[i].slot,
				.wake_slot = p[i + 1].slot,
				.wake = p[i + 1].target,
				.wake_by_ref_slot = p[i + 2].slot,
				.wake_by_ref = p[i + 2].target,
				.name = strdup(waker_clones[k].name),
			};
			if (!w->name)
				return -ENOMEM;
		}
	}
	return 0;
}

static uint64_t find_next_id(struct elf_image *image)
{
	const struct elf_symbol *s;
	size_t n = elf_image_symbols(image, &s);
	uint64_t value;

	for (size_t i = 0; i < n; i++) {
		if (strstr(s[i].name, "2Id4next7NEXT_ID") &&
		    strstr(s[i].name, "5tokio7runtime4task") &&
		    read_word(image, s[i].addr, &value) && value == 1)
			return s[i].addr;
	}
	return 0;
}

static int find(struct elf_image *image, struct finding *f, struct error *err)
{
	_cleanup_(tables_done) struct tables tables = {0};
	_cleanup_(refs_done) struct refs refs = {0};
	size_t first_kind = f->n_kinds, named, unsure;
	struct find_runtime *rt;
	uint32_t index;
	int r;

	(void)err;
	r = find_tables(image, &tables);
	if (r < 0 || tables.n == 0)
		return r;
	r = refs_find(image, tables.addrs, tables.n, &refs);
	if (r < 0)
		return r;
	if (!tables.by_symbol)
		drop_unused(&tables, &refs);
	if (tables.n == 0)
		return 0;
	index = (uint32_t)f->n_runtimes;
	rt = find_add_runtime(f);
	if (!rt)
		return -ENOMEM;
	rt->name = strdup("tokio");
	rt->version = version_find(image, "tokio");
	if (!rt->name || !rt->version)
		return -ENOMEM;
	rt->next_id = find_next_id(image);
	for (size_t i = 0; i < tables.n && r == 0; i++)
		r = add_kind(image, f, index, tables.addrs[i]);
	if (r == 0)
		r = add_sites(image, f, first_kind, &refs);
	if (r == 0)
		r = add_wakers(image, f, index);
	if (r == 0)
		r = kind_names_tokio(image, f, first_kind, &named, &unsure);
	if (r == 0)
		r = find_cover(f, "names", named - unsure, f->n_kinds - first_kind, "%s",
			       !f->has_symbols ? "the program is stripped"
			       : unsure	       ? "functions with equal code share one symbol"
			       : named < f->n_kinds - first_kind
				       ? "the optimiser left no symbol of some"
				       : "");
	return r;
}

const struct runtime_ops runtime_tokio = {"tokio", find};
