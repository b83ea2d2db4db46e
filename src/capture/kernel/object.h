/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An ELF object: where its probes go, what each hit means (sites.c), and which instructions can
 * carry a probe (insn.c). Knows no process.
 */
#pragma once

#include "arch/uprobes.h"
#include "binary/elf/probes.h"
#include "runtime/providers.h"
#include "runtime/runtime.h"
#include "trace/coverage.h"

/* event.h is shared with BPF programs, which have these types of their own. */
#include <linux/types.h>

#include "capture/samples/user_stack.h"

#include "capture/kernel/event.h"

enum kernel_program { KP_FUNCTION = 0, KP_RETURN, KP_PROBE, KP_N };

struct kernel_site {
	uint64_t addr;	  /* linked */
	uint64_t offset;  /* in the file */
	uint64_t ref_ctr; /* of its semaphore in the file, 0: none, or pollux raises it */
	uint32_t hook;
	uint8_t program; /* enum kernel_program */
	bool refused;	 /* the kernel did not take it */
};

#define KERNEL_NO_KIND UINT32_MAX

/* What the source knows of a hook besides what the programs know. */
struct kernel_place {
	uint32_t object; /* number of its struct kernel_object */
	uint32_t kind;	 /* into scan.kinds; KERNEL_NO_KIND: by the task's vtable */
	uint32_t waker;	 /* into scan.wakers, or KERNEL_NO_KIND */
	uint8_t type;	 /* enum kernel_hook_type */
	uint64_t addr;	 /* linked */
	const struct provider_probe *row; /* KH_PROBE */
	const struct probe *probe;	  /* of a note; NULL: of a function */
};

/* An ELF file with everything that can be probed in it, once for all processes that have it. */
struct kernel_object {
	uint64_t dev, ino;
	uint8_t role; /* what was looked for in it: kernel.c's own */
	char *path;   /* as the first process names it */
	int fd;
	struct runtime_scan scan;
	struct probes *probes;
	struct kernel_site *sites;
	size_t n_sites;
	uint64_t *semaphores; /* linked addresses of all */
	size_t n_semaphores;
	struct coverage_list coverage; /* of its sites */
	uint32_t n_known;	       /* sites of probes that are known */
	uint32_t n_stepped;	       /* sites whose instruction is single-stepped */
	uint32_t n_tail_leaves;	       /* run functions that may be left by a jump */
	bool parks;		       /* its probes report parked threads themselves */
};

struct kernel_hooks {
	struct kernel_hook *table; /* as the programs have it */
	struct kernel_place *places;
	uint32_t n, n_emitted; /* of them, those that the kernel knows by now */
};

/* All that can be probed in an object. Known probes win over functions: with `functions` false only
 * those are looked for. -ENOENT: there is nothing. `deadline_ns`: debug information may be read for
 * names until then. */
int kernel_sites_find(struct elf_image *image, const char *path, uint32_t number, bool functions,
		      uint64_t deadline_ns, struct kernel_hooks *hooks, struct kernel_object *ret,
		      struct error *err);
/* The unwinder's two functions, if it is in this object and anything of `hooks` may panic. */
int kernel_sites_unwinder(struct elf_image *image, const char *path, uint32_t number,
			  struct kernel_hooks *hooks, struct kernel_object *ret, struct error *err);
/* Whether the object carries probes that are known. */
int kernel_sites_known(struct elf_image *image, bool *ret_known, struct error *err);
void kernel_object_done(struct kernel_object *o);
void kernel_hooks_done(struct kernel_hooks *h);
/* An operand for the programs; false if they can't read it. */
bool kernel_arg_of(const struct probe_arg *arg, struct kernel_arg *ret);

/* A place for a probe at addr: there, or at an instruction after it that is executed exactly as
 * often, that the kernel emulates, and at which `keep` (registers by bits) are still as at addr. */
enum arch_uprobe kernel_insn_place(struct elf_image *image, uint64_t addr, uint16_t keep,
				   uint64_t *ret_addr);
/* The function's `ret`s, for free(); *ret_leaves: it can be left by a jump, too. */
int kernel_insn_returns(struct elf_image *image, uint64_t start, uint64_t end, uint64_t **ret,
			size_t *ret_n, bool *ret_leaves);
