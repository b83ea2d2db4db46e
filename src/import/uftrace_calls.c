/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What calls mean. The names of functions say which role they have:
 *
 *   roots     in which a runtime polls a task: Core::poll of Tokio, RawTask::run of async-task,
 *             SupportTaskLocals of async-std, and what block_on polls in
 *   wrappers  futures that only pass a poll on: GenFuture (of old compilers), Box, Pin, ...
 *   futures   hand-written ones, "<X as Future>::poll"
 *   closures  "f::{{closure}}": the body of an async fn or block, or any closure. Debug information
 *             distinguishes them; without it a closure counts as a body if a task, a wrapper or
 *             another future is what called it, and it is none of the standard library's
 *
 * A task is called after the first future that its root polls, so a root's begin is held back until
 * that is known. uftrace records neither which task it is nor what poll returned: a function's
 * polls on one thread are one task here, its k-th call in one poll of its parent is one future.
 */
#include "import/uftrace_calls.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "binary/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FUNCTIONS 65536u
#define MAX_NAME_BYTES ((size_t)32 << 20)

enum class { FN_OTHER = 0, FN_ROOT, FN_WRAPPER, FN_BLOCKING, FN_FUTURE, FN_CLOSURE };

struct call_function {
	enum class class;
	const char *runtime; /* of a root */
	char *name;	     /* for people */
	uint32_t kinds[2];   /* as a task, as a future: index of the kind + 1 */
	uint32_t serial;
};

enum call_role {
	CR_NONE = 0, /* nothing is reported of it */
	CR_PASS,     /* a wrapper: what it calls is as if its caller called it */
	CR_HELD,     /* a root whose future isn't known yet */
	CR_TASK,
	CR_OWN, /* the future of that task */
	CR_FUTURE,
};

struct traced_call {
	const struct call_function *function;
	uint64_t time;
	uint64_t instance; /* of a future; of a task its name */
	uint32_t kind;
	uint16_t depth;
	uint16_t stands_for; /* CR_PASS: a root in a root: place + 1 of the outer one */
	uint8_t role;
	uint32_t n_children; /* futures that it polled so far */
};

struct calls {
	struct sink *sink;
	struct import_names names;
	struct call_function **functions; /* by number of the name */
	size_t n_functions;
	struct import_thread *thread;
	struct traced_call stack[CALLS_MAX_DEPTH];
	size_t n;
	uint64_t last_ns;
	struct map runtimes; /* by process and name: index + 1 */
	struct calls_stats stats;
};

struct calls *calls_new(struct sink *sink)
{
	struct calls *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->sink = sink;
	names_init(&c->names, MAX_NAME_BYTES);
	c->functions = calloc(MAX_FUNCTIONS, sizeof(struct call_function *));
	if (c->functions)
		return c;
	free(c);
	return NULL;
}

void calls_free(struct calls *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n_functions; i++) {
		free(c->functions[i]->name);
		free(c->functions[i]);
	}
	map_done(&c->runtimes);
	names_done(&c->names);
	free(c->functions);
	free(c);
}

/* ---- names ---- */

/* "_<ufapp..Twice as core..future..future..Future>::poll" as Rust spells it. */
static char *rust_spelling(const char *name, size_t len)
{
	struct buf b = BUF_INIT;

	for (size_t i = 0; i < len; i++) {
		bool start = i == 0 || name[i - 1] == ':' || name[i - 1] == '<';
		if (i + 1 < len && name[i] == '.' && name[i + 1] == '.') {
			buf_str(&b, "::");
			i++;
		} else if (!(start && i + 1 < len && name[i] == '_' &&
			     (name[i + 1] == '<' || name[i + 1] == '{'))) {
			buf_char(&b, name[i] ? name[i] : '?');
		}
	}
	return buf_steal(&b);
}

static bool starts(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

static bool ends(const char *s, const char *with)
{
	size_t n = strlen(s), m = strlen(with);
	return n >= m && !strcmp(s + n - m, with);
}

/* The runtime if tasks are polled in this function; NULL. */
static const char *root_runtime(const char *name)
{
	static const struct {
		const char *begin, *end, *runtime;
	} roots[] = {
		/* Tokio 0.2 to 1.17, later ones; with or without the closure in it. */
		{"tokio::runtime::task::core::CoreStage<", "::poll", "tokio"},
		{"tokio::runtime::task::core::CoreStage<", "::poll::{{closure}}", "tokio"},
		{"tokio::runtime::task::core::Core<", "::poll", "tokio"},
		{"tokio::runtime::task::core::Core<", "::poll::{{closure}}", "tokio"},
		{"tokio::park::thread::CachedParkThread::block_on::{{closure}}", "", "tokio"},
		{"tokio::runtime::park::CachedParkThread::block_on::{{closure}}", "", "tokio"},
		{"async_task::raw::RawTask<", "::run", "async-task"},
		{"async_task::raw::RawTask<", "::run::{{closure}}", "async-task"},
		{"<async_std::task::builder::SupportTaskLocals<", "::poll", "async-task"},
		{"<async_std::task::builder::SupportTaskLocals<", "::poll::{{closure}}",
		 "async-task"},
	};
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		if (starts(name, roots[i].begin) && ends(name, roots[i].end))
			return roots[i].runtime;
	return NULL;
}

static bool is_wrapper(const char *type)
{
	static const char *const wrappers[] = {
		"core::future::from_generator::GenFuture<",
		"alloc::boxed::Box<",
		"core::pin::Pin<",
		"&mut ",
		"async_executor::AsyncCallOnDrop<",
		"core::panic::unwind_safe::AssertUnwindSafe<",
		"core::future::into_future",
	};
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
		if (starts(type, wrappers[i]))
			return true;
	return false;
}

/* Closures of the standard library and of what runtimes do around a poll. */
static bool is_never_future(const char *name)
{
	static const char *const begins[] = {
		"std::",
		"core::",
		"alloc::",
		"<std::",
		"<core::",
		"<alloc::",
		"once_cell::",
		"tokio::runtime::",
		"tokio::util::",
		"tokio::loom::",
		"async_task::",
		"async_std::task::task_locals_wrapper",
		"async_io::",
		"async_std::task::builder::",
		"event_listener::",
		"concurrent_queue::",
		"polling::",
		"async_lock::once_cell::",
		"scoped_tls::",
		"parking::",
		"tokio::sync::task::",
		"tokio::sync::oneshot::",
		"tokio::time::sleep::Sleep::",
		"async_executor::Executor::schedule",
	};
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (starts(name, begins[i]))
			return true;
	return strstr(name, "{{constant}}") != NULL;
}

/* X of "<X as core::future::future::Future>::poll"; NULL: it is no such name. */
static char *polled_type(const char *name)
{
	static const char end[] = " as core::future::future::Future>::poll";
	return name[0] == '<' && ends(name, end) ? strndup(name + 1, strlen(name) - sizeof(end))
						 : NULL;
}

static int classify(struct call_function *f, const char *raw, size_t len, int is_future)
{
	_cleanup_free_ char *name = rust_spelling(raw, len);
	if (!name)
		return -ENOMEM;
	_cleanup_free_ char *type = polled_type(name);
	f->runtime = root_runtime(name);
	if (f->runtime)
		f->class = FN_ROOT;
	else if (strstr(name, "tokio::runtime::blocking::task::BlockingTask<"))
		f->class = FN_BLOCKING;
	else if (type)
		f->class = is_wrapper(type) ? FN_WRAPPER : FN_FUTURE;
	else if (!ends(name, "::{{closure}}") || is_future == 0)
		f->class = FN_OTHER;
	else if (is_future > 0)
		f->class = FN_FUTURE;
	else
		f->class = is_never_future(name) ? FN_OTHER : FN_CLOSURE;
	f->name = name_shorten(type ? type : name);
	return f->name ? 0 : -ENOMEM;
}

struct call_function *calls_function(struct calls *c, const char *name, size_t len, int is_future)
{
	bool is_new;
	uint32_t number = c->n_functions < MAX_FUNCTIONS ? names_get(&c->names, name, len, &is_new)
							 : names_find(&c->names, name, len);

	if (number == UINT32_MAX)
		return NULL;
	if (number < c->n_functions)
		return c->functions[number];
	struct call_function *f = calloc(1, sizeof(*f));
	if (!f || classify(f, name, len, is_future) < 0) {
		free(f);
		c->sink->code = -ENOMEM;
		return NULL;
	}
	f->serial = number;
	c->functions[number] = f;
	c->n_functions = number + 1;
	return f;
}

/* ---- what is reported ---- */

static int runtime_of(struct calls *c, const char *name, uint32_t *ret)
{
	uint32_t process = c->thread->process->index;
	uint64_t key = (uintptr_t)name;
	uint64_t known = (uintptr_t)map_get(&c->runtimes, process, key);
	const struct trace_runtime r = {
		.process = process, .name = name, .verified = "names of functions"};

	if (known) {
		*ret = (uint32_t)known - 1;
		return 0;
	}
	int code = trace_writer_runtime(c->sink->writer, &r, ret);
	return code < 0 ? code : map_put(&c->runtimes, process, key, (void *)((uintptr_t)*ret + 1));
}

static int kind_of(struct calls *c, struct call_function *f, bool task, const char *runtime,
		   uint32_t *ret)
{
	if (!f->kinds[!task]) {
		struct trace_kind k = {.process = c->thread->process->index,
				       .role = task ? TR_TASK : TR_FUTURE,
				       .address_named = !task,
				       .name = f->name};
		int r = runtime_of(c, runtime, &k.runtime);
		if (r == 0)
			r = trace_writer_kind(c->sink->writer, &k, &f->kinds[!task]);
		if (r < 0)
			return r;
		f->kinds[!task]++;
	}
	*ret = f->kinds[!task] - 1;
	return 0;
}

static int emit(struct calls *c, const struct traced_call *call, enum trace_event_type type,
		uint64_t time)
{
	struct trace_event ev = {.time = time,
				 .thread = c->thread->index,
				 .type = (uint16_t)type,
				 .kind = call->kind,
				 .task = call->instance};
	if (type == TE_POLL_END || type == TE_FUTURE_END)
		ev.arg = TO_UNKNOWN;
	return sink_event(c->sink, &ev);
}

/* The innermost call that isn't passed through; NULL: none. */
static struct traced_call *caller(struct calls *c)
{
	size_t i = c->n;
	while (i && c->stack[i - 1].role == CR_PASS) {
		size_t outer = c->stack[i - 1].stands_for;
		i = outer ? outer : i - 1;
	}
	return i ? &c->stack[i - 1] : NULL;
}

/* The root that is held back and not yet a task's; NULL: none. */
static struct traced_call *held_root(struct calls *c)
{
	for (size_t i = c->n; i--;)
		if (c->stack[i].role == CR_HELD || c->stack[i].role == CR_TASK)
			return c->stack[i].role == CR_HELD ? &c->stack[i] : NULL;
	return NULL;
}

/* The task around what is called now; NULL outside of all. */
static struct traced_call *task_around(struct calls *c)
{
	for (size_t i = c->n; i--;)
		if (c->stack[i].role == CR_TASK)
			return &c->stack[i];
	return NULL;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ b * 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;
	return h ^ h >> 32;
}

/* `root` is a task's poll, and this is what it polls. */
static int begin_task(struct calls *c, struct traced_call *root, struct call_function *f)
{
	uint64_t nested = 0;

	TRY(kind_of(c, f, true, root->function->runtime, &root->kind));
	for (const struct traced_call *x = c->stack; x < root; x++)
		nested += x->role == CR_TASK && x->kind == root->kind;
	root->role = CR_TASK;
	root->instance = c->thread->tid | nested << 32;
	c->stats.n_polls++;
	return emit(c, root, TE_POLL_BEGIN, root->time);
}

static int begin_future(struct calls *c, struct traced_call *call, struct call_function *f)
{
	struct traced_call *parent = caller(c);
	const struct traced_call *task = task_around(c);

	if (!task) {
		c->stats.n_outside++;
		return 0;
	}

	TRY(kind_of(c, f, false, task->function->runtime, &call->kind));
	call->role = CR_FUTURE;
	/* Not an address, but one and the same for what is most likely the same future. */
	call->instance = mix(mix(parent->instance, f->serial), parent->n_children++);
	c->stats.n_futures++;
	return emit(c, call, TE_FUTURE_BEGIN, call->time);
}

static int begin(struct calls *c, struct traced_call *call, struct call_function *f)
{
	struct traced_call *parent = caller(c), *held = held_root(c);
	bool polls = parent && parent->role != CR_NONE;

	switch (f->class) {
	case FN_ROOT:
		/* One in another without a future in between is the same task's. */
		call->role = held ? CR_PASS : CR_HELD;
		call->stands_for = held ? (uint16_t)(held - c->stack + 1) : 0;
		return 0;
	case FN_WRAPPER:
		call->role = polls ? CR_PASS : CR_NONE;
		return 0;
	case FN_BLOCKING:
		/* A closure of spawn_blocking, or a worker's loop: no task. */
		if (held)
			held->role = CR_NONE;
		return 0;
	case FN_CLOSURE:
		if (!polls)
			return 0;
		break;
	case FN_FUTURE:
		break;
	default:
		return 0;
	}
	if (!polls || parent->role != CR_HELD)
		return begin_future(c, call, f);
	call->role = CR_OWN;
	int r = begin_task(c, parent, f);
	call->instance = parent->instance;
	return r;
}

static int end_top(struct calls *c, uint64_t time)
{
	struct traced_call *call = &c->stack[--c->n];

	if (call->role == CR_FUTURE)
		return emit(c, call, TE_FUTURE_END, time);
	if (call->role == CR_TASK)
		return emit(c, call, TE_POLL_END, time);
	c->stats.n_bare += call->role == CR_HELD;
	return 0;
}

/* ---- what comes in ---- */

int calls_thread(struct calls *c, uint32_t pid, uint32_t tid, const char *comm)
{
	/* What is open at the end of a thread's calls stays open. */
	c->n = 0;
	c->last_ns = 0;
	c->thread = sink_thread(c->sink, pid, tid, comm, strlen(comm));
	return c->thread ? 0 : c->sink->code;
}

static bool in_order(struct calls *c, uint64_t time, uint64_t at)
{
	if (time < c->last_ns) {
		sink_diagnose(c->sink, "a time before that of the previous record", NULL, 0, at);
		return false;
	}
	c->last_ns = time;
	return true;
}

int calls_entry(struct calls *c, struct call_function *f, unsigned depth, uint64_t time,
		uint64_t at)
{
	if (!in_order(c, time, at))
		return 0;
	c->stats.n_calls++;
	bool unseen = c->n && c->stack[c->n - 1].depth >= depth;
	while (c->n && c->stack[c->n - 1].depth >= depth)
		TRY(end_top(c, time));
	if (unseen)
		sink_diagnose(c->sink, "a call that begins while another at its depth is open",
			      NULL, 0, at);
	if (c->n == CALLS_MAX_DEPTH)
		return 0;
	struct traced_call *call = &c->stack[c->n];
	*call = (struct traced_call){.function = f, .time = time, .depth = (uint16_t)depth};
	int r = begin(c, call, f);
	c->n++;
	return r;
}

int calls_exit(struct calls *c, const struct call_function *f, unsigned depth, uint64_t time,
	       uint64_t at)
{
	if (!in_order(c, time, at))
		return 0;
	while (c->n && c->stack[c->n - 1].depth > depth)
		TRY(end_top(c, time));
	if (!c->n || c->stack[c->n - 1].depth != depth || c->stack[c->n - 1].function != f) {
		sink_diagnose(c->sink, "an end of a call without its begin", NULL, 0, at);
		return 0;
	}
	return end_top(c, time);
}

int calls_lost(struct calls *c, uint64_t n, uint64_t time)
{
	struct trace_event ev = {.time = time > c->last_ns ? time : c->last_ns,
				 .thread = c->thread->index,
				 .type = TE_LOST,
				 .kind = TRACE_KIND_NONE,
				 .value = n};
	c->n = 0;
	c->sink->n_lost += n;
	return sink_event(c->sink, &ev);
}

int calls_finish(struct calls *c)
{
	const struct calls_stats *s = &c->stats;

	TRY(sink_cover(c->sink, "names of tasks", 0, s->n_polls,
		       "not recorded: a function's polls on one thread are one task"));
	TRY(sink_cover(c->sink, "ends of polls", 0, s->n_polls + s->n_futures,
		       "not recorded: whether they were pending or ready"));
	if (s->n_bare)
		TRY(sink_cover(c->sink, "polls of tasks", s->n_polls, s->n_polls + s->n_bare,
			       "in the others no future was recorded that could name the task"));
	if (s->n_outside)
		TRY(sink_cover(c->sink, "polls of futures", s->n_futures,
			       s->n_futures + s->n_outside,
			       "the others are in no task: the runtime's own"));
	return 0;
}

void calls_stats(const struct calls *c, struct calls_stats *ret)
{
	*ret = c->stats;
}
