/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where the probes of an ELF object go.
 *
 * A program that carries probes that are known (runtime/providers.h) is recorded by those. In any
 * other the scan result (runtime/runtime.h) names the functions: those that the slots of the tasks'
 * vtables and of the wakers' hold, which the agent would hook, and the instructions that take a
 * vtable's address where a task is made.
 *
 * A function is not a slot. Others may call it directly, and the compiler may have made one of
 * several that are alike; so a hook knows its kind only if no other kind has the function, and
 * otherwise the task's own vtable shows it.
 */
#include "base/cleanup.h"
#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"
#include "binary/machine.h"
#include "capture/kernel/object.h"
#include "runtime/debug_names.h"
#include "runtime/scan_cache.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* While an object is looked at. */
struct site_scanner {
	struct elf_image *image;
	struct kernel_object *object;
	struct kernel_hooks *hooks;
	uint32_t number;
	struct map by_place; /* (address, program) to hook number + 1 */
	uint32_t n_wanted, n_refused;
	uint32_t n_spawns, n_spawns_placed, n_spawns_stepped;
	uint32_t n_schedules_left;
};

/* ---- adding ---- */

static struct kernel_hook *new_hook(struct site_scanner *f, enum kernel_hook_type type,
				    uint32_t *ret_number)
{
	struct kernel_hooks *h = f->hooks;

	if (h->n == KERNEL_MAX_HOOKS || !GROW_ONE(h->table, h->n) || !GROW_ONE(h->places, h->n))
		return NULL;
	h->table[h->n] = (struct kernel_hook){.type = type};
	h->places[h->n] = (struct kernel_place){.object = f->number,
						.kind = KERNEL_NO_KIND,
						.waker = KERNEL_NO_KIND,
						.type = (uint8_t)type};
	*ret_number = h->n;
	return &h->table[h->n++];
}

static struct kernel_site *new_site(struct site_scanner *f, uint64_t addr,
				    enum kernel_program program, uint32_t hook)
{
	struct kernel_object *o = f->object;
	uint64_t offset;

	if (!GROW_ONE(o->sites, o->n_sites) || !elf_image_offset(f->image, addr, &offset))
		return NULL;
	o->sites[o->n_sites] = (struct kernel_site){
		.addr = addr, .offset = offset, .hook = hook, .program = (uint8_t)program};
	return &o->sites[o->n_sites++];
}

/* Another kind has the same function: what is not common to both is not known. */
static void share(struct site_scanner *f, uint32_t number, uint32_t kind,
		  const struct kernel_hook *like)
{
	struct kernel_hook *h = &f->hooks->table[number];

	if (f->hooks->places[number].kind != kind)
		f->hooks->places[number].kind = KERNEL_NO_KIND;
	if (h->type >= KH_TOKIO_POLL && h->type <= KH_TOKIO_WAKE &&
	    (h->tokio.id_offset != like->tokio.id_offset ||
	     h->tokio.trailer_offset != like->tokio.trailer_offset))
		h->tokio.id_offset = OFFSET_UNKNOWN;
}

/* The register of a function's first argument, by bits. */
static uint16_t first_argument(const struct elf_image *image)
{
	return (uint16_t)(1u << elf_image_machine(image)->args[0]);
}

/*
 * A hook at the entry of a function. 1 if it is new, 0 if another kind has the function or it can't
 * be probed, negative errno.
 */
static int add_function(struct site_scanner *f, uint64_t addr, enum kernel_hook_type type,
			uint32_t kind, const struct kernel_hook *like, uint32_t *ret_number)
{
	uint32_t number;
	struct kernel_hook *h;
	uint16_t keep = first_argument(f->image);
	enum arch_uprobe class;
	uint64_t place;
	void *known;

	if (!addr)
		return 0;
	f->n_wanted++;
	/* Where the return address is looked at, its place on the stack counts too. */
	if (type == KH_TOKIO_POLL || type == KH_ASYNC_RUN || type == KH_ASYNC_WAKE)
		keep |= (uint16_t)(1u << elf_image_machine(f->image)->sp);
	class = kernel_insn_place(f->image, addr, keep, &place);
	if (class == UPROBE_REFUSED) {
		f->n_refused++;
		return 0;
	}
	known = map_get(&f->by_place, place, KP_FUNCTION);
	if (known) {
		number = (uint32_t)(uintptr_t)known - 1;
		/* Two functions merged into one: which is meant is unknown. */
		if (f->hooks->places[number].type != type)
			f->n_refused++;
		else
			share(f, number, kind, like);
		return 0;
	}
	h = new_hook(f, type, &number);
	if (!h)
		return f->hooks->n == KERNEL_MAX_HOOKS ? -E2BIG : -ENOMEM;
	*h = *like;
	h->type = type;
	f->hooks->places[number].kind = kind;
	f->hooks->places[number].addr = place;
	if (!new_site(f, place, KP_FUNCTION, number) ||
	    map_put(&f->by_place, place, KP_FUNCTION, (void *)(uintptr_t)(number + 1)) < 0)
		return -ENOMEM;
	f->object->n_stepped += class == UPROBE_STEPPED;
	*ret_number = number;
	return 1;
}

/* ---- functions of the runtimes ---- */

/* What probes at functions of tasks and of their wakers are, by the tasks' model. */
static const struct {
	enum kernel_hook_type functions[TF_N], wake;
} hook_types[TASK_N_MODELS] = {
	[TASK_TOKIO] = {{[TF_POLL] = KH_TOKIO_POLL,
			 [TF_SCHEDULE] = KH_TOKIO_SCHEDULE,
			 [TF_FREE] = KH_TOKIO_DEALLOC,
			 [TF_SHUTDOWN] = KH_TOKIO_SHUTDOWN,
			 [TF_READ] = KH_TOKIO_OUTPUT_QUERY,
			 [TF_DROP_JOIN] = KH_TOKIO_OUTPUT_QUERY,
			 [TF_DROP_ABORT] = KH_TOKIO_OUTPUT_QUERY},
			KH_TOKIO_WAKE},
	[TASK_ASYNC_TASK] = {{[TF_POLL] = KH_ASYNC_RUN,
			      [TF_SCHEDULE] = KH_ASYNC_SCHEDULE,
			      [TF_FREE] = KH_ASYNC_DESTROY,
			      [TF_DROP_FUTURE] = KH_ASYNC_CANCEL},
			     KH_ASYNC_WAKE},
};

/* The vtable's function may be no more than a jump to the one that others call directly. */
static uint64_t behind_jump(struct elf_image *image, uint64_t addr)
{
	size_t left;
	const uint8_t *b = elf_image_bytes(image, addr, &left);
	uint64_t target = b ? arch_first_jump(b, left, addr) : 0;

	return target && elf_image_is_code(image, target) ? target : addr;
}

/* The ends of async-task's run(): a panic leaves it by unwinding, so no return address may be
 * changed, and probes are at its returns. */
static int add_returns(struct site_scanner *f, uint64_t addr, uint32_t run)
{
	_cleanup_free_ uint64_t *rets = NULL;
	uint64_t start, end;
	size_t n = 0;
	bool leaves;
	int rc;

	if (!elf_image_function(f->image, addr, &start, &end))
		return 0;
	struct kernel_hook *h = &f->hooks->table[run];
	h->run.before = (uint32_t)(f->hooks->places[run].addr - start);
	h->run.after = (uint32_t)(end - f->hooks->places[run].addr);
	rc = kernel_insn_returns(f->image, start, end, &rets, &n, &leaves);
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	f->object->n_tail_leaves += leaves;
	for (size_t i = 0; i < n; i++) {
		const struct kernel_place place = f->hooks->places[run];
		uint32_t number;

		if (!new_hook(f, KH_ASYNC_RETURN, &number))
			return f->hooks->n == KERNEL_MAX_HOOKS ? -E2BIG : -ENOMEM;
		f->hooks->places[number].kind = place.kind;
		f->hooks->places[number].addr = rets[i];
		if (!new_site(f, rets[i], KP_FUNCTION, number))
			return -ENOMEM;
		f->object->n_stepped++;
	}
	return 0;
}

/* Where a table's address is taken: `keep` nothing, only that it is passed counts. */
static int add_spawns(struct site_scanner *f, const struct scan_site *sites, size_t n,
		      enum kernel_hook_type type, uint32_t kind, uint32_t waker, uint64_t next_id)
{
	for (size_t i = 0; i < n; i++) {
		struct kernel_hook *h;
		enum arch_uprobe class;
		uint64_t place;
		uint32_t number;

		f->n_spawns++;
		class = kernel_insn_place(f->image, sites[i].addr, 0, &place);
		/* Two sites in one straight run would become one. */
		if (place != sites[i].addr && map_get(&f->by_place, place, KP_FUNCTION)) {
			place = sites[i].addr;
			class = UPROBE_STEPPED;
		}
		if (class == UPROBE_REFUSED || map_get(&f->by_place, place, KP_FUNCTION))
			continue;
		h = new_hook(f, type, &number);
		if (!h)
			return f->hooks->n == KERNEL_MAX_HOOKS ? -E2BIG : -ENOMEM;
		h->spawn.next_id = next_id ? (int64_t)(next_id - place) : 0;
		h->spawns = type == KH_SPAWN;
		f->hooks->places[number].kind = kind;
		f->hooks->places[number].waker = waker;
		f->hooks->places[number].addr = place;
		if (!new_site(f, place, KP_FUNCTION, number) ||
		    map_put(&f->by_place, place, KP_FUNCTION, (void *)(uintptr_t)(number + 1)) < 0)
			return -ENOMEM;
		f->n_spawns_placed++;
		f->n_spawns_stepped += class == UPROBE_STEPPED;
	}
	return 0;
}

/*
 * Tokio's schedule is called by every wake, which is seen by itself, and by little else: an abort.
 * It begins with a plain move nearly always; to step over that at each wake would cost the program
 * more than all else together.
 */
static bool is_dear(struct site_scanner *f, enum kernel_hook_type type, uint64_t addr)
{
	uint64_t place;

	if (type != KH_TOKIO_SCHEDULE || !addr ||
	    kernel_insn_place(f->image, addr, first_argument(f->image), &place) != UPROBE_STEPPED)
		return false;
	f->n_schedules_left++;
	return true;
}

/* The ends of polls. Tokio catches panics below raw::poll: its return address may be changed. */
static int add_ends(struct site_scanner *f, enum kernel_hook_type type, uint64_t addr,
		    uint32_t poll)
{
	if (type == KH_ASYNC_RUN)
		return add_returns(f, addr, poll);
	return new_site(f, f->hooks->places[poll].addr, KP_RETURN, poll) ? 0 : -ENOMEM;
}

static int add_functions(struct site_scanner *f, uint32_t i)
{
	const struct scan_kind *k = &f->object->scan.kinds[i];
	const enum task_model model = find_model(&f->object->scan, k->runtime);
	const enum kernel_hook_type *types = hook_types[model].functions;
	struct kernel_hook like = {0};
	uint32_t number;
	int rc = 0;

	if (model == TASK_TOKIO) {
		like.tokio.id_offset = k->id_offset;
		like.tokio.trailer_offset = k->trailer_offset;
	}
	for (size_t n = 0; n < TF_N && rc >= 0; n++) {
		uint64_t addr = k->slots[n].function;

		if (!types[n] || is_dear(f, types[n], addr))
			continue;
		if (n == TF_FREE)
			addr = behind_jump(f->image, addr);
		rc = add_function(f, addr, types[n], i, &like, &number);
		if (rc == 1 && n == TF_POLL)
			rc = add_ends(f, types[n], addr, number);
	}
	return rc < 0 ? rc : 0;
}

static int add_waker(struct site_scanner *f, uint32_t i)
{
	const struct runtime_scan *found = &f->object->scan;
	const struct scan_waker *w = &found->wakers[i];
	enum kernel_hook_type type =
		w->root ? KH_ROOT_WAKE : hook_types[find_model(found, w->runtime)].wake;
	struct kernel_hook like = {0};
	const uint64_t functions[] = {w->wake.function, w->wake_by_ref.function};
	uint64_t start, end;
	uint32_t number;
	int rc = 0;

	if (type == KH_TOKIO_WAKE)
		like.tokio.id_offset = OFFSET_UNKNOWN;
	for (size_t k = 0; k < 2 && rc >= 0; k++) {
		rc = add_function(f, functions[k], type, KERNEL_NO_KIND, &like, &number);
		if (rc == 1 && w->root)
			f->hooks->places[number].waker = i;
		/* async-task's wake may call wake_by_ref: then that is no wake of its own. */
		if (rc == 1 && k == 1 && type == KH_ASYNC_WAKE &&
		    elf_image_function(f->image, w->wake.function, &start, &end)) {
			struct kernel_hook *h = &f->hooks->table[number];

			h->wake.caller = (int64_t)(start - f->hooks->places[number].addr);
			h->wake.caller_bytes = (uint32_t)(end - start);
		}
	}
	if (rc >= 0 && w->root)
		rc = add_spawns(f, w->sites, w->n_sites, KH_ROOT_ENTER, KERNEL_NO_KIND, i, 0);
	return rc < 0 ? rc : 0;
}

static int add_runtimes(struct site_scanner *f)
{
	const struct runtime_scan *found = &f->object->scan;
	for (uint32_t i = 0; i < found->n_kinds; i++) {
		const struct scan_kind *k = &found->kinds[i];

		TRY(add_functions(f, i));
		TRY(add_spawns(f, k->sites, k->n_sites, KH_SPAWN, i, KERNEL_NO_KIND,
			       found->runtimes[k->runtime].next_id));
	}
	for (uint32_t i = 0; i < found->n_wakers; i++)
		TRY(add_waker(f, i));
	return 0;
}

/* ---- known probes ---- */

bool kernel_arg_of(const struct probe_arg *arg, struct kernel_arg *ret)
{
	static const uint8_t forms[] = {
		[PA_CONST] = KA_CONST, [PA_REG] = KA_REG, [PA_MEMORY] = KA_MEMORY};

	*ret = (struct kernel_arg){0};
	if (arg->form != PA_CONST && arg->form != PA_REG && arg->form != PA_MEMORY)
		return false;
	*ret = (struct kernel_arg){
		.form = forms[arg->form],
		.size = arg->size,
		.is_signed = arg->is_signed,
		.base = arg->base,
		.index = arg->index,
		.index_bits = arg->index_bits,
		.index_signed = arg->index_signed,
		.shift = arg->shift,
		.value = arg->value,
	};
	return true;
}

static void set_texts(struct kernel_hook *h, const struct provider_probe *row)
{
	unsigned n = 0;

	for (uint8_t i = 0; i < row->n_args && n < KERNEL_MAX_TEXTS; i++) {
		if (!provider_arg_is_string(row->args[i]) || i >= h->probe.n_args)
			continue;
		h->probe.texts[n].arg = (uint8_t)(i + 1);
		for (uint8_t k = 0; row->args[i] == PV_NAME && k < row->n_args; k++)
			if (row->args[k] == PV_NAME_BYTES)
				h->probe.texts[n].len = (uint8_t)(k + 1);
		n++;
	}
}

static int add_known(struct site_scanner *f, const struct provider_probe *row,
		     const struct probe *probe, uint64_t addr, const struct probe_arg *args,
		     size_t n_args)
{
	struct kernel_object *o = f->object;
	struct kernel_site *site;
	struct kernel_hook *h;
	uint32_t number;
	size_t left;
	const uint8_t *bytes = elf_image_bytes(f->image, addr, &left);

	f->n_wanted++;
	if (!bytes || arch_uprobe_of(bytes, left < 15 ? left : 15) == UPROBE_REFUSED) {
		f->n_refused++;
		return 0;
	}
	h = new_hook(f, KH_PROBE, &number);
	if (!h)
		return f->hooks->n == KERNEL_MAX_HOOKS ? -E2BIG : -ENOMEM;
	h->probe.n_args = (uint32_t)(n_args < KERNEL_MAX_ARGS ? n_args : KERNEL_MAX_ARGS);
	for (size_t i = 0; i < h->probe.n_args; i++)
		kernel_arg_of(&args[i], &h->probe.args[i]);
	set_texts(h, row);
	h->spawns = row->type == PW_SPAWN;
	f->hooks->places[number].row = row;
	f->hooks->places[number].probe = probe;
	f->hooks->places[number].addr = addr;
	site = new_site(f, addr, KP_PROBE, number);
	if (!site)
		return -ENOMEM;
	o->n_known++;
	o->parks = o->parks || row->type == PW_PARK;
	if (!probe || !probe->semaphore)
		return 0;
	/* The kernel counts in aligned words only. */
	if (probe->semaphore_offset % 2 == 0)
		site->ref_ctr = probe->semaphore_offset;
	for (size_t i = 0; i < o->n_semaphores; i++)
		if (o->semaphores[i] == probe->semaphore)
			return 0;
	if (!GROW_ONE(o->semaphores, o->n_semaphores))
		return -ENOMEM;
	o->semaphores[o->n_semaphores++] = probe->semaphore;
	return 0;
}

static bool has_other_row(const struct elf_symbol *symbols, size_t n, size_t at,
			  const struct provider_probe *row)
{
	size_t i = at;

	while (i > 0 && symbols[i - 1].addr == symbols[at].addr)
		i--;
	for (; i < n && symbols[i].addr == symbols[at].addr; i++) {
		const struct provider_probe *other = providers_function(symbols[i].name);

		if (other && other != row)
			return true;
	}
	return false;
}

static int add_probes(struct site_scanner *f)
{
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(f->image, &symbols);
	const struct probe *p;

	for (size_t i = 0; (p = probes_at(f->object->probes, i)); i++) {
		const struct provider_probe *row = providers_match(p);

		if (!row || row->type == PW_NOTHING)
			continue;
		if (p->refused) {
			f->n_wanted++;
			f->n_refused++;
		} else {
			TRY(add_known(f, row, p, p->addr, p->args, p->n_args));
		}
	}
	for (size_t i = 0; i < n; i++) {
		const struct provider_probe *row = providers_function(symbols[i].name);
		struct probe_arg args[PROVIDER_MAX_ARGS];

		if (!row || (i && symbols[i].addr == symbols[i - 1].addr &&
			     !strcmp(symbols[i].name, symbols[i - 1].name)))
			continue;
		/* Functions that the linker merged: which of them was called is unknown. */
		if (has_other_row(symbols, n, i, row)) {
			f->n_wanted++;
			f->n_refused++;
			continue;
		}
		for (size_t k = 0; k < row->n_args; k++)
			providers_function_arg(elf_image_machine(f->image), k, &args[k]);
		TRY(add_known(f, row, NULL, symbols[i].addr, args, row->n_args));
	}
	return 0;
}

int kernel_sites_known(struct elf_image *image, bool *ret_known, struct error *err)
{
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(image, &symbols);
	struct probes *probes;
	const struct probe *p;
	bool known = false;

	TRY(probes_read(image, &probes, err));
	for (size_t i = 0; !known && (p = probes_at(probes, i)); i++) {
		const struct provider_probe *row = providers_match(p);

		known = row && row->type != PW_NOTHING;
	}
	probes_free(probes);
	for (size_t i = 0; !known && i < n; i++)
		known = providers_function(symbols[i].name) != NULL;
	*ret_known = known;
	return 0;
}

/* ---- coverage ---- */

static void cover_functions(const struct site_scanner *f)
{
	struct kernel_object *o = f->object;
	struct coverage_list *c = &o->coverage;
	uint32_t n_stepped = o->n_stepped + f->n_spawns_stepped;

	coverage_add(c, "task functions probed", f->n_wanted - f->n_refused, f->n_wanted,
		     f->n_refused
			     ? "the kernel allows no probe at the first instructions of the others"
			     : "");
	coverage_add(c, "spawn sites probed", f->n_spawns_placed, f->n_spawns,
		     f->n_spawns_placed < f->n_spawns
			     ? "the kernel can't step over the instructions of the others"
			     : "");
	if (f->n_schedules_left)
		coverage_add(c, "schedules without a wake", 0, 0,
			     "if a task is aborted while it waits, its end is recorded, but not "
			     "that it was scheduled for it");
	if (n_stepped)
		coverage_addf(c, "cheap probes", o->n_sites - n_stepped, o->n_sites,
			      "%u probes are at instructions that the kernel must single-step, "
			      "which costs the program a microsecond more per hit, in virtual "
			      "machines up to 25",
			      n_stepped);
	if (o->n_tail_leaves)
		coverage_add(c, "ends of runs", 0, o->n_tail_leaves,
			     "these functions may end with a jump: the end of such a poll is seen "
			     "at its thread's next event");
}

static void cover_scan(struct kernel_object *o)
{
	for (size_t i = 0; i < o->scan.coverage.n; i++) {
		const struct trace_coverage *c = &o->scan.coverage.v[i];
		struct trace_coverage *one;

		/* System calls are seen at the kernel's door, however they are made; the others are
		 * the agent's methods; the kernel's have an item of their own. */
		if (c->cover == TRACE_COVER_CALLS || c->cover == TRACE_COVER_SPAWN_SITES ||
		    c->cover == TRACE_COVER_TASK_HEADERS)
			continue;
		one = coverage_add(&o->coverage, c->item, c->seen, c->total, c->note);
		if (one) {
			one->cover = c->cover;
			one->runtime = c->runtime;
		}
	}
}

/* ---- all together ---- */

static int begin(struct site_scanner *f, const char *path, struct kernel_object *o)
{
	struct stat st;

	*o = (struct kernel_object){.fd = -1};
	if (fstat(elf_image_fd(f->image), &st) < 0)
		return -errno;
	o->dev = st.st_dev;
	o->ino = st.st_ino;
	o->path = strdup(path);
	o->fd = dup(elf_image_fd(f->image));
	return !o->path ? -ENOMEM : o->fd < 0 ? -errno : 0;
}

/* What was found goes to the caller, or with an error nothing stays of it. */
static int end(struct site_scanner *f, int rc, uint32_t n_before, struct kernel_object *ret,
	       struct error *err)
{
	map_done(&f->by_place);
	if (rc < 0) {
		kernel_object_done(f->object);
		f->hooks->n = n_before;
		return rc == -E2BIG ? error_set(err, rc, "more than %u places to probe",
						KERNEL_MAX_HOOKS)
				    : rc;
	}
	*ret = *f->object;
	return 0;
}

static int find_functions(struct site_scanner *f, const char *path, uint64_t deadline_ns,
			  struct error *err)
{
	struct kernel_object *o = f->object;

	TRY(scan_cache_get(f->image, &o->scan, err));
	if (!o->scan.n_runtimes || !o->scan.n_kinds) {
		for (size_t i = 0; i < o->scan.coverage.n; i++)
			if (*o->scan.coverage.v[i].note)
				error_set(err, -ENOENT, "%s", o->scan.coverage.v[i].note);
		return -ENOENT;
	}
	debug_names(f->image, path, &o->scan, deadline_ns);
	TRY(add_runtimes(f));
	cover_scan(o);
	cover_functions(f);
	return coverage_result(&o->coverage);
}

static int find_probes(struct site_scanner *f, struct error *err)
{
	struct kernel_object *o = f->object;

	TRY(probes_read(f->image, &o->probes, err));
	TRY(add_probes(f));
	if (!o->n_sites)
		return -ENOENT;
	coverage_add(
		&o->coverage, "known probes", f->n_wanted - f->n_refused, f->n_wanted,
		f->n_refused
			? "the others are where the kernel allows no probe, or share one function"
			: "");
	if (probes_damaged(o->probes))
		coverage_add(&o->coverage, "probe notes", 0, 1, probes_damaged(o->probes));
	return coverage_result(&o->coverage);
}

int kernel_sites_find(struct elf_image *image, const char *path, uint32_t number, bool functions,
		      uint64_t deadline_ns, struct kernel_hooks *hooks, struct kernel_object *ret,
		      struct error *err)
{
	struct kernel_object o;
	struct site_scanner f = {.image = image, .object = &o, .hooks = hooks, .number = number};
	uint32_t n_before = hooks->n;
	int rc = begin(&f, path, &o);

	if (rc == 0)
		rc = functions ? find_functions(&f, path, deadline_ns, err) : find_probes(&f, err);
	return end(&f, rc, n_before, ret, err);
}

int kernel_sites_unwinder(struct elf_image *image, const char *path, uint32_t number,
			  struct kernel_hooks *hooks, struct kernel_object *ret, struct error *err)
{
	static const struct {
		const char *name;
		enum kernel_hook_type type;
	} functions[] = {{"_Unwind_RaiseException", KH_RAISE}, {"_Unwind_Resume", KH_RESUME}};
	struct kernel_object o;
	struct site_scanner f = {.image = image, .object = &o, .hooks = hooks, .number = number};
	const struct kernel_hook like = {0};
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(image, &symbols);
	uint32_t n_before = hooks->n, hook;
	int rc = begin(&f, path, &o);

	for (size_t k = 0; k < 2 && rc >= 0; k++)
		for (size_t i = 0; i < n && rc >= 0; i++)
			if (symbols[i].type == STT_FUNC &&
			    !strcmp(symbols[i].name, functions[k].name))
				rc = add_function(&f, symbols[i].addr, functions[k].type,
						  KERNEL_NO_KIND, &like, &hook);
	if (rc >= 0)
		rc = o.n_sites ? 0 : -ENOENT;
	return end(&f, rc, n_before, ret, err);
}

void kernel_object_done(struct kernel_object *o)
{
	if (o->fd >= 0)
		close(o->fd);
	free(o->path);
	runtime_scan_done(&o->scan);
	probes_free(o->probes);
	free(o->sites);
	free(o->semaphores);
	coverage_done(&o->coverage);
	*o = (struct kernel_object){.fd = -1};
}

void kernel_hooks_done(struct kernel_hooks *h)
{
	free(h->table);
	free(h->places);
	*h = (struct kernel_hooks){0};
}
