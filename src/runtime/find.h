/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the files of this module share: adding to a scan. Strings given to these functions are
 * taken over or copied as said; -ENOMEM ends a scan.
 */
#pragma once

#include "binary/elf/elf_image.h"
#include "binary/code/code_refs.h"
#include "runtime/runtime.h"

/* The runtime that finds now, with the versions that the object names. `verified` is copied. */
int find_add_runtime(struct elf_image *image, struct runtime_scan *f, enum task_model model,
		     const char *verified);
/* A new zeroed item at the end of the scan; NULL: out of memory. */
struct scan_kind *find_add_kind(struct runtime_scan *f);
struct scan_waker *find_add_waker(struct runtime_scan *f);
struct scan_direct *find_add_direct(struct scan_waker *w);
int find_add_call(struct runtime_scan *f, const struct scan_call *call);
/* `note` is a format; "" if all is well. Copies. */
int find_cover_as(struct runtime_scan *f, enum trace_cover cover, const char *item, uint64_t seen,
		  uint64_t total, const char *note, ...) __attribute__((format(printf, 6, 7)));
/* The same of an item that nothing looks for. */
#define find_cover(f, ...) find_cover_as(f, TRACE_COVER_OTHER, __VA_ARGS__)

struct scan_site *find_add_site(struct scan_site **sites, size_t *n_sites);

/* The instruction at a reference as a place to patch, with where it is. -ENOMEM, -EINVAL or 0. */
int find_site(struct elf_image *image, const struct code_ref *ref, struct scan_site *ret);
/* Why it isn't patchable; NULL if it is. */
const char *find_site_trouble(const struct code_ref *ref);

/* A symbol that begins at addr and whose name contains `part` near its beginning, both manglings;
 * NULL if there is none. */
const struct elf_symbol *find_symbol(struct elf_image *image, uint64_t addr, const char *part);

/* What a worker's kind is called. */
const char *find_worker_name(bool block_in_place);

/* Versions of a crate by the paths of panic locations ("/tokio-1.38.0/src/"): joined by ", ", empty
 * if there are none. free() it; NULL: out of memory. */
char *version_find(const struct elf_image *image, const char *crate);
/* The crates that came from a registry, by the same paths: "serde_json,tokio", empty if there are
 * none. The program's own is none of them, though it may have been installed from there: the one that
 * has main(), by its symbol and by the path of its source. free() it; NULL: out of memory. */
char *libraries_find(struct elf_image *image);

/* All block_ons of an object, sorted, for free(); says of their sites which are shared. -ENOMEM or 0.
 */
int block_on_find(struct elf_image *image, struct runtime_scan *f, struct scan_block_on **ret,
		  size_t *ret_n);
/* What a coverage's `runtime` is for the runtime of this name; NULL: there is none. */
const char *find_runtime_name(const char *name);

int calls_find(struct elf_image *image, struct runtime_scan *f);
/* The name that find_call.symbol has of this call; NULL: it is none. */
const char *calls_symbol(const char *name);

extern const struct runtime_ops runtime_tokio, runtime_async_task;
