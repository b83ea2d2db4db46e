/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Switches and system calls by BPF: loads the programs, gives them the processes, reads their ring.
 *
 * Everything depends on pollux's file descriptors: when pollux ends in whatever way, the kernel
 * takes the programs off. The tracepoints of system calls are attached only if they are asked for,
 * since every process of the machine passes them.
 */
#include "base/clock.h"
#include "capture/bpf_log.h"
#include "capture/bpf_ring.h"
#include "capture/sched/sched.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual" /* generated code */
#include "capture/sched.skel.h"
#include "capture/sched_plain.skel.h"
#pragma GCC diagnostic pop

#include <asm/unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of the first pid namespace (the kernel's PROC_PID_INIT_INO). */
#define FIRST_PID_NS 0xeffffffcu
#define MAX_LINKS 8

struct sched_backend {
	struct capture *capture;
	struct bpf_object *object;
	struct bpf_link *links[MAX_LINKS];
	size_t n_links;
	struct bpf_ring ring;
	bool plain; /* without types: who has ended is forgotten by us, not by the programs */
};

static uint32_t own_pid_ns(void)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) < 0 || (uint32_t)st.st_ino == FIRST_PID_NS)
		return 0;
	return (uint32_t)st.st_ino;
}

static int map_fd(const struct sched_backend *w, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(w->object, name);

	return map ? bpf_map__fd(map) : -ENOENT;
}

static void backend_free(struct sched_backend *w)
{
	for (size_t i = 0; i < w->n_links; i++)
		bpf_link__destroy(w->links[i]);
	bpf_ring_close(&w->ring);
	bpf_object__close(w->object);
	free(w);
}

/* Whether the tracepoint of a switch has a fourth argument, after those that all have.
 */
static bool has_state(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	const struct btf_type *t = NULL;
	__s32 id = btf ? btf__find_by_name_kind(btf, "btf_trace_sched_switch", BTF_KIND_TYPEDEF)
		       : -ENOENT;
	bool has;

	if (id > 0)
		t = btf__type_by_id(btf, btf__type_by_id(btf, (__u32)id)->type);
	if (t && btf_is_ptr(t))
		t = btf__type_by_id(btf, t->type);
	has = t && btf_is_func_proto(t) && btf_vlen(t) > 4;
	btf__free(btf);
	return has;
}

/* What is set before the programs are loaded. */
static int prepare(struct sched_backend *w, const struct capture_options *opt, uint32_t ring_bytes)
{
	struct bpf_map *ring = bpf_object__find_map_by_name(w->object, "ring");
	struct bpf_map *cpus = bpf_object__find_map_by_name(w->object, "cpus");
	struct bpf_map *map = NULL;
	int n_cpus = libbpf_num_possible_cpus();
	const struct sched_settings set = {own_pid_ns(), opt->lock_stacks ? __NR_futex : -1,
					   opt->sched && !w->plain && has_state()};
	struct bpf_program *p = NULL;
	int rc = 0;

	while ((p = bpf_object__next_program(w->object, p))) {
		const char *name = bpf_program__name(p);

		if ((!opt->syscalls && !strncmp(name, "on_sys_", 7)) ||
		    (!opt->sched && (!strcmp(name, "on_switch") || !strcmp(name, "on_waking"))))
			bpf_program__set_autoload(p, false);
	}
	while ((map = bpf_object__next_map(w->object, map))) {
		if (strstr(bpf_map__name(map), ".rodata"))
			rc = bpf_map__set_initial_value(map, &set, sizeof(set));
	}
	if (rc == 0)
		rc = ring ? bpf_map__set_max_entries(ring, ring_bytes) : -ENOENT;
	if (rc == 0)
		rc = !cpus	  ? -ENOENT
		     : n_cpus < 0 ? n_cpus
				  : bpf_map__set_max_entries(cpus, (uint32_t)n_cpus);
	return rc;
}

static int attach(struct sched_backend *w)
{
	struct bpf_program *p = NULL;

	while ((p = bpf_object__next_program(w->object, p))) {
		struct bpf_link *link;

		if (!bpf_program__autoload(p))
			continue;
		link = bpf_program__attach(p);
		if (!link)
			return -errno;
		w->links[w->n_links++] = link;
	}
	return 0;
}

static int backend_open(struct capture *c, const struct capture_options *opt, bool plain,
			struct sched_backend **ret, struct error *err)
{
	uint32_t bytes = bpf_ring_size(opt->ring_bytes * (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	struct sched_backend *w = calloc(1, sizeof(*w));
	const void *code;
	size_t code_bytes;
	int rc;

	if (!w)
		return error_sys(err, -ENOMEM, "cannot record the scheduler");
	bpf_log_begin();
	w->capture = c;
	w->plain = plain;
	code = plain ? sched_plain_bpf__elf_bytes(&code_bytes) : sched_bpf__elf_bytes(&code_bytes);
	w->object = bpf_object__open_mem(code, code_bytes, NULL);
	rc = w->object ? prepare(w, opt, bytes) : -errno;
	if (rc == 0)
		rc = bpf_object__load(w->object);
	if (rc == 0)
		rc = bpf_ring_open(&w->ring, map_fd(w, "ring"), bytes);
	if (rc == 0)
		rc = attach(w);
	if (rc < 0) {
		backend_free(w);
		return error_sys(err, rc, "the kernel does not take the BPF programs");
	}
	*ret = w;
	return 0;
}

static int backend_join(struct sched_backend *w, pid_t pid, struct error *err)
{
	uint32_t tgid = (uint32_t)pid, one = 1;
	int rc = bpf_map_update_elem(map_fd(w, "targets"), &tgid, &one, BPF_ANY);

	return rc < 0 ? error_sys(err, rc, "cannot record the scheduler of process %d", pid) : 0;
}

static int take(void *context, const void *record, size_t len)
{
	struct sched_backend *w = context;
	const struct sched_event *e = record;

	if (len < sizeof(*e))
		return 0;
	/* Without types the programs don't see a thread being gone for good. */
	if (e->type == SCHED_EXIT && w->plain)
		bpf_map_delete_elem(map_fd(w, "threads"), &e->tid);
	if (e->type == SCHED_STACK)
		return len > offsetof(struct sched_stack, stack)
			       ? sched_take_stack(w->capture, record, len)
			       : 0;
	if (e->type == SCHED_OFF_CPU)
		return sched_take_switch(w->capture, record, len);
	return sched_take(w->capture, e);
}

static int backend_drain(struct sched_backend *w, double *ret_fill)
{
	int rc = bpf_ring_drain(&w->ring, take, w);

	*ret_fill = w->ring.fill;
	return rc;
}

/* Losses of threads that had no event to report them with. */
static int take_losses(struct sched_backend *w)
{
	int threads = map_fd(w, "threads"), rc = 0;
	uint32_t key, zero = 0, *last = NULL;
	struct sched_thread t;

	while (rc == 0 && bpf_map_get_next_key(threads, last, &key) == 0) {
		last = &key;
		if (bpf_map_lookup_elem(threads, &key, &t) == 0 && t.lost) {
			const struct sched_event e = {.time = clock_monotonic_ns(),
						      .tgid = t.tgid,
						      .tid = t.tid,
						      .lost = t.lost};
			rc = sched_take(w->capture, &e);
		}
	}

	int n_cpus = libbpf_num_possible_cpus();
	struct sched_lost *lost = n_cpus > 0 ? calloc((size_t)n_cpus, sizeof(*lost)) : NULL;
	if (lost && bpf_map_lookup_elem(map_fd(w, "losses"), &zero, lost) == 0)
		for (int i = 0; i < n_cpus; i++)
			sched_count_lost(w->capture, lost[i].of_gone + lost[i].of_untracked);
	free(lost);
	return rc;
}

static int backend_end(struct sched_backend *w)
{
	int rc;

	for (size_t i = 0; i < w->n_links; i++)
		bpf_link__destroy(w->links[i]);
	w->n_links = 0;
	rc = bpf_ring_drain(&w->ring, take, w);
	return rc < 0 ? rc : take_losses(w);
}

static int btf_open(struct capture *c, const struct capture_options *opt,
		    struct sched_backend **ret, struct error *err)
{
	return backend_open(c, opt, false, ret, err);
}

const struct sched_backend_ops sched_backend_btf = {
	.name = "BPF",
	.open = btf_open,
	.join = backend_join,
	.drain = backend_drain,
	.end = backend_end,
	.free = backend_free,
};

static int plain_open(struct capture *c, const struct capture_options *opt,
		      struct sched_backend **ret, struct error *err)
{
	if (own_pid_ns())
		return error_set(err, -ENOTSUP,
				 "in a pid namespace of its own pollux needs a kernel that "
				 "describes its types (BTF)");
	return backend_open(c, opt, true, ret, err);
}

const struct sched_backend_ops sched_backend_plain = {
	.name = "BPF without BTF",
	.no_numbers = true,
	.open = plain_open,
	.join = backend_join,
	.drain = backend_drain,
	.end = backend_end,
	.free = backend_free,
};
