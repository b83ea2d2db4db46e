/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One process: what can be probed in it, what the trace says of that, and the probes put in.
 *
 * An ELF file is examined once, however many processes have it; one with nothing in it is
 * remembered, too. A process any of whose objects carries known probes is recorded by those alone,
 * because the same poll reported twice would be two polls.
 */
#include "arch/arch.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/vec.h"
#include "capture/kernel/kernel.h"
#include "capture/kinds.h"
#include "process/memory.h"
#include "runtime/debug_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- objects ---- */

static int file_of(const struct elf_image *image, struct stat *ret)
{
	return fstat(elf_image_fd(image), ret) < 0 ? -errno : 0;
}

/* An object that was looked at before; its number, or -ENOENT. */
static int find_object(const struct capture *c, const struct stat *st, uint8_t role)
{
	for (size_t i = 0; i < c->n_objects; i++)
		if (c->objects[i].dev == st->st_dev && c->objects[i].ino == st->st_ino &&
		    c->objects[i].role == role)
			return (int)i;
	return -ENOENT;
}

/* Looks at an object, once; one with nothing in it is remembered, too. Its number. */
int kernel_look_at(struct capture *c, struct elf_image *image, const char *path, uint8_t role,
		   uint64_t deadline_ns, struct error *err)
{
	struct kernel_object *o;
	struct stat st;
	int rc;

	TRY(file_of(image, &st));
	rc = find_object(c, &st, role);
	if (rc != -ENOENT)
		return rc;
	if (!GROW_ONE(c->objects, c->n_objects))
		return -ENOMEM;
	o = &c->objects[c->n_objects];
	if (role == ROLE_UNWINDER)
		rc = kernel_sites_unwinder(image, path, (uint32_t)c->n_objects, &c->hooks, o, err);
	else
		rc = kernel_sites_find(image, path, (uint32_t)c->n_objects, role == ROLE_FUNCTIONS,
				       deadline_ns, &c->hooks, o, err);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (rc == -ENOENT)
		*o = (struct kernel_object){.fd = -1};
	o->dev = st.st_dev;
	o->ino = st.st_ino;
	o->role = role;
	return (int)c->n_objects++;
}

/* Does any object of the process carry probes that are known? */
static int has_known(const struct kernel_process *p, bool *ret, struct error *err)
{
	*ret = false;
	for (size_t i = 0; i < p->objects.n && !*ret; i++)
		if (p->objects.v[i].image)
			TRY(kernel_sites_known(p->objects.v[i].image, ret, err));
	return 0;
}

static struct kernel_loaded *load(struct kernel_process *p, uint32_t object, uint64_t bias)
{
	if (!GROW_ONE(p->loaded, p->n_loaded))
		return NULL;
	p->loaded[p->n_loaded] = (struct kernel_loaded){.object = object, .bias = bias};
	return &p->loaded[p->n_loaded++];
}

/* Everything that can be probed in this process. -ENOENT: nothing. */
static int look(struct capture *c, struct kernel_process *p, struct error *err)
{
	_cleanup_buf_ struct buf notes = BUF_INIT;
	uint64_t deadline_ns = clock_monotonic_ns() + DEBUG_WAIT_NS;
	_cleanup_(maps_done) struct process_maps maps = {0};
	bool known, any = false;

	TRY(maps_read(&p->process, &maps, err));
	TRY(objects_read(&p->process, &maps, &p->objects, err));
	TRY(has_known(p, &known, err));
	p->providers = known;
	for (size_t i = 0; i < p->objects.n; i++) {
		const struct process_object *o = &p->objects.v[i];
		struct error why = {0};
		int number;

		if (!o->image) {
			buf_printf(&notes, "%s not looked at: %s; ", o->path, o->reason);
			log_debug(LOG_KERNEL, "%s: not read: %s", o->path, o->reason);
			continue;
		}
		number = kernel_look_at(c, o->image, o->path, known ? ROLE_PROBES : ROLE_FUNCTIONS,
					deadline_ns, &why);
		if (number == -ENOMEM || number == -E2BIG)
			return error_set(err, number, "%s", why.text);
		if (number < 0) {
			/* A library that can't be read is no reason to give up the program. */
			buf_printf(&notes, "%s not understood: %s; ", o->path, why.text);
			continue;
		}
		if (*why.text)
			buf_printf(&notes, "%s; ", why.text);
		log_debug(LOG_KERNEL, "%s: %zu %s%s%s", o->path, c->objects[number].n_sites,
			  known ? "probes" : "functions to probe", *why.text ? ": " : "", why.text);
		if (!c->objects[number].n_sites)
			continue;
		any = true;
		p->parks = p->parks || c->objects[number].parks;
		if (!load(p, (uint32_t)number, o->bias))
			return error_sys(err, -ENOMEM, "cannot look at process %d", p->pid);
	}
	if (!any)
		return error_set(err, -ENOENT,
				 "process %d (%s) has neither probes that pollux knows nor a "
				 "Tokio, async-std or smol runtime that it can see%s%.*s",
				 p->pid, p->objects.v[0].path, notes.len ? ": " : "",
				 notes.len >= 2 ? (int)notes.len - 2 : 0,
				 notes.data ? notes.data : "");
	for (size_t i = 0; i < p->objects.n && !known; i++) {
		const struct process_object *o = &p->objects.v[i];
		int number = o->image ? kernel_look_at(c, o->image, o->path, ROLE_UNWINDER, 0, NULL)
				      : -ENOENT;

		if (number >= 0 && c->objects[number].n_sites &&
		    !load(p, (uint32_t)number, o->bias))
			return error_sys(err, -ENOMEM, "cannot look at process %d", p->pid);
	}
	return 0;
}

/* ---- telling the trace ---- */

static int emit_kinds(struct capture *c, struct kernel_process *p, struct kernel_loaded *l)
{
	const struct runtime_scan *f = &c->objects[l->object].scan;
	_cleanup_free_ uint32_t *numbers = calloc(f->n_runtimes + 1, sizeof(*numbers));

	l->kinds = calloc(f->n_kinds + 1, sizeof(*l->kinds));
	l->wakers = calloc(f->n_wakers + 1, sizeof(*l->wakers));
	if (!numbers || !l->kinds || !l->wakers)
		return -ENOMEM;
	TRY(kinds_emit_runtimes(c->shared->writer, p->index, f, numbers));
	for (size_t i = 0; i < f->n_kinds; i++) {
		const struct scan_kind *k = &f->kinds[i];
		struct kernel_kind *kind = &l->kinds[i];

		TRY(kinds_emit(c->shared->writer, p->index, f, numbers, k, NULL, NULL,
			       &kind->index));
		kind->state_offset = k->state_offset;
		kind->worker = k->role == TR_WORKER;
		kind->task = find_kind_is_task(f, k);
		TRY(map_put(&p->kinds, k->vtable + l->bias, 0, kind));
	}
	for (size_t i = 0; i < f->n_wakers; i++)
		if (f->wakers[i].root)
			TRY(kinds_emit(c->shared->writer, p->index, f, numbers, NULL, &f->wakers[i],
				       NULL, &l->wakers[i]));
	return 0;
}

int kernel_each_coverage(struct capture *c, const struct kernel_process *p,
			 int (*emit)(struct capture *c, const struct trace_coverage *one,
				     struct capture_stats *stats),
			 struct capture_stats *stats)
{
	int rc = 0;

	for (size_t i = 0; i < p->n_loaded; i++) {
		const struct kernel_object *o = &c->objects[p->loaded[i].object];

		for (size_t k = 0; k < o->coverage.n && rc == 0; k++) {
			struct trace_coverage one = o->coverage.v[k];

			one.process = p->index;
			one.object = o->scan.path;
			rc = emit(c, &one, stats);
		}
	}
	return rc;
}

static int write_coverage(struct capture *c, const struct trace_coverage *one,
			  struct capture_stats *stats)
{
	(void)stats;
	return trace_writer_coverage(c->shared->writer, one);
}

static char *cmdline_of(const struct process *p)
{
	char *text;
	size_t len;

	if (process_read_whole(p, "cmdline", 1 << 20, &text, &len) < 0)
		return strdup("");
	for (size_t i = 0; i + 1 < len; i++)
		if (!text[i])
			text[i] = ' ';
	return text;
}

static int emit(struct capture *c, struct kernel_process *p)
{
	_cleanup_free_ char *cmdline = cmdline_of(&p->process);
	const struct trace_process record = {.pid = (uint32_t)p->pid,
					     .exe = p->objects.v[0].path,
					     .cmdline = cmdline,
					     .start_ns = clock_monotonic_ns(),
					     .start_realtime_ns = clock_realtime_ns()};

	TRY(trace_writer_process(c->shared->writer, &record, &p->index));
	/* The kinds of known probes are written as they appear. */
	for (size_t i = 0; i < p->n_loaded && !p->providers; i++)
		TRY(emit_kinds(c, p, &p->loaded[i]));
	TRY(kernel_each_coverage(c, p, write_coverage, NULL));
	return p->providers ? kernel_providers_begin(c) : 0;
}

/* ---- processes ---- */

void kernel_process_free(struct capture *c, struct kernel_process *p)
{
	for (unsigned i = 0; i < KP_N; i++)
		kernel_links_close(&p->links[i]);
	kernel_points_free(c, p);
	kernel_sema_lower(p);
	for (size_t i = 0; i < p->n_loaded; i++) {
		free(p->loaded[i].kinds);
		free(p->loaded[i].wakers);
	}
	free(p->loaded);
	map_done(&p->kinds);
	descriptors_done(&p->descriptors);
	objects_done(&p->objects);
	process_close(&p->process);
	free(p);
}

static int attach_object(struct capture *c, struct kernel_process *p, struct kernel_object *o,
			 enum kernel_program program, struct error *err)
{
	return kernel_core_attach(c->core, program, o->fd, p->pid, o->sites, o->n_sites,
				  &p->links[program], err);
}

/* Is it the binary of which every process is recorded? Its probes are in already. */
static bool is_everywhere(const struct capture *c, const struct kernel_object *o)
{
	return c->life->all && o->dev == c->life->dev && o->ino == c->life->ino;
}

/* A pollux that was killed may have left a jump of its agent's where a probe is to go. The kernel
 * would write that instruction's first byte when it takes the probe away, and halve the jump. */
static bool is_jump_left(const struct kernel_process *p, const struct kernel_object *o,
			 uint64_t bias)
{
	uint8_t live, file;

	for (size_t i = 0; i < o->n_sites; i++)
		if (memory_read(&p->process, o->sites[i].addr + bias, &live, 1) == 0 &&
		    live == ARCH_JUMP && pread(o->fd, &file, 1, (off_t)o->sites[i].offset) == 1 &&
		    file != live)
			return true;
	return false;
}

/*
 * Ends before begins: so that every poll whose begin is seen has its end seen, too.
 */
static int attach_all(struct capture *c, struct kernel_process *p, struct error *err)
{
	static const enum kernel_program order[KP_N] = {KP_RETURN, KP_FUNCTION, KP_PROBE};
	int rc = kernel_core_emit_hooks(c->core, &c->hooks);

	if (rc < 0)
		return error_sys(err, rc, "cannot set what the kernel probes");
	for (size_t i = 0; i < p->n_loaded; i++)
		if (is_jump_left(p, &c->objects[p->loaded[i].object], p->loaded[i].bias))
			return error_set(err, -EBUSY,
					 "a pollux that was killed has left its agent in process "
					 "%d: record it by the agent once (pollux record -p %d -d "
					 "0.1), which removes it",
					 p->pid, p->pid);
	for (unsigned k = 0; k < KP_N && rc == 0; k++)
		for (size_t i = 0; i < p->n_loaded && rc == 0; i++) {
			struct kernel_object *o = &c->objects[p->loaded[i].object];

			if (!is_everywhere(c, o))
				rc = attach_object(c, p, o, order[k], err);
		}
	for (size_t i = 0; i < p->n_loaded && rc == 0; i++) {
		const struct kernel_object *o = &c->objects[p->loaded[i].object];

		rc = kernel_sema_raise(p, p->loaded[i].bias, o->semaphores, o->n_semaphores);
		if (rc < 0)
			error_sys(err, rc, "cannot raise the semaphores of process %d", p->pid);
	}
	return rc;
}

static int begin(struct capture *c, struct kernel_process *p, struct error *err)
{
	int rc;

	/* The agent changes code at which there would be probes. Other probes do no harm. */
	if (!process_lock(&p->process, true))
		return error_set(err, -EBUSY,
				 "another pollux is recording process %d by its agent: end that "
				 "recording first",
				 p->pid);
	TRY(look(c, p, err));
	if (!GROW_ONE(c->processes, c->n_processes))
		return error_sys(err, -ENOMEM, "cannot record");
	rc = emit(c, p);
	if (rc < 0)
		return error_sys(err, rc, "cannot begin the trace");
	TRY(c->shared->joined(c->shared, p->pid, p->index, err));
	rc = kernel_points_begin(c, p, c->shared->options->argv || !c->n_processes);
	if (rc < 0)
		return error_sys(err, rc, "cannot record await points");
	return attach_all(c, p, err);
}

/* Takes the process' handles over in every case. -ENOENT: there is nothing to probe. */
int kernel_add_process(struct capture *c, struct process *taken, struct kernel_process **ret,
		       struct error *err)
{
	struct kernel_process *p = calloc(1, sizeof(*p));
	int rc;

	if (!p) {
		process_close(taken);
		return error_sys(err, -ENOMEM, "cannot record");
	}
	p->process = *taken;
	*taken = (struct process)PROCESS_INIT;
	p->pid = p->process.pid;
	p->alive = true;
	rc = begin(c, p, err);
	if (rc < 0) {
		kernel_process_free(c, p);
		return rc;
	}
	c->processes[c->n_processes++] = p;
	if (ret)
		*ret = p;
	return 0;
}

int kernel_add_pid(struct capture *c, pid_t pid, struct kernel_process **ret, struct error *err)
{
	struct process process = PROCESS_INIT;
	int rc = process_open(pid, &process, err);

	return rc < 0 ? rc : kernel_add_process(c, &process, ret, err);
}
