/*
 * The calls are found in the functions that are called block_on, or enter_runtime, into which that
 * may be inlined, by decoding these.
 *
 * Source: tokio/src/runtime/park.rs, CachedParkThread::block_on(), 1.23 to 1.54.
 */
#include "runtime/root_polls.h"

#include "binary/elf_image.h"
#include "binary/insn.h"
#include "binary/names.h"
#include "binary/polls.h"
#include "runtime/futures.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CODE = 1 << 20, MAX_ROOTS = 256, MAX_FRAME = 1 << 20 };

static bool same_type(const struct dw_type *a, const struct dw_type *b)
{
	return a == b || (a->size == b->size && !strcmp(a->full, b->full));
}

static bool is_coroutine(const struct dw_type *t)
{
	return t->class == DC_STRUCT && t->has_variants && !strncmp(t->name, "{async_", 7);
}

/* What Pin<&mut F>, &mut F lead to. */
static const struct dw_type *lent_by(struct debug *d, const struct dw_type *t)
{
	while (t && t->class == DC_STRUCT && t->n_members == 1)
		t = dw_member_type(d, &t->members[0]);
	return t && t->class == DC_POINTER ? dw_type_of(d, t->target_ref) : NULL;
}

const struct dw_type *root_poll_type(struct debug *d, uint64_t back, int64_t *ret_offset)
{
	const struct dw_type *found = NULL;
	struct dw_block_on b;

	/* The call's own address: what is behind it may be another's. */
	if (!debug_block_on(d, back - 1, &b))
		return NULL;
	for (size_t i = 0; i < b.n_slots; i++) {
		const struct dw_slot *s = &b.slots[i];
		const struct dw_type *t = s->is_value && s->base == DWARF_RSP
						  ? lent_by(d, dw_type_of(d, s->type_ref))
						  : NULL;
		bool is_param = false;

		for (size_t k = 0; t && is_coroutine(t) && k < b.n_params && !is_param; k++) {
			const struct dw_type *p = dw_type_of(d, b.params[k].type_ref);

			is_param = p && same_type(p, t);
		}
		if (!is_param || s->offset < 0 || s->offset > MAX_FRAME ||
		    t->size > MAX_FRAME - (uint64_t)s->offset)
			continue;
		if (found && (!same_type(found, t) || *ret_offset != s->offset))
			return NULL; /* several places */
		found = t;
		*ret_offset = s->offset;
	}
	return found;
}

/* Has it a poll function? */
static bool has_poll(struct debug *d, const struct found_futures *futures, const struct dw_type *t)
{
	struct dw_poll poll;

	for (size_t i = 0; i < futures->n; i++)
		if (debug_poll(d, futures->v[i].poll, &poll) && same_type(poll.future, t))
			return true;
	return false;
}

static int add(struct debug *d, const struct futures_wanted *wanted,
	       const struct found_futures *futures, struct found_root_polls *f, uint64_t back)
{
	struct find_root_poll r = {.back = back}, *v;
	const struct dw_type *t = root_poll_type(d, back, &r.offset);

	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].back == back)
			return 0;
	if (!t || f->n == MAX_ROOTS || has_poll(d, futures, t))
		return 0;
	if ((t->discr_size != 1 && t->discr_size != 2 && t->discr_size != 4) ||
	    t->discr_offset > t->size - t->discr_size)
		return 0;
	r.state_offset = t->discr_offset;
	r.state_size = t->discr_size;
	r.full_name = strdup(t->full);
	r.name = name_shorten(t->full);
	if (r.name && r.full_name && !futures_want(wanted, r.name, r.full_name)) {
		free(r.name);
		free(r.full_name);
		return 0;
	}
	/* The state in which it was not polled yet stands where it begins. */
	for (size_t i = 0; i < t->n_variants && !r.where; i++)
		if (t->variants[i].value == 0 && t->variants[i].member.file &&
		    asprintf(&r.where, "%s:%u", t->variants[i].member.file,
			     t->variants[i].member.line) < 0)
			r.where = NULL;
	v = reallocarray(f->v, f->n + 1, sizeof(*v));
	if (v)
		f->v = v;
	if (!v || !r.name || !r.full_name) {
		free(r.name);
		free(r.full_name);
		free(r.where);
		return -ENOMEM;
	}
	f->v[f->n++] = r;
	return 0;
}

static bool leads_to_park(const struct found_root_polls *f, const struct insn *insn)
{
	if (insn->flow != INSN_CALL)
		return false;
	if (insn->target)
		return insn->target == f->park;
	for (size_t i = 0; insn->slot && i < f->uses.n; i++)
		if (f->uses.uses[i].kind == USE_WORD && f->uses.uses[i].at == insn->slot)
			return true;
	return false;
}

static bool is_park(const char *name)
{
	const char *at = strstr(name, "16CachedParkThread4park");

	return at && (!at[23] || !strncmp(at + 23, "17h", 3));
}

static int find_calls(struct elf_image *image, struct debug *d, const struct futures_wanted *wanted,
		      const struct found_futures *futures, struct found_root_polls *f,
		      const struct elf_symbol *symbol)
{
	struct insn_walk walk;
	struct insn insn;
	uint64_t start, end;
	int rc = 0;

	if (!elf_image_function(image, symbol->addr, &start, &end) || start != symbol->addr ||
	    end - start > MAX_CODE || !insn_walk_init(&walk, image, start, end))
		return 0;
	while (rc == 0 && insn_next(&walk, &insn))
		if (leads_to_park(f, &insn))
			rc = add(d, wanted, futures, f, insn.addr + insn.len);
	return rc;
}

int root_polls_find(struct elf_image *image, struct debug *d, const struct futures_wanted *wanted,
		    const struct found_futures *futures, struct found_root_polls *ret)
{
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(image, &symbols);
	int rc = 0;

	*ret = (struct found_root_polls){0};
	for (size_t i = 0; i < n && d && !ret->park; i++)
		if (symbols[i].type == STT_FUNC && is_park(symbols[i].name))
			ret->park = symbols[i].addr;
	if (!ret->park)
		return 0;
	rc = uses_find(image, &ret->park, 1, &ret->uses);
	for (size_t i = 0; i < ret->uses.n && rc == 0; i++)
		if (ret->uses.uses[i].kind != USE_WORD && ret->uses.uses[i].kind != USE_BRANCH)
			ret->trouble = "what looks like a call of the runtime's park isn't one";
	for (size_t i = 0; i < n && rc == 0; i++)
		if (symbols[i].type == STT_FUNC && (strstr(symbols[i].name, "8block_on") ||
						    strstr(symbols[i].name, "13enter_runtime")))
			rc = find_calls(image, d, wanted, futures, ret, &symbols[i]);
	if (rc < 0)
		root_polls_done(ret);
	return rc;
}

void root_polls_done(struct found_root_polls *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].name);
		free(f->v[i].full_name);
		free(f->v[i].where);
	}
	free(f->v);
	uses_done(&f->uses);
	*f = (struct found_root_polls){0};
}
