/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The short form of a name, for people. A name is a text with paths in it:
 *
 *     <app::Pool as core::future::future::Future>::poll
 *     core::pin::Pin<alloc::boxed::Box<dyn ..>>
 *
 * Each path is read into segments and written again by a few rules: what belongs to a closure or a
 * state machine goes to its function, standard paths lose their modules, allocators vanish. What is
 * no path (`&mut `, `dyn `, `, `) is copied. If the outcome is too long, deep generics are left out.
 */
#include "binary/names.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define GOOD_LENGTH 96u
#define MAX_SEGMENTS 64u
#define MAX_DEPTH 32u

struct type_text {
	const char *at, *end;
};

struct path_segment {
	struct type_text word;	   /* an identifier or {..}; empty for a leading <..> */
	struct type_text generics; /* inside the <..> after it */
};

struct short_writer {
	struct buf *out;
	unsigned max_generics; /* depth from which on generics are left out */
	bool function;	       /* the outermost path is a function's, not a type's */
};

static void write_text(struct short_writer *w, struct type_text t, unsigned generics,
		       unsigned depth);

static bool is(struct type_text t, const char *s)
{
	return (size_t)(t.end - t.at) == strlen(s) && memcmp(t.at, s, (size_t)(t.end - t.at)) == 0;
}

static bool begins(struct type_text t, const char *s)
{
	size_t n = strlen(s);

	return (size_t)(t.end - t.at) >= n && memcmp(t.at, s, n) == 0;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* Behind the bracket that matches the one at p; p if there is none. `->` is no bracket. */
static const char *skip_brackets(const char *from, const char *end, char open, char close)
{
	unsigned depth = 0;

	for (const char *p = from; p < end; p++) {
		if (*p == open)
			depth++;
		else if (*p == close && !(close == '>' && p[-1] == '-') && --depth == 0)
			return p + 1;
	}
	return from;
}

static struct type_text inside(const char *from, const char *to)
{
	return to > from ? (struct type_text){from + 1, to - 1} : (struct type_text){from, from};
}

/* Reads a path; returns its end, or `p` if none begins there. */
static const char *read_path(const char *p, const char *end, struct path_segment *segs, size_t *n)
{
	*n = 0;
	while (p < end && *n < MAX_SEGMENTS) {
		struct path_segment *s = &segs[*n];
		const char *from = p;

		*s = (struct path_segment){{p, p}, {p, p}};
		if (*p == '{') {
			p = skip_brackets(p, end, '{', '}');
		} else if (is_word(*p)) {
			while (p < end && is_word(*p))
				p++;
		}
		s->word = (struct type_text){from, p};
		/* Generics as `Vec<T>` or `f::<T>`; but `net::<impl A for B>` begins a segment. */
		if (begins((struct type_text){p, end}, "::<") &&
		    !begins((struct type_text){p, end}, "::<impl "))
			p += 2;
		if (p < end && *p == '<') {
			const char *open = p;

			p = skip_brackets(p, end, '<', '>');
			s->generics = inside(open, p);
		}
		if (p == from)
			break;
		(*n)++;
		if (end - p < 3 || p[0] != ':' || p[1] != ':')
			break;
		p += 2;
	}
	return p;
}

/* {{closure}}, {closure#0}, {closure_env#0}, {async_fn#0}, {async_fn_env#0}, {async_block_env#1}:
 * the word in it and its number (0 if there is none). */
static bool read_closure(struct type_text t, struct type_text *ret_word, unsigned long *ret_number)
{
	static const char *const words[] = {"closure",	     "async_fn",  "async_block",
					    "async_closure", "gen_block", "gen_fn"};
	const char *p = t.at, *hash;

	while (p < t.end && *p == '{')
		p++;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!begins((struct type_text){p, t.end}, words[i]))
			continue;
		*ret_word = (struct type_text){p, p + strlen(words[i])};
		hash = memchr(p, '#', (size_t)(t.end - p));
		*ret_number = hash ? strtoul(hash + 1, NULL, 10) : 0;
		return t.at < t.end && *t.at == '{';
	}
	return false;
}

static const char *find_at_top(struct type_text t, const char *needle)
{
	size_t n = strlen(needle);
	int depth = 0;

	for (const char *p = t.at; (size_t)(t.end - p) >= n; p++) {
		if (*p == '<' || *p == '(' || *p == '[' || *p == '{')
			depth++;
		else if (*p == ')' || *p == ']' || *p == '}' ||
			 (*p == '>' && (p == t.at || p[-1] != '-')))
			depth--;
		else if (depth == 0 && memcmp(p, needle, n) == 0)
			return p;
	}
	return NULL;
}

/* The type in `X as Trait`, `impl Trait for X`, `X`. */
static struct type_text self_type(struct type_text t, bool *ret_future)
{
	const char *as = find_at_top(t, " as ");
	const char *for_type = begins(t, "impl ") ? find_at_top(t, " for ") : NULL;
	struct type_text trait = {t.end, t.end};

	if (as) {
		trait = (struct type_text){as + 4, t.end};
		t.end = as;
	} else if (for_type) {
		trait = (struct type_text){t.at + 5, for_type};
		t.at = for_type + 5;
	} else if (begins(t, "impl ")) {
		t.at += 5;
	}
	*ret_future = trait.end - trait.at >= 6 && memcmp(trait.end - 6, "Future", 6) == 0;
	return t;
}

static void write_generics(struct short_writer *w, struct type_text t, unsigned generics,
			   unsigned depth)
{
	bool first = true;

	buf_char(w->out, '<');
	if (generics >= w->max_generics) {
		buf_str(w->out, "..>");
		return;
	}
	while (t.at < t.end) {
		const char *comma = find_at_top(t, ",");
		struct type_text arg = {t.at, comma ? comma : t.end};

		while (arg.at < arg.end && *arg.at == ' ')
			arg.at++;
		if (!is(arg, "alloc::alloc::Global")) {
			if (!first)
				buf_str(w->out, ", ");
			write_text(w, arg, generics + 1, depth);
			first = false;
		}
		t.at = comma ? comma + 1 : t.end;
	}
	buf_char(w->out, '>');
}

static void write_segment(struct short_writer *w, const struct path_segment *s, unsigned generics,
			  unsigned depth)
{
	struct type_text word;
	unsigned long number;

	if (read_closure(s->word, &word, &number)) {
		buf_char(w->out, '{');
		buf_add(w->out, word.at, (size_t)(word.end - word.at));
		if (memchr(s->word.at, '#', (size_t)(s->word.end - s->word.at)))
			buf_printf(w->out, "#%lu", number);
		buf_char(w->out, '}');
	} else {
		buf_add(w->out, s->word.at, (size_t)(s->word.end - s->word.at));
	}
	if (s->generics.at < s->generics.end)
		write_generics(w, s->generics, generics, depth);
}

/* From a standard crate's path only the end says something: the type, or module and function. */
static size_t skip_std(const struct path_segment *segs, size_t n)
{
	size_t last = n - 1;

	if (n < 2 ||
	    !(is(segs[0].word, "core") || is(segs[0].word, "alloc") || is(segs[0].word, "std")))
		return 0;
	while (last > 0 && segs[last].word.at < segs[last].word.end && *segs[last].word.at == '{')
		last--;
	/* `Vec<T>::push`: the type before a method belongs to it. */
	if (last > 1 && islower((unsigned char)*segs[last].word.at))
		return last - 1;
	return last;
}

/* Where to begin. `app::<impl Trait for X>::method`: at the type, whose own path says it all. */
static size_t first_segment(const struct path_segment *segs, size_t n, bool function)
{
	for (size_t i = n; i > 0; i--) {
		if (segs[i - 1].word.at == segs[i - 1].word.end)
			return i - 1;
	}
	return function ? 0 : skip_std(segs, n);
}

static void write_path(struct short_writer *w, const struct path_segment *segs, size_t n,
		       unsigned generics, unsigned depth)
{
	bool function = w->function && depth == 1, own_closure = true;
	size_t first = first_segment(segs, n, function);

	/* Up to rustc 1.68 every coroutine was wrapped in this. */
	if (n && is(segs[n - 1].word, "GenFuture") && is(segs[0].word, "core") &&
	    segs[n - 1].generics.at < segs[n - 1].generics.end) {
		write_text(w, segs[n - 1].generics, generics, depth);
		return;
	}
	for (size_t i = first; i < n; i++) {
		const struct path_segment *s = &segs[i];
		struct type_text word, type;
		unsigned long number;
		bool future;

		if (begins(s->word, "{impl#"))
			continue;
		/* The first closure in a function is the body of an async fn, or all there is. */
		if (i > first && own_closure && read_closure(s->word, &word, &number)) {
			own_closure = false;
			if (number == 0)
				continue;
		}
		if (i > first)
			buf_str(w->out, "::");
		if (s->word.at < s->word.end) {
			write_segment(w, s, generics, depth);
			continue;
		}
		type = self_type(s->generics, &future);
		write_text(w, type, generics, depth);
		/* <X as Future>::poll is X. */
		if (future && !function && i + 2 == n && is(segs[i + 1].word, "poll"))
			return;
	}
}

static void write_text(struct short_writer *w, struct type_text t, unsigned generics,
		       unsigned depth)
{
	const char *p = t.at;

	if (depth == MAX_DEPTH) {
		buf_str(w->out, "..");
		return;
	}
	while (p < t.end) {
		struct path_segment segs[MAX_SEGMENTS];
		size_t n;
		const char *next = read_path(p, t.end, segs, &n);

		if (next > p) {
			write_path(w, segs, n, generics, depth + 1);
			p = next;
		} else {
			buf_char(w->out, *p++);
		}
	}
}

static char *shorten(const char *full, bool function)
{
	struct type_text t = {full, full + strlen(full)};
	struct buf out = BUF_INIT;

	for (unsigned max = 8;; max = max > 3 ? 3 : max - 1) {
		struct short_writer w = {&out, max, function};

		buf_clear(&out);
		buf_str(&out, "");
		write_text(&w, t, 0, 0);
		if (out.len <= GOOD_LENGTH || max == 0 || buf_failed(&out))
			return buf_steal(&out);
	}
}

char *name_shorten(const char *full)
{
	return shorten(full, false);
}

char *name_function(const char *full)
{
	return shorten(full, true);
}

/* ---- what a task is called ---- */

/*
 * Crates whose generic functions and types hold the future of another crate, which is what the task
 * does: `pyo3_async_runtimes::generic::future_into_py<app::get::{closure#0}, ..>`. These are known
 * where the binary does not say which crates are libraries: the standard ones, and common wrappers.
 */
static const char *const wrappers[] = {
	"actix",
	"actix_http",
	"actix_rt",
	"actix_server",
	"actix_service",
	"actix_web",
	"alloc",
	"async_compat",
	"async_executor",
	"async_global_executor",
	"async_io",
	"async_std",
	"async_stream",
	"async_task",
	"axum",
	"axum_core",
	"blocking",
	"core",
	"futures",
	"futures_channel",
	"futures_core",
	"futures_lite",
	"futures_util",
	"h2",
	"hyper",
	"hyper_util",
	"napi",
	"opentelemetry",
	"pyo3",
	"pyo3_async_runtimes",
	"pyo3_asyncio",
	"reqwest",
	"sentry_core",
	"smol",
	"std",
	"tokio",
	"tokio_stream",
	"tokio_util",
	"tonic",
	"tower",
	"tower_http",
	"tower_service",
	"tracing",
	"tracing_futures",
	"uniffi_core",
	"warp",
};

static bool is_listed(struct type_text crate, const char *list)
{
	size_t len = (size_t)(crate.end - crate.at);

	for (const char *p = list; len && *p; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, ",") == len && memcmp(p, crate.at, len) == 0)
			return true;
	return false;
}

/* `more`: NULL where the program's libraries aren't known, as of an object without tasks. */
static bool is_library(struct type_text crate, const char *more)
{
	if (!more)
		more = "";
	if (*more == '!')
		return !is_listed(crate, more + 1);
	if (is_listed(crate, more))
		return true;
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++) {
		if (is(crate, wrappers[i]))
			return true;
	}
	return false;
}

/* Of `<app::Pool as Trait>::get` too. */
static struct type_text crate_of(const struct path_segment *segs, size_t n, unsigned depth)
{
	struct path_segment inner[MAX_SEGMENTS];
	bool future;
	struct type_text type;
	size_t n_inner;

	if (n == 0 || segs[0].word.at < segs[0].word.end || depth == MAX_DEPTH)
		return n ? segs[0].word : (struct type_text){"", ""};
	type = self_type(segs[0].generics, &future);
	while (type.at < type.end && !is_word(*type.at) && *type.at != '<')
		type.at++;
	read_path(type.at, type.end, inner, &n_inner);
	return crate_of(inner, n_inner, depth + 1);
}

char *name_argument(const char *text)
{
	struct type_text t = {text, text + strlen(text)};
	int depth = 0;

	for (const char *p = t.at; p < t.end; p++) {
		bool closes = *p == '>' && (p == t.at || p[-1] != '-');

		if (depth == 0 && (*p == ',' || closes))
			return strndup(text, (size_t)(p - text));
		if (*p == '<' || *p == '(' || *p == '[' || *p == '{')
			depth++;
		else if (*p == ')' || *p == ']' || *p == '}' || closes)
			depth--;
	}
	return NULL;
}

bool name_is_library(const char *function, const char *libraries)
{
	struct path_segment segs[MAX_SEGMENTS];
	size_t n;

	read_path(function, function + strlen(function), segs, &n);
	return is_library(crate_of(segs, n, 0), libraries);
}

/* Of a path, or of the type in `<app::Pool as Trait>`. */
static bool is_own(struct type_text path, const char *libraries, unsigned depth)
{
	struct path_segment segs[MAX_SEGMENTS];
	struct type_text type;
	bool future;
	size_t n;

	while (path.at < path.end && !is_word(*path.at) && *path.at != '<')
		path.at++;
	read_path(path.at, path.end, segs, &n);
	if (n == 0 || depth == MAX_DEPTH)
		return false;
	if (segs[0].word.at == segs[0].word.end) {
		type = self_type(segs[0].generics, &future);
		return is_own(type, libraries, depth + 1);
	}
	return n > 1 && !is_library(segs[0].word, libraries);
}

/* What is before the comma that is in none of its brackets. */
static struct type_text next_parameter(struct type_text list)
{
	const char *c = list.at;
	int depth = 0;

	for (; c < list.end && (depth || *c != ','); c++)
		depth += (*c == '<' || *c == '(' || *c == '[') -
			 (*c == ')' || *c == ']' || (*c == '>' && c > list.at && c[-1] != '-'));
	return (struct type_text){list.at, c};
}

/* Whether its first and last brackets belong together: not those of "<A as B>::f, C<D>". */
static bool in_brackets(struct type_text t)
{
	int depth = 0;

	for (const char *c = t.at; c < t.end; c++) {
		depth += (*c == '<') - (*c == '>' && c > t.at && c[-1] != '-');
		if (depth == 0)
			return c > t.at && c + 1 == t.end;
	}
	return false;
}

static struct type_text first_parameter(struct type_text generics)
{
	if (in_brackets(generics)) {
		generics.at++;
		generics.end--;
	}
	return next_parameter(generics);
}

/* The first parameter of the first segment that has any. */
static struct type_text wrapped(const struct path_segment *segs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (segs[i].word.at < segs[i].word.end &&
		    segs[i].generics.at < segs[i].generics.end)
			return first_parameter(segs[i].generics);
	return (struct type_text){"", ""};
}

bool name_is_own(const char *function, const char *libraries)
{
	const struct type_text path = {function, function + strlen(function)};
	struct path_segment segs[MAX_SEGMENTS];
	struct type_text first;
	size_t n;

	if (is_own(path, libraries, 0))
		return true;
	read_path(path.at, path.end, segs, &n);
	first = wrapped(segs, n);
	/* A closure need not be what gives the future. */
	return first.end > first.at && first.end[-1] != '}' && is_own(first, libraries, 0);
}

bool name_holds_own(const char *function, const char *libraries)
{
	struct path_segment segs[MAX_SEGMENTS];
	struct type_text rest, one;
	size_t n;

	read_path(function, function + strlen(function), segs, &n);
	for (size_t i = 0; i < n; i++) {
		rest = segs[i].generics;
		if (segs[i].word.at == segs[i].word.end || rest.at == rest.end)
			continue;
		for (; rest.at < rest.end; rest.at = one.end + 1) {
			one = next_parameter(rest);
			while (one.at < one.end && *one.at == ' ')
				one.at++;
			if (one.end > one.at && one.end[-1] == '}' && is_own(one, libraries, 0))
				return true;
		}
	}
	return false;
}

/* A type's name begins with a capital letter, a function's doesn't. */
static bool names_function(struct type_text path)
{
	struct path_segment segs[MAX_SEGMENTS];
	size_t n;

	read_path(path.at, path.end, segs, &n);
	return n && segs[n - 1].word.at < segs[n - 1].word.end &&
	       !isupper((unsigned char)*segs[n - 1].word.at);
}

char *name_own(const char *function, const char *libraries)
{
	const struct type_text path = {function, function + strlen(function)};
	struct type_text chosen = path, type;
	struct path_segment segs[MAX_SEGMENTS];
	_cleanup_free_ char *copy = NULL;
	bool future;
	size_t n;

	read_path(path.at, path.end, segs, &n);
	if (!is_own(path, libraries, 0)) {
		chosen = wrapped(segs, n);
		read_path(chosen.at, chosen.end, segs, &n);
	}
	if (n && segs[0].word.at == segs[0].word.end) {
		type = self_type(segs[0].generics, &future);
		if (names_function(type))
			chosen = type;
	}
	copy = strndup(chosen.at, (size_t)(chosen.end - chosen.at));
	return copy ? name_shorten(copy) : NULL;
}

/* How many {closure#0} and the like are at its end. */
static size_t n_closures(const struct path_segment *segs, size_t n)
{
	size_t closures = 0;
	struct type_text word;
	unsigned long number;

	while (closures < n && read_closure(segs[n - 1 - closures].word, &word, &number))
		closures++;
	return closures;
}

/* Of a type a path to a function: `app::work`. Types begin with a capital, primitive ones have no path. */
static bool is_fn_item(const struct path_segment *segs, size_t n)
{
	const char *p = n > 1 ? segs[n - 1].word.at : NULL;

	return p && p < segs[n - 1].word.end && islower((unsigned char)*p) &&
	       segs[0].word.at < segs[0].word.end;
}

/* What was found, and in which path's parameters. */
struct inner {
	bool items; /* functions' items are looked for, instead of futures and closures */
	bool own;   /* in a function of the program's own */
	const char *libraries; /* see name_task() */
	struct type_text path;
	struct path_segment around[MAX_SEGMENTS];
	size_t n_around;
};

static bool find_inner(struct type_text t, unsigned depth, struct inner *ret);

static bool find_in_parameters(const struct path_segment *segs, size_t n, unsigned depth,
			       struct inner *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (!find_inner(segs[i].generics, depth + 1, ret))
			continue;
		if (ret->n_around == 0) {
			memcpy(ret->around, segs, n * sizeof(*segs));
			ret->n_around = n;
		}
		return true;
	}
	return false;
}

/* The first future or closure of the program's own in a text, outside of libraries' parameters or
 * in them. */
static bool find_inner(struct type_text t, unsigned depth, struct inner *ret)
{
	const char *p = t.at;

	while (p < t.end && depth < MAX_DEPTH) {
		struct path_segment segs[MAX_SEGMENTS];
		size_t n;
		const char *next = read_path(p, t.end, segs, &n);

		if (next == p) {
			p++;
			continue;
		}
		if ((ret->items ? is_fn_item(segs, n) : n_closures(segs, n)) &&
		    !is_library(crate_of(segs, n, 0), ret->libraries)) {
			ret->path = (struct type_text){p, next};
			return true;
		}
		/* The closure of a poll_fn() is no future, and says less than who was given it. */
		if (!(ret->own && n && is(segs[n - 1].word, "PollFn")) &&
		    find_in_parameters(segs, n, depth, ret))
			return true;
		p = next;
	}
	return false;
}

/* "future_into_py::{closure#0}": the wrapper that it is a part of. None where it is all of it. */
static void write_part(struct buf *out, const struct inner *inner)
{
	size_t n = inner->n_around, closures = n_closures(inner->around, n);
	struct short_writer w = {out, 0, true};

	if (closures < 2 || closures == n)
		return;
	buf_str(out, " (");
	for (size_t i = n - closures - 1; i < n; i++) {
		struct path_segment s = {.word = inner->around[i].word};

		if (i == n - closures) /* its body */
			continue;
		if (i > n - closures - 1)
			buf_str(out, "::");
		write_segment(&w, &s, 0, 0);
	}
	buf_char(out, ')');
}

/* Whether the text has that path, but perhaps not its parameters. */
static bool names(const char *text, struct type_text path)
{
	size_t len = 0, all = (size_t)(path.end - path.at);

	while (len < all && path.at[len] != '<' && path.at[len] != '{')
		len++;
	while (len && path.at[len - 1] == ':')
		len--;
	return len && memmem(text, strlen(text), path.at, len);
}

/* Whether several of the program's async functions are parameters: a server's, of which none is its future. */
static bool has_several_functions(const char *full, const char *libraries)
{
	static const char arrow[] = "-> ", body[] = "::{async_";
	struct type_text first = {NULL, NULL};

	for (const char *p = full; (p = strstr(p, arrow)); p++) {
		struct path_segment segs[MAX_SEGMENTS];
		const char *begin = p + strlen(arrow), *end = strpbrk(begin, "<{(,> ");
		size_t n, len;

		while (end && *end == '{' && strncmp(end - 2, body, strlen(body)) != 0)
			end = strpbrk(end + 1, "<{(,> ");
		if (!end || end - begin < 3 || *end != '{')
			continue;
		len = (size_t)(end - 2 - begin);
		read_path(begin, begin + len, segs, &n);
		if (!n || is_library(crate_of(segs, n, 0), libraries))
			continue;
		if (first.at &&
		    ((size_t)(first.end - first.at) != len || memcmp(first.at, begin, len) != 0))
			return true;
		first = (struct type_text){begin, begin + len};
	}
	return false;
}

char *name_task(const char *full, const char *libraries)
{
	char *name = name_shorten(full), *shortened;
	struct path_segment segs[MAX_SEGMENTS];
	struct inner inner = {.libraries = libraries};
	struct buf out = BUF_INIT;
	bool library;
	size_t n;

	read_path(full, full + strlen(full), segs, &n);
	library = is_library(crate_of(segs, n, 0), libraries);
	inner.own = !library;
	if (!name || !n || (!library && !strstr(name, "<..>")) ||
	    (library && has_several_functions(full, libraries)))
		return name;
	if (!find_in_parameters(segs, n, 0, &inner)) {
		inner.items = true;
		if (find_in_parameters(segs, n, 0, &inner)) {
			free(name);
			name = strndup(inner.path.at, (size_t)(inner.path.end - inner.path.at));
			shortened = name ? name_shorten(name) : NULL;
			free(name);
			return shortened;
		}
		if (!libraries || !*libraries)
			return name;
		/* One library's future in another's: then the one that is no mere wrapper. */
		free(name);
		return name_task(full, "");
	}
	if (!library && names(name, inner.path))
		return name;
	free(name);
	name = strndup(inner.path.at, (size_t)(inner.path.end - inner.path.at));
	shortened = name ? name_task(name, libraries) : NULL;
	free(name);
	if (!shortened)
		return NULL;
	buf_str(&out, shortened);
	free(shortened);
	write_part(&out, &inner);
	return buf_steal(&out);
}
