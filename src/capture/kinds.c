/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From a scan to the trace's runtimes and kinds: the same words whether the agent or the kernel
 * sees their tasks, so that two recordings of one program can be compared.
 */
#include "capture/kinds.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

int kinds_emit_runtimes(struct trace_writer *w, uint32_t process, const struct runtime_scan *f,
			uint32_t *ret_runtimes)
{
	for (size_t i = 0; i < f->n_runtimes; i++) {
		const struct trace_runtime r = {.process = process,
						.name = f->runtimes[i].name,
						.version = f->runtimes[i].version,
						.object = f->path,
						.verified = f->runtimes[i].verified};

		TRY(trace_writer_runtime(w, &r, &ret_runtimes[i]));
	}
	return 0;
}

int kinds_emit(struct trace_writer *w, uint32_t process, const struct runtime_scan *f,
	       const uint32_t *numbers, const struct scan_kind *k, const struct scan_waker *waker,
	       const struct scan_block_on *block_on, uint32_t *ret_index)
{
	const struct scan_site *sites = k ? k->sites : block_on ? &block_on->site : waker->sites;
	size_t n_sites = k ? k->n_sites : block_on ? 1 : waker->n_sites;
	uint32_t own = k ? k->runtime : waker->runtime;
	_cleanup_free_ uint64_t *addrs = calloc(n_sites + 1, sizeof(*addrs));
	_cleanup_free_ const char **names = calloc(n_sites + 1, sizeof(*names));
	struct trace_kind kind = {.process = process,
				  .runtime = own < f->n_runtimes ? numbers[own] : 0};

	if (!addrs || !names)
		return -ENOMEM;
	for (size_t i = 0; i < n_sites; i++) {
		addrs[i] = sites[i].addr;
		names[i] = sites[i].where ? sites[i].where : "";
	}
	kind.n_sites = (uint32_t)n_sites;
	kind.site_addrs = addrs;
	kind.sites = names;
	if (k) {
		kind.role = (uint16_t)k->role;
		kind.vtable = k->vtable;
		kind.poll = k->slots[TF_POLL].function;
		kind.name = k->name;
		kind.full_name = k->full_name;
		kind.scheduler = k->scheduler;
	} else {
		kind.role = TR_ROOT;
		kind.vtable = waker->vtable;
		kind.name = block_on ? block_on->name : waker->name;
		kind.full_name = block_on ? block_on->full_name : NULL;
		kind.scheduler = strstr(waker->name, "current_thread") ? "current_thread"
				 : strstr(waker->name, "multi_thread") ? "multi_thread"
								       : NULL;
	}
	kind.address_named = own < f->n_runtimes && k && !k->id_offset;
	return trace_writer_kind(w, &kind, ret_index);
}
