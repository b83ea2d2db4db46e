/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel as a source of events: puts probes into programs, reads their records, takes them out.
 *
 * Nothing is changed in the program but the instructions at which the kernel sets its breakpoints;
 * when pollux ends in whatever way, the kernel takes them back.
 *
 * A program that pollux starts is stopped at its entry, its libraries loaded and relocated, when
 * the probes are put in: of one that was linked by lld the semaphores would stay 0 if that was done
 * before it is executed. "Every process of a binary" has to do so, for those that come later; they
 * are looked for ten times a second, and what is still 0 is raised then.
 *
 * The ring is one queue of all CPUs, but a program takes its time before it takes its place in the
 * queue: of two CPUs, or of a program that was interrupted between the two, the later may come
 * first. So records wait, in the order of their times, until the next pass over the ring has begun:
 * what may be older has come by then.
 */
#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/clock.h"
#include "base/cpu_yield.h"
#include "base/units.h"
#include "base/vec.h"
#include "capture/kernel/kernel.h"
#include "capture/drain_interval.h"
#include "process/launch.h"
#include "runtime/debug_names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ALIVE_NS (200 * NSEC_PER_MSEC)
#define SCAN_NS (100 * NSEC_PER_MSEC)
#define MAX_PROCESSES 1024u
/* A record of the kernel's ring is this factor larger than an event of the agent's. */
#define RECORD_RATIO 4

/* A record that waits for those that may be older. */
struct kernel_waiting {
	struct order_item order;
	void *record;
	size_t len;
};

/* ---- every process of a binary ---- */

int kernel_process_of(struct capture *c, uint32_t tgid, struct kernel_process **ret_process)
{
	struct kernel_process *found = NULL;
	struct error ignored = {0};
	int rc = 0;

	for (size_t i = c->n_processes; i-- > 0 && !found;)
		if (c->processes[i]->pid == (pid_t)tgid)
			found = c->processes[i];
	if (!found && c->life->all && !map_get(&c->life->known, tgid, 0)) {
		if (c->n_processes < MAX_PROCESSES)
			rc = kernel_add_pid(c, (pid_t)tgid, &found, &ignored);
		else
			c->life->full = true;
		c->life->n_busy += rc == -EBUSY;
		/* It is looked at once; one that has ended meanwhile can't be any more. */
		if (rc != -ENOMEM)
			rc = map_put(&c->life->known, tgid, 0, c->life);
	}
	*ret_process = found;
	return rc;
}

static bool runs_it(const struct kernel_life *l, pid_t pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return stat(path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

static int scan(struct capture *c)
{
	struct kernel_process *ignored;
	DIR *proc = opendir("/proc");
	struct dirent *d;
	int rc = 0;

	if (!proc)
		return -errno;
	while (rc == 0 && (d = readdir(proc))) {
		pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);

		if (pid > 0 && pid != getpid() && !map_get(&c->life->known, (uint64_t)pid, 0) &&
		    runs_it(c->life, pid))
			rc = kernel_process_of(c, (uint32_t)pid, &ignored);
	}
	closedir(proc);
	return rc;
}

/* A pid that is gone may come again. */
static void forget_pids(struct capture *c)
{
	struct map still = {0};
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&c->life->known, &pos)))
		if (runs_it(c->life, (pid_t)e->a) && map_put(&still, e->a, 0, c->life) < 0)
			break;
	if (!e) {
		map_done(&c->life->known);
		c->life->known = still;
	} else {
		map_done(&still);
	}
}

static int look_at_binary(struct capture *c, int fd, const char *path, struct error *err)
{
	struct elf_image *image;
	bool known = false;
	int number;

	TRY(elf_image_open(fd, path, &image, err));
	number = kernel_sites_known(image, &known, err);
	if (number == 0)
		number = kernel_look_at(c, image, path, known ? ROLE_PROBES : ROLE_FUNCTIONS,
					clock_monotonic_ns() + DEBUG_WAIT_NS, err);
	elf_image_free(image);
	return number;
}

static int open_binary(struct capture *c, const char *path, struct error *err)
{
	_cleanup_close_ int fd = file_open(path, 0, err);
	static const enum kernel_program order[KP_N] = {KP_RETURN, KP_FUNCTION, KP_PROBE};
	struct kernel_object *o;
	struct stat st;
	int rc, number;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return error_sys(err, -errno, "cannot examine %s", path);
	c->life->all = true;
	c->life->dev = st.st_dev;
	c->life->ino = st.st_ino;
	number = look_at_binary(c, fd, path, err);
	if (number < 0)
		return number;
	o = &c->objects[number];
	if (!o->n_sites)
		return error_set(err, -ENOENT,
				 "%s has neither probes that pollux knows nor a Tokio, async-std "
				 "or smol runtime that it can see",
				 path);
	rc = kernel_core_emit_hooks(c->core, &c->hooks);
	if (rc < 0)
		return error_sys(err, rc, "cannot set what the kernel probes");
	for (size_t i = 0; i < KP_N; i++)
		TRY(kernel_core_attach(c->core, order[i], o->fd, 0, o->sites, o->n_sites,
				       &c->life->all_links[order[i]], err));
	rc = scan(c);
	return rc < 0 ? error_sys(err, rc, "cannot look for processes of %s", path) : 0;
}

/* ---- open ---- */

static int launch(struct capture *c, char *const argv[], struct error *err)
{
	struct process process = PROCESS_INIT;
	struct kernel_life *l = c->life;
	struct error why = {0};
	struct kernel_process *p = NULL;
	int rc;

	TRY(tracer_start(&l->tracer, err));
	TRY(launch_parked(l->tracer, argv, &process, &l->parked, err));
	l->child = process.pid;

	/* Its handles are wanted for letting it go, whatever is found. */
	struct process own = PROCESS_INIT;

	rc = process_open(l->child, &own, err);
	if (rc == 0)
		rc = kernel_add_process(c, &own, &p, &why);
	if (rc == -ENOENT) {
		exec_watch_start(&l->late, argv[0]);
		l->why_empty = why;
		rc = 0;
	} else if (rc < 0 && *why.text) {
		*err = why;
	}
	kernel_core_gate(c->core, true);
	if (rc == 0)
		rc = launch_go(l->tracer, &process, &l->parked, err);
	process_close(&process);
	tracer_end(l->tracer);
	l->tracer = NULL;
	return rc;
}

static void capture_free(struct capture *c)
{
	struct kernel_waiting one;

	for (size_t i = 0; i < c->n_processes; i++)
		kernel_process_free(c, c->processes[i]);
	free(c->processes);
	for (unsigned i = 0; i < KP_N; i++)
		kernel_links_close(&c->life->all_links[i]);
	for (size_t i = 0; i < c->n_objects; i++)
		kernel_object_done(&c->objects[i]);
	free(c->objects);
	kernel_hooks_done(&c->hooks);
	map_free(&c->tracks, free);
	map_done(&c->open);
	map_done(&c->life->known);
	while (order_next(&c->waiting, UINT64_MAX, &one))
		free(one.record);
	order_done(&c->waiting);
	providers_free(c->providers);
	kernel_core_free(c->core);
	tracer_end(c->life->tracer);
	free(c->life);
	free(c);
}

static int begin(struct capture *c, const struct capture_options *opt, struct error *err)
{
	const struct kernel_core_options core = {.ring_bytes =
							 opt->ring_bytes * RECORD_RATIO *
							 (uint64_t)sysconf(_SC_NPROCESSORS_ONLN),
						 .spawn_stacks = opt->spawn_stacks};

	TRY(kernel_core_open(&core, &c->core, err));
	kernel_core_gate(c->core, false);
	if (opt->exe)
		return open_binary(c, opt->exe, err);
	if (opt->argv)
		return launch(c, opt->argv, err);
	for (size_t i = 0; i < opt->n_pids; i++)
		TRY(kernel_add_pid(c, opt->pids[i], NULL, err));
	return 0;
}

static int kernel_open(struct capture_shared *shared, struct capture **ret_capture,
		       struct error *err)
{
	const struct capture_options *opt = shared->options;
	uint64_t began = clock_monotonic_ns();
	struct capture *c = calloc(1, sizeof(*c));
	struct kernel_life *l = calloc(1, sizeof(*l));
	int rc;

	if (!c || !l) {
		free(c);
		free(l);
		return error_sys(err, -ENOMEM, "cannot record");
	}
	c->life = l;
	c->shared = shared;
	order_init(&c->waiting, sizeof(struct kernel_waiting), SIZE_MAX);
	l->exit_status = -1;
	drain_interval_init(&l->pace, opt->long_poll_ns ? opt->long_poll_ns / 4 : PACE_MAX_NS);
	rc = begin(c, opt, err);
	l->attach_ns = clock_monotonic_ns() - began;
	if (rc < 0) {
		if (l->child > 0 && waitpid(l->child, &l->exit_status, WNOHANG) == 0) {
			kill(l->child, SIGKILL);
			waitpid(l->child, &l->exit_status, 0);
		}
		capture_free(c);
		return error_add(err, "cannot record by the kernel");
	}
	kernel_core_gate(c->core, true);
	*ret_capture = c;
	return 0;
}

/* ---- draining ---- */

static bool reap_child(struct kernel_life *l)
{
	int status;

	if (l->child > 0 && waitpid(l->child, &status, WNOHANG) == l->child) {
		l->exit_status = status;
		l->child = 0;
	}
	return l->child <= 0;
}

/* A launched program with nothing to probe is looked at again when its code has changed. */
static int look_again(struct capture *c, uint64_t now, struct error *err)
{
	struct kernel_life *l = c->life;
	struct error why = {0};
	int rc;

	if (!exec_watch_changed(&l->late, l->child, now))
		return 0;
	rc = kernel_add_pid(c, l->child, NULL, &why);
	if (rc == -ENOENT)
		l->why_empty = why;
	/* What was recorded before counts also if this fails. */
	if (rc == -ENOENT || rc == -ESRCH || (rc < 0 && c->n_processes))
		return 0;
	if (rc < 0)
		*err = why;
	else
		l->late.name = NULL;
	return rc;
}

static int add_record(void *context, const void *record, size_t len)
{
	struct capture *c = context;
	struct kernel_waiting one = {.len = len};
	int rc;

	/* Too short to be one, or too long: from another version of pollux. */
	if (len < sizeof(struct kernel_record) || len > sizeof(struct kernel_stack_record))
		return 0;
	one.record = malloc(len);
	if (!one.record)
		return -ENOMEM;
	memcpy(one.record, record, len);
	memcpy(&one.order.time, record, sizeof(one.order.time));
	rc = order_put(&c->waiting, &one);
	if (rc < 0)
		free(one.record);
	return rc;
}

static int take_records(struct capture *c, uint64_t before_ns)
{
	struct kernel_waiting one;
	int rc = 0;

	while (rc == 0 && order_next(&c->waiting, before_ns, &one)) {
		rc = kernel_take(c, one.record, one.len);
		free(one.record);
	}
	return rc;
}

/* The process is gone, or executes another program: its threads are not recorded any more. */
static int end_process(struct capture *c, struct kernel_process *p, uint64_t now)
{
	const struct map_entry *e;
	size_t pos = 0;
	int rc = 0;

	p->alive = false;
	for (unsigned i = 0; i < KP_N; i++)
		kernel_links_close(&p->links[i]);
	while (rc == 0 && (e = map_next(&c->tracks, &pos))) {
		struct kernel_track *t = e->value;

		if (t->process != p)
			continue;
		rc = kernel_track_end(c, t, now);
		pos = 0; /* the map has changed */
	}
	return rc;
}

static int take_until(struct capture *c, uint64_t cut)
{
	uint64_t safe = cut == UINT64_MAX	  ? cut
			: cut > PROVIDERS_WAIT_NS ? cut - PROVIDERS_WAIT_NS
						  : 0;

	TRY(take_records(c, cut));
	if (c->providers)
		TRY(providers_drain(c->providers, safe));
	return kernel_flush(c);
}

/* What the probes and the points have up to `cut`, and all of those of the first n processes that
 * are gone. */
static int take_pass(struct capture *c, uint64_t cut, const bool *gone, size_t n)
{
	for (size_t i = 0; i < c->n_processes; i++)
		if (c->processes[i]->alive) {
			descriptors_tidy(&c->processes[i]->descriptors);
			TRY(kernel_points_take(c, c->processes[i]));
		}
	TRY(bpf_ring_drain(kernel_core_ring(c->core), add_record, c));
	TRY(take_until(c, cut));
	for (size_t i = 0; i < n; i++) {
		if (!gone[i])
			continue;
		/* All its records have been read. */
		TRY(take_until(c, UINT64_MAX));
		TRY(end_process(c, c->processes[i], clock_monotonic_ns()));
	}
	return 0;
}

static int64_t kernel_drain(struct capture *c, uint64_t *ret_watermark_ns, struct error *err)
{
	struct kernel_life *l = c->life;
	uint64_t now = clock_monotonic_ns(), cut = l->drain_start_ns;
	uint64_t drained_ns = cut ? cut : now - PACE_MIN_NS;
	bool look_alive = now >= l->next_alive_ns, any = false;
	bool child_gone = reap_child(l);
	int rc;

	l->drain_start_ns = now;
	if (l->late.name && !child_gone)
		TRY(look_again(c, now, err));
	/* Whether they live is asked before: what they did before their end is in the ring then. */
	bool gone[MAX_PROCESSES];

	for (size_t i = 0; i < c->n_processes; i++) {
		struct kernel_process *p = c->processes[i];

		gone[i] = p->alive && (look_alive || child_gone) && !process_alive(&p->process);
		any = any || (p->alive && !gone[i]);
	}
	rc = take_pass(c, cut, gone, c->n_processes);
	if (look_alive)
		l->next_alive_ns = now + ALIVE_NS;
	/* The program that we started executes another one, in which there may be something, too.
	 */
	if (!any && !child_gone && !l->all && !l->late.name)
		exec_watch_start(&l->late, "the program");
	if (rc == 0 && l->all && now >= l->next_scan_ns) {
		rc = scan(c);
		if (rc == 0)
			forget_pids(c);
		l->next_scan_ns = now + SCAN_NS;
	}
	if (rc == 0)
		rc = kernel_flush(c);
	if (rc < 0)
		return error_sys(err, rc, "cannot write the trace");
	if (c->shared->options->long_poll_ns)
		kernel_emit_polls(c);
	*ret_watermark_ns = c->providers && cut > PROVIDERS_WAIT_NS ? cut - PROVIDERS_WAIT_NS : cut;
	if (!any && child_gone && !l->all)
		return 0;
	cpu_yield_buffer_fill(kernel_core_ring(c->core)->fill);
	if (l->late.name)
		return (int64_t)exec_watch_wait(&l->late);
	return (int64_t)drain_interval_next(&l->pace, kernel_core_ring(c->core)->fill,
					    now - drained_ns);
}

/* ---- the end ---- */

static void take_probes_out(struct capture *c)
{
	static const enum kernel_program order[KP_N] = {KP_FUNCTION, KP_PROBE, KP_RETURN};

	/* Those of all processes at once, for each waits for the kernel; ends after begins. */
	for (unsigned k = 0; k < KP_N; k++) {
		struct kernel_links all = c->life->all_links[order[k]];

		c->life->all_links[order[k]] = (struct kernel_links){0};
		for (size_t i = 0; i < c->n_processes; i++) {
			struct kernel_links *own = &c->processes[i]->links[order[k]];

			if (!own->n || !GROW_BY(all.fds, all.n, own->n))
				continue; /* there are none, or they are closed one by one later */
			memcpy(all.fds + all.n, own->fds, own->n * sizeof(*own->fds));
			all.n += own->n;
			free(own->fds);
			*own = (struct kernel_links){0};
		}
		kernel_links_close(&all);
	}
	for (size_t i = 0; i < c->n_processes; i++)
		kernel_sema_lower(c->processes[i]);
}

static int keep_coverage(struct capture *c, const struct trace_coverage *one,
			 struct capture_stats *stats)
{
	(void)c;
	return capture_keep_coverage(stats, one);
}

struct rest {
	struct capture *c;
	uint64_t end_ns; /* of the recording */
};

static int emit_rest(void *context, const struct kernel_thread *in_kernel)
{
	const struct rest *u = context;
	struct kernel_process *p;
	struct kernel_track *t;

	if (!in_kernel->lost && !in_kernel->call)
		return 0;
	TRY(kernel_process_of(u->c, in_kernel->tgid, &p));
	if (!p)
		return 0;
	if (in_kernel->lost) {
		t = kernel_track(u->c, p, in_kernel->tid, "", in_kernel->lost_ns);
		return t ? kernel_emit_loss(u->c, p, t, clock_monotonic_ns(), in_kernel->lost,
					    in_kernel->lost_ns)
			 : -ENOMEM;
	}
	t = map_get(&u->c->tracks, p->index, in_kernel->tid);
	return t ? kernel_emit_open_call(u->c, p, t, in_kernel, u->end_ns) : 0;
}

static int emit_refused(struct capture *c, const struct kernel_process *p,
			struct capture_stats *stats)
{
	struct trace_coverage refused = {
		.process = p->index,
		.item = "probes taken by the kernel",
		.note = "the kernel can't step over the instructions of the others"};

	for (size_t i = 0; i < p->n_loaded; i++) {
		const struct kernel_object *o = &c->objects[p->loaded[i].object];

		for (size_t k = 0; k < o->n_sites; k++)
			refused.seen += !o->sites[k].refused;
		refused.total += o->n_sites;
	}
	return refused.seen < refused.total
		       ? capture_emit_coverage(c->shared->writer, stats, &refused)
		       : 0;
}

static int emit_end(struct capture *c, uint64_t n_others, struct capture_stats *stats)
{
	const struct trace_coverage others = {
		.item = "records of threads that have ended",
		.total = n_others,
		.note = "this many found no room, and their threads ended before they could report "
			"it; a larger --ring-size loses less"};
	const struct trace_coverage full = {
		.item = "processes",
		.seen = MAX_PROCESSES,
		.total = MAX_PROCESSES + 1,
		.note = "there were more processes of this program than pollux records at once"};
	const struct trace_coverage busy = {
		.item = "processes",
		.seen = c->n_processes,
		.total = c->n_processes + c->life->n_busy,
		.note = "another pollux was recording the others by its agent"};

	c->lost.n += n_others;
	for (size_t i = 0; i < c->n_processes; i++) {
		TRY(kernel_each_coverage(c, c->processes[i], keep_coverage, stats));
		TRY(kernel_points_emit(c, c->processes[i], stats));
		TRY(emit_refused(c, c->processes[i], stats));
	}
	if (n_others)
		TRY(capture_emit_coverage(c->shared->writer, stats, &others));
	if (c->life->full)
		TRY(capture_emit_coverage(c->shared->writer, stats, &full));
	return c->life->n_busy ? capture_emit_coverage(c->shared->writer, stats, &busy) : 0;
}

static int take_rest(struct capture *c, struct capture_stats *stats)
{
	struct rest rest = {c, stats->cost.end_ns};
	uint64_t n_others = 0;

	TRY(bpf_ring_drain(kernel_core_ring(c->core), add_record, c));
	TRY(take_records(c, UINT64_MAX));
	TRY(kernel_core_rest(c->core, emit_rest, &rest, &n_others));
	for (size_t i = 0; i < c->n_processes; i++) {
		struct kernel_process *p = c->processes[i];

		if (p->alive && !process_alive(&p->process))
			TRY(end_process(c, p, clock_monotonic_ns()));
	}
	TRY(take_until(c, UINT64_MAX));
	return emit_end(c, n_others, stats);
}

static int kernel_close(struct capture *c, struct capture_stats *stats, struct error *err)
{
	int rc;

	kernel_core_gate(c->core, false);
	reap_child(c->life);
	take_probes_out(c);
	kernel_core_end_calls(c->core);
	rc = take_rest(c, stats);
	stats->cost.attach_ns += c->life->attach_ns;
	stats->cost.event_cost_ps = kernel_core_cost_ps(c->core);
	capture_loss_add(&stats->lost, c->lost.n, c->lost.first_ns, c->lost.last_ns);
	stats->exit_status = c->life->exit_status;
	stats->child = c->life->child;
	stats->n_processes += c->n_processes;
	stats->why_empty = c->life->why_empty;
	capture_free(c);
	return rc < 0 ? error_sys(err, rc, "cannot write the trace") : 0;
}

static pid_t kernel_child(const struct capture *c)
{
	return c->life->child;
}

static int kernel_exit_status(const struct capture *c)
{
	return c->life->exit_status;
}

const struct capture_ops capture_kernel = {
	.name = "kernel",
	.open = kernel_open,
	.drain = kernel_drain,
	.close = kernel_close,
	.child = kernel_child,
	.exit_status = kernel_exit_status,
};
