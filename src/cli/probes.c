/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pollux probes: the probes of a program or process, their addresses and arguments, and the event
 * that each becomes. It only reads: files, and the semaphores of a process.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/vec.h"
#include "binary/elf/elf_image.h"
#include "binary/elf/probes.h"
#include "cli/input.h"
#include "cli/process_operand.h"
#include "cli/verbs.h"
#include "process/maps.h"
#include "process/memory.h"
#include "process/objects.h"
#include "process/process.h"
#include "runtime/providers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of async-std's functions. */
struct probed_function {
	const struct machine *machine;
	const struct provider_probe *known;
	uint64_t addr, offset;
	const char *refused;
};

/* An object that has probes, or that was asked for. */
struct probed_object {
	char *path;
	char *reason; /* its file can't be had */
	uint64_t bias;
	struct probes *probes;
	struct probed_function functions[8];
	size_t n_functions;
	size_t n_known; /* sites that pollux can use */
};

struct listing {
	long pid; /* 0: a file */
	struct process process;
	struct probed_object *objects;
	size_t n_objects;
	size_t n_known;
	bool all; /* also the unknown ones, one by one */
};

static void listing_done(struct listing *l)
{
	for (size_t i = 0; i < l->n_objects; i++) {
		free(l->objects[i].path);
		free(l->objects[i].reason);
		probes_free(l->objects[i].probes);
	}
	free(l->objects);
	process_close(&l->process);
}

/* ---- looking ---- */

static void find_functions(struct elf_image *image, struct probed_object *o)
{
	static const char same[] =
		"the linker merged several functions into one, so which was called is not known";
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(image, &symbols);

	for (size_t i = 0; i < n && o->n_functions < 8; i++) {
		const struct provider_probe *known = providers_function(symbols[i].name);
		struct probed_function *f = &o->functions[o->n_functions];
		bool printed = false;

		for (size_t k = 0; k < o->n_functions; k++)
			printed |= o->functions[k].known == known;
		if (!known || printed)
			continue;
		*f = (struct probed_function){.machine = elf_image_machine(image),
					      .known = known,
					      .addr = symbols[i].addr};
		if (!elf_image_is_code(image, f->addr) ||
		    !elf_image_offset(image, f->addr, &f->offset))
			f->refused = "it is not in the program's code";
		for (size_t k = 0; k < o->n_functions; k++) {
			if (o->functions[k].addr == f->addr)
				f->refused = o->functions[k].refused = same;
		}
		o->n_functions++;
	}
}

static int add_object(struct listing *l, struct elf_image *image, const char *path, const char *why,
		      uint64_t bias, bool always, struct error *err)
{
	struct probed_object o = {.bias = bias};
	const struct probe *p;

	if (image) {
		TRY(probes_read(image, &o.probes, err));
		find_functions(image, &o);
		for (size_t i = 0; (p = probes_at(o.probes, i)); i++)
			o.n_known += !p->refused && providers_match(p);
		for (size_t i = 0; i < o.n_functions; i++)
			o.n_known += !o.functions[i].refused;
		if (!always && probes_n(o.probes) == 0 && o.n_functions == 0 &&
		    !probes_damaged(o.probes)) {
			probes_free(o.probes);
			return 0;
		}
	}
	o.path = strdup(path);
	o.reason = why ? strdup(why) : NULL;
	if (!GROW_ONE(l->objects, l->n_objects) || !o.path || (why && !o.reason)) {
		free(o.path);
		free(o.reason);
		probes_free(o.probes);
		return error_set(err, -ENOMEM, "out of memory");
	}
	l->n_known += o.n_known;
	l->objects[l->n_objects++] = o;
	return 0;
}

static int look_at_file(struct listing *l, const char *path, struct error *err)
{
	struct elf_image *image = NULL;
	int r = elf_image_open_path(path, &image, err);

	if (r == 0)
		r = add_object(l, image, path, NULL, 0, true, err);
	elf_image_free(image);
	return r;
}

static int look_at_process(struct listing *l, pid_t pid, struct error *err)
{
	struct process_maps maps = {0};
	struct process_objects objects = {0};
	int r;

	l->pid = pid;
	TRY(process_open(pid, &l->process, err));
	r = maps_read(&l->process, &maps, err);
	if (r == 0)
		r = objects_read(&l->process, &maps, &objects, err);
	for (size_t i = 0; i < objects.n && r == 0; i++) {
		const struct process_object *o = &objects.v[i];

		r = add_object(l, o->image, o->path, o->reason, o->bias, o->main, err);
	}
	objects_done(&objects);
	maps_done(&maps);
	return r;
}

/* How many listen, by the probe's semaphore in the process; -1: not to be known. */
static int listeners(const struct listing *l, const struct probed_object *o, const struct probe *p)
{
	uint16_t n;

	if (!l->pid || !p->semaphore || p->refused ||
	    memory_read(&l->process, o->bias + p->semaphore, &n, sizeof(n)) < 0)
		return -1;
	return n;
}

/* ---- for people ---- */

static void print_arg(struct buf *out, const struct probe_arg *arg,
		      const struct provider_probe *known, size_t i)
{
	enum provider_arg what = known ? known->args[i] : PV_UNUSED;

	buf_printf(out, "            %-10s ",
		   *provider_arg_name(what) ? provider_arg_name(what) : "-");
	if (provider_arg_is_string(what))
		buf_str(out, "address of a string, ");
	probe_arg_text(out, arg);
	buf_char(out, '\n');
}

static void print_site(struct buf *out, const struct listing *l, const struct probed_object *o,
		       const struct probe *p, const struct provider_probe *known)
{
	int n = listeners(l, o, p);

	buf_printf(out, "        at 0x%llx", (unsigned long long)p->addr);
	if (p->semaphore)
		buf_printf(out, ", semaphore at 0x%llx", (unsigned long long)p->semaphore);
	if (n >= 0)
		buf_printf(out, " (%d listen%s)", n, n == 1 ? "s" : "");
	if (p->refused)
		buf_printf(out, ": not to be touched: %s", p->refused);
	buf_char(out, '\n');
	for (size_t i = 0; i < p->n_args; i++)
		print_arg(out, &p->args[i], known, i);
}

static bool same_probe(const struct probe *a, const struct probe *b)
{
	return strcmp(a->provider, b->provider) == 0 && strcmp(a->name, b->name) == 0;
}

static void print_probes(struct buf *out, const struct listing *l, const struct probed_object *o)
{
	const struct probe *p, *before = NULL;
	const struct provider_probe *known_before = NULL;

	for (size_t i = 0; (p = probes_at(o->probes, i)); i++) {
		const struct provider_probe *known = providers_match(p);

		if (!known && !l->all)
			continue;
		if (!before || !same_probe(before, p) || known != known_before) {
			buf_str(out, "    ");
			text_safe(out, p->provider);
			buf_char(out, ':');
			text_safe(out, p->name);
			if (known)
				buf_printf(out, "    %s: %s\n", provider_what_text(known->type),
					   known->means);
			else
				buf_str(out, "    unknown to pollux\n");
		}
		before = p;
		known_before = known;
		print_site(out, l, o, p, known);
	}
}

/* "provider libc: 40 probes that pollux doesn't know" */
static void print_unknown(struct buf *out, const struct probed_object *o)
{
	const struct probe *p, *q;

	for (size_t i = 0, end; (p = probes_at(o->probes, i)); i = end) {
		size_t n = 0;

		for (end = i; (q = probes_at(o->probes, end)); end++) {
			if (strcmp(q->provider, p->provider) != 0)
				break;
			n += !providers_match(q);
		}
		if (n == 0)
			continue;
		buf_str(out, "    provider ");
		text_safe(out, p->provider);
		buf_printf(out, ": %zu site%s of probes that pollux does not know (--all)\n", n,
			   n == 1 ? "" : "s");
	}
}

static void print_functions(struct buf *out, const struct probed_object *o)
{
	for (size_t i = 0; i < o->n_functions; i++) {
		const struct probed_function *f = &o->functions[i];

		buf_printf(out, "    function %s    %s: %s\n        at 0x%llx", f->known->symbol,
			   provider_what_text(f->known->type), f->known->means,
			   (unsigned long long)f->addr);
		if (f->refused)
			buf_printf(out, ": not to be used: %s", f->refused);
		buf_char(out, '\n');
		for (size_t k = 0; k < f->known->n_args; k++) {
			struct probe_arg arg;

			providers_function_arg(f->machine, k, &arg);
			print_arg(out, &arg, f->known, k);
		}
	}
	for (size_t i = 0; o->n_functions && providers_row(i); i++) {
		const struct provider_probe *row = providers_row(i);
		bool there = !row->symbol;

		for (size_t k = 0; k < o->n_functions; k++)
			there |= o->functions[k].known == row;
		if (!there)
			buf_printf(out, "    no function %s\n", row->symbol);
	}
}

/* The makes of which something was found. */
static void print_makes(struct buf *out, const struct probed_object *o)
{
	const struct probe *p;
	const char *printed[16];
	size_t n = 0;

	for (size_t i = 0; (p = probes_at(o->probes, i)) && n < 16; i++) {
		const struct provider_probe *known = providers_match(p);
		bool again = !known;

		for (size_t k = 0; k < n && !again; k++)
			again = strcmp(printed[k], known->source) == 0;
		if (!again)
			printed[n++] = known->source;
	}
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s%s%s", i ? "; " : "    probes as of: ", printed[i],
			   i + 1 == n ? "\n" : "");
}

static void print(struct buf *out, const struct listing *l)
{
	for (size_t i = 0; i < l->n_objects; i++) {
		const struct probed_object *o = &l->objects[i];

		if (i)
			buf_char(out, '\n');
		text_safe(out, o->path);
		buf_char(out, '\n');
		if (o->reason) {
			buf_str(out, "    not looked at: ");
			text_safe(out, o->reason);
			buf_char(out, '\n');
			continue;
		}
		if (probes_damaged(o->probes))
			buf_printf(out, "    damaged: %s\n", probes_damaged(o->probes));
		print_makes(out, o);
		print_probes(out, l, o);
		print_functions(out, o);
		if (!l->all)
			print_unknown(out, o);
		if (probes_n(o->probes) == 0 && o->n_functions == 0)
			buf_str(out, "    no probes\n");
	}
	if (l->n_known)
		buf_str(out, "\n`pollux record --backend kernel` records these probes.\n");
	else
		buf_str(out,
			"\npollux knows none of its probes and needs none: `pollux record` records "
			"unmodified Tokio, async-std and\nsmol with its agent, and `pollux record "
			"--backend kernel` with uprobes on the runtime's functions.\n");
}

/* ---- as JSON ---- */

static void json_address(struct json *j, const char *key, uint64_t addr)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)addr);
	json_string(j, key, text);
}

static void json_arg(struct json *j, const struct probe_arg *arg,
		     const struct provider_probe *known, size_t i)
{
	static const char *const forms[] = {[PA_REFUSED] = "refused",
					    [PA_CONST] = "constant",
					    [PA_REG] = "register",
					    [PA_MEMORY] = "memory",
					    [PA_VECTOR] = "vector register"};
	_cleanup_buf_ struct buf operand = BUF_INIT, text = BUF_INIT;
	enum provider_arg what = known ? known->args[i] : PV_UNUSED;

	buf_add(&operand, arg->operand, arg->operand_len);
	probe_arg_text(&text, arg);
	json_object(j, NULL);
	json_string(j, "name", *provider_arg_name(what) ? provider_arg_name(what) : NULL);
	json_string(j, "operand", operand.data);
	json_string(j, "form", forms[arg->form]);
	json_string(j, "where", text.data);
	json_u64(j, "size", arg->size);
	json_bool(j, "signed", arg->is_signed);
	json_bool(j, "float", arg->is_float);
	json_bool(j, "string", provider_arg_is_string(what));
	json_end_object(j);
}

static void json_known(struct json *j, const struct provider_probe *known)
{
	json_string(j, "event", known ? provider_what_text(known->type) : NULL);
	json_string(j, "means", known ? known->means : NULL);
	json_string(j, "source", known ? known->source : NULL);
}

static void json_probe(struct json *j, const struct listing *l, const struct probed_object *o,
		       const struct probe *p)
{
	const struct provider_probe *known = providers_match(p);
	int n = listeners(l, o, p);

	json_object(j, NULL);
	json_string(j, "provider", p->provider);
	json_string(j, "name", p->name);
	json_address(j, "address", p->addr);
	json_address(j, "offset", p->offset);
	if (p->semaphore) {
		json_address(j, "semaphore", p->semaphore);
		json_address(j, "semaphore_offset", p->semaphore_offset);
	}
	if (n >= 0)
		json_u64(j, "listeners", (uint64_t)n);
	json_string(j, "refused", p->refused);
	json_known(j, known);
	json_array(j, "arguments");
	for (size_t i = 0; i < p->n_args; i++)
		json_arg(j, &p->args[i], known, i);
	json_end_array(j);
	json_end_object(j);
}

static void json_function(struct json *j, const struct probed_function *f)
{
	json_object(j, NULL);
	json_string(j, "symbol", f->known->symbol);
	json_address(j, "address", f->addr);
	json_address(j, "offset", f->offset);
	json_string(j, "refused", f->refused);
	json_known(j, f->known);
	json_array(j, "arguments");
	for (size_t i = 0; i < f->known->n_args; i++) {
		struct probe_arg arg;

		providers_function_arg(f->machine, i, &arg);
		json_arg(j, &arg, f->known, i);
	}
	json_end_array(j);
	json_end_object(j);
}

static void print_json(struct buf *out, const struct listing *l)
{
	const struct probe *p;
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	if (l->pid)
		json_i64(&j, "pid", l->pid);
	json_u64(&j, "usable", l->n_known);
	json_array(&j, "objects");
	for (size_t i = 0; i < l->n_objects; i++) {
		const struct probed_object *o = &l->objects[i];

		json_object(&j, NULL);
		json_string(&j, "path", o->path);
		json_string(&j, "not_examined", o->reason);
		json_string(&j, "damaged", o->probes ? probes_damaged(o->probes) : NULL);
		json_array(&j, "probes");
		for (size_t k = 0; o->probes && (p = probes_at(o->probes, k)); k++)
			json_probe(&j, l, o, p);
		json_end_array(&j);
		json_array(&j, "functions");
		for (size_t k = 0; k < o->n_functions; k++)
			json_function(&j, &o->functions[k]);
		json_end_array(&j);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	buf_char(out, '\n');
}

/* ---- the table ---- */

static void print_table(struct buf *out, bool json)
{
	const struct provider_probe *row;
	const char *source = "";
	struct json j;

	json_init(&j, out, true);
	if (json)
		json_array(&j, NULL);
	for (size_t i = 0; (row = providers_row(i)); i++) {
		if (json) {
			json_object(&j, NULL);
			json_string(&j, "provider", row->provider);
			json_string(&j, "name", row->name);
			json_string(&j, "symbol", row->symbol);
			json_known(&j, row);
			json_array(&j, "arguments");
			for (size_t k = 0; k < row->n_args; k++)
				json_string(&j, NULL, provider_arg_name(row->args[k]));
			json_end_array(&j);
			json_end_object(&j);
			continue;
		}
		if (strcmp(source, row->source) != 0)
			buf_printf(out, "%s%s\n", i ? "\n" : "", row->source);
		source = row->source;
		buf_printf(out, "    %s:%s(", row->provider, row->name);
		for (size_t k = 0; k < row->n_args; k++) {
			const char *name = provider_arg_name(row->args[k]);

			buf_printf(out, "%s%s", k ? ", " : "", *name ? name : "-");
		}
		buf_printf(out, ")    %s: %s\n", provider_what_text(row->type), row->means);
	}
	if (json) {
		json_end_array(&j);
		buf_char(out, '\n');
	}
}

/* ---- the verb ---- */

static const struct cli_option options[] = {
	{'a', "all", NULL, "also list probes that pollux does not know", false},
	{'l', "list", NULL, "list the probes that pollux knows", false},
	{0, "json", NULL, "print JSON, with all probes", false},
	{0, NULL, NULL, NULL, false},
};

static const char *const examples[] = {
	"pollux probes target/release/app",
	"the probes in the program",
	"pollux probes 4242",
	"the probes of a process and its libraries, and whether a tracer uses them",
	"pollux probes --list",
	"all probes that pollux knows",
	NULL,
};

static int run(const struct cli_args *args, struct error *err)
{
	_cleanup_(listing_done) struct listing l = {.process = PROCESS_INIT};
	_cleanup_buf_ struct buf out = BUF_INIT;
	const char *what = cli_operand(args, 0);
	pid_t pid;
	int r;

	if (cli_flag(args, "list")) {
		if (cli_n_operands(args))
			return cli_usage(args, "--list takes no program");
		print_table(&out, cli_flag(args, "json"));
	} else {
		if (cli_n_operands(args) != 1)
			return cli_usage(args, "probes needs one process (PID or NAME) or program");
		if ((r = process_or_file(args, what, &pid)) || (r = input_refuse_trace(args, what)))
			return r;
		l.all = cli_flag(args, "all");
		r = pid ? look_at_process(&l, pid, err) : look_at_file(&l, what, err);
		if (r < 0)
			return 1;
		if (cli_flag(args, "json"))
			print_json(&out, &l);
		else
			print(&out, &l);
	}
	if (buf_failed(&out)) {
		error_set(err, -ENOMEM, "out of memory");
		return 1;
	}
	fwrite(out.data, 1, out.len, stdout);
	return 0;
}

const struct cli_verb verb_probes = {
	.name = "probes",
	.synopsis = "probes [OPTIONS] PID|NAME|PROGRAM | --list",
	.summary = "list the probes of a process or program and the events that they become",
	.text = "Lists the USDT probes in the notes of an ELF file: provider and name, the address "
		"of each site, its semaphore, the location of each argument, and the event that "
		"pollux records for it; also the functions that async-std of 2019 exports for "
		"perf. pollux knows the probes of Tokio2Chrome's Tokio, tokio-dtrace, "
		"pollux-probes, and Tokio's pull request 7717. It changes nothing: no probe is "
		"enabled.",
	.examples = examples,
	.operands = CLI_PROCESSES | CLI_FILES,
	.options = options,
	.run = run,
};
