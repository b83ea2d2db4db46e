/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What inspect.c and tasks.c share: a look at a process, its objects and kinds. */
#pragma once

#include "agent/runtimes.h"
#include "future/core.h"
#include "future/inspect.h"
#include "future/sockets.h"
#include "process/maps.h"
#include "process/objects.h"
#include "process/pages.h"
#include "process/process.h"
#include "arch/regs.h"
#include "process/unwind.h"
#include "runtime/runtime.h"

struct inspect_object {
	struct process_object *object;
	struct runtime_scan scan;
	struct debug *dwarf; /* NULL: none, or not looked for yet */
	bool dwarf_tried;
	struct error dwarf_error;
};

struct inspect_kind {
	struct inspect_object *object;
	const struct scan_kind *kind;
	const char *runtime;
	uint64_t vtable;	/* in the process */
	uint16_t vtable_offset; /* in a task's header; OFFSET_UNKNOWN: its tasks can't be found */
	bool tokio;
	bool resolved;
	const struct dw_type *future;	 /* T */
	const struct dw_type *scheduler; /* S */
	const struct dw_type *stage;	 /* Tokio: Stage<T> */
	uint64_t stage_offset;		 /* from the header */
	char *name, *site;
	char *no_type_reason;
};

/* A stopped thread. */
struct inspect_stack {
	struct arch_regs regs;
	char name[32];		     /* "" if not known */
	struct unwind_frame *frames; /* innermost first */
	size_t n_frames;
};

struct inspect {
	struct process process;
	struct core *core; /* NULL: a live process */
	struct process_maps maps;
	struct process_objects objects;
	struct inspect_object *looked;
	size_t n_looked;
	struct inspect_kind *kinds; /* sorted by vtable */
	size_t n_kinds;
	struct inspect_kind **root_kinds; /* of block_on's futures, made as they are found */
	size_t n_root_kinds;
	struct mem mem;
	struct pages pages;	/* of a live process */
	struct budget budget;	/* steps that a look may take over the program's structures */
	bool unsearched, ended; /* a note says it: of the search, of that budget */
	struct sockets sockets;
	struct map names; /* see struct await_context */
	struct inspect_stack *threads;
	size_t n_threads;
	struct unwind_map *code; /* NULL: not needed yet */
	struct unwind_files code_files;
	struct eh_table **rules;
	size_t n_rules;
	char **words; /* names of run queues */
	size_t n_words;
	char **notes;
	size_t n_notes;
};

struct found_task {
	uint64_t addr;
	struct inspect_kind *kind;
};

struct found_list {
	struct found_task *v;
	size_t n, cap;
};

/* The object's debug information, opened at the first call; NULL: there is none. */
struct debug *inspect_debug(struct inspect *in, struct inspect_object *o);
/* Fills in what debug information says of a kind; once. */
void inspect_resolve(struct inspect *in, struct inspect_kind *k);
bool inspect_is_running(const struct inspect_task *t);

/* Fills what header and state word say of the task at t->addr; false: there is none. Before the
 * memory is frozen words of two moments meet, so less is checked then. */
bool task_read_header(struct inspect *in, struct inspect_task *t);

/* Takes out what only looked like a task: of several with one id all but one, and what `ghost`
 * says. -ENOMEM or 0. */
int tasks_drop_ghosts(struct inspect_result *r);

/* One sentence about what is missing, heap or NULL; taken over. */
void inspect_note(struct inspect *in, char *text);

/* Adds what may be a header: everything that points at a vtable, in the program or in the copy. */
int tasks_scan(struct inspect *in, bool copy, struct found_list *list, struct error *err);

/* Makes the next copy whole, if the program's memory is small enough for that; false: it is not. */
bool tasks_want_whole(struct inspect *in);
