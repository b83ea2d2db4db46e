/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A folder that `uftrace record` has made: "info" (header and words), "task.txt" (sessions and
 * threads), for each thread TID.dat with records of 16 bytes, for each processor perf-cpuN.dat with
 * context switches, for each session sid-ID.map (what was mapped where) and for each object
 * NAME.sym.
 *
 *     u64 time; u64 with bits 0-1 type, 2 more (arguments follow), 3-5 magic 5, 6-15 depth, 16-63
 *     address
 *
 * Which closures are bodies of async fns and blocks is asked of the program's debug information, if
 * the program is still there and the same. Source: uftrace's doc/uftrace-design and utils/.
 */
#include "base/compare.h"
#include "base/search.h"
#include "base/error.h"
#include "base/units.h"
#include "base/vec.h"
#include "import/input.h"
#include "import/perf_line.h"
#include "import/uftrace_calls.h"
#include "import/uftrace_switches.h"

#include "base/cleanup.h"
#include "binary/dwarf/debug.h"
#include "binary/elf/elf_image.h"
#include "binary/names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER_BYTES 40u
#define RECORD_BYTES 16u
#define RECORD_MAGIC 5u
#define SYM_REL_ADDR (1ull << 6) /* feature: symbols count from their object's beginning */
#define MAX_THREADS 65536u
#define MAX_SYMBOLS (1u << 21)
#define MAX_MAPS 4096u

static const char MAGIC[] = "Ftrace!";

enum { REC_ENTRY = 0, REC_EXIT, REC_LOST, REC_EVENT };

struct symbol {
	uint64_t addr;
	char *name;
};

struct uftrace_object {
	char *path;
	struct symbol *symbols; /* sorted */
	size_t n, cap;
	bool tried;
	struct elf_image *image;
	struct debug *debug; /* NULL: none */
};

struct uftrace_mapping {
	uint64_t start, end;
	size_t object;
	struct call_function **functions; /* by number of the symbol, NULL: not yet asked for */
};

struct folder {
	struct input *in;
	struct sink *sink;
	struct error *err;
	struct calls *calls;
	struct uftrace_object *objects;
	size_t n_objects;
	struct uftrace_mapping *maps;
	size_t n_maps;
	char exe[4096];
	char build_id[41];
	char sid[64];
	uint64_t number;
};

static void doubt(struct folder *d, const char *reason, const char *detail)
{
	sink_diagnose(d->sink, reason, detail, detail ? strlen(detail) : 0, d->number);
}

/* ---- info and task.txt ---- */

static int read_info(struct folder *d)
{
	struct input in;
	const char *line;
	size_t len;
	int r = 0;

	TRY(input_open_in(d->in, "info", &in, d->err));
	const uint8_t *h = input_bytes(&in, HEADER_BYTES);
	uint64_t features = 0;
	if (h)
		memcpy(&features, h + 16, 8);
	if (!h || memcmp(h, MAGIC, sizeof(MAGIC)) != 0) {
		r = error_set(d->err, -EBADMSG, "%s/info was not written by uftrace", d->in->path);
	} else if (h[14] != 1 || h[15] != 2) {
		r = error_set(d->err, -ENOTSUP,
			      "%s was recorded on a machine of another byte order or with 32 bits",
			      d->in->path);
	} else if (!(features & SYM_REL_ADDR)) {
		r = error_set(
			d->err, -ENOTSUP,
			"%s was recorded by a uftrace older than 0.10: import the text of its "
			"uftrace dump",
			d->in->path);
	}
	while (r >= 0 && (r = input_line(&in, &line, &len)) > 0) {
		const struct perf_text t = {line, len};
		if (perf_text_starts(&t, "exename:"))
			snprintf(d->exe, sizeof(d->exe), "%.*s", (int)(len - 8), line + 8);
		else if (perf_text_starts(&t, "build_id:") && len - 9 < sizeof(d->build_id))
			snprintf(d->build_id, sizeof(d->build_id), "%.*s", (int)(len - 9),
				 line + 9);
	}
	input_close(&in);
	return r;
}

/* The value after KEY= in a line of task.txt. */
static bool value_of(struct perf_text line, const char *key, struct perf_field *ret)
{
	while (perf_field_next(&line, ret))
		if (perf_text_is(&ret->name, key))
			return true;
	return false;
}

struct uftrace_thread {
	uint32_t tid, pid;
};

/* Threads in the order in which they began. */
static int read_tasks(struct folder *d, struct uftrace_thread **ret, size_t *ret_n)
{
	struct input in;
	const char *line;
	size_t len, cap = 0;
	int r = input_open_in(d->in, "task.txt", &in, d->err);

	*ret = NULL;
	*ret_n = 0;
	if (r < 0)
		return r;
	while ((r = input_line(&in, &line, &len)) > 0) {
		struct perf_text t = {line, len};
		struct perf_field pid, tid;
		bool session = perf_text_starts(&t, "SESS "), fork = perf_text_starts(&t, "FORK ");
		d->number = in.n_lines;
		if (session && value_of(t, "sid", &tid) && !d->sid[0] &&
		    tid.text.len < sizeof(d->sid))
			snprintf(d->sid, sizeof(d->sid), "%.*s", (int)tid.text.len, tid.text.p);
		if (session || perf_text_starts(&t, "DLOP "))
			continue;
		if ((!fork && !perf_text_starts(&t, "TASK ")) || !value_of(t, "pid", &pid) ||
		    !pid.is_number) {
			doubt(d, "a line of task.txt", NULL);
			continue;
		}
		if (fork || !value_of(t, "tid", &tid) || !tid.is_number)
			tid = pid;
		if (*ret_n == MAX_THREADS)
			break;
		if (!GROW(*ret, *ret_n, cap)) {
			r = -ENOMEM;
			break;
		}
		(*ret)[(*ret_n)++] =
			(struct uftrace_thread){(uint32_t)tid.value, (uint32_t)pid.value};
	}
	input_close(&in);
	return r < 0 ? r : 0;
}

/* ---- symbols ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;
	return ASCENDING(x->addr, y->addr);
}

/* "00000000000372d1 T main": address, type, name. */
static int add_symbol(struct uftrace_object *o, const char *line, size_t len)
{
	char *end;

	if (len < 20 || line[0] == '#' || o->n == MAX_SYMBOLS)
		return 0;
	uint64_t addr = strtoull(line, &end, 16);
	if (end != line + 16 || end[0] != ' ' || end[2] != ' ')
		return 0;
	/* Only code is called; '?' ends each object's table. */
	if (!strchr("TtwPWiu", end[1]))
		return 0;
	if (!GROW(o->symbols, o->n, o->cap))
		return -ENOMEM;
	char *name = strndup(end + 3, len - 19);
	if (!name)
		return -ENOMEM;
	o->symbols[o->n++] = (struct symbol){addr, name};
	return 0;
}

static int read_symbols(struct folder *d, struct uftrace_object *o)
{
	_cleanup_buf_ struct buf name = BUF_INIT;
	struct error none = {0};
	struct input in;
	const char *line;
	size_t len;

	buf_printf(&name, "%s.sym", base_name(o->path));
	if (buf_failed(&name))
		return -ENOMEM;
	int r = input_open_in(d->in, name.data, &in, &none);
	if (r < 0) {
		doubt(d, "an object without symbols:", name.data);
		return 0;
	}
	while ((r = input_line(&in, &line, &len)) > 0)
		if ((r = add_symbol(o, line, len)) < 0)
			break;
	input_close(&in);
	if (o->n)
		qsort(o->symbols, o->n, sizeof(*o->symbols), compare_symbols);
	return r < 0 ? r : 0;
}

/* Debug information of the program itself, if it is what was recorded. */
static void open_debug(struct folder *d, struct uftrace_object *o)
{
	struct error none = {0};
	char hex[2 * 20 + 1] = "";
	size_t len;

	o->tried = true;
	if (strcmp(o->path, d->exe) != 0 || o->path[0] != '/')
		return;
	if (elf_image_open_path(o->path, &o->image, &none) < 0)
		return;
	const uint8_t *id = elf_image_build_id(o->image, &len);
	for (size_t i = 0; id && i < len && i < 20; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	/* A program without a build-id can't be distinguished from another of its name. */
	if (!id || strcmp(hex, d->build_id) != 0)
		return;
	debug_open(elf_image_fd(o->image), o->path, &o->debug, &none);
}

/* 1 or 0 if debug information says whether a closure is the body of an async fn or block. */
static int is_async_body(struct folder *d, struct uftrace_object *o, uint64_t addr)
{
	struct dw_function f;

	if (!o->tried)
		open_debug(d, o);
	if (!o->debug)
		return -1;
	/* Symbols count from the object's beginning, debug information from 0. */
	if (elf_image_n_segments(o->image))
		addr += elf_image_segment(o->image, 0)->addr & ~(PAGE - 1);
	if (debug_function(o->debug, addr, &f) <= 0)
		return -1;
	/* Of all that is generic here only the innermost name counts. */
	return f.name && (!strncmp(f.name, "{async_", 7) || !strncmp(f.name, "{generator", 10) ||
			  !strncmp(f.name, "{coroutine", 10));
}

static struct symbol *symbol_at(const struct uftrace_object *o, uint64_t addr)
{
	size_t low = PARTITION_POINT(i, 0, o->n, o->symbols[i].addr <= addr);

	return low ? &o->symbols[low - 1] : NULL;
}

/* ---- mappings ---- */

static size_t object_of(struct folder *d, const char *path, size_t len)
{
	for (size_t i = 0; i < d->n_objects; i++)
		if (strlen(d->objects[i].path) == len && !memcmp(d->objects[i].path, path, len))
			return i;
	if (!GROW_ONE(d->objects, d->n_objects))
		return SIZE_MAX;
	d->objects[d->n_objects] = (struct uftrace_object){.path = strndup(path, len)};
	return d->objects[d->n_objects].path ? d->n_objects++ : SIZE_MAX;
}

/* "55a722a88000-55a722c11000 r-xp 00000000 00:00 0    /tmp/app build-id:e4af". */
static int add_mapping(struct folder *d, const char *line, size_t len)
{
	char *end;
	uint64_t start = strtoull(line, &end, 16), stop;

	if (*end != '-' || d->n_maps == MAX_MAPS)
		return 0;
	stop = strtoull(end + 1, &end, 16);
	if (*end != ' ' || end[1] == 0 || end[2] == 0 || end[3] != 'x')
		return 0;
	const char *path = memchr(line, '/', len);
	if (!path)
		return 0;
	const char *path_end = memmem(path, (size_t)(line + len - path), " build-id:", 10);
	if (!path_end)
		path_end = line + len;
	size_t object = object_of(d, path, (size_t)(path_end - path));
	if (object == SIZE_MAX || !GROW_ONE(d->maps, d->n_maps))
		return -ENOMEM;
	d->maps[d->n_maps++] =
		(struct uftrace_mapping){.start = start, .end = stop, .object = object};
	return 0;
}

static int read_maps(struct folder *d)
{
	_cleanup_buf_ struct buf name = BUF_INIT;
	struct input in;
	const char *line;
	size_t len;

	buf_printf(&name, "sid-%s.map", d->sid);
	if (buf_failed(&name))
		return -ENOMEM;
	int r = 0;

	TRY(input_open_in(d->in, name.data, &in, d->err));
	while ((r = input_line(&in, &line, &len)) > 0)
		if (len && (r = add_mapping(d, line, len)) < 0)
			break;
	input_close(&in);
	for (size_t i = 0; r >= 0 && i < d->n_objects; i++)
		r = read_symbols(d, &d->objects[i]);
	return r;
}

static struct call_function *function_of(struct folder *d, struct uftrace_object *o,
					 const struct symbol *s)
{
	_cleanup_free_ char *plain = name_demangle(s->name);
	const char *name = plain ? plain : s->name;
	bool closure = strstr(name, "{{closure}}") || strstr(name, "{closure");
	return calls_function(d->calls, name, strlen(name),
			      closure ? is_async_body(d, o, s->addr) : -1);
}

/* NULL: not known, which was reported, or out of memory (the sink's code). */
static struct call_function *function_at(struct folder *d, uint64_t addr)
{
	for (size_t i = 0; i < d->n_maps; i++) {
		struct uftrace_mapping *m = &d->maps[i];
		struct uftrace_object *o = &d->objects[m->object];
		if (addr < m->start || addr >= m->end)
			continue;
		/* Symbols count from where the object begins: the first of its mappings. */
		uint64_t base = m->start;
		for (size_t k = 0; k < d->n_maps; k++)
			if (d->maps[k].object == m->object && d->maps[k].start < base)
				base = d->maps[k].start;
		const struct symbol *s = symbol_at(o, addr - base);
		if (!s)
			return NULL;
		if (!m->functions)
			m->functions = calloc(o->n, sizeof(struct call_function *));
		if (!m->functions) {
			d->sink->code = -ENOMEM;
			return NULL;
		}
		struct call_function **f = &m->functions[s - o->symbols];
		if (!*f)
			*f = function_of(d, o, s);
		return *f;
	}
	return NULL;
}

/* ---- records ---- */

struct uftrace_record {
	uint64_t time, addr;
	unsigned type, depth;
	bool more;
};

static bool record_parse(const uint8_t *p, struct uftrace_record *ret)
{
	uint64_t w;

	memcpy(&ret->time, p, 8);
	memcpy(&w, p + 8, 8);
	ret->type = w & 3;
	ret->more = w >> 2 & 1;
	ret->depth = w >> 6 & 0x3ff;
	ret->addr = w >> 16;
	return (w >> 3 & 7) == RECORD_MAGIC;
}

/* Arguments have no length of their own: goes on at the next thing that can be a record. */
static bool skip_arguments(struct input *in, const struct uftrace_record *r)
{
	struct uftrace_record next;
	const uint8_t *p;

	while ((p = input_peek(in, RECORD_BYTES))) {
		if (record_parse(p, &next) && next.time >= r->time &&
		    next.time - r->time < 3600 * NSEC_PER_SEC &&
		    (next.addr || next.type != REC_ENTRY))
			return true;
		if (!input_skip(in, 8))
			return false;
	}
	return false;
}

static int one_record(struct folder *d, struct input *in, const struct uftrace_record *r)
{
	if (r->type == REC_LOST)
		return calls_lost(d->calls, r->addr ? r->addr : 1, r->time);
	if (r->more)
		skip_arguments(in, r);
	if (r->type == REC_EVENT)
		return 0;
	struct call_function *f = function_at(d, r->addr);
	if (!f) {
		doubt(d, "a call of an address without a symbol", NULL);
		return d->sink->code;
	}
	return r->type == REC_ENTRY ? calls_entry(d->calls, f, r->depth, r->time, d->number)
				    : calls_exit(d->calls, f, r->depth, r->time, d->number);
}

static int read_thread(struct folder *d, const struct uftrace_thread *t)
{
	char name[32];
	struct error none = {0};
	struct uftrace_record rec;
	struct input in;
	const uint8_t *p;

	snprintf(name, sizeof(name), "%u.dat", t->tid);
	if (input_open_in(d->in, name, &in, &none) < 0)
		return 0; /* a thread that called nothing */
	int r = calls_thread(d->calls, t->pid, t->tid, base_name(d->exe));
	while (r == 0 && (p = input_bytes(&in, RECORD_BYTES))) {
		d->number = ++d->sink->n_items;
		if (!record_parse(p, &rec)) {
			doubt(d,
			      "a record that is none of uftrace: the rest of the file is left "
			      "out, of",
			      name);
			break;
		}
		r = one_record(d, &in, &rec);
	}
	if (r == 0 && in.code)
		r = error_sys(d->err, in.code, "cannot read %s/%s", d->in->path, name);
	if (r == 0 && !p && input_left(&in))
		doubt(d, "the cut end of", name);
	input_close(&in);
	return r;
}

static void folder_done(struct folder *d)
{
	for (size_t i = 0; i < d->n_objects; i++) {
		struct uftrace_object *o = &d->objects[i];
		for (size_t k = 0; k < o->n; k++)
			free(o->symbols[k].name);
		free(o->symbols);
		free(o->path);
		if (o->debug)
			debug_free(o->debug);
		elf_image_free(o->image);
	}
	for (size_t i = 0; i < d->n_maps; i++)
		free(d->maps[i].functions);
	free(d->objects);
	free(d->maps);
	calls_free(d->calls);
}

static int read_folder(struct input *in, struct sink *sink, struct error *err)
{
	struct folder d = {.in = in, .sink = sink, .err = err, .calls = calls_new(sink)};
	_cleanup_free_ struct uftrace_thread *threads = NULL;
	struct calls_stats stats;
	size_t n = 0;

	if (!d.calls)
		return error_set(err, -ENOMEM, "out of memory");
	sink->rounds = false;
	int r = read_info(&d);
	if (r >= 0)
		r = read_tasks(&d, &threads, &n);
	if (r >= 0)
		r = read_maps(&d);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		sink_process(sink, threads[i].pid, d.exe, strlen(d.exe));
		r = read_thread(&d, &threads[i]);
		if (in->options && in->options->progress)
			in->options->progress(in->options->progress_ctx, i + 1, n);
	}
	if (r >= 0)
		r = uftrace_switches_read(sink, in, err);
	calls_stats(d.calls, &stats);
	if (r >= 0 && !stats.n_calls)
		r = error_set(err, -EBADMSG, "%s: pollux can use none of its calls", in->path);
	if (r >= 0)
		r = calls_finish(d.calls);
	if (r < 0 && !err->code)
		error_sys(err, r, "cannot read %s", in->path);
	folder_done(&d);
	return r < 0 ? r : 0;
}

static bool recognise(const struct import_head *head)
{
	return head->directory && head->len >= sizeof(MAGIC) &&
	       !memcmp(head->bytes, MAGIC, sizeof(MAGIC));
}

const struct import_ops import_uftrace_data = {
	.name = "uftrace-data",
	.description = "a folder of uftrace record",
	.item = "record",
	.takes = IMPORT_FOLDER,
	.recognise = recognise,
	.read = read_folder,
};
