/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What debug information adds to a scan: exact names and places. */
#pragma once

#include "base/units.h"
#include "binary/dwarf/debug.h"
#include "runtime/runtime.h"

/* The start of a recording waits up to this long for what debug information adds: names of kinds,
 * and the layout programs by which a short program has await points, too. */
#define DEBUG_WAIT_NS (300 * NSEC_PER_MSEC)

/* The future that a kind's poll function polls and its scheduler, as types; NULL where the debug
 * information does not say. Tokio: T and S of raw::poll; async-task: F of RawTask::run. */
struct debug_kind {
	const struct dw_type *future, *scheduler;
};
void debug_kind_read(struct debug *d, const struct scan_kind *k, struct debug_kind *ret);

/* A name for people of a kind with that future: the program's own future inside the wrappers that
 * runtimes and libraries put around it (async-executor's spawn, SupportTaskLocals, Instrumented,
 * Pin<Box>). A blocking task is its closure. Where the type has a function's item, which is `fn()`
 * there, symbols or code say which. `libraries` as a scan has them. For free(). */
char *debug_kind_name(struct debug *d, struct elf_image *image, const struct scan_kind *k,
		      const struct dw_type *future, const char *libraries);

/* "src/main.rs:95 (app::main)": the place in the program's own code at this address, through the
 * functions that are inlined there; NULL: none. If *ret_via is NULL it becomes the innermost place in
 * a library that is no runtime. Both for free(). */
char *debug_place_text(struct debug *d, uint64_t addr, char **ret_via);

/* Where the program spawns tasks of this kind, and the library that does so for it, if one does:
 *     src/main.rs:95 (app::main)
 *     src/main.rs:97 (app::main) via tokio-util-0.7.20/src/task/task_tracker.rs:386
 * Of a library that spawns for itself its place. NULL: unknown. For free(). */
char *debug_spawn_place(struct debug *d, const struct scan_site *site);

/* The future of a block_on; NULL: not known. */
const struct dw_type *debug_block_on_future(struct debug *d, const struct dw_block_on *b);
/* A block_on's name: its future's, or that of the function that calls it (`where`, may be NULL, as
 * debug_spawn_place() gives it) where that is a trait object. NULL: neither is known. For free(). */
char *debug_block_on_name(struct debug *d, const struct dw_type *future, const char *where,
			  const char *libraries);

/* Puts both into the kinds of a scan of an image and into its block_ons, one by one until the deadline (CLOCK_MONOTONIC),
 * while the program runs; what is unknown, or not in time, stays as it was. Asks nothing that needs
 * all of the debug information; what it learns is cached for the next time. */
void debug_names(struct elf_image *image, const char *path, struct runtime_scan *f,
		 uint64_t deadline_ns);
