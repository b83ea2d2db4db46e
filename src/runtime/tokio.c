/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tokio 1.23 and newer (seen up to 1.54).
 *
 * A task's header points at a static Vtable of its kind (agent/runtime_tokio.h). With symbols a
 * table is one whose first word is a function tokio::runtime::task::raw::poll; the shape is checked
 * as well, so an older Tokio's tables, which are laid out in another way, are never taken for
 * these. Without symbols the shape alone must do: seven words that point at the beginnings of
 * functions, three offsets that fit a Cell, and code that takes exactly this address, since every
 * table is taken where its tasks are made.
 */
#include "agent/runtime_tokio.h"
#include "base/error.h"
#include "runtime/callers.h"
#include "runtime/find.h"
#include "runtime/kind_name.h"
#include "runtime/tables.h"
#include "runtime/tokio.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

#define MAX_CELL_ALIGN 4096u
#define MAX_SCHEDULER_BYTES 256u
#define MAX_OFFSET 0xfff8u

static const enum task_function functions[TOKIO_N_FUNCTIONS] = {
	[TOKIO_SLOT_POLL] = TF_POLL,	       [TOKIO_SLOT_SCHEDULE] = TF_SCHEDULE,
	[TOKIO_SLOT_DEALLOC] = TF_FREE,	       [TOKIO_SLOT_READ] = TF_READ,
	[TOKIO_SLOT_DROP_JOIN] = TF_DROP_JOIN, [TOKIO_SLOT_DROP_ABORT] = TF_DROP_ABORT,
	[TOKIO_SLOT_SHUTDOWN] = TF_SHUTDOWN,
};

static const char poll_symbol[] = "5tokio7runtime4task3raw4poll";

static bool offsets_fit(uint64_t trailer, uint64_t scheduler, uint64_t id)
{
	if (trailer % 8 || scheduler % 8 || id % 8)
		return false;
	/* Core begins after the header, at its own alignment, with the scheduler: an Arc, or the
	 * blocking pool's, which may be empty; then the id, then the future. */
	return scheduler >= TOKIO_MIN_HEADER_BYTES && scheduler <= MAX_CELL_ALIGN &&
	       id >= scheduler && id - scheduler <= MAX_SCHEDULER_BYTES && trailer > id &&
	       trailer < (1ULL << 40);
}

static bool read_offsets(const struct elf_image *image, uint64_t vtable, uint64_t *ret_trailer,
			 uint64_t *ret_scheduler, uint64_t *ret_id)
{
	return tables_word(image, vtable + 8 * TOKIO_SLOT_TRAILER, ret_trailer) &&
	       tables_word(image, vtable + 8 * TOKIO_SLOT_SCHEDULER, ret_scheduler) &&
	       tables_word(image, vtable + 8 * TOKIO_SLOT_ID, ret_id);
}

/* Seven pointers to code, one after the other, then three words that are no pointers. */
static bool has_shape(struct elf_image *image, const struct elf_pointer *p, size_t left,
		      bool strict)
{
	uint64_t trailer, scheduler, id;

	/* The cheapest first: most words that point to code are in no such table. */
	if (left < TOKIO_N_FUNCTIONS ||
	    p[TOKIO_N_FUNCTIONS - 1].slot != p[0].slot + 8 * (TOKIO_N_FUNCTIONS - 1) ||
	    (left > TOKIO_N_FUNCTIONS && p[TOKIO_N_FUNCTIONS].slot < p[0].slot + 8 * TOKIO_N_SLOTS))
		return false;
	return read_offsets(image, p[0].slot, &trailer, &scheduler, &id) &&
	       offsets_fit(trailer, scheduler, id) &&
	       tables_run(image, p, left, TOKIO_N_FUNCTIONS, strict);
}

/* In an object with symbols only they count: nothing there is left to be guessed. */
static int find_tables(struct elf_image *image, struct tables *ret)
{
	const struct elf_pointer *p;
	size_t n = elf_image_pointers(image, &p);
	bool symbols = elf_image_has_symtab(image);

	for (size_t i = 0; i < n; i++) {
		int r;

		if (symbols && !find_symbol(image, p[i].target, poll_symbol))
			continue;
		if (!has_shape(image, p + i, n - i, !symbols)) {
			if (symbols)
				ret->n_other_layout++;
			else
				ret->n_unverified += has_shape(image, p + i, n - i, false);
			continue;
		}
		r = tables_add(ret, p[i].slot);
		if (r < 0)
			return r;
		i += TOKIO_N_FUNCTIONS - 1;
	}
	return 0;
}

static uint16_t clip(uint64_t offset)
{
	return (uint16_t)(offset < MAX_OFFSET ? offset : MAX_OFFSET);
}

static int add_kind(struct elf_image *image, struct runtime_scan *f, uint32_t runtime,
		    uint64_t vtable)
{
	struct scan_kind *k = find_add_kind(f);
	uint64_t trailer, scheduler, id;

	if (!k)
		return -ENOMEM;
	*k = (struct scan_kind){
		.runtime = runtime,
		.role = TR_TASK,
		.vtable = vtable,
		.vtable_offset = TOKIO_VTABLE_OFFSET,
		.state_offset = TOKIO_STATE_OFFSET,
	};
	if (!tables_read_slots(image, vtable, functions, TOKIO_N_FUNCTIONS, k->slots) ||
	    !read_offsets(image, vtable, &trailer, &scheduler, &id))
		return -EINVAL;
	k->trailer_offset = clip(trailer);
	k->scheduler_offset = clip(scheduler);
	k->id_offset = clip(id);
	return 0;
}

static int add_runtime(struct elf_image *image, struct runtime_scan *f)
{
	uint64_t next_id = tokio_next_id(image);
	int r = find_add_runtime(image, f, TASK_TOKIO,
				 f->has_symbols ? "symbols and shape"
						: "shape and the code that takes each table");

	if (r < 0)
		return r;
	f->runtimes[f->n_runtimes - 1].next_id = next_id;
	return find_cover(f, "task id counter", next_id != 0, 1, "%s",
			  next_id	   ? ""
			  : f->has_symbols ? "no symbol of it"
					   : "not distinguishable without symbols");
}

/* Without the paths of sources (-Zlocation-detail=none, trimmed ones) what Tokio says still shows it. pollux is no
 * Tokio, and has this without the first letter. */
static bool has_texts(const struct elf_image *image)
{
	static const char first = 'J', rest[] = "oinHandle polled after completion";

	for (uint64_t at = 0; (at = elf_image_find(image, at, rest, sizeof(rest) - 1)); at++) {
		size_t left;
		const uint8_t *before = elf_image_bytes(image, at - 1, &left);

		if (before && *before == (uint8_t)first)
			return true;
	}
	return false;
}

/* A Tokio that is there but can't be hooked: the version in its panic messages says why. */
static int cover_other(struct elf_image *image, struct runtime_scan *f, const struct tables *t)
{
	_cleanup_free_ char *version = version_find(image, "tokio");
	const char *name;
	bool there;

	if (!version)
		return -ENOMEM;
	there = *version || has_texts(image);
	name = *version ? version : "of unknown version";
	if (t->n_other_layout > 0)
		return find_cover(f, "tokio task tables", 0, t->n_other_layout,
				  "Tokio %s is not supported (its task layout differs); supported: "
				  "1.23 and newer",
				  name);
	if (there && t->n_unverified > 0)
		return find_cover(
			f, "tokio task tables", 0, t->n_unverified,
			"Tokio %s is in it, but without symbols and without unwind tables nothing "
			"can be verified; build with -C force-unwind-tables=yes, or don't strip",
			name);
	if (there)
		return find_cover(
			f, "tokio task tables", 0, 1,
			"Tokio %s is in it, but no task table of a known layout (1.23 and newer)",
			name);
	return 0;
}

static int find(struct elf_image *image, struct runtime_scan *f, struct error *err)
{
	_cleanup_(tables_done) struct tables tables = {0};
	_cleanup_(code_refs_done) struct code_refs refs = {0};
	size_t first_kind = f->n_kinds, first_waker = f->n_wakers;
	uint32_t runtime = (uint32_t)f->n_runtimes;

	(void)err;
	TRY(find_tables(image, &tables));
	if (tables.n > 0)
		TRY(code_refs_find(image, tables.addrs, tables.n, CODE_REFS_TAKEN, &refs));
	if (!elf_image_has_symtab(image))
		tables_keep_used(&tables, &refs);
	TRY(code_refs_judge(image, &refs, 0));
	if (tables.n == 0)
		return cover_other(image, f, &tables);
	TRY(add_runtime(image, f));
	for (size_t i = 0; i < tables.n; i++)
		TRY(add_kind(image, f, runtime, tables.addrs[i]));
	TRY(find_cover(f, "tokio task tables", tables.n, tables.n, "%s", ""));
	TRY(tables_add_sites(image, f, first_kind, &refs));
	TRY(tokio_add_wakers(image, f, runtime));
	TRY(kind_names_tokio(image, f, first_kind));
	return callers_find(image, f, first_kind, first_waker);
}

const struct runtime_ops runtime_tokio = {"tokio", find};
