/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pollux doctor: can this process or program be recorded, and what would be visible. It only reads:
 * /proc, the loaded files, and what the scan finds in them. Nothing is stopped, traced or written.
 * All facts are collected first and then printed once, for people or as JSON.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/own_command.h"
#include "base/text.h"
#include "base/text_fit.h"
#include "base/vec.h"
#include "binary/elf/elf_image.h"
#include "cli/grade.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/process_operand.h"
#include "cli/verbs.h"
#include "process/maps.h"
#include "process/objects.h"
#include "process/process.h"
#include "process/rights.h"
#include "process/unwinders.h"
#include "runtime/find.h"
#include "runtime/scan_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CHECKS 16u

enum verdict { GOOD, WARNING, BAD };

struct check {
	const char *name;
	enum verdict verdict;
	char *note;
};

/* One object to report on: the program itself, or a library with a runtime in it. */
struct examined {
	char *path;
	char *reason; /* its file can't be had */
	bool main, pie, is_static, is_musl, symbols, debug_info;
	char build_id[160];
	enum grade grade;
	struct runtime_scan scan;
};

struct diagnosis {
	long pid; /* 0: a file */
	struct check checks[MAX_CHECKS];
	size_t n_checks;
	struct examined *objects;
	size_t n_objects;
	size_t n_looked_at;
	size_t n_kinds, n_runtimes;
};

static void diagnosis_done(struct diagnosis *d)
{
	for (size_t i = 0; i < d->n_checks; i++)
		free(d->checks[i].note);
	for (size_t i = 0; i < d->n_objects; i++) {
		free(d->objects[i].path);
		free(d->objects[i].reason);
		runtime_scan_done(&d->objects[i].scan);
	}
	free(d->objects);
}

__attribute__((format(printf, 4, 5))) static void
add_check(struct diagnosis *d, const char *name, enum verdict verdict, const char *fmt, ...)
{
	struct buf note = BUF_INIT;
	va_list ap;

	if (d->n_checks == MAX_CHECKS)
		return;
	va_start(ap, fmt);
	buf_vprintf(&note, fmt, ap);
	va_end(ap);
	d->checks[d->n_checks++] = (struct check){name, verdict, buf_steal(&note)};
}

static bool recordable(const struct diagnosis *d)
{
	for (size_t i = 0; i < d->n_checks; i++) {
		if (d->checks[i].verdict == BAD)
			return false;
	}
	return d->n_kinds > 0;
}

/* ---- the machine and the process ---- */

/* A small file, 0-terminated, without the last newline; "" if it can't be read. */
static void read_text(const char *path, char *out, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);

	out[n > 0 ? n : 0] = 0;
	if (n > 0 && out[n - 1] == '\n')
		out[n - 1] = 0;
}

/* The agent stamps with the time stamp counter: it must run at one rate on all processors. */
static void check_clock(struct diagnosis *d)
{
	char source[64], cpu[16384];

	read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
		  sizeof(source));
	read_text("/proc/cpuinfo", cpu, sizeof(cpu));
	if (!strstr(cpu, " constant_tsc") || !strstr(cpu, " nonstop_tsc"))
		add_check(d, "clock", WARNING,
			  "this processor's time stamp counter may change its rate or stop: times "
			  "may be off");
	else
		add_check(d, "clock", GOOD, "invariant time stamp counter (the kernel uses %s)",
			  *source ? source : "an unknown clock");
}

static void check_yama(struct diagnosis *d)
{
	char scope[16];

	read_text("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope));
	if (!*scope)
		add_check(d, "yama", GOOD, "not in this kernel");
	else
		add_check(d, "yama", *scope == '0' || geteuid() == 0 ? GOOD : WARNING,
			  "kernel.yama.ptrace_scope=%s", scope);
}

static void check_status(struct diagnosis *d, const char *status)
{
	long uid = process_status_number(status, "Uid", false);
	long threads = process_status_number(status, "Threads", false);
	long seccomp = process_status_number(status, "Seccomp", false);
	long outer = process_status_number(status, "NSpid", false);
	long inner = process_status_number(status, "NSpid", true);

	bool other = uid != (long)geteuid() && d->n_checks && d->checks[0].verdict == BAD;
	add_check(d, "user", other ? BAD : GOOD,
		  "the process belongs to user %ld, pollux runs as %ld", uid, (long)geteuid());
	add_check(d, "threads", GOOD, "%ld", threads);
	if (seccomp > 0)
		add_check(d, "seccomp", WARNING,
			  "%s: the agent is loaded only if that is proven to be allowed there "
			  "(root outside of the container can read the filters)",
			  seccomp == 2 ? "a filter is in force" : "strict mode is in force");
	if (inner > 0 && inner != outer)
		add_check(d, "pid namespace", GOOD, "the process knows itself as %ld", inner);
}

/* ---- objects ---- */

/* A panic is seen where it starts: by a call of the unwinder through a slot. */
static int check_panics(struct elf_image *image, struct runtime_scan *f)
{
	const struct process_object object = {.image = image};
	bool seen = unwinders_abort(&object);

	for (size_t i = 0; i < f->n_calls; i++)
		seen = seen || f->calls[i].call == TB_NONE;
	if (seen || !f->n_runtimes)
		return 0;
	return find_cover(f, "panics", 0, 1,
			  "its unwinder is linked into it: a task that panicked counts as ready");
}

static int examine(struct diagnosis *d, struct elf_image *image, const char *path, const char *why,
		   bool main, struct error *err)
{
	struct examined e = {.main = main};
	const uint8_t *id;
	size_t id_len = 0;
	int r;

	d->n_looked_at++;
	if (image) {
		TRY(scan_cache_get(image, &e.scan, err));
		r = check_panics(image, &e.scan);
		if (r < 0) {
			runtime_scan_done(&e.scan);
			return error_set(err, r, "out of memory");
		}
	}
	if (!main && !why && e.scan.n_runtimes == 0 && e.scan.coverage.n == 0) {
		runtime_scan_done(&e.scan);
		return 0;
	}
	e.path = strdup(path);
	e.reason = why ? strdup(why) : NULL;
	if (image) {
		e.pie = elf_image_pie(image);
		e.is_static = e.scan.is_static;
		e.is_musl = e.scan.is_musl;
		e.symbols = elf_image_has_symtab(image);
		e.debug_info = elf_image_has_debug_info(image);
		e.grade = grade_of(image, path, &e.scan);
		id = elf_image_build_id(image, &id_len);
		for (size_t i = 0; i < id_len && i * 2 + 3 < sizeof(e.build_id); i++)
			snprintf(e.build_id + i * 2, 3, "%02x", id[i]);
	}
	d->n_kinds += e.scan.n_kinds;
	d->n_runtimes += e.scan.n_runtimes;
	if (!GROW_ONE(d->objects, d->n_objects) || !e.path || (why && !e.reason)) {
		free(e.path);
		free(e.reason);
		runtime_scan_done(&e.scan);
		return error_set(err, -ENOMEM, "out of memory");
	}
	d->objects[d->n_objects++] = e;
	return 0;
}

static int examine_file(struct diagnosis *d, const char *path, struct error *err)
{
	struct elf_image *image = NULL;
	int r = elf_image_open_path(path, &image, err);

	if (r == 0)
		r = examine(d, image, path, NULL, true, err);
	elf_image_free(image);
	return r;
}

static int examine_objects(struct diagnosis *d, const struct process *p, struct error *err)
{
	struct process_maps maps = {0};
	struct process_objects objects = {0};
	int r = maps_read(p, &maps, err);

	if (r == 0)
		r = objects_read(p, &maps, &objects, err);
	for (size_t i = 0; i < objects.n && r == 0; i++) {
		const struct process_object *o = &objects.v[i];

		r = examine(d, o->image, o->path, o->reason, o->main, err);
		if (o->image)
			elf_image_rest(o->image);
	}
	objects_done(&objects);
	maps_done(&maps);
	return r;
}

static int examine_process(struct diagnosis *d, pid_t pid, struct error *err)
{
	struct process p = PROCESS_INIT;
	struct error reason = {0};
	char status[PROCESS_STATUS_BYTES], path[48];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	read_text(path, status, sizeof(status));
	if (!*status)
		return error_set(err, -ESRCH, "there is no process %d", pid);
	d->pid = pid;
	r = process_open(pid, &p, &reason);
	if (r == 0)
		r = rights_check(&p, &reason);
	if (r < 0)
		add_check(d, "rights", BAD, "%s", reason.text);
	else
		add_check(d, "rights", GOOD, "this process may be traced");
	check_status(d, status);
	check_yama(d);
	check_clock(d);
	if (p.mem_fd >= 0) {
		r = examine_objects(d, &p, err);
		process_close(&p);
		return r;
	}
	/* Not to be traced; perhaps its program may be read all the same. */
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (examine_file(d, path, &reason) < 0)
		add_check(d, "program", BAD, "%s", reason.text);
	return 0;
}

/* ---- telling ---- */

static void add_safe(struct buf *out, const char *label, const char *text)
{
	buf_str(out, label);
	text_safe(out, text ? text : "");
	buf_char(out, '\n');
}

static void print_coverage(struct buf *out, const struct runtime_scan *f)
{
	for (size_t i = 0; i < f->coverage.n; i++) {
		const struct trace_coverage *c = &f->coverage.v[i];

		_cleanup_buf_ struct buf item = BUF_INIT;

		buf_str(&item, c->item);
		if (f->n_runtimes > 1 && c->runtime && !strstr(c->item, c->runtime))
			buf_printf(&item, " (%s)", c->runtime);
		buf_printf(out, "    %-32s %5llu of %llu", item.data ? item.data : "?",
			   (unsigned long long)c->seen, (unsigned long long)c->total);
		add_safe(out, *c->note ? "   " : "", c->note);
	}
}

static void print_kinds(struct buf *out, const struct runtime_scan *f)
{
	for (size_t i = 0; i < f->n_kinds; i++) {
		const struct scan_kind *k = &f->kinds[i];

		buf_printf(out, "    %-9s %-15s ", trace_role_name(k->role), k->scheduler);
		add_safe(out, "", k->name);
		for (size_t s = 0; s < k->n_sites; s++)
			add_safe(out,
				 k->sites[s].patchable ? "        spawned at "
						       : "        spawned, but not hooked, at ",
				 k->sites[s].where);
	}
}

static void print_object(struct buf *out, const struct examined *e, bool kinds)
{
	const struct runtime_scan *f = &e->scan;

	buf_char(out, '\n');
	text_safe(out, e->path);
	buf_char(out, '\n');
	if (e->reason) {
		add_safe(out, "    not examined: ", e->reason);
		return;
	}
	buf_printf(out, "    %s, %s%s%s\n", e->pie ? "position-independent" : "at a fixed address",
		   e->is_static ? "static"
		   : e->is_musl ? "dynamic (musl)"
				: "dynamic",
		   *e->build_id ? ", build-id " : "", e->build_id);
	if (f->n_kinds) {
		const struct grade_text *grade = &grade_texts[e->grade];

		buf_printf(out, "    names and places: %s: %s\n", grade->name, grade->gives);
		if (*grade->lacks)
			buf_printf(out, "    lacks: %s\n", grade->lacks);
	} else {
		buf_printf(out, "    symbols: %s; debug information: %s\n",
			   e->symbols ? "yes" : "no", e->debug_info ? "yes" : "not in this file");
	}
	for (size_t i = 0; i < f->n_runtimes; i++) {
		const struct scan_runtime *rt = &f->runtimes[i];
		size_t n = 0;

		for (size_t k = 0; k < f->n_kinds; k++)
			n += f->kinds[k].runtime == i;
		buf_printf(out, "    runtime: %s ", rt->name);
		text_safe(out, *rt->version ? rt->version : "of unknown version");
		buf_printf(out, ", %zu task kinds, known by %s\n", n, rt->verified);
	}
	if (f->n_runtimes == 0)
		buf_str(out, f->coverage.n ? "    runtime: none that pollux can hook\n"
					   : "    runtime: no Tokio, async-std or smol in it\n");
	print_coverage(out, f);
	if (kinds)
		print_kinds(out, f);
}

/* Whether anything above says why there are no kinds. */
static bool is_diagnosed(const struct diagnosis *d)
{
	for (size_t i = 0; i < d->n_checks; i++)
		if (d->checks[i].verdict == BAD)
			return true;
	for (size_t i = 0; i < d->n_objects; i++)
		if (d->objects[i].reason || d->objects[i].scan.coverage.n)
			return true;
	return false;
}

static void print(struct buf *out, const struct diagnosis *d, bool kinds)
{
	static const char *const words[] = {[GOOD] = "ok", [WARNING] = "warning", [BAD] = "FAIL"};

	for (size_t i = 0; i < d->n_checks; i++) {
		buf_printf(out, "%-14s %-8s", d->checks[i].name, words[d->checks[i].verdict]);
		add_safe(out, "", d->checks[i].note);
	}
	if (d->n_looked_at)
		buf_printf(out, "%-14s %-8s%zu loaded, all looked at\n", "objects", "ok",
			   d->n_looked_at);
	for (size_t i = 0; i < d->n_objects; i++)
		print_object(out, &d->objects[i], kinds);
	buf_char(out, '\n');
	if (d->n_kinds && !recordable(d))
		buf_str(out, "It can't be recorded as things are: see FAIL above.\n");
	else if (!recordable(d))
		buf_str(out, is_diagnosed(d)
				     ? "It can't be recorded: see above for what is missing.\n"
				     : "It can't be recorded: there is no Tokio, async-std or "
				       "smol in it.\n");
	else if (d->pid)
		buf_printf(out, "It can be recorded: %s record -p %ld\n", own_command(), d->pid);
	else
		buf_printf(out, "It can be recorded: %s record -- COMMAND\n", own_command());
}

static void scan_json(struct json *j, const struct runtime_scan *f)
{
	json_array(j, "runtimes");
	for (size_t i = 0; i < f->n_runtimes; i++) {
		json_object(j, NULL);
		json_string(j, "name", f->runtimes[i].name);
		json_string(j, "version", f->runtimes[i].version);
		json_string(j, "verified", f->runtimes[i].verified);
		json_end_object(j);
	}
	json_end_array(j);
	json_array(j, "kinds");
	for (size_t i = 0; i < f->n_kinds; i++) {
		const struct scan_kind *k = &f->kinds[i];

		json_object(j, NULL);
		json_string(j, "name", k->name);
		json_string(j, "full_name", k->full_name);
		json_string(j, "role", trace_role_name(k->role));
		json_string(j, "scheduler", k->scheduler);
		json_string(j, "runtime", f->runtimes[k->runtime].name);
		json_array(j, "sites");
		for (size_t s = 0; s < k->n_sites; s++) {
			json_object(j, NULL);
			json_string(j, "where", k->sites[s].where);
			json_bool(j, "hooked", k->sites[s].patchable);
			json_end_object(j);
		}
		json_end_array(j);
		json_end_object(j);
	}
	json_end_array(j);
	json_array(j, "coverage");
	for (size_t i = 0; i < f->coverage.n; i++) {
		json_object(j, NULL);
		json_string(j, "item", f->coverage.v[i].item);
		json_u64(j, "seen", f->coverage.v[i].seen);
		json_u64(j, "total", f->coverage.v[i].total);
		json_string(j, "note", f->coverage.v[i].note);
		json_string(j, "runtime", f->coverage.v[i].runtime ? f->coverage.v[i].runtime : "");
		json_end_object(j);
	}
	json_end_array(j);
}

static void print_json(struct buf *out, const struct diagnosis *d)
{
	static const char *const words[] = {[GOOD] = "ok", [WARNING] = "warning", [BAD] = "bad"};
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	if (d->pid)
		json_i64(&j, "pid", d->pid);
	json_bool(&j, "recordable", recordable(d));
	json_array(&j, "checks");
	for (size_t i = 0; i < d->n_checks; i++) {
		json_object(&j, NULL);
		json_string(&j, "name", d->checks[i].name);
		json_string(&j, "verdict", words[d->checks[i].verdict]);
		json_string(&j, "note", d->checks[i].note);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_array(&j, "objects");
	for (size_t i = 0; i < d->n_objects; i++) {
		const struct examined *e = &d->objects[i];

		json_object(&j, NULL);
		json_string(&j, "path", e->path);
		json_bool(&j, "program", e->main);
		json_string(&j, "not_examined", e->reason);
		json_string(&j, "build_id", e->build_id);
		json_bool(&j, "position_independent", e->pie);
		json_bool(&j, "static", e->is_static);
		json_bool(&j, "musl", e->is_musl);
		json_bool(&j, "symbols", e->symbols);
		json_bool(&j, "debug_info", e->debug_info);
		if (e->scan.n_kinds) {
			json_string(&j, "grade", grade_texts[e->grade].name);
			json_string(&j, "lacks", grade_texts[e->grade].lacks);
		}
		scan_json(&j, &e->scan);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	buf_char(out, '\n');
}

static const struct cli_option options[] = {
	{'k', "kinds", NULL, "list every task kind and its spawn sites", false},
	{0, "json", NULL, "print JSON (docs/doctor-json.md)", false},
	OUTPUT_OPTIONS,
	{0},
};

static const char *const examples[] = {
	"pollux doctor 4242",
	"whether process 4242 can be recorded, and what would be visible",
	"pollux doctor --kinds target/release/app",
	"the task kinds of a program",
	NULL,
};

static int run(const struct cli_args *args, struct error *err)
{
	_cleanup_(diagnosis_done) struct diagnosis d = {0};
	_cleanup_buf_ struct buf out = BUF_INIT;
	const char *what = cli_operand(args, 0);
	pid_t pid;
	int r;

	if (cli_n_operands(args) != 1)
		return cli_usage(args, "doctor needs one process (PID or NAME) or program");
	if ((r = process_or_file(args, what, &pid)) || (r = input_refuse_trace(args, what)))
		return r;
	cli_slow_begin("reading the files of", what);
	if (pid) {
		r = examine_process(&d, pid, err);
	} else {
		check_yama(&d);
		check_clock(&d);
		r = examine_file(&d, what, err);
	}
	cli_slow_end();
	if (r < 0)
		return 1;
	if (cli_flag(args, "json")) {
		print_json(&out, &d);
		r = cli_write(&out, err);
	} else {
		print(&out, &d, cli_flag(args, "kinds"));
		text_wrap(&out, cli_columns(args, 0));
		r = cli_show(args, &out, err);
	}
	return r < 0 || !recordable(&d);
}

const struct cli_verb verb_doctor = {
	.name = "doctor",
	.synopsis = "doctor [OPTIONS] PID|NAME|PROGRAM",
	.summary = "check what pollux can record of a process or program",
	.text = "Checks whether a running process (or a program file) can be recorded, which async "
		"runtimes it contains, how pollux recognised them, and what would be visible. It "
		"changes nothing: no thread is stopped, nothing is written. The exit status is 0 "
		"if it can be recorded, else 1.",
	.examples = examples,
	.operands = CLI_PROCESSES | CLI_FILES,
	.options = options,
	.run = run,
};
