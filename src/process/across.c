/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A jump over a page's end, changed as one.
 *
 * Two pages are two writes inside the kernel, and a pollux that is killed between them would leave
 * the half. The one change of two pages that the program's other threads see as one is that of the
 * mapping. So the program's own thread makes it, by a list of remote calls that goes on to its end
 * whatever becomes of pollux:
 *
 *     mremap(pages, MREMAP_DONTUNMAP)    both pages move to a free address; in their place the
 *                                        mapping stays, and shows what the file has
 *     (held)                             pollux changes them there, where no thread executes them,
 *                                        and then fills in the next call's arguments
 *     mremap(there, MREMAP_FIXED)        they move back, and become one with the mapping again
 *
 * A thread that comes by meanwhile finds the file's bytes or the changed ones; a thread that needs
 * a page while the kernel moves it waits for the end of that. The kernel notifies all processors
 * when a page has moved, so none has old bytes of one page and new ones of the other. If pollux is
 * killed while the thread is held, the third call has arguments that the kernel refuses before it
 * does anything: the file's bytes remain. Where the third call is refused, a fourth unmaps what
 * has moved. The way back is shorter: both pages move away, the file's bytes are there, and what
 * moved is unmapped.
 *
 * All of it happens while the program's other threads are stopped, so none unloads the object
 * meanwhile and maps something of its own there. Should they run again, since the thread gets no
 * CPU, the next call is not made. Within a call that moves pages they don't (remote_calls.alone): what
 * it moves was looked at before.
 *
 * It needs Linux 5.13 (before, only anonymous memory can be moved so), and pages that hold what their
 * file has: no tool's breakpoint, no other change. A program that locks its memory is left alone:
 * the kernel would unlock the whole mapping. What is left: within the third call the kernel frees the
 * place before it moves the pages, for which it needs some hundred bytes. It has them, or ends a
 * process to get them (mm/page_alloc.c: so little is never refused), unless a control group is at its
 * limit and may not end one (memory.oom_control of version 1). A program that may not be ended for that
 * (oom_score_adj) is left alone: it may be alone in a control group.
 */
#include "process/across.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "process/memory.h"

#include <asm/unistd.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/oom.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define BOTH (2 * PAGE)
#define AWAY_FLAGS (MREMAP_MAYMOVE | MREMAP_DONTUNMAP)
#define BACK_FLAGS (MREMAP_MAYMOVE | MREMAP_FIXED)
/* What mremap() refuses by its first look at its arguments. */
#define NO_SOURCE 1
#define NO_FLAGS UINT32_MAX
#define MAX_TRIES 3u /* where the others ran again before the list was done */

static uint64_t first_page(const struct across_change *c)
{
	return c->addr & ~(uint64_t)(PAGE - 1);
}

static uint64_t word(const struct across *x, unsigned i)
{
	return x->words + 8 * (uint64_t)i;
}

/* ---- whether it may be done ---- */

static bool locks_memory(const struct process *p)
{
	char status[PROCESS_STATUS_BYTES] = "";

	process_read_status(p, 0, status);
	return process_status_number(status, "VmLck", false) != 0;
}

/* Whether the kernel may end it for want of memory. */
static bool may_be_ended(const struct process *p)
{
	char text[16];

	return process_read_file(p, "oom_score_adj", text, sizeof(text)) > 0 &&
	       strtol(text, NULL, 10) > OOM_SCORE_ADJ_MIN;
}

/* The mapping of both pages; NULL: they have not one that shows a file's bytes. */
static const struct process_map *map_of(const struct process_maps *maps, uint64_t pages)
{
	const struct process_map *m = maps_at(maps, pages);

	return m && m->end >= pages + BOTH && m->inode && m->exec && !m->write && !m->shared ? m
											     : NULL;
}

static const char *trouble_of_map(const struct process *p, uint64_t pages)
{
	_cleanup_(maps_done) struct process_maps maps = {0};

	if (maps_read(p, &maps, NULL) < 0 || !map_of(&maps, pages))
		return "its pages aren't one mapping of a file";
	return locks_memory(p) ? "the program locks its memory" : NULL;
}

static int file_of(const struct process_objects *objects, uint64_t addr)
{
	for (size_t i = 0; i < objects->n; i++)
		if (addr >= objects->v[i].start && addr < objects->v[i].end && objects->v[i].image)
			return elf_image_fd(objects->v[i].image);
	return -1;
}

/* Whether both pages hold what their file has, but for a change that was made. */
static bool as_in_file(const struct process *p, const struct process_objects *objects,
		       const struct across_change *made, uint64_t pages)
{
	_cleanup_(maps_done) struct process_maps maps = {0};
	uint8_t there[BOTH], file[BOTH] = {0}; /* after the file's end there are zeros */
	int fd = file_of(objects, pages);

	if (fd < 0 || maps_read(p, &maps, NULL) < 0)
		return false;
	const struct process_map *m = map_of(&maps, pages);
	if (!m || pread(fd, file, BOTH, (off_t)(m->offset + (pages - m->start))) <= 0 ||
	    memory_read(p, pages, there, BOTH) < 0)
		return false;
	if (made)
		memcpy(there + (made->addr - pages), file + (made->addr - pages), made->len);
	return !memcmp(there, file, BOTH);
}

/* ---- the list ---- */

struct edit {
	struct across *x;
	const struct process_objects *objects;
	const struct across_change *change;
	bool undo, late; /* the others ran again: nothing is done */
};

/* The parts of the two pages. No thread executes them there. */
static int write_parts(const struct process *p, uint64_t to, const uint8_t *bytes, size_t len)
{
	size_t first = PAGE - to % PAGE;

	TRY(memory_write(p, to, bytes, first));
	return memory_write(p, to + first, bytes + first, len - first);
}

/* Once both pages are away. */
static void edit(const struct edit *e)
{
	const struct process *p = e->x->in->process;
	const struct across_change *c = e->change;
	uint64_t pages = first_page(c), away, back[2] = {NO_SOURCE, BACK_FLAGS};
	uint8_t here[BOTH], there[BOTH];

	_Static_assert(ACROSS_FLAGS == ACROSS_SOURCE + 1, "written as one");
	if (memory_read_u64(p, word(e->x, ACROSS_AWAY), &away) < 0 || away % PAGE ||
	    memory_read(p, pages, here, BOTH) < 0 || memory_read(p, away, there, BOTH) < 0)
		return;
	/* Should the pages have been changed since they were compared, they go back as they are. */
	if (!memcmp(here, there, BOTH) && !memcmp(there + (c->addr - pages), c->before, c->len) &&
	    write_parts(p, away + (c->addr - pages), c->after, c->len) < 0 &&
	    write_parts(p, away + (c->addr - pages), c->before, c->len) < 0)
		return;
	back[0] = away;
	memory_write(p, word(e->x, ACROSS_SOURCE), back, sizeof(back));
}

/* The numbers of the calls before which the thread is held. */
enum { CALL_AWAY, CALL_EDIT, CALL_BACK };

/* What was compared while the program ran is compared once more: it may have unloaded the object, and
 * have mapped something else there. The same could happen later, if the others ran again. */
static bool held(void *arg, size_t call, bool alone)
{
	struct edit *e = arg;

	if (call == CALL_AWAY && !as_in_file(e->x->in->process, e->objects,
					     e->undo ? e->change : NULL, first_page(e->change)))
		return false;
	e->late = e->late || !alone;
	if (call == CALL_EDIT && alone)
		edit(e);
	return alone;
}

static int run(struct edit *e, const struct stub_call *calls, size_t n, struct error *err)
{
	const uint64_t refused[2] = {NO_SOURCE, NO_FLAGS};
	const struct remote_calls list = {
		.calls = calls,
		.n_calls = n,
		.held = held,
		.arg = e,
		.alone = 1 << CALL_AWAY | 1 << CALL_BACK, /* of an undo, too: there is no other */
		.hold = e->undo ? 1 << CALL_AWAY : 1 << CALL_AWAY | 1 << CALL_EDIT | 1 << CALL_BACK,
		.done_at = word(e->x, ACROSS_DONE),
	};
	struct process *p = e->x->in->process;
	const bool forced = p->forced;
	struct error why = {0};
	int rc = -EAGAIN;

	/* That is not worth a risk. */
	p->forced = false;
	e->late = true;
	for (unsigned tries = 0; rc < 0 && e->late && tries < MAX_TRIES; tries++) {
		e->late = false;
		why = (struct error){0};
		rc = memory_write(p, word(e->x, ACROSS_SOURCE), refused, sizeof(refused));
		rc = rc < 0 ? rc : inject_run(e->x->in, &e->x->cave, &list, &why);
	}
	p->forced = forced;
	if (rc < 0 && process_alive(p) && !e->x->cave.dirty) {
		log_debug(LOG_ATTACH, "code in two pages is left as it is: %s",
			  why.code ? why.text : strerror(-rc));
		return 1;
	}
	if (rc < 0 && err)
		*err = why;
	return rc;
}

static bool holds(const struct process *p, uint64_t addr, const uint8_t *bytes, size_t len)
{
	uint8_t live[8];

	assert(len <= sizeof(live));
	return memory_read(p, addr, live, len) == 0 && !memcmp(live, bytes, len);
}

/* Why it is left. */
static int left(const struct across_change *c, const char *why)
{
	log_debug(LOG_ATTACH, "code in two pages at %#" PRIx64 " is left as it is: %s", c->addr,
		  why);
	return 1;
}

static bool in_pages(const struct code_cave *cave, uint64_t pages)
{
	return cave->addr < pages + BOTH && cave->addr + cave->size > pages;
}

int across_make(struct across *x, const struct process_objects *objects,
		const struct across_change *change, struct error *err)
{
	const uint64_t pages = first_page(change);
	const struct process *p = x->in->process;
	struct edit e = {.x = x, .objects = objects, .change = change};
	const struct stub_call calls[] = {
		[CALL_AWAY] = {.nr = __NR_mremap,
			       .args = {pages, BOTH, BOTH, AWAY_FLAGS, 0},
			       .check = STUB_NO_ERROR,
			       .result_at = word(x, ACROSS_AWAY)},
		/* Of nothing: before it the thread is held, the next call's arguments not yet read. */
		[CALL_EDIT] = {.nr = __NR_munmap},
		[CALL_BACK] = {.nr = __NR_mremap,
			       .args = {word(x, ACROSS_SOURCE), BOTH, BOTH, word(x, ACROSS_FLAGS),
					pages},
			       .from_memory = 1 << 0 | 1 << 3,
			       .check = STUB_DONE,
			       .expected = pages},
		/* They don't come back. This ends the list before it is done, whatever the result. */
		{.nr = __NR_munmap,
		 .args = {word(x, ACROSS_AWAY), BOTH},
		 .from_memory = 1 << 0,
		 .check = STUB_EQUAL,
		 .expected = UINT64_MAX},
	};
	const char *trouble = trouble_of_map(p, pages);

	if (!trouble && !may_be_ended(p))
		trouble = "the kernel may not end the program for want of memory";
	if (!trouble && (in_pages(&x->cave, pages) || !as_in_file(p, objects, NULL, pages)))
		trouble = "its pages differ from the file";
	if (trouble)
		return left(change, trouble);
	int rc = run(&e, calls, sizeof(calls) / sizeof(calls[0]), err);
	return rc == 0 && !holds(p, change->addr, change->after, change->len) ? 1 : rc;
}

int across_undo(struct across *x, const struct process_objects *objects,
		const struct across_change *change, struct error *err)
{
	const uint64_t pages = first_page(change);
	const struct process *p = x->in->process;
	struct edit e = {.x = x, .objects = objects, .change = change, .undo = true};
	const struct stub_call calls[] = {
		[CALL_AWAY] = {.nr = __NR_mremap,
			       .args = {pages, BOTH, BOTH, AWAY_FLAGS, 0},
			       .check = STUB_NO_ERROR,
			       .result_at = word(x, ACROSS_AWAY)},
		{.nr = __NR_munmap, .args = {word(x, ACROSS_AWAY), BOTH}, .from_memory = 1 << 0},
	};
	const char *trouble;

	if (!holds(p, change->addr, change->after, change->len))
		return 0; /* changed by another tool by now, or unloaded */
	trouble = trouble_of_map(p, pages);
	if (!trouble && in_pages(&x->cave, pages))
		trouble = "there is no other place for a remote call";
	if (!trouble && !as_in_file(p, objects, change, pages))
		trouble = "another tool has changed its pages";
	if (trouble)
		return left(change, trouble);
	return run(&e, calls, sizeof(calls) / sizeof(calls[0]), err);
}
