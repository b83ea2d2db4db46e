/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "trace/labels.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/compare.h"
#include "trace/objects.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PARAMETERS 16u
#define MAX_SHOWN 48u	  /* bytes of a parameter */
#define MAX_COMPARED 256u /* kinds of one name, each with each other */

struct label_text {
	const char *at;
	size_t len;
};

struct named {
	uint32_t kind;
	const char *name, *full_name;
};

const char *kind_name(const struct trace_reader *r, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(r, kind);
	return k && k->name && *k->name ? k->name : "?";
}

const char *kind_label(const struct kind_labels *l, const struct trace_reader *r, uint32_t kind)
{
	return kind < l->n && l->labels[kind] ? l->labels[kind] : kind_name(r, kind);
}

void kind_labels_done(struct kind_labels *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		free(l->labels[i]);
	free(l->labels);
	*l = (struct kind_labels){0};
}

static int by_text(const void *a, const void *b)
{
	const struct label_text *x = a, *y = b;
	size_t len = x->len < y->len ? x->len : y->len;
	int r = len ? memcmp(x->at, y->at, len) : 0;

	return r ?: ASCENDING(x->len, y->len);
}

/* ---- by a parameter ---- */

/* +1 for a bracket that opens, -1 for one that closes. The arrow of `fn() -> X` is none. */
static int bracket(const char *full, size_t i)
{
	if (strchr("<([{", full[i]))
		return 1;
	return strchr(">)]}", full[i]) && !(full[i] == '>' && i && full[i - 1] == '-') ? -1 : 0;
}

/* The parameters in the last <..> of a name, if that ends with it: how many. */
static size_t split(const char *full, struct label_text ret[MAX_PARAMETERS])
{
	size_t len = strlen(full), open = len, n = 0;
	int depth = 0;

	if (!len || full[len - 1] != '>')
		return 0;
	for (size_t i = 0; i < len; i++) {
		int step = bracket(full, i);

		if (step > 0 && depth == 0)
			open = i;
		depth += step;
	}
	if (depth != 0 || open == len || full[open] != '<')
		return 0;
	for (size_t i = open + 1, from = i; i < len && n < MAX_PARAMETERS; i++) {
		int step = bracket(full, i);

		if (depth == 0 && (full[i] == ',' || i == len - 1)) {
			from += full[from] == ' ';
			ret[n++] = (struct label_text){full + from, i - from};
			from = i + 1;
		}
		depth += step;
	}
	return n;
}

/* How many different ones, and how long they are together. `texts` is sorted. */
static size_t n_different(struct label_text *texts, size_t n, size_t *ret_len)
{
	size_t different = n > 0;

	*ret_len = 0;
	qsort(texts, n, sizeof(*texts), by_text);
	for (size_t i = 0; i < n; i++) {
		*ret_len += texts[i].len;
		different += i && by_text(&texts[i - 1], &texts[i]) != 0;
	}
	return different;
}

/* The parameter that distinguishes most of them, and how many; of equals the shortest.
 * MAX_PARAMETERS: none does. `texts` has room for all. */
static size_t choose(const struct named *v, size_t n, struct label_text *texts,
		     size_t *ret_different)
{
	size_t chosen = MAX_PARAMETERS, most = 1, shortest = 0;

	for (size_t k = 0; k < MAX_PARAMETERS; k++) {
		size_t different, len;

		for (size_t i = 0; i < n; i++) {
			struct label_text all[MAX_PARAMETERS];

			texts[i] = k < split(v[i].full_name, all) ? all[k]
								  : (struct label_text){"", 0};
		}
		different = n_different(texts, n, &len);
		if (different > most || (different == most && most > 1 && len < shortest)) {
			chosen = k;
			most = different;
			shortest = len;
		}
	}
	*ret_different = most;
	return chosen;
}

/* Without what belongs to closures and state machines: "::{async_fn_env#0}". */
static void add_short(struct buf *b, struct label_text t, size_t max)
{
	size_t from = b->len;
	int depth = 0;

	for (size_t i = 0; i < t.len; i++) {
		if (t.len - i > 3 && !memcmp(t.at + i, "::{", 3)) {
			depth++;
			i += 2;
		} else if (depth) {
			depth += t.at[i] == '{' ? 1 : t.at[i] == '}' ? -1 : 0;
		} else if (b->len - from == max) {
			buf_str(b, "..");
			return;
		} else {
			buf_char(b, t.at[i]);
		}
	}
}

/* A name without its parameters. */
static struct label_text bare(const char *name)
{
	static const char some[] = "<..>";
	size_t len = strlen(name), cut = sizeof(some) - 1;

	return (struct label_text){name,
				   len > cut && !strcmp(name + len - cut, some) ? len - cut : len};
}

/* Whether the parameters in the full name are those of what the name says: it may be called after
 * what lies in it. */
static bool are_its_own(const struct named *v)
{
	_cleanup_buf_ struct buf name = BUF_INIT, full = BUF_INIT;
	struct label_text all[MAX_PARAMETERS];
	size_t n = split(v->full_name, all);

	add_short(&name, bare(v->name), SIZE_MAX);
	if (n) /* up to the bracket */
		add_short(&full,
			  (struct label_text){v->full_name, (size_t)(all[0].at - v->full_name) - 1},
			  SIZE_MAX);
	return n && name.len == full.len && !memcmp(name.data, full.data, name.len);
}

static char *label(const struct named *v, size_t parameter)
{
	struct label_text all[MAX_PARAMETERS], name = bare(v->name);
	struct buf b = BUF_INIT;

	if (parameter >= split(v->full_name, all))
		return strdup(v->name);
	buf_add(&b, name.at, name.len);
	buf_char(&b, '<');
	add_short(&b, all[parameter], MAX_SHOWN);
	buf_char(&b, '>');
	return buf_steal(&b);
}

static int by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return strcmp(x->name, y->name) ?: strcmp(x->full_name, y->full_name);
}

static int label_all(struct kind_labels *l, const struct named *v, size_t n, size_t parameter)
{
	for (size_t i = 0; i < n && parameter < MAX_PARAMETERS; i++) {
		l->labels[v[i].kind] = label(&v[i], parameter);
		if (!l->labels[v[i].kind])
			return -ENOMEM;
	}
	return 0;
}

/* Before its parameters. */
static struct label_text path_of(const struct named *v)
{
	struct label_text all[MAX_PARAMETERS];
	size_t n = split(v->full_name, all);

	return (struct label_text){v->full_name,
				   n ? (size_t)(all[0].at - v->full_name) : strlen(v->full_name)};
}

/* Kinds of one name, sorted: by one parameter of all, or else of those that have their path in
 * common (several impls, say). */
static int label_group(struct kind_labels *l, const struct named *v, size_t n,
		       struct label_text *texts)
{
	size_t different = 1, n_texts, parameter = choose(v, n, texts, &n_texts);

	for (size_t i = 1; i < n; i++)
		different += strcmp(v[i - 1].full_name, v[i].full_name) != 0;
	if (n_texts == different)
		return label_all(l, v, n, parameter);
	for (size_t i = 0, end; i < n; i = end) {
		struct label_text path = path_of(&v[i]), next;

		for (end = i + 1; end < n; end++) {
			next = path_of(&v[end]);
			if (by_text(&path, &next))
				break;
		}
		TRY(label_all(l, v + i, end - i, choose(v + i, end - i, texts, &n_texts)));
	}
	return 0;
}

/* Those that differ in a parameter. */
static int label_parameters(struct kind_labels *l, const struct trace_reader *r)
{
	struct named *v = calloc((size_t)l->n + 1, sizeof(*v));
	struct label_text *texts = calloc((size_t)l->n + 1, sizeof(*texts));
	int rc = v && texts ? 0 : -ENOMEM;
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->n && rc == 0; i++) {
		const struct trace_kind *k = trace_reader_kind(r, i);

		if (!k || !k->name || !*k->name || !k->full_name)
			continue;
		v[n] = (struct named){i, k->name, k->full_name};
		n += are_its_own(&v[n]);
	}
	if (n)
		qsort(v, n, sizeof(*v), by_name);
	for (uint32_t i = 0, end; i < n && rc == 0; i = end) {
		for (end = i + 1; end < n && !strcmp(v[i].name, v[end].name);)
			end++;
		rc = label_group(l, v + i, end - i, texts);
	}
	free(v);
	free(texts);
	return rc;
}

/* ---- handlers ---- */

static bool in_path(char c)
{
	return c == ':' || c == '_' || c == '$' || isalnum((unsigned char)c);
}

static size_t crate_len(struct label_text t)
{
	size_t n = 0;

	while (n < t.len && in_path(t.at[n]) && t.at[n] != ':')
		n++;
	return n && n + 2 < t.len && !strncmp(t.at + n, "::", 2) ? n : 0;
}

/* A path as people write it: without "{impl#0}" and the names of state machines. */
static void add_path(struct buf *b, struct label_text t)
{
	static const char *const left_out[] = {"::{impl#", "::{async_", "::{coroutine_"};
	static const char env[] = "::{closure_env#";

	for (size_t i = 0, end; i < t.len; i = end) {
		const char *at = t.at + i;

		end = i + 1;
		for (size_t k = 0; k < 3; k++)
			if (!strncmp(at, left_out[k], strlen(left_out[k])))
				end = i + strcspn(at, "}") + 1;
		if (end > i + 1)
			continue;
		if (!strncmp(at, env, sizeof(env) - 1)) {
			buf_str(b, "::{closure#");
			end = i + sizeof(env) - 1;
			continue;
		}
		buf_char(b, *at);
	}
}

/* What `fn(X) -> Y` gives; else the same. */
static struct label_text returned(struct label_text t)
{
	int depth = 0;

	for (size_t i = 0; t.len > 3 && !strncmp(t.at, "fn(", 3) && i + 4 < t.len; i++) {
		depth += bracket(t.at, i);
		if (depth == 0 && !strncmp(t.at + i, " -> ", 4))
			return (struct label_text){t.at + i + 4, t.len - i - 4};
	}
	return t;
}

/* A path of another crate than the function that has it as a parameter. */
static bool is_given(struct label_text t, struct label_text by, const char *marker)
{
	size_t n = crate_len(t), path = 0;

	while (path < t.len && (in_path(t.at[path]) || strchr("{}#", t.at[path])))
		path++;
	return n && (n != crate_len(by) || memcmp(t.at, by.at, n) != 0) &&
	       memmem(t.at, path, marker, strlen(marker));
}

char *handler_name(const struct trace_kind *k)
{
	static const char *const markers[] = {"::{async_", "::{closure_env#"};
	const char *full = k->full_name && *k->full_name ? k->full_name : k->name;
	struct label_text all[MAX_PARAMETERS], whole = {full ? full : "?", 0}, chosen = {0};
	_cleanup_buf_ struct buf b = BUF_INIT;
	size_t n = split(whole.at, all);

	whole.len = n ? (size_t)(all[0].at - whole.at) - 1 : strlen(whole.at);
	for (size_t m = 0; m < 2 && !chosen.len; m++)
		for (size_t i = 0; i < n && !chosen.len; i++)
			if (is_given(returned(all[i]), whole, markers[m]))
				chosen = returned(all[i]);
	/* Another one's parameters are not part of the name. */
	for (size_t i = 0; i < chosen.len; i++)
		if (chosen.at[i] == '<')
			chosen.len = i;
	add_path(&b, chosen.len ? chosen : whole);
	return buf_steal(&b);
}

static int label_handlers(struct kind_labels *l, const struct trace_reader *r)
{
	for (uint32_t i = 0; i < l->n; i++) {
		const struct trace_kind *k = trace_reader_kind(r, i);

		if (!k || !(k->flags & TRACE_KIND_HANDLER) || !k->name || !*k->name)
			continue;
		free(l->labels[i]);
		l->labels[i] = handler_name(k);
		if (!l->labels[i])
			return -ENOMEM;
	}
	return 0;
}

/* ---- short ---- */

/* Tasks that serve one connection, or one stream of it, by the begin of their names. */
static const struct {
	const char *begin, *name;
	const char *has; /* what is in the name, too; NULL: anything */
} connections[] = {
	{"hyper::server::server::new_svc::", "warp connection", "warp::server::"},
	{"axum::serve::", "axum connection", NULL},
	{"axum_server::server::", "axum connection", NULL},
	{"hyper::proto::h2::server::H2Stream", "HTTP/2 stream", NULL},
	{"hyper_util::server::conn::", "hyper connection", NULL},
	{"hyper::server::conn::", "hyper connection", NULL},
	{"hyper::server::server::new_svc::", "hyper connection", NULL},
	{"poem::server::", "poem connection", NULL},
	{"salvo_core::server::", "salvo connection", NULL},
	{"tonic::transport::server::", "tonic connection", NULL},
	{"warp::server::", "warp connection", NULL},
	{"actix_http::h1::", "actix connection", NULL},
	{"actix_server::service::", "actix connection", NULL},
};

static const char *connection_by(const char *name)
{
	for (size_t i = 0; i < sizeof(connections) / sizeof(connections[0]); i++)
		if (!strncmp(name, connections[i].begin, strlen(connections[i].begin)) &&
		    (!connections[i].has || strstr(name, connections[i].has)))
			return connections[i].name;
	return NULL;
}

const char *kind_connection(const struct trace_kind *k)
{
	const char *known;

	if (!k || k->role != TR_TASK)
		return NULL;
	known = k->full_name ? connection_by(k->full_name) : NULL;
	return known || !k->name ? known : connection_by(k->name);
}

static const char *exe_name(const struct trace_process *p)
{
	const char *exe = p && p->exe ? p->exe : "", *slash = strrchr(exe, '/');

	return slash ? slash + 1 : exe;
}

/* The crate that a file is built from, as names have it. */
static bool is_crate_of(const struct trace_process *p, const char *crate, size_t len)
{
	const char *exe = exe_name(p);

	for (size_t i = 0; i < len; i++)
		if (crate[i] != (exe[i] == '-' ? '_' : exe[i]))
			return false;
	return !exe[len];
}

/* "block_on (main)": by the program's function that calls it (free); NULL: not known. */
static char *root_short(const struct trace_reader *r, const struct trace_kind *k)
{
	const struct trace_process *p = trace_reader_process(r, k->process);
	char *name = NULL;

	for (uint32_t i = 0; i < k->n_sites && k->sites; i++) {
		const char *site = k->sites[i] ? k->sites[i] : "";

		for (const char *at = site; *at; at++) {
			struct label_text path = {at, 0};
			size_t crate;

			if (at > site && in_path(at[-1]))
				continue;
			while (at[path.len] &&
			       (in_path(at[path.len]) || strchr("{}#", at[path.len])))
				path.len++;
			crate = crate_len(path);
			if (!crate || !is_crate_of(p, at, crate))
				continue;
			return asprintf(&name, "block_on (%.*s)", (int)(path.len - crate - 2),
					at + crate + 2) < 0
				       ? NULL
				       : name;
		}
	}
	return NULL;
}

char *kind_short(const struct kind_labels *l, const struct trace_reader *r, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(r, kind);
	const char *label = kind_label(l, r, kind), *known = kind_connection(k);
	bool handler = k && k->flags & TRACE_KIND_HANDLER;
	size_t len = strlen(label), crate = crate_len((struct label_text){label, len});
	int depth = 0;

	if (known)
		return strdup(known);
	if (k && k->role == TR_ROOT && !strncmp(label, "block_on", 8)) {
		char *root = root_short(r, k);

		if (root)
			return root;
	}
	/* A generic tail. */
	for (size_t i = len; len && label[len - 1] == '>' && i-- > 1;) {
		int step = bracket(label, i);

		depth -= step;
		if (depth == 0 && step > 0 && label[i] == '<') {
			len = i;
			break;
		}
	}
	if (crate &&
	    (handler || is_crate_of(trace_reader_process(r, k ? k->process : 0), label, crate)))
		return strndup(label + crate + 2, len > crate + 2 ? len - crate - 2 : 0);
	return strndup(label, len);
}

/* ---- by the object ---- */

/* A name that no symbol gave says nothing of where the kind is. */
static bool is_nameless(const struct trace_kind *k)
{
	return !strncmp(k->name, "kind ", 5) || !k->full_name || !*k->full_name ||
	       k->role == TR_WORKER;
}

static int label_objects(struct kind_labels *l, const struct trace_reader *r)
{
	int rc = 0;

	for (uint32_t i = 0; i < l->n && rc == 0; i++) {
		const struct trace_kind *k = trace_reader_kind(r, i);
		const char *path = trace_kind_object(r, k);
		char *object;

		if (!k || !k->name || !*k->name || !*path || !is_nameless(k) ||
		    !trace_has_objects(r, k->process))
			continue;
		object = trace_object_label(r, path);
		free(l->labels[i]);
		if (!object || asprintf(&l->labels[i], "%s: %s", object, k->name) < 0) {
			l->labels[i] = NULL;
			rc = -ENOMEM;
		}
		free(object);
	}
	return rc;
}

/* ---- those that are still alike ---- */

struct alike {
	/* A request is listed with requests, not with futures. */
	uint32_t kind, process, role;
	const char *label, *full_name;
};

static bool are_alike(const struct alike *a, const struct alike *b)
{
	return a->process == b->process && a->role == b->role && !strcmp(a->label, b->label);
}

static int by_label(const void *a, const void *b)
{
	const struct alike *x = a, *y = b;

	return ASCENDING(x->process, y->process) ?: ASCENDING(x->role, y->role) ?:
	       strcmp(x->label, y->label) ?: strcmp(x->full_name, y->full_name) ?:
	       ASCENDING(x->kind, y->kind);
}

/* The path in which `full` differs from another name. */
static struct label_text differing(const char *full, const char *other)
{
	size_t at = 0, from, to;

	while (full[at] && full[at] == other[at])
		at++;
	while (full[at] && !in_path(full[at]) && !(at > 0 && in_path(full[at - 1])))
		at++;
	for (from = at; from > 0 && in_path(full[from - 1]);)
		from--;
	for (to = at; full[to] && in_path(full[to]);)
		to++;
	while (from < to && full[from] == ':')
		from++;
	while (to > from && full[to - 1] == ':')
		to--;
	return (struct label_text){full + from, to - from};
}

/* The nearest in the order share the most with it. Of those that differ in a part of a path. */
static struct label_text difference(const struct alike *v, size_t n, size_t i)
{
	struct label_text t = {"", 0};

	for (size_t step = 1; step < n && !t.len; step++) {
		if (i + step < n)
			t = differing(v[i].full_name, v[i + step].full_name);
		if (!t.len && i >= step)
			t = differing(v[i].full_name, v[i - step].full_name);
	}
	return t;
}

/* What distinguishes kinds of one label. */
enum means { BY_OBJECT, BY_PATH, BY_SCHEDULER, BY_NUMBER, N_MEANS };

static int relabel(struct kind_labels *l, const struct alike *a, enum means means,
		   struct label_text t)
{
	struct buf b = BUF_INIT;
	char *label;

	if (means == BY_OBJECT) {
		buf_add(&b, t.at, t.len);
		buf_printf(&b, ": %s", a->label);
	} else {
		buf_printf(&b, means == BY_NUMBER ? "%s #" : "%s (", a->label);
		buf_add(&b, t.at, t.len < MAX_SHOWN ? t.len : MAX_SHOWN);
		buf_str(&b, means == BY_NUMBER ? "" : ")");
	}
	label = buf_steal(&b);
	if (!label)
		return -ENOMEM;
	free(l->labels[a->kind]);
	l->labels[a->kind] = label;
	return 0;
}

/* What distinguishes one of them from the others, or from the nearest. free() its text. */
static struct label_text mark(const struct trace_reader *r, const struct alike *v, size_t n,
			      size_t i, enum means means)
{
	const struct trace_kind *k = trace_reader_kind(r, v[i].kind);
	struct label_text t = {0};
	char number[16], *copy;

	snprintf(number, sizeof(number), "%u", v[i].kind);
	if (means == BY_OBJECT) {
		copy = trace_object_label(r, trace_kind_object(r, k));
	} else {
		t = means == BY_PATH
			    ? difference(v, n, i)
			    : (struct label_text){means == BY_NUMBER ? number : k->scheduler, 0};
		copy = means == BY_PATH ? strndup(t.at ? t.at : "", t.len) : strdup(t.at);
	}
	return (struct label_text){copy, copy ? strlen(copy) : 0};
}

static bool is_one_of_its_kind(const struct label_text *marks, size_t n, size_t i)
{
	for (size_t k = 0; k < n; k++) {
		if (k != i && by_text(&marks[k], &marks[i]) == 0)
			return false;
	}
	return marks[i].len > 0;
}

/* What is still alike then is left to the next means. */
static int distinguish(struct kind_labels *l, const struct trace_reader *r, const struct alike *v,
		       size_t n, enum means means)
{
	struct label_text *marks = calloc(n, sizeof(*marks));
	bool differ = false;
	int rc = marks ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && rc == 0; i++) {
		marks[i] = mark(r, v, n, i, means);
		rc = marks[i].at ? 0 : -ENOMEM;
		differ = differ || (i && by_text(&marks[i - 1], &marks[i]) != 0);
	}
	for (size_t i = 0; i < n && rc == 0 && differ; i++) {
		if (means == BY_SCHEDULER ? is_one_of_its_kind(marks, n, i)
					  : marks[i].len && !strstr(v[i].label, marks[i].at))
			rc = relabel(l, &v[i], means, marks[i]);
	}
	for (size_t i = 0; marks && i < n; i++)
		free_const(marks[i].at);
	free(marks);
	return rc;
}

static int label_alike(struct kind_labels *l, const struct trace_reader *r, enum means means)
{
	struct alike *v = calloc((size_t)l->n + 1, sizeof(*v));
	int rc = v ? 0 : -ENOMEM;
	size_t n = 0;

	for (uint32_t i = 0; v && i < l->n; i++) {
		const struct trace_kind *k = trace_reader_kind(r, i);

		if (k && k->name && *k->name && trace_reader_kind_used(r, i))
			v[n++] = (struct alike){
				i, k->process, k->flags & TRACE_KIND_HANDLER ? TR_N : k->role,
				kind_label(l, r, i), k->full_name ? k->full_name : ""};
	}
	if (n)
		qsort(v, n, sizeof(*v), by_label);
	for (size_t i = 0, end; i < n && rc == 0; i = end) {
		for (end = i + 1; end < n && are_alike(&v[i], &v[end]);)
			end++;
		if (end - i > 1 && (end - i <= MAX_COMPARED || means == BY_NUMBER))
			rc = distinguish(l, r, v + i, end - i, means);
	}
	free(v);
	return rc;
}

/* ---- the same in several processes ---- */

static int by_label_only(const void *a, const void *b)
{
	const struct alike *x = a, *y = b;
	int r = strcmp(x->label, y->label);

	return r ?: ASCENDING(x->process, y->process);
}

static int label_processes(struct kind_labels *l, const struct trace_reader *r)
{
	struct alike *v = calloc((size_t)l->n + 1, sizeof(*v));
	int rc = v ? 0 : -ENOMEM;
	size_t n = 0;

	for (uint32_t i = 0; v && i < l->n && trace_reader_n_processes(r) > 1; i++) {
		const struct trace_kind *k = trace_reader_kind(r, i);

		if (k && k->name && *k->name && trace_reader_kind_used(r, i))
			v[n++] = (struct alike){
				.kind = i, .process = k->process, .label = kind_label(l, r, i)};
	}
	if (n)
		qsort(v, n, sizeof(*v), by_label_only);
	for (size_t i = 0, end; i < n && rc == 0; i = end) {
		for (end = i + 1; end < n && !strcmp(v[i].label, v[end].label);)
			end++;
		if (v[i].process == v[end - 1].process)
			continue;
		for (size_t k = i; k < end && rc == 0; k++) {
			char *process = trace_process_label(r, v[k].process);

			rc = process ? relabel(l, &v[k], BY_OBJECT,
					       (struct label_text){process, strlen(process)})
				     : -ENOMEM;
			free(process);
		}
	}
	free(v);
	return rc;
}

static int make_labels(struct kind_labels *labels, const struct trace_reader *r)
{
	TRY(label_parameters(labels, r));
	TRY(label_objects(labels, r));
	TRY(label_handlers(labels, r));
	for (enum means means = 0; means < N_MEANS; means++)
		TRY(label_alike(labels, r, means));
	return label_processes(labels, r);
}

int kind_labels_make(const struct trace_reader *r, struct kind_labels *ret)
{
	uint32_t n = trace_reader_n_kinds(r);
	int rc;

	*ret = (struct kind_labels){.labels = calloc((size_t)n + 1, sizeof(char *)), .n = n};
	if (!ret->labels) {
		ret->n = 0;
		return -ENOMEM;
	}
	rc = make_labels(ret, r);
	if (rc < 0)
		kind_labels_done(ret);
	return rc;
}
