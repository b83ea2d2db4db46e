/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The thread that compiles layout programs while a program is recorded: kind by kind, each ready
 * as soon as it is done. It has its own debug information and only reads what the attach keeps
 * unchanged, so all that is shared is the list of results.
 */
#include "future/program_compiler.h"

#include "base/cleanup.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file_map.h"
#include "base/text.h"
#include "base/units.h"
#include "base/vec.h"
#include "binary/dwarf/polls.h"
#include "binary/names.h"
#include "future/await.h"
#include "future/handler_name.h"
#include "future/program.h"
#include "future/future_path.h"
#include "runtime/futures.h"
#include "runtime/root_polls.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct result {
	struct program program;
	bool boxed, serves;
	struct place_future handler; /* name NULL: it is none */
	struct place_held held;
	struct agent_result returns;
	uint64_t pending;
	uint32_t kind, first;
	uint64_t size, task_bytes;
	uint32_t type_kind;
};

struct object_debug {
	const struct attach_object *object;
	struct debug *debug; /* NULL: there is none */
};

struct program_compiler {
	struct places_target target;
	struct object_debug *objects;
	size_t n_objects;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t done; /* all is compiled */
	/* under the lock */
	struct result *results;
	size_t n_results, n_taken;
	bool finished, stop;
	struct error trouble;
	enum places_depth depth;
	char *not_own; /* libraries_of(); NULL: as each object says */
	const struct attach_object *hooked_object;
	struct map hooked; /* its types whose polls are hooked */
};

static int read_target(void *ctx, uint64_t addr, void *out, size_t len)
{
	const struct places_target *target = ctx;

	return target->read(target->ctx, addr, out, len);
}

static void note_trouble(struct program_compiler *c, const struct error *why)
{
	pthread_mutex_lock(&c->lock);
	if (!c->trouble.code)
		c->trouble = *why;
	pthread_mutex_unlock(&c->lock);
}

static bool stopped(void *ctx)
{
	struct program_compiler *c = ctx;

	pthread_mutex_lock(&c->lock);
	bool stop = c->stop;
	pthread_mutex_unlock(&c->lock);
	return stop;
}

static struct debug *debug_of(struct program_compiler *c, const struct attach_object *o)
{
	struct debug *d = NULL;
	struct error why = {0};
	int r = 0;

	for (size_t i = 0; i < c->n_objects; i++)
		if (c->objects[i].object == o)
			return c->objects[i].debug;
	if (!GROW_ONE(c->objects, c->n_objects))
		return NULL;
	int fd = c->target.object_fd(c->target.ctx, o);
	if (fd >= 0)
		r = debug_open(fd, o->scan.path, &d, &why);
	if (r < 0)
		d = NULL;
	if (d)
		debug_stop_when(d, stopped, c);
	if (r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -EIO)
		note_trouble(c, &why);
	c->objects[c->n_objects++] = (struct object_debug){.object = o, .debug = d};
	return d;
}

static void handler_done(struct place_future *h)
{
	free_const(h->name);
	free_const(h->full_name);
	free_const(h->where);
	*h = (struct place_future){0};
}

/* One that was asked to stop meanwhile may be of types that were not read. */
static void add_result(struct program_compiler *c, struct result *r)
{
	pthread_mutex_lock(&c->lock);
	bool keep = !c->stop && GROW_ONE(c->results, c->n_results);
	if (keep)
		c->results[c->n_results++] = *r;
	pthread_mutex_unlock(&c->lock);
	if (keep)
		return;
	program_done(&r->program);
	handler_done(&r->handler);
}

/* What is around the handlers, and the program's own too. */
static bool is_middleware(const char *full_name)
{
	return await_starts(full_name, "axum::middleware::");
}

/* A task that is a box is what is in there. */
static bool is_box(const char *full_name)
{
	return await_starts(full_name, "core::pin::Pin<") ||
	       await_starts(full_name, "alloc::boxed::Box<");
}

/* The program's own function around all others of its own in a program; NULL: there are several. */
static const char *only_own(const struct program *p)
{
	const char *own = NULL;

	for (size_t i = 0; i < p->n_places; i++) {
		uint32_t outer = p->links[i].outer;

		while (outer && !(p->places[outer - 1].flags & TRACE_PLACE_OWN))
			outer = p->links[outer - 1].outer;
		if (outer || !(p->places[i].flags & TRACE_PLACE_OWN))
			continue;
		if (own && strcmp(own, p->places[i].function) != 0)
			return NULL;
		own = p->places[i].function;
	}
	return own;
}

/* A function of the program's own in a program; NULL: none. */
static const char *any_own(const struct program *p)
{
	for (size_t i = 0; i < p->n_places; i++)
		if (p->places[i].flags & TRACE_PLACE_OWN)
			return p->places[i].function;
	return NULL;
}

/* The type of what a coroutine has captured as `self`; NULL: nothing. */
static const struct dw_type *self_of(struct debug *d, const struct dw_type *t)
{
	const struct dw_type *captured = NULL, *self;

	for (size_t i = 0; i < t->n_variants && !captured; i++)
		if (!t->variants[i].is_default && !t->variants[i].value)
			captured = dw_member_type(d, &t->variants[i].member);
	if (!captured)
		return NULL;
	self = dw_member_type(d, dw_find_member(captured, "self")
					 ?: dw_find_member(captured, "__self"));
	return self && self->class == DC_POINTER ? dw_type_of(d, self->target_ref) : self;
}

/* The name of a handler that is better than its type's; NULL: none is (free). */
static char *better_name(struct debug *d, const struct dw_type *t, const struct program *p)
{
	_cleanup_free_ char *where = dw_coroutine_where(t);
	const struct dw_type *self;
	const char *own;

	if (!dw_is_coroutine(t)) {
		own = only_own(p);
		/* of several functions none is the name */
		return own ? strdup(own) : strndup(t->full_name, strcspn(t->full_name, "<"));
	}
	if (where && text_library_file(where)) {
		own = any_own(p);
		return own ? handler_name_by_parameter(t->full_name, own) : NULL;
	}
	self = self_of(d, t);
	return self && self->full_name ? handler_name_by_method(t->full_name, self->full_name)
				       : NULL;
}

/* Whose code a future is. */
struct origin {
	const char *libraries; /* libraries_of() */
	const char *
		symbol; /* the program's own function by the symbol of its poll function, NULL: not known */
};

/* Whether a task's future that has no code of the program's own by value may serve. One written by hand in the
 * program itself does not: an executor of its own, say. */
static bool may_serve(const struct dw_type *t, const char *libraries)
{
	return !is_box(t->full_name) && (dw_is_coroutine(t) || !libraries || !*libraries ||
					 name_is_library(t->full_name, libraries));
}

/* Whether the future serves others, or handles what is served, by a program of chains. False: out of
 * memory. */
static bool set_owner(struct debug *d, const struct future_cell *cell, const struct program *p,
		      const struct origin *origin, struct result *result)
{
	struct place_future *h = &result->handler;

	if (!result->boxed) {
		result->serves =
			p->serves || (!p->has_own && may_serve(cell->future, origin->libraries));
		return true;
	}
	if (!p->has_own || is_middleware(cell->future->full_name))
		return true;
	_cleanup_free_ char *better = better_name(d, cell->future, p);
	if (!better && origin->symbol)
		better = handler_name_by_symbol(cell->future->full_name, origin->symbol);
	const char *full_name = better ? better : cell->future->full_name;

	h->name = name_shorten(full_name);
	h->full_name = strdup(full_name);
	h->where = dw_is_coroutine(cell->future) ? dw_coroutine_where(cell->future) : NULL;
	h->size = cell->future->size;
	if (h->name && h->full_name)
		return true;
	handler_done(h);
	return false;
}

/* A legacy symbol of a handler, which does not say which one it is. */
static bool is_generic_handler(const char *full_name)
{
	return await_starts(full_name, "<F as axum::handler::Handler<");
}

/* A tonic server's own, which calls the methods. */
static bool is_dispatch(const char *full_name)
{
	return strstr(full_name, " as tower_service::Service<") && strstr(full_name, "tonic::");
}

/* As names.h takes them: the crates that are libraries, or those that are none. */
static const char *libraries_of(const struct program_compiler *c, const struct attach_object *o)
{
	return c->not_own ? c->not_own : o->scan.libraries;
}

/* set_owner() by names alone. */
static bool is_own_name(const char *libraries, const char *full_name)
{
	return name_is_own(full_name, libraries) || is_generic_handler(full_name);
}

/* Of one or several names (scan_future.n_types). NULL: out of memory. */
static char *own_names(const char *libraries, const char *full_name)
{
	static const char between[] = " or ";
	_cleanup_buf_ struct buf b = BUF_INIT;

	for (const char *part = full_name, *end; part; part = end ? end + strlen(between) : NULL) {
		_cleanup_free_ char *one = NULL, *own = NULL;

		end = strstr(part, between);
		one = strndup(part, end ? (size_t)(end - part) : strlen(part));
		if (one)
			own = name_is_own(one, libraries) ? name_own(one, libraries)
							  : name_shorten(one);
		if (!own)
			return NULL;
		handler_name_cut(own);
		buf_str(&b, part == full_name ? "" : between);
		buf_str(&b, own);
	}
	return buf_steal(&b);
}

/* The program's own function by the symbol of a poll function; NULL: not known (free). */
static char *own_symbol(const struct program_compiler *c, const struct attach_kind *k)
{
	const char *libraries = libraries_of(c, k->object), *full_name = k->future->full_name;

	return is_own_name(libraries, full_name) ? own_names(libraries, full_name) : NULL;
}

static bool set_handler_by_name(const struct program_compiler *c, const struct attach_kind *k,
				struct result *r)
{
	const struct scan_future *f = k->future;
	const char *libraries = libraries_of(c, k->object);

	if (is_middleware(f->full_name) || is_dispatch(f->full_name) ||
	    !is_own_name(libraries, f->full_name))
		return false;
	r->handler.full_name = own_names(libraries, f->full_name);
	r->handler.name = r->handler.full_name ? strdup(r->handler.full_name) : NULL;
	r->handler.size = f->value_bytes;
	if (r->handler.name && r->handler.full_name)
		return true;
	handler_done(&r->handler);
	return false;
}

/* A library's task serves, unless it contains the program's own. Of one of unknown name it isn't known. */
static bool serves_by_name(const struct program_compiler *c, const struct attach_kind *k)
{
	const char *full_name = k->kind->full_name;
	const char *libraries = libraries_of(c, k->object);

	return full_name && *full_name && !is_box(full_name) &&
	       name_is_library(full_name, libraries) && !name_holds_own(full_name, libraries);
}

/* As set_owner() where every future is listed: what owns what is the same. */
static bool find_owner(const struct program_compiler *c, struct debug *d,
		       const struct future_cell *cell, const struct origin *origin,
		       struct result *result)
{
	struct program p;
	int r = program_compile(d, cell, PROGRAM_CHAIN, NULL, c->target.own, 1, &p);
	bool ok = r == -E2BIG || (r == 0 && set_owner(d, cell, &p, origin, result));

	program_done(&p);
	return ok;
}

/* Compiles what `result` is of, and keeps it: how many points it has. One that lists every future
 * may be too large: then the plain one is better than none. */
static size_t compile_cell(struct program_compiler *c, struct debug *d,
			   const struct future_cell *cell, const struct attach_object *o,
			   const char *symbol, struct result *result)
{
	const struct map *hooked = o == c->hooked_object ? &c->hooked : NULL;
	const struct origin origin = {libraries_of(c, o), symbol};
	const char *const *own = c->target.own;
	struct program *ret = &result->program;
	int r = -E2BIG;

	if (c->depth == PLACES_FUTURES)
		r = program_compile(d, cell, PROGRAM_FUTURES, hooked, own, result->first, ret);
	if (c->depth == PLACES_FUTURES && r == -E2BIG)
		r = program_compile(d, cell, PROGRAM_BY_VALUE, hooked, own, result->first, ret);
	if (c->depth == PLACES_DEEP)
		r = program_compile(d, cell, PROGRAM_CHAIN, NULL, own, result->first, ret);
	if (r == -E2BIG)
		r = program_compile(d, cell, PROGRAM_POINT, NULL, own, result->first, ret);
	/* In a chain larger numbers mean something else. */
	if (r == 0 && c->depth == PLACES_DEEP &&
	    result->first + ret->n_places > AGENT_MAX_CHAIN_POINTS + 1) {
		program_done(ret);
		return 0;
	}
	if (r == 0 && c->depth == PLACES_DEEP && !set_owner(d, cell, ret, &origin, result))
		return 0;
	if (r == 0 && c->depth == PLACES_FUTURES && !find_owner(c, d, cell, &origin, result))
		return 0;
	if (r != 0 || (!ret->n_words && !result->handler.name && !result->serves))
		return 0;
	add_result(c, result);
	return ret->n_places;
}

/* Whether the compiler has a kind of a method of this part of an object of this type. */
static bool has_method(struct program_compiler *c, struct debug *d, const struct attach_object *o,
		       enum holder_part part, const struct dw_type *object)
{
	uint64_t key = object ? dw_type_key(object) : 0;
	enum dw_returns returns;

	for (uint32_t i = 0; i < c->target.n_kinds && !debug_stopped(d); i++) {
		const struct attach_kind *k = &c->target.kinds[i];
		const struct dw_type *its =
			k->object == o && k->future && k->future->holder &&
					k->future->holder->part == part
				? debug_method_object(d, k->future->poll, &returns)
				: NULL;

		if (its && key && dw_type_key(its) == key)
			return true;
	}
	return false;
}

/* A method around all is of use where no method only polls, and where it is seen what makes the future. */
static bool is_of_use(struct program_compiler *c, struct debug *d, const struct attach_kind *k)
{
	const struct future_holder *h = k->future->holder;
	enum dw_returns returns;
	const struct dw_type *object = debug_method_object(d, k->future->poll, &returns);
	const struct dw_member *member = object ? dw_find_member(object, h->members[0]) : NULL;

	if (h->part == HOLDER_POLLS)
		return true;
	return h->part == HOLDER_AROUND && member &&
	       has_method(c, d, k->object, HOLDER_MAKES, dw_member_type(d, member)) &&
	       !has_method(c, d, k->object, HOLDER_POLLS, object);
}

/* What a method of a library's polls in a box. */
static size_t compile_held(struct program_compiler *c, uint32_t number, const struct attach_kind *k,
			   uint32_t first)
{
	struct result r = {.kind = number, .first = first, .boxed = true};
	struct debug *d = debug_of(c, k->object);
	const char *const *members = k->future->holder->members;
	struct future_cell cell;

	if (!d || !is_of_use(c, d, k) ||
	    !cell_held(d, k->future->poll, members, FUTURE_HOLDER_MEMBERS, &cell, &r.held))
		return 0;
	r.size = cell.size;
	if (c->depth != PLACES_FUTURES)
		return compile_cell(c, d, &cell, k->object, NULL, &r);
	/* What is in there is listed by its own hooks. */
	if (find_owner(c, d, &cell, &(struct origin){libraries_of(c, k->object), NULL}, &r) &&
	    r.handler.name)
		add_result(c, &r);
	return 0;
}

/* Whether the state lies where the code of the poll function, which the agent goes by, has it. Else the
 * debug information is of something else, or wrong. */
static bool has_state_of_code(const struct dw_type *t, const struct scan_future *f)
{
	return f->result.from != AR_STATE ||
	       (t->discr_offset == f->result.offset && t->discr_size == f->result.size);
}

/* A future whose polls are hooked: the program begins at its own address. */
static size_t compile_future(struct program_compiler *c, uint32_t number,
			     const struct attach_kind *k, uint32_t first)
{
	struct result r = {.kind = number, .first = first, .boxed = true};
	struct debug *d = debug_of(c, k->object);
	struct future_cell cell = {0};

	if (k->future->written) {
		if (!d || !find_future_result(d, k->future, &r.returns, &r.pending, &cell.future))
			return 0;
		cell.size = r.size = cell.future->size;
		return compile_cell(c, d, &cell, k->object, NULL, &r);
	}
	cell.future = d ? find_future_type(d, k->future) : NULL;
	if (!cell.future || !has_state_of_code(cell.future, k->future)) {
		if (c->depth != PLACES_NEAR && set_handler_by_name(c, k, &r))
			add_result(c, &r);
		return 0;
	}
	_cleanup_free_ char *symbol = own_symbol(c, k);

	cell.size = r.size = cell.future->size;
	r.type_kind = (uint32_t)(uintptr_t)map_get(&c->hooked, dw_type_key(cell.future), 0);
	return compile_cell(c, d, &cell, k->object, symbol, &r);
}

/* A block_on's own, which is polled as a part of that. */
static size_t compile_root_poll(struct program_compiler *c, uint32_t number,
				const struct attach_kind *k, uint32_t first)
{
	struct result r = {.kind = number, .first = first};
	struct debug *d = debug_of(c, k->object);
	struct future_cell cell = {0};
	int64_t offset;

	cell.future = d ? root_poll_type(d, k->root_poll->back, &offset) : NULL;
	if (!cell.future)
		return 0;
	cell.size = cell.future->size;
	return compile_cell(c, d, &cell, k->object, NULL, &r);
}

/* One kind; how many points it has. */
static size_t compile(struct program_compiler *c, uint32_t number, const struct attach_kind *k,
		      uint32_t first)
{
	struct result r = {.kind = number, .first = first};
	const struct scan_kind *fk = k->kind;
	struct future_cell cell = {0};
	struct debug *d;
	bool known;

	if (k->future && k->future->holder)
		return compile_held(c, number, k, first);
	if (k->future)
		return compile_future(c, number, k, first);
	if (k->root_poll)
		return compile_root_poll(c, number, k, first);
	if (!fk || fk->role != TR_TASK)
		return 0;
	d = debug_of(c, k->object);
	/* Only a runtime with ids has a place for them: Tokio. */
	known = !d		? false
		: fk->id_offset ? cell_tokio(d, fk, &cell)
				: cell_async(d, fk, fk->vtable + k->object->bias, read_target,
					     &c->target, &cell);
	if (!fk->id_offset)
		r.task_bytes = cell.size;
	if (known)
		return compile_cell(c, d, &cell, k->object, NULL, &r);
	r.serves = c->depth != PLACES_NEAR && serves_by_name(c, k);
	if (r.serves)
		add_result(c, &r);
	return 0;
}

/* The types of all futures whose polls are hooked; they are all of one object. */
static void find_hooked(struct program_compiler *c, const struct attach_kind *kinds, size_t n)
{
	for (size_t i = 0; i < n && !stopped(c); i++) {
		const struct attach_kind *k = &kinds[i];

		if (!k->future || !k->future->type_key)
			continue;
		c->hooked_object = k->object;
		if (!map_get(&c->hooked, k->future->type_key, 0))
			map_put(&c->hooked, k->future->type_key, 0, (void *)(uintptr_t)(i + 1));
	}
}

static void *run(void *arg)
{
	struct program_compiler *c = arg;
	const struct attach_kind *kinds = c->target.kinds;
	size_t n = c->target.n_kinds;
	uint32_t first = 1;

	/* The program is to have the processors, and the recorder. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
	if (c->depth == PLACES_FUTURES)
		find_hooked(c, kinds, n);
	for (size_t i = 0; i < n && !stopped(c); i++)
		first += (uint32_t)compile(c, (uint32_t)i, &kinds[i], first);
	for (size_t i = 0; i < c->n_objects; i++)
		debug_free(c->objects[i].debug);
	free(c->objects);
	pthread_mutex_lock(&c->lock);
	c->finished = true;
	pthread_cond_broadcast(&c->done);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* "!shop,api" */
static char *all_but(const char *const *own)
{
	struct buf b = BUF_INIT;

	for (size_t i = 0; own[i]; i++) {
		buf_char(&b, i ? ',' : '!');
		buf_str(&b, own[i]);
	}
	return buf_steal(&b);
}

static void *places_begin(const struct places_target *target, enum places_depth depth)
{
	struct program_compiler *c = calloc(1, sizeof(*c));
	sigset_t before;
	int r;

	if (!c)
		return NULL;
	c->target = *target;
	c->depth = depth;
	if (target->own && !(c->not_own = all_but(target->own))) {
		free(c);
		return NULL;
	}
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->done, NULL);
	/* Signals are the recorder's: they end its sleep. */
	file_map_block_signals(&before);
	r = pthread_create(&c->thread, NULL, run, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r) {
		free(c->not_own);
		free(c);
		return NULL;
	}
	return c;
}

static int places_trouble(void *compiler, struct error *err)
{
	struct program_compiler *c = compiler;
	int r;

	pthread_mutex_lock(&c->lock);
	if (!c->trouble.code && (c->stop || !c->finished || c->n_taken < c->n_results))
		error_set(&c->trouble, -EAGAIN,
			  "the recording ended before all debug information was read");
	*err = c->trouble;
	r = c->trouble.code;
	pthread_mutex_unlock(&c->lock);
	return r;
}

static int places_next(void *compiler, struct place_program *ret)
{
	struct program_compiler *c = compiler;
	int r = 0;

	pthread_mutex_lock(&c->lock);
	/* Those that list futures belong together: one has what another leaves out. */
	if (c->n_taken < c->n_results && (c->finished || c->depth != PLACES_FUTURES)) {
		const struct result *one = &c->results[c->n_taken++];

		*ret = (struct place_program){.kind = one->kind,
					      .first = one->first,
					      .words = one->program.words,
					      .n_words = one->program.n_words,
					      .places = one->program.places,
					      .n_places = one->program.n_places,
					      .links = one->program.links,
					      .serves = one->serves,
					      .handler = one->handler,
					      .held = one->held,
					      .returns = one->returns,
					      .pending = one->pending,
					      .points = one->program.points,
					      .futures = one->program.futures,
					      .n_futures = one->program.n_futures,
					      .size = one->size,
					      .type_kind = one->type_kind,
					      .task_bytes = one->task_bytes};
		r = 1;
	} else if (c->finished) {
		r = -ENODATA;
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

static void places_wait(void *compiler, uint64_t ns)
{
	struct program_compiler *c = compiler;
	uint64_t until = clock_realtime_ns() + ns;
	const struct timespec ts = {.tv_sec = (time_t)(until / NSEC_PER_SEC),
				    .tv_nsec = (long)(until % NSEC_PER_SEC)};

	pthread_mutex_lock(&c->lock);
	while (!c->finished)
		if (pthread_cond_timedwait(&c->done, &c->lock, &ts) == ETIMEDOUT)
			break;
	pthread_mutex_unlock(&c->lock);
}

static void places_stop(void *compiler)
{
	struct program_compiler *c = compiler;

	pthread_mutex_lock(&c->lock);
	c->stop = !c->finished;
	pthread_mutex_unlock(&c->lock);
}

static void places_end(void *compiler)
{
	struct program_compiler *c = compiler;

	places_stop(c);
	pthread_join(c->thread, NULL);
	for (size_t i = 0; i < c->n_results; i++) {
		program_done(&c->results[i].program);
		handler_done(&c->results[i].handler);
	}
	free(c->results);
	free(c->not_own);
	map_done(&c->hooked);
	pthread_cond_destroy(&c->done);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

const struct places_ops future_places = {
	.begin = places_begin,
	.next = places_next,
	.trouble = places_trouble,
	.wait = places_wait,
	.stop = places_stop,
	.end = places_end,
};
