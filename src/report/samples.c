/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where the CPU was: samples inside polls, by function, in total and by family; and spawns by the
 * stack that made them.
 *
 * While the trace is read only sums by (family, stack) are kept. In the end each stack is walked
 * once: its innermost function gets the weight as self, each function on it as total, a recursive
 * one once. Functions are identified by name and object, since each call in one has an address of
 * its own.
 */
#include "report/samples.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/vec.h"
#include "report/text_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALL_HANDLERS UINT64_MAX
#define FUNCTIONS_SHOWN 15u
#define FUNCTIONS_OF_FAMILY 3u
#define SPAWN_STACKS_SHOWN 10u
#define SPAWN_FRAMES_SHOWN 8u
#define FUNCTIONS_TOLD 200u /* in JSON, in all and by family */

/* Samples of one sort, family and stack. */
struct stack_sum {
	uint64_t stack, n, weight; /* stack: index + 1 */
	uint32_t kind;		   /* of the task polled; TRACE_KIND_NONE: outside of polls */
	uint32_t handler;	   /* TRACE_KIND_NONE: none */
	uint8_t type;		   /* enum trace_sample */
};

struct profile_function {
	const struct trace_frame *frame; /* one of its frames */
	uint64_t self, total, n;	 /* n: samples with it on the stack */
	uint64_t stamp;			 /* the stack that counted it last */
};

/* What samples of one sort say of one family, or of all. */
struct cpu_profile {
	uint64_t n, weight, n_cut;
	struct profile_function *functions; /* most self first */
	size_t n_functions;
};

struct samples {
	struct map by_stack; /* (handler << 32 | kind, what << 56 | stack) to struct stack_sum */
	struct stack_sum **sums;
	size_t n_sums;
	uint32_t *function_of; /* by frame: number + 1 */
	struct map numbers;    /* two hashes of a function's name and object to its number + 1 */
	size_t n_functions;
};

static bool of_cpu(unsigned what)
{
	return what == TM_CPU_CLOCK || what == TM_CYCLES || what == TM_INSTRUCTIONS;
}

int samples_add(struct report *rep, const struct tl_sample *sample)
{
	if (!of_cpu(sample->type) && sample->type != TM_SPAWN)
		return 0;
	if (!rep->samples && !(rep->samples = calloc(1, sizeof(*rep->samples))))
		return -ENOMEM;
	struct samples *s = rep->samples;
	uint32_t kind = sample->task ? sample->task->kind : TRACE_KIND_NONE;
	uint32_t handler =
		of_cpu(sample->type) ? report_handler(rep, &sample->round) : TRACE_KIND_NONE;
	uint64_t whose = (uint64_t)handler << 32 | kind;
	uint64_t what = (uint64_t)sample->type << 56 | sample->stack;
	struct stack_sum *sum = map_get_or_new(&s->by_stack, whose, what, sizeof(*sum));
	if (!sum)
		return -ENOMEM;
	sum->stack = sample->stack;
	sum->kind = kind;
	sum->handler = handler;
	sum->type = (uint8_t)sample->type;
	sum->n++;
	sum->weight += sample->weight;
	return 0;
}

static int compare_sums(const void *a, const void *b)
{
	const struct stack_sum *x = *(struct stack_sum *const *)a;
	const struct stack_sum *y = *(struct stack_sum *const *)b;

	return ASCENDING(x->type, y->type) ?: DESCENDING(x->n, y->n) ?:
	       ASCENDING(x->kind, y->kind) ?: ASCENDING(x->handler, y->handler) ?:
	       ASCENDING(x->stack, y->stack);
}

int samples_sort(struct report *rep)
{
	struct samples *s = rep->samples;

	if (!s)
		return 0;
	s->n_sums = s->by_stack.n;
	s->sums = map_sorted(&s->by_stack, compare_sums);
	s->function_of =
		calloc((size_t)trace_reader_n_frames(rep->reader) + 1, sizeof(*s->function_of));
	return s->sums && s->function_of ? 0 : -ENOMEM;
}

void samples_done(struct report *rep)
{
	struct samples *s = rep->samples;

	if (!s)
		return;
	map_free(&s->by_stack, free);
	map_done(&s->numbers);
	free(s->sums);
	free(s->function_of);
	free(s);
	rep->samples = NULL;
}

/* ---- functions ---- */

/* The number of a frame's function, given out in the order of appearance. */
static size_t function_number(struct samples *s, const struct report *rep, uint32_t frame)
{
	static const struct trace_frame unknown;
	const struct trace_frame *f = trace_reader_frame(rep->reader, frame);
	bool known = f && frame < trace_reader_n_frames(rep->reader);
	if (known && s->function_of[frame])
		return s->function_of[frame] - 1;
	if (!f)
		f = &unknown;
	bool named = f->function && *f->function;
	uint64_t a = hash_string(hash_string(0, f->object), f->function);
	uint64_t b = hash_string(named ? 1 : f->addr ^ 0x5bd1e995, f->function);
	uintptr_t number = (uintptr_t)map_get(&s->numbers, a, b);
	if (!number) {
		number = s->n_functions + 1;
		if (map_put(&s->numbers, a, b, (void *)number) < 0)
			return SIZE_MAX;
		s->n_functions++;
	}
	if (known)
		s->function_of[frame] = (uint32_t)number;
	return number - 1;
}

static struct profile_function *function_of(struct cpu_profile *p, struct samples *s,
					    const struct report *rep, uint32_t frame)
{
	size_t number = function_number(s, rep, frame);
	if (number == SIZE_MAX)
		return NULL;
	if (!GROW_ZERO(p->functions, number, p->n_functions))
		return NULL;
	struct profile_function *f = &p->functions[number];
	if (!f->frame)
		f->frame = trace_reader_frame(rep->reader, frame);
	return f;
}

static int profile_add(struct cpu_profile *p, const struct report *rep, const struct stack_sum *sum,
		       uint64_t stamp)
{
	const struct trace_stack *s = report_stack(rep, sum->stack);
	p->n += sum->n;
	p->weight += sum->weight;
	for (unsigned n = 0; s && n < TRACE_STACK_FRAMES; n++) {
		struct profile_function *f = function_of(p, rep->samples, rep, s->frame);
		if (!f)
			return -ENOMEM;
		if (!n)
			f->self += sum->weight;
		if (f->stamp != stamp) {
			f->stamp = stamp;
			f->total += sum->weight;
			f->n += sum->n;
		}
		if (!s->parent && s->flags & TRACE_STACK_CUT)
			p->n_cut += sum->n;
		s = s->parent ? trace_reader_stack(rep->reader, s->parent - 1) : NULL;
	}
	return 0;
}

static int compare_functions(const void *a, const void *b)
{
	const struct profile_function *x = a, *y = b;
	const char *p = x->frame && x->frame->function ? x->frame->function : "";
	const char *q = y->frame && y->frame->function ? y->frame->function : "";

	return DESCENDING(x->self, y->self) ?: DESCENDING(x->total, y->total) ?: strcmp(p, q);
}

/* Of one family, or with TRACE_KIND_NONE of all that was in polls; of one handler in it, or with
 * ALL_HANDLERS of all. False when out of memory. */
static bool profile_make(struct cpu_profile *p, const struct report *rep, unsigned what,
			 uint32_t kind, uint64_t handler)
{
	const struct samples *s = rep->samples;
	*p = (struct cpu_profile){0};
	for (size_t i = 0; i < s->n_sums; i++) {
		const struct stack_sum *sum = s->sums[i];
		bool wanted = kind == TRACE_KIND_NONE ? sum->kind != kind : sum->kind == kind;

		wanted = wanted && (handler == ALL_HANDLERS || handler == sum->handler);
		if (sum->type == what && wanted && profile_add(p, rep, sum, i + 1) < 0) {
			free(p->functions);
			return false;
		}
	}
	size_t n = 0;
	for (size_t i = 0; i < p->n_functions; i++)
		if (p->functions[i].total)
			p->functions[n++] = p->functions[i];
	p->n_functions = n;
	if (n)
		qsort(p->functions, n, sizeof(*p->functions), compare_functions);
	return true;
}

/* Weight and number of samples outside of polls. */
static void outside(const struct report *rep, unsigned what, uint64_t *ret_n, uint64_t *ret_weight)
{
	const struct samples *s = rep->samples;
	*ret_n = *ret_weight = 0;
	for (size_t i = 0; i < s->n_sums; i++) {
		if (s->sums[i]->type != what || s->sums[i]->kind != TRACE_KIND_NONE)
			continue;
		*ret_n += s->sums[i]->n;
		*ret_weight += s->sums[i]->weight;
	}
}

/* ---- for people ---- */

static void weight_text(struct buf *out, unsigned what, uint64_t weight)
{
	if (what == TM_CPU_CLOCK)
		text_duration(out, weight);
	else
		text_count(out, weight);
}

static void cell_weight(struct table *t, unsigned what, uint64_t weight)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	weight_text(&b, what, weight);
	table_cell(t, b.data ? b.data : "");
}

static void write_functions(const struct report *rep, struct buf *out, unsigned what,
			    const struct cpu_profile *p)
{
	static const struct table_column columns[] = {
		{.title = "self"},
		{.title = "of all", .rank = 1},
		{.title = "total"},
		{.title = "of all", .rank = 2},
		{.title = "function", .min_width = 24, .align_left = true},
		{.title = "in", .rank = 3, .min_width = 12, .align_left = true},
	};
	struct table t;
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	size_t n = p->n_functions < FUNCTIONS_SHOWN ? p->n_functions : FUNCTIONS_SHOWN;
	for (size_t i = 0; i < n; i++) {
		const struct profile_function *f = &p->functions[i];
		_cleanup_buf_ struct buf name = BUF_INIT;
		const char *object = f->frame && f->frame->object ? f->frame->object : "";
		const char *slash = strrchr(object, '/');
		report_frame_text(f->frame, &name);
		cell_weight(&t, what, f->self);
		cell_share(&t, f->self, p->weight);
		cell_weight(&t, what, f->total);
		cell_share(&t, f->total, p->weight);
		table_cell(&t, name.data ? name.data : "?");
		cell_safe(&t, slash && slash[1] ? slash + 1 : object);
	}
	report_table(rep, &t, out);
	if (n < p->n_functions)
		buf_printf(out, "  and %zu more functions: --json has them\n", p->n_functions - n);
}

/* What has samples of a kind, most weight first: families, or their handlers. */
struct family_profile {
	const struct family *family;
	uint64_t handler; /* ALL_HANDLERS: it is the family's */
	struct cpu_profile profile;
};

struct family_profiles {
	struct family_profile *v;
	size_t n;
};

static int compare_families(const void *a, const void *b)
{
	const struct family_profile *x = a, *y = b;

	return DESCENDING(x->profile.weight, y->profile.weight) ?:
	       ASCENDING(x->family->kind, y->family->kind) ?: ASCENDING(x->handler, y->handler);
}

static bool add_profile(const struct report *rep, unsigned what, const struct family *f,
			uint64_t handler, struct family_profiles *ret)
{
	struct family_profile *one = &ret->v[ret->n];

	*one = (struct family_profile){.family = f, .handler = handler};
	if (!profile_make(&one->profile, rep, what, f->kind, handler))
		return false;
	if (one->profile.n)
		ret->n++;
	else
		free(one->profile.functions);
	return true;
}

/* A family as a whole; or, with `parts`, by handler if it is so split. */
static struct family_profiles family_profiles(const struct report *rep, unsigned what, bool parts)
{
	struct family_profiles all = {0};
	size_t most = rep->n_families + 1;
	bool ok = true;

	for (size_t i = 0; i < rep->n_families; i++)
		most += rep->families[i]->n_parts;
	all.v = calloc(most, sizeof(*all.v));
	for (size_t i = 0; all.v && ok && i < rep->n_families; i++) {
		const struct family *f = rep->families[i];

		if (!parts || !f->n_parts)
			ok = add_profile(rep, what, f, ALL_HANDLERS, &all);
		for (size_t k = 0; parts && ok && k < f->n_parts; k++)
			ok = add_profile(rep, what, f, f->parts[k]->handler, &all);
	}
	if (all.n)
		qsort(all.v, all.n, sizeof(*all.v), compare_families);
	return all;
}

static void family_profiles_done(struct family_profiles *all)
{
	for (size_t i = 0; i < all->n; i++)
		free(all->v[i].profile.functions);
	free(all->v);
}

static void write_by_family(const struct report *rep, struct buf *out, unsigned what)
{
	static const struct table_column columns[] = {
		{.title = "family", .min_width = 16, .align_left = true},
		{.title = "CPU"},
		{.title = "most of it in", .min_width = 28, .align_left = true, .cut_end = true},
	};
	_cleanup_(family_profiles_done) struct family_profiles all =
		family_profiles(rep, what, true);
	struct table t;
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < all.n && (!rep->opt.n_families || i < rep->opt.n_families); i++) {
		const struct family_profile *one = &all.v[i];
		const struct cpu_profile *p = &one->profile;
		_cleanup_buf_ struct buf most = BUF_INIT;
		for (size_t k = 0; k < p->n_functions && k < FUNCTIONS_OF_FAMILY; k++) {
			if (!p->functions[k].self)
				break;
			buf_str(&most, k ? ", " : "");
			text_share(&most, p->functions[k].self, p->weight);
			buf_char(&most, ' ');
			report_frame_text(p->functions[k].frame, &most);
		}
		cell_owner(rep, &t, one->family->kind,
			   one->handler == ALL_HANDLERS ? TRACE_KIND_NONE : (uint32_t)one->handler);
		cell_weight(&t, what, p->weight);
		table_cell(&t, most.data ? most.data : "stacks not known");
	}
	buf_char(out, '\n');
	report_table(rep, &t, out);
}

static void write_cpu(const struct report *rep, struct buf *out, unsigned what)
{
	_cleanup_buf_ struct buf head = BUF_INIT;
	uint64_t n_outside, weight_outside;
	struct cpu_profile p;

	outside(rep, what, &n_outside, &weight_outside);
	if (!profile_make(&p, rep, what, TRACE_KIND_NONE, ALL_HANDLERS))
		return;
	if (p.n || n_outside) {
		buf_printf(&head, "CPU inside polls (%s)", trace_sample_name(what));
		report_title(rep, out, head.data ? head.data : "CPU");
		buf_str(out, "  ");
		weight_text(out, what, p.weight);
		buf_str(out, " in polls, ");
		weight_text(out, what, weight_outside);
		buf_str(out, " outside of them; ");
		report_exact_of(out, p.n + n_outside, "sample", "samples");
		if (p.n_cut) {
			buf_str(out, ", ");
			report_exact_of(out, p.n_cut, "stack cut short", "stacks cut short");
		}
		buf_str(out, "\n");
		if (p.n) {
			write_functions(rep, out, what, &p);
			write_by_family(rep, out, what);
		}
	}
	free(p.functions);
}

static void write_spawns(const struct report *rep, struct buf *out)
{
	const struct samples *s = rep->samples;
	size_t shown = 0, more = 0;
	for (size_t i = 0; i < s->n_sums; i++) {
		const struct stack_sum *sum = s->sums[i];
		if (sum->type != TM_SPAWN)
			continue;
		if (shown == SPAWN_STACKS_SHOWN) {
			more++;
			continue;
		}
		if (!shown++)
			report_title(rep, out, "Spawns by stack");
		const struct trace_kind *by = trace_reader_kind(rep->reader, sum->kind);
		buf_str(out, "  ");
		report_exact_of(out, sum->n, "spawn", "spawns");
		if (by && by->name) {
			buf_str(out, " by ");
			report_name(rep, out, by->name);
		}
		buf_str(out, sum->stack ? ":\n" : ", stack not known\n");
		report_stack_text(rep->reader, out, sum->stack, SPAWN_FRAMES_SHOWN, 6,
				  rep->opt.width);
	}
	if (more)
		buf_printf(out, "  and %zu more stacks: --json has them\n", more);
}

void samples_text(const struct report *rep, struct buf *out)
{
	if (!rep->samples)
		return;
	write_cpu(rep, out, TM_CPU_CLOCK);
	write_cpu(rep, out, TM_CYCLES);
	write_cpu(rep, out, TM_INSTRUCTIONS);
	write_spawns(rep, out);
}

/* ---- for programs ---- */

static void functions_json(struct json *j, const struct cpu_profile *p)
{
	json_array(j, "functions");
	for (size_t i = 0; i < p->n_functions && i < FUNCTIONS_TOLD; i++) {
		const struct profile_function *f = &p->functions[i];
		json_object(j, NULL);
		json_string(j, "function", f->frame ? f->frame->function : "");
		json_string(j, "object", f->frame ? f->frame->object : "");
		if (f->frame && !(f->frame->function && *f->frame->function))
			json_u64(j, "addr", f->frame->addr);
		json_u64(j, "self", f->self);
		json_u64(j, "total", f->total);
		json_u64(j, "samples", f->n);
		json_end_object(j);
	}
	json_end_array(j);
}

static void family_json(const struct report *rep, struct json *j, const struct family_profile *one)
{
	if (one->handler == ALL_HANDLERS) {
		json_string(j, "family", family_name(rep, one->family));
		json_u64(j, "kind", one->family->kind);
	} else {
		report_handler_json(rep, j, (uint32_t)one->handler);
	}
	json_u64(j, "samples", one->profile.n);
	json_u64(j, "weight", one->profile.weight);
	functions_json(j, &one->profile);
}

/* They add up to the family. */
static void handlers_profiles_json(const struct report *rep, struct json *j, unsigned what,
				   const struct family *f)
{
	struct family_profile one;

	if (!f->n_parts)
		return;
	json_array(j, "handlers");
	for (size_t i = 0; i < f->n_parts; i++) {
		one = (struct family_profile){.family = f, .handler = f->parts[i]->handler};
		if (!profile_make(&one.profile, rep, what, f->kind, one.handler))
			break;
		if (one.profile.n) {
			json_object(j, NULL);
			family_json(rep, j, &one);
			json_end_object(j);
		}
		free(one.profile.functions);
	}
	json_end_array(j);
}

static void cpu_json(const struct report *rep, struct json *j, unsigned what)
{
	uint64_t n_outside, weight_outside;
	struct cpu_profile p;

	outside(rep, what, &n_outside, &weight_outside);
	if (!profile_make(&p, rep, what, TRACE_KIND_NONE, ALL_HANDLERS))
		return;
	if (p.n || n_outside) {
		_cleanup_(family_profiles_done) struct family_profiles all =
			family_profiles(rep, what, false);

		json_object(j, NULL);
		json_string(j, "event", trace_sample_name(what));
		json_u64(j, "samples", p.n);
		json_u64(j, "weight", p.weight);
		json_u64(j, "samples_outside", n_outside);
		json_u64(j, "weight_outside", weight_outside);
		json_u64(j, "cut_stacks", p.n_cut);
		functions_json(j, &p);
		json_array(j, "families");
		for (size_t i = 0; i < all.n; i++) {
			json_object(j, NULL);
			family_json(rep, j, &all.v[i]);
			handlers_profiles_json(rep, j, what, all.v[i].family);
			json_end_object(j);
		}
		json_end_array(j);
		json_end_object(j);
	}
	free(p.functions);
}

void samples_json(const struct report *rep, struct json *j)
{
	const struct samples *s = rep->samples;
	if (!s)
		return;
	json_array(j, "cpu");
	cpu_json(rep, j, TM_CPU_CLOCK);
	cpu_json(rep, j, TM_CYCLES);
	cpu_json(rep, j, TM_INSTRUCTIONS);
	json_end_array(j);
	json_array(j, "spawns_by_stack");
	for (size_t i = 0; i < s->n_sums; i++) {
		const struct stack_sum *sum = s->sums[i];
		const struct trace_kind *by = trace_reader_kind(rep->reader, sum->kind);
		if (sum->type != TM_SPAWN)
			continue;
		json_object(j, NULL);
		json_u64(j, "spawns", sum->n);
		json_string(j, "spawned_by", by ? by->name : "");
		report_stack_json(rep->reader, j, "stack", sum->stack, TRACE_STACK_FRAMES);
		json_end_object(j);
	}
	json_end_array(j);
}
