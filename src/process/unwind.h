/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Call stacks of a process that was compiled without frame pointers: what is loaded in it, with
 * unwind rules compiled (binary/dwarf/eh_frame.h), and the walk from registers and a stack to
 * frames. Nothing of the process is stopped or changed.
 */
#pragma once

#include "binary/dwarf/eh_frame.h"
#include "process/maps.h"
#include "process/process.h"

/* No walk goes on longer than this. */
#define UNWIND_MAX_FRAMES 512u

/* One file that is loaded somewhere, read once for all processes that have it. */
struct unwind_file {
	char *path;		 /* of its first user; "[vdso]" */
	struct elf_image *image; /* NULL if it can't be had. Its lazy parts are for one thread */
	struct eh_table *table;	 /* NULL if it has none */
	uint64_t key[4];	 /* what distinguishes it */
	void *user;		 /* for the code that names addresses */
	struct unwind_file *next;
};

/* All files of all maps made with it. Not for several threads at once. */
struct unwind_files {
	struct unwind_file *first;
};
/* done(file->user) is called for each that is not NULL. */
void unwind_files_done(struct unwind_files *f, void (*done)(void *user));

enum unwind_code_type {
	UNWIND_OBJECT = 0,
	UNWIND_VDSO,
	UNWIND_AGENT,	/* pollux's own code in the program */
	UNWIND_UPROBES, /* the kernel's page to which a function with a return probe returns */
};

/* A range of code in a process. */
struct unwind_code {
	uint64_t start, end;
	uint64_t bias; /* process address = linked address + bias */
	enum unwind_code_type type;
	struct unwind_file *file;   /* NULL for the agent and for the kernel's page */
	struct eh_table *table;	    /* NULL: no rules; of linked addresses */
	struct eh_table *own_table; /* the agent's */
	uint8_t *bytes;		    /* the agent's: all of it */
};

/* What code is in a process, as of some moment. Rules are compiled while it is walked: one thread
 * at a time, for all maps of the same files. */
struct unwind_map;
int unwind_map_read(const struct process *p, struct unwind_files *files,
		    struct unwind_map **ret_map, struct error *err);
/* The same of code that the caller has looked up, with rules of his own, which must live as long.
 * `p` (NULL: a core) adds what is in memory only: the vDSO, pollux's agent. */
int unwind_map_of(const struct unwind_code *codes, size_t n, const struct process *p,
		  const struct process_maps *maps, struct unwind_files *files,
		  struct unwind_map **ret_map);
void unwind_map_free(struct unwind_map *m);

/* Where a walk begins. */
struct unwind_start {
	uint64_t ip, sp, bp;
	bool bp_known;
	const void *stack; /* a copy of stack_bytes from stack_addr on */
	uint64_t stack_addr;
	size_t stack_bytes;
	/* What isn't in the copy: 0 or negative errno. NULL: the copy is all there is. */
	int (*read)(void *arg, uint64_t addr, void *out, size_t len);
	void *arg;
	/* Where functions with return probes will really return to, innermost first. */
	const uint64_t *returns;
	size_t n_returns;
};

struct unwind_frame {
	uint64_t ip; /* an address of the instruction that runs or called: of a caller one byte
		      * before the address that it returns to */
	const struct unwind_code *code; /* NULL: it lies in nothing that is known */
	uint64_t sp, bp;		/* of that moment; bp only if it is known */
	bool bp_known;
};

enum unwind_end {
	UNWIND_DONE = 0, /* the outermost frame is there */
	UNWIND_CUT,	 /* the stack goes on where it couldn't be read */
	UNWIND_NO_RULE,	 /* code without rules, or with ones that need what isn't known */
	UNWIND_UNKNOWN,	 /* code that the map doesn't know: loaded since then? */
	UNWIND_RETPROBE, /* a return probe, and no word of where it returns to */
	UNWIND_TOO_DEEP,
};

/* Innermost first; at least one frame. `ret` has room for UNWIND_MAX_FRAMES. */
enum unwind_end unwind(const struct unwind_map *m, const struct unwind_start *start,
		       struct unwind_frame *ret, size_t *ret_n);
