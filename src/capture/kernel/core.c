/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The programs in the kernel: loading them, attaching them, reading their records.
 *
 * From Linux 6.6 on, one link holds any number of probes (uprobe_multi), made by the bpf system
 * call itself since libbpf knows it only later. Before that each probe is a perf event of its own,
 * and taking it out waits 40 ms for the kernel, so they are taken out in groups.
 *
 * Which of the two is used is decided at the start: pollux puts a probe into itself, calls the
 * function some times and measures what a hit costs, for the recording's account.
 *
 * All hangs on file descriptors: when pollux ends in whatever way, the kernel takes the probes out,
 * and nothing was ever registered by a name.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"
#include "capture/bpf_log.h"
#include "capture/kernel/calls.h"
#include "capture/kernel/core.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual" /* generated code */
#include "capture/kernel.skel.h"
#pragma GCC diagnostic pop
#include "process/rights.h"

#include <asm/unistd.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Of the first pid namespace (the kernel's PROC_PID_INIT_INO). */
#define FIRST_PID_NS 0xeffffffcu
/* Records of this many fit into the smallest ring. */
#define MEASURED_CALLS 500u
#define MEASURED_HOOK (KERNEL_MAX_HOOKS - 1)
#define MAX_CLOSERS 32u

struct kernel_core {
	struct kernel_bpf *skel;
	struct bpf_ring ring;
	bool multi;
	uint32_t perf_type, return_bit; /* of the uprobe PMU */
	uint64_t cost_ps;
	uint64_t *layouts; /* the map's memory */
	uint32_t n_layout_words;
};

/* linux/bpf.h of 6.6; the headers that this is built with may be older. */
#define LINK_CREATE 28
#define TRACE_UPROBE_MULTI 48
#define UPROBE_MULTI_RETURN 1
#define UPROBE_PMU "/sys/bus/event_source/devices/uprobe"

struct link_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctrs, cookies;
	uint32_t n, multi_flags, pid, reserved;
};
_Static_assert(sizeof(struct link_attr) == 64, "bpf_attr.link_create.uprobe_multi");

/* ---- constants that the programs get before they are loaded ---- */

static void set_machine(struct kernel_bpf *skel)
{
	struct stat st;

	for (size_t i = 0; i < kernel_n_calls; i++)
		skel->rodata->calls[kernel_calls[i].number] = kernel_calls[i].rule;
	if (stat("/proc/self/ns/pid", &st) == 0 && (uint32_t)st.st_ino != FIRST_PID_NS) {
		skel->rodata->ns_dev = st.st_dev;
		skel->rodata->ns_ino = st.st_ino;
	}
}

/* ---- why not ---- */

static bool has_rights(void)
{
	uint64_t caps = rights_own_caps();

	/* CAP_SYS_ADMIN; or CAP_PERFMON and CAP_BPF */
	return caps & 1ull << 21 || (caps & 3ull << 38) == 3ull << 38;
}

/* One sentence about a refusal, with what works instead. */
static int explain(int code, struct error *err)
{
	static const char instead[] = "--backend agent records without it";

	if ((code == -EPERM || code == -EACCES) && !has_rights())
		return error_set(err, code,
				 "the kernel lets only root, or CAP_BPF with CAP_PERFMON, put "
				 "probes into a program; %s",
				 instead);
	if (code == -EPERM || code == -EACCES)
		return error_set(err, code,
				 "the bpf system call is forbidden here (by a container's seccomp "
				 "filter, or the kernel is locked down); %s",
				 instead);
	if (code == -ENOSYS)
		return error_set(err, code, "there is no bpf system call here; %s", instead);
	return error_sys(err, code,
			 "this kernel does not take pollux's probes (Linux 5.15 and newer do); %s",
			 instead);
}

/* ---- attaching ---- */

static struct bpf_program *program_of(struct kernel_core *core, enum kernel_program program)
{
	return program == KP_RETURN  ? core->skel->progs.on_return
	       : program == KP_PROBE ? core->skel->progs.on_probe
				     : core->skel->progs.on_function;
}

static int add_fd(struct kernel_links *links, int fd)
{
	if (!GROW_ONE(links->fds, links->n)) {
		close(fd);
		return -ENOMEM;
	}
	links->fds[links->n++] = fd;
	return 0;
}

static int link_multi(int prog_fd, bool at_return, const char *path, pid_t pid,
		      struct kernel_site *const *sites, size_t n, struct kernel_links *links)
{
	_cleanup_free_ uint64_t *words = calloc(3 * n, sizeof(*words));
	uint64_t *offsets = words, *ref_ctrs = words + n, *cookies = words + 2 * n;
	bool counted = false;
	int fd;

	if (!words)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		offsets[i] = sites[i]->offset;
		ref_ctrs[i] = sites[i]->ref_ctr;
		cookies[i] = sites[i]->hook;
		counted = counted || sites[i]->ref_ctr;
	}
	const struct link_attr attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = TRACE_UPROBE_MULTI,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offsets,
		.ref_ctrs = counted ? (uintptr_t)ref_ctrs : 0,
		.cookies = (uintptr_t)cookies,
		.n = (uint32_t)n,
		.multi_flags = at_return ? UPROBE_MULTI_RETURN : 0,
		.pid = (uint32_t)pid,
	};
	fd = (int)syscall(__NR_bpf, LINK_CREATE, &attr, sizeof(attr));
	return fd < 0 ? -errno : add_fd(links, fd);
}

static int link_perf(const struct kernel_core *core, int prog_fd, bool at_return, const char *path,
		     pid_t pid, const struct kernel_site *site, struct kernel_links *links)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = core->perf_type,
		.config = site->ref_ctr << 32 | (at_return ? 1ull << core->return_bit : 0),
		.uprobe_path = (uintptr_t)path,
		.probe_offset = site->offset,
		.sample_period = 1,
		.wakeup_events = 1,
	};
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = site->hook);
	int event, link;

	if (site->ref_ctr > UINT32_MAX)
		return -ERANGE;
	event = (int)syscall(__NR_perf_event_open, &attr, pid ? pid : -1, pid ? -1 : 0, -1,
			     PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return -errno;
	link = bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &opts);
	if (link < 0) {
		close(event);
		return link;
	}
	if (add_fd(links, link) < 0) {
		close(event);
		return -ENOMEM;
	}
	return add_fd(links, event);
}

/* Refusals of one place, not of everything. */
static bool is_about_place(int code)
{
	return code == -EOPNOTSUPP || code == -EINVAL || code == -524 /* ENOTSUPP */ ||
	       code == -EIO || code == -ENOEXEC || code == -ERANGE;
}

static void refuse(struct kernel_site *site, int code)
{
	log_debug(LOG_KERNEL, "the kernel refuses a probe at offset %#llx: %s",
		  (unsigned long long)site->offset, strerror(-code));
	site->refused = true;
}

/* One place that is refused makes the whole link fail: it is looked for by halves. */
static int link_some(struct kernel_core *core, enum kernel_program program, const char *path,
		     pid_t pid, struct kernel_site *const *sites, size_t n,
		     struct kernel_links *links)
{
	int prog_fd = bpf_program__fd(program_of(core, program)), rc = 0;
	bool at_return = program == KP_RETURN;

	if (!core->multi) {
		for (size_t i = 0; i < n && rc == 0; i++) {
			rc = link_perf(core, prog_fd, at_return, path, pid, sites[i], links);
			if (is_about_place(rc)) {
				refuse(sites[i], rc);
				rc = 0;
			}
		}
		return rc;
	}
	rc = link_multi(prog_fd, at_return, path, pid, sites, n, links);
	if (!is_about_place(rc))
		return rc;
	if (n == 1) {
		refuse(sites[0], rc);
		return 0;
	}
	rc = link_some(core, program, path, pid, sites, n / 2, links);
	return rc < 0 ? rc : link_some(core, program, path, pid, sites + n / 2, n - n / 2, links);
}

int kernel_core_attach(struct kernel_core *core, enum kernel_program program, int file_fd,
		       pid_t pid, struct kernel_site *sites, size_t n, struct kernel_links *links,
		       struct error *err)
{
	_cleanup_free_ struct kernel_site **wanted = calloc(n + 1, sizeof(*wanted));
	size_t n_wanted = 0;
	char path[32];
	int rc;

	if (!wanted)
		return error_sys(err, -ENOMEM, "cannot attach");
	for (size_t i = 0; i < n; i++)
		if (sites[i].program == program && !sites[i].refused)
			wanted[n_wanted++] = &sites[i];
	if (!n_wanted)
		return 0;
	/* The very file that is open here, whatever lies at its path by now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file_fd);
	rc = link_some(core, program, path, pid, wanted, n_wanted, links);
	log_debug(LOG_KERNEL, "%zu probes into process %d: %s", n_wanted, pid,
		  rc < 0 ? strerror(-rc) : "done");
	if (rc < 0)
		return error_sys(err, rc, "cannot put probes into process %d", pid);
	return 0;
}

void kernel_core_gate(struct kernel_core *core, bool open)
{
	core->skel->bss->closed = !open;
}

struct closer {
	int *fds;
	size_t n, from, step;
	pthread_t thread;
	bool started;
};

static void *close_some(void *arg)
{
	const struct closer *c = arg;

	for (size_t i = c->from; i < c->n; i += c->step)
		close(c->fds[i]);
	return NULL;
}

/* Each waits until no CPU can be in the probe any more; they may wait together. */
void kernel_links_close(struct kernel_links *links)
{
	size_t n = links->n < MAX_CLOSERS ? links->n : MAX_CLOSERS;
	struct closer closers[MAX_CLOSERS];

	for (size_t i = 0; i < n; i++) {
		closers[i] =
			(struct closer){.fds = links->fds, .n = links->n, .from = i, .step = n};
		closers[i].started = i > 0 && pthread_create(&closers[i].thread, NULL, close_some,
							     &closers[i]) == 0;
	}
	for (size_t i = 0; i < n; i++)
		if (!closers[i].started)
			close_some(&closers[i]);
	for (size_t i = 0; i < n; i++)
		if (closers[i].started)
			pthread_join(closers[i].thread, NULL);
	free(links->fds);
	*links = (struct kernel_links){0};
}

/* ---- what a hit costs ---- */

/* Where the function lies in pollux's own file; false: unknown. */
static bool own_offset(uint64_t *ret_offset)
{
	uint64_t addr = (uintptr_t)arch_measured;
	_cleanup_fclose_ FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long start, end, offset;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx %*s %llx", &start, &end, &offset) == 3 &&
		    addr >= start && addr < end) {
			*ret_offset = addr - start + offset;
			return true;
		}
	}
	return false;
}

static int ignore(void *context, const void *record, size_t len)
{
	(void)context;
	(void)record;
	(void)len;
	return 0;
}

static void forget_threads(struct kernel_core *core)
{
	int fd = bpf_map__fd(core->skel->maps.threads);
	uint64_t key;

	while (bpf_map_get_next_key(fd, NULL, &key) == 0)
		if (bpf_map_delete_elem(fd, &key) < 0)
			break;
}

/* Puts a probe into pollux and measures; the first thing that shows whether it can be done. */
static int try_out(struct kernel_core *core)
{
	const struct kernel_hook hook = {.type = KH_MEASURE};
	struct kernel_site site = {.hook = MEASURED_HOOK, .program = KP_FUNCTION};
	_cleanup_(kernel_links_close) struct kernel_links links = {0};
	uint32_t number = MEASURED_HOOK;
	_cleanup_close_ int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	uint64_t began;

	if (exe < 0 || !own_offset(&site.offset))
		return -ENOENT;
	TRY(bpf_map_update_elem(bpf_map__fd(core->skel->maps.hooks), &number, &hook, BPF_ANY));
	TRY(kernel_core_attach(core, KP_FUNCTION, exe, getpid(), &site, 1, &links, NULL));
	if (site.refused)
		return -EINVAL;
	began = clock_monotonic_ns();
	for (unsigned i = 0; i < MEASURED_CALLS; i++)
		arch_measured();
	core->cost_ps = (clock_monotonic_ns() - began) * 1000 / MEASURED_CALLS;
	kernel_links_close(&links);
	forget_threads(core);
	bpf_ring_drain(&core->ring, ignore, NULL);
	return 0;
}

/* ---- loading ---- */

static int read_number(const char *path, const char *before, uint32_t *ret)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[64];

	if (!f || !fgets(line, sizeof(line), f) || strncmp(line, before, strlen(before)))
		return -ENOENT;
	*ret = (uint32_t)strtoul(line + strlen(before), NULL, 10);
	return 0;
}

static void unload(struct kernel_core *core)
{
	bpf_ring_close(&core->ring);
	kernel_bpf__destroy(core->skel);
	core->skel = NULL;
}

static int load_by(struct kernel_core *core, uint32_t ring_bytes, bool spawn_stacks, bool multi)
{
	core->multi = multi;
	core->skel = kernel_bpf__open();
	if (!core->skel)
		return -errno;
	set_machine(core->skel);
	core->skel->rodata->spawn_stacks = spawn_stacks;
	TRY(bpf_map__set_max_entries(core->skel->maps.ring, ring_bytes));
	for (unsigned p = 0; p < KP_N && multi; p++)
		TRY(bpf_program__set_expected_attach_type(program_of(core, p), TRACE_UPROBE_MULTI));
	TRY(kernel_bpf__load(core->skel));
	TRY(bpf_ring_open(&core->ring, bpf_map__fd(core->skel->maps.ring), ring_bytes));
	return try_out(core);
}

static int load(struct kernel_core *core, uint32_t ring_bytes, bool spawn_stacks, bool multi)
{
	int rc = load_by(core, ring_bytes, spawn_stacks, multi);

	log_debug(LOG_KERNEL, "probes by %s: %s", multi ? "uprobe_multi links" : "perf events",
		  rc < 0 ? strerror(-rc) : "taken");
	return rc;
}

static int attach_tracepoints(struct kernel_core *core)
{
	struct bpf_program *const programs[] = {core->skel->progs.on_sys_enter,
						core->skel->progs.on_sys_exit,
						core->skel->progs.on_exit};
	struct bpf_link **const links[] = {&core->skel->links.on_sys_enter,
					   &core->skel->links.on_sys_exit,
					   &core->skel->links.on_exit};

	for (size_t i = 0; i < 3; i++) {
		*links[i] = bpf_program__attach(programs[i]);
		if (!*links[i])
			return -errno;
	}
	return 0;
}

/* A perf event for each probe: what kernels without uprobe_multi have. */
static int load_per_probe(struct kernel_core *core, uint32_t ring_bytes, bool spawn_stacks)
{
	TRY(read_number(UPROBE_PMU "/type", "", &core->perf_type));
	TRY(read_number(UPROBE_PMU "/format/retprobe", "config:", &core->return_bit));
	return load(core, ring_bytes, spawn_stacks, false);
}

int kernel_core_open(const struct kernel_core_options *opt, struct kernel_core **ret_core,
		     struct error *err)
{
	uint32_t bytes = bpf_ring_size(opt->ring_bytes);
	struct kernel_core *core = calloc(1, sizeof(*core));
	int rc = -ENOTSUP;

	if (!core)
		return error_sys(err, -ENOMEM, "cannot record");
	bpf_log_begin();
	if (!opt->event_per_probe)
		rc = load(core, bytes, opt->spawn_stacks, true);
	if (rc < 0 && rc != -ENOMEM) {
		int first = rc;

		unload(core);
		rc = load_per_probe(core, bytes, opt->spawn_stacks);
		/* The first method is what a current kernel has: its reason says more. */
		if (rc < 0 && !opt->event_per_probe)
			rc = first;
	}
	if (rc == 0)
		rc = attach_tracepoints(core);
	if (rc < 0) {
		kernel_core_free(core);
		return explain(rc, err);
	}
	*ret_core = core;
	return 0;
}

void kernel_core_free(struct kernel_core *core)
{
	if (!core)
		return;
	if (core->layouts)
		munmap(core->layouts, KERNEL_LAYOUT_WORDS * sizeof(*core->layouts));
	unload(core);
	free(core);
}

uint64_t kernel_core_cost_ps(const struct kernel_core *core)
{
	return core->cost_ps;
}

struct bpf_ring *kernel_core_ring(struct kernel_core *core)
{
	return &core->ring;
}

int kernel_core_emit_hooks(struct kernel_core *core, struct kernel_hooks *hooks)
{
	int fd = bpf_map__fd(core->skel->maps.hooks), rc = 0;

	for (; hooks->n_emitted < hooks->n && rc == 0; hooks->n_emitted++)
		rc = bpf_map_update_elem(fd, &hooks->n_emitted, &hooks->table[hooks->n_emitted],
					 BPF_ANY);
	return rc;
}

int kernel_core_layout(struct kernel_core *core, pid_t pid, uint64_t vtable, const uint64_t *words,
		       size_t n)
{
	const struct kernel_program_key key = {(uint64_t)pid, vtable};
	const size_t bytes = KERNEL_LAYOUT_WORDS * sizeof(*words);
	uint32_t start = core->n_layout_words;

	if (!core->layouts) {
		void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
				bpf_map__fd(core->skel->maps.layouts), 0);

		if (at == MAP_FAILED)
			return -errno;
		core->layouts = at;
	}
	if (n > KERNEL_LAYOUT_WORDS - start)
		return -ENOSPC;
	memcpy(core->layouts + start, words, n * sizeof(*words));
	core->n_layout_words += (uint32_t)n;
	/* The words are there before any reader is led to them. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return bpf_map_update_elem(bpf_map__fd(core->skel->maps.layout_of), &key, &start, BPF_ANY);
}

void kernel_core_end_calls(struct kernel_core *core)
{
	bpf_link__destroy(core->skel->links.on_sys_enter);
	bpf_link__destroy(core->skel->links.on_sys_exit);
	core->skel->links.on_sys_enter = core->skel->links.on_sys_exit = NULL;
}

int kernel_core_rest(struct kernel_core *core,
		     int (*emit)(void *context, const struct kernel_thread *t), void *context,
		     uint64_t *ret_other_losses)
{
	int threads = bpf_map__fd(core->skel->maps.threads);
	int losses = bpf_map__fd(core->skel->maps.losses);
	struct kernel_lost lost;
	_cleanup_free_ struct kernel_thread *t = malloc(sizeof(*t));
	uint64_t key, *last = NULL;
	uint32_t zero = 0;
	int rc = 0;

	*ret_other_losses = 0;
	if (!t)
		return -ENOMEM;
	while (rc == 0 && bpf_map_get_next_key(threads, last, &key) == 0) {
		if (bpf_map_lookup_elem(threads, &key, t) == 0)
			rc = emit(context, t);
		last = &key;
	}
	if (rc == 0 && bpf_map_lookup_elem(losses, &zero, &lost) == 0)
		*ret_other_losses = lost.of_gone + lost.of_untracked;
	return rc;
}
