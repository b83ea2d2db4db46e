/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tables of function pointers, whatever the runtime. */
#include "runtime/tables.h"

#include "base/vec.h"
#include "binary/code/code_scan.h"
#include "binary/machine.h"
#include "runtime/find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void tables_done(struct tables *t)
{
	free(t->addrs);
}

int tables_add(struct tables *t, uint64_t addr)
{
	if (!GROW(t->addrs, t->n, t->cap))
		return -ENOMEM;
	t->addrs[t->n++] = addr;
	return 0;
}

void tables_keep_used(struct tables *t, const struct code_refs *refs)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		for (size_t k = 0; k < refs->n; k++) {
			if (refs->v[k].target == t->addrs[i]) {
				t->addrs[n++] = t->addrs[i];
				break;
			}
		}
	}
	t->n = n;
}

bool tables_run(struct elf_image *image, const struct elf_pointer *p, size_t left, size_t n,
		bool starts)
{
	/* Slots are sorted. */
	if (left < n || p[n - 1].slot != p[0].slot + (n - 1) * 8)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i].slot != p[0].slot + i * 8)
			return false;
		if (starts ? !elf_image_is_function(image, p[i].target)
			   : !elf_image_is_code(image, p[i].target))
			return false;
	}
	return true;
}

bool tables_read_slots(struct elf_image *image, uint64_t vtable, const enum task_function *words,
		       size_t n, struct find_slot ret[TF_N])
{
	for (size_t i = 0; i < n; i++) {
		struct find_slot *s = &ret[words[i]];

		s->addr = vtable + 8 * i;
		if (!elf_image_pointer_at(image, s->addr, &s->function))
			return false;
	}
	return true;
}

bool tables_word(const struct elf_image *image, uint64_t addr, uint64_t *ret)
{
	size_t left;
	const uint8_t *p = elf_image_bytes(image, addr, &left);

	if (!p || left < 8)
		return false;
	memcpy(ret, p, 8);
	return true;
}

int tables_add_sites(struct elf_image *image, struct runtime_scan *f, size_t first_kind,
		     const struct code_refs *refs)
{
	size_t seen = 0, total = 0, without = 0;
	const char *trouble = NULL;

	for (size_t i = 0; i < refs->n; i++) {
		struct scan_site *site;
		size_t k = first_kind;
		int r;

		while (k < f->n_kinds && f->kinds[k].vtable != refs->v[i].target)
			k++;
		if (k == f->n_kinds)
			continue;
		site = find_add_site(&f->kinds[k].sites, &f->kinds[k].n_sites);
		if (!site)
			return -ENOMEM;
		r = find_site(image, &refs->v[i], site);
		if (r < 0)
			return r;
		total++;
		seen += site->patchable;
		if (!site->patchable)
			trouble = find_site_trouble(&refs->v[i]);
	}
	for (size_t k = first_kind; k < f->n_kinds; k++)
		without += f->kinds[k].n_sites == 0;
	if (without > 0)
		trouble = "no code was found that takes some kinds' tables";
	return find_cover_as(f, TRACE_COVER_SPAWN_SITES, "spawn sites", seen, total + without, "%s",
			     trouble ? trouble : "");
}

size_t tables_head(struct elf_image *image, uint64_t function, struct insn *ret, size_t max)
{
	uint64_t start, end;
	struct insn_walk w;
	size_t n = 0;

	if (!elf_image_function(image, function, &start, &end) || start != function ||
	    !insn_walk_init(&w, image, start, end))
		return 0;
	while (n < max && insn_next(&w, &ret[n]) > 0)
		n++;
	return n;
}

struct looks_like {
	struct elf_image *image;
	uint64_t addr;
};

static int leads_there(void *context, const struct code_hit *hit)
{
	const struct looks_like *l = context;
	uint64_t target = hit->target;

	if (hit->word && !elf_image_pointer_at(l->image, hit->target, &target))
		return 0;
	return target == l->addr;
}

/* Whether there are bytes that look like an instruction that takes an address: most functions have
 * none, and need not be decoded. */
static bool may_take(struct elf_image *image, const struct insn_walk *w, uint64_t addr)
{
	struct looks_like l = {image, addr};
	unsigned patterns = CODE_TAKES | CODE_CALLS | (elf_image_pie(image) ? 0 : CODE_NUMBERS);

	return w->machine->scan(w->bytes, (size_t)(w->end - w->addr), w->addr, patterns, NULL,
				leads_there, &l) != 0;
}

bool tables_takes(struct elf_image *image, uint64_t function, uint64_t addr)
{
	uint64_t start, end, word;
	struct insn_walk w;
	struct insn in;
	size_t passed;

	if (!elf_image_function(image, function, &start, &end) ||
	    !insn_walk_init(&w, image, start, end) || !may_take(image, &w, addr))
		return false;
	while (insn_next_reference(&w, &in, &passed) > 0) {
		if ((in.op == INSN_LEA && in.ref == addr) || (in.has_imm && in.imm == addr) ||
		    (in.op == INSN_MOV && in.ref && elf_image_pointer_at(image, in.ref, &word) &&
		     word == addr))
			return true;
	}
	return false;
}
