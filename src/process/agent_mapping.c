/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent mapping.
 *
 * It is made by remote calls. The first list, from a code cave in executable memory, makes the
 * code's and the data's mapping. The second, from a page of the code's mapping, marks the switch's
 * page to be wiped in a fork's child and names the mappings. The third makes the rings' memory
 * (ring_memory.c). Nothing that is there before a step is changed by it.
 *
 * At the end the rings' pages are given back. Their addresses stay mapped.
 *
 * An earlier area is used again if every byte of code and every fact of the hook table would be the
 * same: then it makes no difference whether a thread is still inside, in a stub, say, or in a poll,
 * at whose end the agent looks at its hook. Else it is retired, never unmapped, and stays to be
 * found: by the next attach that wants just this one. So what is left is bounded by how many
 * different things were asked for. (One whose pollux was killed during a remote call is not used
 * again: a stub that some thread may come back to is in it.)
 *
 * Rings of the same size are replaced in place by the new ones (a mapping over a mapping: at no
 * moment is the address unmapped), whichever area they are of; those of other sizes give their
 * memory back. An area that is used again keeps its notes on them, each with a generation that
 * follows the old one's, by which a thread that comes out of a poll of the old recording sees that
 * they are void; and it keeps the rings' sizes, so that a thread that comes out of the agent's own
 * code writes into a ring as before. Rings of other sizes are given an area of their own.
 */
#include "process/agent_mapping.h"

#include "arch/code.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/vec.h"
#include "process/call_hooks.h"
#include "process/cgroups.h"
#include "process/memory.h"
#include "process/ring_memory.h"
#include "process/threads.h"

#include <asm/unistd.h>
#include <errno.h>
#include <linux/prctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CAVE_BYTES 320u
#define MAX_TRIES 3u /* to find room */
#define UNDONE_AT_ONCE 16u
/* One remote call gives back the memory of up to this many earlier mappings of rings; usually there
 * is one.
 */
#define MAX_GIVEN_BACK 8u
/* This multiple must be left where the address space is limited. */
#define ADDRESS_SPACE_SHARE 16u
/* Of a program that locks its memory: all of it is used at once. */
#define LOCKED_BYTES (33ull << 20)
/* What the kernel lets the program have, and is little, is left to it: at least this number of
 * mappings, bytes of data and of its control groups' memory at least. The agent takes some 20
 * mappings, 2 to 10 MiB of data, and of memory what it uses of that, and the rings. */
#define MAPPINGS_LEFT 256u
#define DATA_LEFT (64ull << 20)
#define MEMORY_LEFT (16ull << 20)
#define MEMORY_SHARE 4u /* of what is left the rings may use one of this number of parts */
#define MORE_THREADS 16u
#define CUT_MEMORY                                                                                 \
	"the program's control group has little memory left, and pollux left most of that to the " \
	"program"
#define CUT_SPACE                                                                                  \
	"the program's address space is limited (ulimit -v), and pollux left most of it to the "   \
	"program"
#define CUT_FILE "the program may make no larger files (ulimit -f), and all buffers are in one"
#define CUT_LOCKED "the program locks its memory (mlockall), and all of a buffer is used at once"
#define NO_RING_FITS                                                                               \
	"no event buffer of %u bytes fits into what process %d may have (ulimit -f, mlockall): "   \
	"try a smaller --ring-size"

/* agent/embed.S */
extern const uint8_t pollux_agent_image[], pollux_agent_image_end[];

const struct agent_image *agent_mapping_image(size_t *ret_bytes)
{
	if (ret_bytes)
		*ret_bytes = (size_t)(pollux_agent_image_end - pollux_agent_image);
	return (const struct agent_image *)pollux_agent_image;
}

/* Indices of layout.words. */
enum {
	WORD_DONE,
	WORD_FD, /* or the number of a System V segment */
	WORD_RINGS,
	WORD_NAME, /* two words */
	WORD_NO_FORK = 5,
	WORD_NO_DUMP,
	WORD_NO_DUMP_STATE,
	WORD_BLOCKS,
	WORD_RETIRED = WORD_BLOCKS + LAYOUT_MAX_BLOCKS,
	WORD_CLOCK, /* of PR_GET_TSC */
	WORD_ACROSS,
};
_Static_assert(WORD_ACROSS + ACROSS_WORDS <= LAYOUT_WORD_PROGRAMS, "words");

static uint64_t word(const struct layout *l, unsigned i)
{
	return l->words + 8 * i;
}

/* ---- code ---- */

/* All bytes of the code mapping but the remote calls' page. NULL if out of memory. */
static uint8_t *make_code(struct hooks *h, const struct layout *l)
{
	size_t image_bytes;
	const struct agent_image *built = agent_mapping_image(&image_bytes);
	uint8_t *code = calloc(1, l->code_bytes);
	struct agent_image *image = (struct agent_image *)code;

	if (!code)
		return NULL;
	memcpy(code, built, image_bytes);
	image->state = l->data;
	image->hooks = l->hooks;
	image->live = l->live;
	uint32_t range = (uint32_t)(h->n * AGENT_STUB_BYTES);
	memcpy(code + built->stubs_range, &range, sizeof(range));
	hooks_write_stubs(h, l, built, code + (l->stubs - l->code));
	if (l->n_blocks)
		hooks_write_trampolines(h, &l->block[0], l, built,
					code + (l->block[0].addr - l->code));
	return code;
}

/* Each further block's trampolines are given to `fn` with what they should be. */
static int each_block(const struct process *p, const struct hooks *h, const struct layout *l,
		      int (*fn)(const struct process *p, uint64_t addr, const void *code,
				size_t len))
{
	for (uint32_t i = 1; i < l->n_blocks; i++) {
		const struct layout_block *b = &l->block[i];
		_cleanup_free_ uint8_t *code = b->addr ? malloc(b->bytes) : NULL;
		int rc;

		if (!b->addr)
			continue;
		if (!code)
			return -ENOMEM;
		hooks_write_trampolines(h, b, l, agent_mapping_image(NULL), code);
		rc = fn(p, b->addr, code, b->bytes);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int write_blocks(const struct process *p, const struct hooks *h, const struct layout *l)
{
	uint64_t addrs[LAYOUT_MAX_BLOCKS] = {0};
	int rc = each_block(p, h, l, memory_write);

	/* A later attach finds them by this. */
	for (uint32_t i = 1; i < l->n_blocks; i++)
		addrs[i] = l->block[i].addr;
	return rc < 0 ? rc : memory_write(p, word(l, WORD_BLOCKS), addrs, sizeof(addrs));
}

static int same_code(const struct process *p, uint64_t addr, const void *code, size_t len)
{
	_cleanup_free_ uint8_t *there = malloc(len);

	return there && memory_read(p, addr, there, len) == 0 && !memcmp(there, code, len) ? 0 : -1;
}

/* ---- remote calls ---- */

/* The second call is made if the first one has mapped the data, and says there that it has mapped
 * the code. */
static int make_mappings(struct injector *in, const struct layout *l,
			 const struct process_maps *maps, struct error *err)
{
	const uint64_t flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	const struct stub_call calls[] = {
		{.nr = __NR_mmap,
		 .args = {l->data, l->data_bytes, PROT_READ | PROT_WRITE, flags, UINT64_MAX, 0},
		 .check = STUB_EQUAL,
		 .expected = l->data},
		{.nr = __NR_mmap,
		 .args = {l->code, l->code_bytes, PROT_READ | PROT_EXEC, flags, UINT64_MAX, 0},
		 .result_at = word(l, WORD_DONE)},
	};
	const struct remote_calls remote_calls = {.calls = calls,
						  .n_calls = 2,
						  .mapped_at = word(l, WORD_DONE),
						  .mapped_value = l->code};
	struct code_cave cave;
	int rc;

	TRY(inject_find_cave(in->process, maps, CAVE_BYTES, &cave, err));
	if (cave.size > CAVE_BYTES)
		cave.size = CAVE_BYTES;
	rc = inject_run(in, &cave, &remote_calls, err);
	return rc < 0 && err && !err->code ? error_sys(err, rc, "no memory for the agent") : rc;
}

/* Whether the program has mapped something where these were to be. */
static bool room_is_taken(const struct process *p, const struct layout *l)
{
	_cleanup_(maps_done) struct process_maps maps = {0};

	if (maps_read(p, &maps, NULL) < 0)
		return false;
	for (size_t i = 0; i < maps.n; i++)
		if (maps.v[i].end > l->code && maps.v[i].start < l->data + l->data_bytes &&
		    maps.v[i].start != l->data)
			return true;
	return false;
}

/* Where there is room, which the program, as it loads libraries, may take meanwhile. */
static int plan_mappings(struct injector *in, const struct hooks *h, struct layout *l,
			 struct process_maps *maps, const struct process_object *main_object,
			 struct error *err)
{
	struct error why;
	int rc;

	for (unsigned tries = 0;; tries++) {
		why = (struct error){0};
		TRY(layout_plan(l, agent_mapping_image(NULL), (uint32_t)h->n, maps, main_object,
				NULL, err));
		rc = make_mappings(in, l, maps, &why);
		if (rc != -ENOMEM || !room_is_taken(in->process, l))
			break;
		log_debug(LOG_ATTACH, "the room at %#lx was taken meanwhile",
			  (unsigned long)l->code);
		rc = error_set(&why, -EAGAIN,
			       "process %d maps memory faster than pollux can find a free "
			       "address: try again",
			       in->process->pid);
		if (tries == MAX_TRIES)
			break;
		maps_done(maps);
		*maps = (struct process_maps){0};
		TRY(maps_read(in->process, maps, err));
	}
	if (rc < 0 && err)
		*err = why;
	return rc;
}

/* A word of a remote call that says how a call ended that may fail. */
static bool succeeded(const struct process *p, const struct layout *l, unsigned i)
{
	uint64_t result;

	return memory_read_u64(p, word(l, i), &result) == 0 && result == 0;
}

/* What a pollux that was killed left in the rings of other areas: of those that are retired it was
 * given back before. Their mappings stay. */
static size_t give_back(struct stub_call *calls, const struct stale_agents *all, uint64_t but)
{
	size_t n = 0;

	for (size_t i = 0; i < all->n && n < MAX_GIVEN_BACK; i++) {
		const struct stale_agent *o = &all->v[i];
		bool again = o->retired || !o->rings || o->rings == but;

		for (size_t k = 0; k < i && !again; k++)
			again = !all->v[k].retired && all->v[k].rings == o->rings;
		if (!again)
			calls[n++] = (struct stub_call){
				.nr = __NR_madvise,
				.args = {o->rings, o->rings_bytes, MADV_REMOVE},
			};
	}
	return n;
}

/* What can be asked for while the program runs, and whether the thread may read the clock. */
static int make_rest(struct injector *in, struct code_cave *cave, const struct layout *l,
		     const struct stale_agents *all, uint64_t rings_in_use, bool reused,
		     bool ask_clock, struct error *err)
{
	struct stub_call calls[5 + LAYOUT_MAX_BLOCKS + MAX_GIVEN_BACK];
	struct remote_calls remote_calls = {.calls = calls, .done_at = word(l, WORD_DONE)};
	size_t n = 0;

	/* Before the rings, for which the kernel may choose just these places. */
	for (uint32_t i = 1; i < l->n_blocks && !reused; i++)
		if (l->block[i].addr)
			calls[n++] = (struct stub_call){
				.nr = __NR_mmap,
				.args = {l->block[i].addr, l->block[i].bytes, PROT_READ | PROT_EXEC,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
					 UINT64_MAX, 0},
				.check = STUB_EQUAL,
				.expected = l->block[i].addr,
			};
	calls[n++] = (struct stub_call){.nr = __NR_madvise,
					.args = {l->data, l->data_bytes, MADV_DONTDUMP},
					.result_at = word(l, WORD_NO_DUMP_STATE)};
	calls[n++] = (struct stub_call){.nr = __NR_madvise,
					.args = {l->live, layout_page_bytes(), MADV_WIPEONFORK},
					.check = STUB_EQUAL};
	/* Names for people who read maps; kernels may be built without. */
	calls[n++] = (struct stub_call){.nr = __NR_prctl,
					.args = {PR_SET_VMA, PR_SET_VMA_ANON_NAME, l->code,
						 l->code_bytes, word(l, WORD_NAME)}};
	calls[n++] = (struct stub_call){.nr = __NR_prctl,
					.args = {PR_SET_VMA, PR_SET_VMA_ANON_NAME, l->data,
						 l->data_bytes, word(l, WORD_NAME)}};
	if (ask_clock)
		calls[n++] = (struct stub_call){.nr = __NR_prctl,
						.args = {PR_GET_TSC, word(l, WORD_CLOCK)}};
	n += give_back(calls + n, all, rings_in_use);
	remote_calls.n_calls = n;
	return inject_run(in, cave, &remote_calls, err);
}

bool agent_mapping_no_clock(const struct process *p, uint64_t live)
{
	struct agent_switch there = {0};

	return memory_read(p, live, &there, sizeof(there)) == 0 && there.no_clock;
}

static int no_clock(const struct process *p, struct error *err)
{
	return error_set(err, -EPERM,
			 "process %d forbids itself to read the processor's clock "
			 "(PR_SET_TSC), which the agent does for each event: the kernel would kill "
			 "the program (SIGSEGV); use --backend=kernel",
			 p->pid);
}

/* The first list in the agent's own place. A filter that forbids the question is no reason not to
 * record. */
static int prepare(struct injector *in, struct code_cave *cave, const struct layout *l,
		   const struct stale_agents *all, uint64_t rings_in_use, bool reused,
		   struct error *err)
{
	const uint64_t unknown = 0;
	uint64_t clock = 0;
	struct error why = {0};
	int rc = memory_write(in->process, word(l, WORD_CLOCK), &unknown, sizeof(unknown));

	if (rc < 0)
		return error_sys(err, rc, "cannot write into process %d", in->process->pid);
	rc = make_rest(in, cave, l, all, rings_in_use, reused, true, &why);
	if (rc == -EPERM)
		return make_rest(in, cave, l, all, rings_in_use, reused, false, err);
	if (rc < 0) {
		if (err)
			*err = why;
		return rc;
	}
	return memory_read_u64(in->process, word(l, WORD_CLOCK), &clock) == 0 &&
			       (uint32_t)clock == PR_TSC_SIGSEGV
		       ? no_clock(in->process, err)
		       : 0;
}

/* Those of `old` are replaced in place, if it has any of that size; `all` are the earlier areas. */
static int make_rings(struct injector *in, struct layout *l, const struct stale_agent *old,
		      const struct stale_agents *all, struct agent_rings *rings, bool reused,
		      struct error *err)
{
	struct process *p = in->process;
	struct code_cave cave = {.addr = l->remote_calls, .size = layout_page_bytes()};
	uint64_t at = old->rings_bytes == l->rings_bytes ? old->rings : 0;
	const struct ring_memory_words words = {.done = word(l, WORD_DONE),
						.name = word(l, WORD_NAME),
						.number = word(l, WORD_FD),
						.mapped = word(l, WORD_RINGS),
						.no_fork = word(l, WORD_NO_FORK),
						.no_dump = word(l, WORD_NO_DUMP)};
	char name[16] = RING_MEMORY_NAME;
	void *map;
	int rc = memory_write(p, word(l, WORD_NAME), name, sizeof(name));

	if (rc < 0)
		return error_sys(err, rc, "cannot write into process %d", p->pid);
	rc = prepare(in, &cave, l, all, at, reused, err);
	if (rc < 0) {
		if (err && !err->code)
			error_sys(err, rc, "process %d was refused memory for the agent", p->pid);
		return rc;
	}
	TRY(ring_memory_make(in, &cave, &words, l->rings_bytes, at, &map, err));
	rings->areas = map;
	rings->bytes = l->rings_bytes;
	rc = memory_read_u64(p, word(l, WORD_RINGS), &l->rings);
	if (rc < 0)
		return error_sys(err, rc, "cannot read process %d", p->pid);
	rings->in_children = !succeeded(p, l, WORD_NO_FORK);
	rings->in_dumps = !succeeded(p, l, WORD_NO_DUMP) || !succeeded(p, l, WORD_NO_DUMP_STATE);
	return 0;
}

struct across agent_mapping_across(struct injector *in, const struct layout *l)
{
	const size_t bytes = layout_page_bytes();

	return (struct across){
		.in = in,
		.cave = {.addr = l->remote_calls,
			 .size = bytes,
			 .dirty = !inject_is_free(in->process, l->remote_calls, bytes)},
		.words = word(l, WORD_ACROSS)};
}

void agent_rings_done(struct agent_rings *rings)
{
	if (!rings->areas)
		return;
	/* The target's mapping stays, for a thread that may still be in the middle of an event. */
	madvise(rings->areas, rings->bytes, MADV_REMOVE);
	munmap(rings->areas, rings->bytes);
	rings->areas = NULL;
}

/* ---- notes of an earlier recording ---- */

/* More claims than threads can make that were in the middle of one when the agent was disabled. */
#define GENERATIONS_APART (1u << 16)

uint64_t agent_mapping_owner(const struct layout *l, uint32_t i)
{
	const struct agent_image *image = agent_mapping_image(NULL);

	return l->data + image->notes + (uint64_t)i * image->notes_bytes;
}

/* The agent is off, and no thread that comes to it from now on has a ring. */
static int void_notes(const struct process *p, const struct layout *l)
{
	uint32_t bytes = agent_mapping_image(NULL)->notes_bytes, n_used;
	_cleanup_free_ uint8_t *notes = malloc(bytes);
	struct agent_owner owner;
	int rc = memory_read(p, l->data + offsetof(struct agent_state, n_used), &n_used,
			     sizeof(n_used));

	if (!notes)
		return -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < n_used && i < AGENT_MAX_RINGS; i++) {
		rc = memory_read(p, agent_mapping_owner(l, i), &owner, sizeof(owner));
		if (rc < 0)
			break;
		uint32_t generation = (uint32_t)(owner.claim >> 32) + GENERATIONS_APART;
		owner = (struct agent_owner){.claim = (uint64_t)generation << 32,
					     .mask = owner.mask};
		memset(notes, 0, bytes);
		memcpy(notes, &owner, sizeof(owner));
		rc = memory_write(p, agent_mapping_owner(l, i), notes, bytes);
	}
	return rc;
}

/* A line of /proc/PID/limits, in bytes; UINT64_MAX: no limit. */
static uint64_t limit_of(const char *limits, const char *key)
{
	unsigned long long limit;
	const char *line = strstr(limits, key);
	if (!line || sscanf(line + strlen(key), "%llu", &limit) != 1)
		return UINT64_MAX; /* "unlimited" */
	return limit;
}

/* What a process may have of memory and files, and what it has, in bytes. */
struct means {
	uint64_t max_space, max_file, max_data; /* UINT64_MAX: not limited */
	uint64_t used, data, locked;		/* 0: not known */
	struct cgroup_memory memory;		/* of its control groups */
	uint64_t n_threads;
};

static uint64_t status_bytes(const char *status, const char *key)
{
	long kb = process_status_number(status, key, false);

	return kb > 0 ? (uint64_t)kb * 1024 : 0;
}

static struct means read_means(const struct process *p)
{
	char limits[4096] = "", status[PROCESS_STATUS_BYTES] = "";

	process_read_file(p, "limits", limits, sizeof(limits));
	process_read_status(p, 0, status);
	return (struct means){
		.max_space = limit_of(limits, "Max address space"),
		.max_file = limit_of(limits, "Max file size"),
		.max_data = limit_of(limits, "Max data size"),
		.used = status_bytes(status, "VmSize"),
		.data = status_bytes(status, "VmData"),
		.locked = status_bytes(status, "VmLck"),
		.memory = cgroups_memory_left(p),
		.n_threads = (uint64_t)process_status_number(status, "Threads", false),
	};
}

/* Fewer rings, if they need more than this many bytes. */
static void cut_rings(struct agent_rings *rings, uint64_t bytes, const char *why)
{
	uint64_t area = sizeof(struct ring_area) + layout_page_bytes();
	uint64_t stride = sizeof(struct ring) + rings->ring_bytes;
	uint64_t n = bytes > area ? (bytes - area) / stride : 0;

	if (n >= rings->n_rings)
		return;
	rings->n_rings = (uint32_t)n;
	rings->cut = why;
}

/*
 * What the rings may cost the program. Their address space is gone for good: one that has little
 * is left most of it, and what an earlier recording had of it is had again. They are a file, and
 * the program would be killed for making one larger than it may (ulimit -f). And if it locks all
 * its memory the kernel fills them as they are mapped, while a thread waits.
 */
static void limit_rings(const struct means *m, const struct stale_agent *old,
			struct agent_rings *rings)
{
	uint64_t left = m->used < m->max_space ? m->max_space - m->used : 0;

	if (m->max_space != UINT64_MAX && old->rings && old->ring_bytes == rings->ring_bytes) {
		if (old->n_rings < rings->n_rings) {
			rings->n_rings = old->n_rings;
			rings->cut = CUT_SPACE;
		}
	} else if (m->max_space != UINT64_MAX) {
		cut_rings(rings, left / ADDRESS_SPACE_SHARE, CUT_SPACE);
		rings->n_rings = rings->n_rings ? rings->n_rings : 1;
	}
	if (m->locked > m->used / 2)
		cut_rings(rings, LOCKED_BYTES, CUT_LOCKED);
	if (m->max_file != UINT64_MAX)
		cut_rings(rings, m->max_file, CUT_FILE);
	/* Of more rings than there will be threads no page is used. */
	if (m->memory.left / MEMORY_SHARE < (2 * m->n_threads + MORE_THREADS) * rings->ring_bytes)
		cut_rings(rings, m->memory.left / MEMORY_SHARE, CUT_MEMORY);
}

static uint64_t max_mappings(void)
{
	_cleanup_close_ int fd = file_open("/proc/sys/vm/max_map_count", FILE_EMPTY, NULL);
	char text[32] = "";

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return UINT64_MAX;
	return strtoull(text, NULL, 10);
}

/* Whether a limit of the program is so near that the agent would take what the program will need. */
static int leaves_enough(const struct process *p, const struct means *m, size_t n_mappings,
			 struct error *err)
{
	uint64_t max = max_mappings();

	if (n_mappings + MAPPINGS_LEFT > max)
		return error_set(err, -ENOMEM,
				 "process %d has %zu of at most %llu memory mappings, and pollux "
				 "leaves the rest to the program: raise vm.max_map_count",
				 p->pid, n_mappings, (unsigned long long)max);
	if (m->max_data != UINT64_MAX && m->data + DATA_LEFT > m->max_data)
		return error_set(
			err, -ENOMEM,
			"process %d can get only %llu more bytes of data (ulimit -d), and pollux "
			"leaves the last 64 MiB to the program: raise that limit",
			p->pid,
			(unsigned long long)(m->data < m->max_data ? m->max_data - m->data : 0));
	if (m->memory.left < MEMORY_LEFT)
		return error_set(
			err, -ENOMEM,
			"the control group of process %d can get only %llu more KiB of memory, and "
			"pollux leaves the last 16 MiB to the program: raise its %s",
			p->pid, (unsigned long long)(m->memory.left >> 10), m->memory.limit);
	return 0;
}

static uint64_t rings_bytes(const struct agent_rings *rings)
{
	uint64_t stride = sizeof(struct ring) + rings->ring_bytes;

	return layout_pages(sizeof(struct ring_area) + rings->n_rings * stride);
}

/* Rings that the agent never got have no notes. */
static bool same_rings(const struct stale_agent *old, const struct layout *l,
		       const struct agent_rings *rings)
{
	if (old->rings && old->rings_bytes != l->rings_bytes)
		return false;
	return !old->n_rings ||
	       (old->n_rings == rings->n_rings && old->ring_bytes == rings->ring_bytes);
}

static bool is_future(const struct agent_hook *hook)
{
	return hook->type == AH_FUTURE || hook->type == AH_ROOT_SITE;
}

/* Where a method's future is. `last_state` comes after that, new in each recording. */
static void take_held(struct agent_hook *to, const struct agent_hook *from)
{
	to->future.result = from->future.result;
	to->future.pending = from->future.pending;
	to->future.future_offset = from->future.future_offset;
	to->future.tag_size = from->future.tag_size;
	to->future.tag_some = from->future.tag_some;
	to->future.held_offset = from->future.held_offset;
	to->future.held_second = from->future.held_second;
}

/* Whether an entry is the one that we would write, but for what is learned or comes later. */
static bool same_hook(const struct agent_hook *own, struct agent_hook there)
{
	const uint16_t learned = AGENT_HOOK_WORKER | AGENT_HOOK_SERVES | AGENT_HOOK_HANDLER;

	there.flags = (uint16_t)((there.flags & ~learned) | (own->flags & learned));
	there.program = own->program;
	if (own->flags & AGENT_HOOK_HELD) {
		there.last_state = own->last_state;
		take_held(&there, own);
	} else if (is_future(own)) {
		there.future.alone = own->future.alone;
		if (hooks_learns_result(own)) {
			there.future.result = own->future.result;
			there.future.pending = own->future.pending;
		}
	} else {
		if (own->task.vtable_offset == OFFSET_UNKNOWN)
			there.task.vtable_offset = OFFSET_UNKNOWN;
		if (own->task.state_offset == OFFSET_UNKNOWN)
			there.task.state_offset = OFFSET_UNKNOWN;
		if (own->type == AH_ASYNC_RUN)
			there.task.end_offset = own->task.end_offset;
	}
	/* Entries begin as all zero bytes. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
	return !memcmp(&there, own, sizeof(there));
}

/* What was learned of it stays, so that a poll which began with it ends with it. */
static void keep_learned(struct agent_hook *own, const struct agent_hook *there)
{
	if (own->flags & AGENT_HOOK_HELD)
		take_held(own, there);
	if (hooks_learns_result(own)) {
		own->future.result = there->future.result;
		own->future.pending = there->future.pending;
	}
	if (is_future(own))
		return;
	if (own->task.vtable_offset == OFFSET_UNKNOWN)
		own->task.vtable_offset = there->task.vtable_offset;
	if (own->task.state_offset == OFFSET_UNKNOWN)
		own->task.state_offset = there->task.state_offset;
	if (own->type == AH_ASYNC_RUN)
		own->task.end_offset = there->task.end_offset;
}

/* A thread that is still inside, or comes out of a poll, looks at the table at any time. */
static bool same_table(const struct hooks *h, const struct stale_agent *old,
		       const struct agent_hook *there)
{
	if (!old->n_hooks) /* nothing was ever hooked */
		return true;
	if (old->n_hooks != h->n)
		return false;
	for (size_t i = 0; i < h->n; i++)
		if (!same_hook(&h->table[i], there[i]))
			return false;
	return true;
}

/* Plans the area at the place of an earlier one: whether all there is as it would be. */
static bool fits(const struct process *p, struct hooks *h, struct layout *l,
		 const struct stale_agent *old, const struct process_maps *maps,
		 const struct process_object *main_object, const struct agent_rings *rings)
{
	_cleanup_free_ struct agent_hook *there = calloc(old->n_hooks + 1, sizeof(*there));
	_cleanup_free_ uint8_t *code = NULL;
	struct error ignored = {0};

	if (!there || memory_read(p, old->hooks, there, old->n_hooks * sizeof(*there)) < 0 ||
	    !same_rings(old, l, rings) || !same_table(h, old, there) ||
	    layout_plan(l, agent_mapping_image(NULL), (uint32_t)h->n, maps, main_object,
			&old->earlier, &ignored) < 0 ||
	    l->data != old->data || l->hooks != old->hooks || l->live != old->live ||
	    !inject_is_free(p, l->remote_calls, layout_page_bytes()))
		return false;
	hooks_place(h, l);
	code = make_code(h, l);
	if (!code || same_code(p, l->code, code, l->code_bytes - layout_page_bytes()) < 0 ||
	    each_block(p, h, l, same_code) < 0)
		return false;
	for (uint32_t i = 0; i < old->n_hooks; i++)
		keep_learned(&h->table[i], &there[i]);
	return true;
}

/* All but `used` are undone, and keep nothing for the next attach to undo, but for what could not be
 * undone. */
static int retire(const struct process *p, const struct stale_agents *all,
		  const struct stale_agent *used)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct stale_agent *o = &all->v[i];

		if (!o->kept && o->retired != (o != used))
			TRY(memory_write_u64(p, o->live + LAYOUT_WORDS_OFFSET + 8 * WORD_RETIRED,
					     o != used));
	}
	return 0;
}

/* The earlier area with most rings of this size: what it took of the address space is there. */
static const struct stale_agent *most_rings(const struct stale_agents *all, uint32_t ring_bytes)
{
	static const struct stale_agent none = {0};
	const struct stale_agent *most = &none;

	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].rings && all->v[i].ring_bytes == ring_bytes &&
		    all->v[i].n_rings > most->n_rings)
			most = &all->v[i];
	return most;
}

/* One whose rings can be replaced in place. */
static const struct stale_agent *rings_of(const struct stale_agents *all, uint64_t bytes)
{
	static const struct stale_agent none = {0};

	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].rings && all->v[i].rings_bytes == bytes)
			return &all->v[i];
	return &none;
}

int agent_mapping_make(struct injector *in, struct hooks *h, struct layout *l,
		       const struct stale_agents *old, const struct process_object *main_object,
		       struct agent_rings *rings, bool *ret_reused, struct error *err)
{
	struct process *p = in->process;
	_cleanup_(maps_done) struct process_maps maps = {0};
	_cleanup_free_ uint8_t *code = NULL;
	const struct stale_agent *used = NULL;
	int rc = hooks_want(h, l);

	if (rc < 0)
		return error_sys(err, rc, "cannot place the agent");
	const struct means means = read_means(p);

	for (size_t i = 0; i < old->n; i++)
		if (agent_mapping_no_clock(p, old->v[i].live))
			return no_clock(p, err);
	TRY(maps_read(p, &maps, err));
	limit_rings(&means, most_rings(old, rings->ring_bytes), rings);
	l->rings_bytes = rings_bytes(rings);
	log_debug(LOG_ATTACH,
		  "process %d maps %llu bytes of at most %lld, locked %llu; files of at most %lld "
		  "(-1: no limit); "
		  "rings need %llu",
		  p->pid, (unsigned long long)means.used, (long long)means.max_space,
		  (unsigned long long)means.locked, (long long)means.max_file,
		  (unsigned long long)l->rings_bytes);

	for (size_t i = 0; i < old->n && !used; i++)
		if (fits(p, h, l, &old->v[i], &maps, main_object, rings))
			used = &old->v[i];
	/* What is there and used again takes nothing more. */
	if (!used || used->rings_bytes != l->rings_bytes)
		TRY(leaves_enough(p, &means, maps.n, err));
	if (!rings->n_rings)
		return error_set(err, -EFBIG, NO_RING_FITS, rings->ring_bytes, p->pid);
	if (!used) {
		TRY(plan_mappings(in, h, l, &maps, main_object, err));
		hooks_place(h, l);
		code = make_code(h, l);
		if (!code)
			return error_sys(err, -ENOMEM, "cannot make the agent's code");
		/* mlockall(MCL_FUTURE), as late as now */
		if (read_means(p).locked >= means.locked + l->data_bytes) {
			cut_rings(rings, LOCKED_BYTES, CUT_LOCKED);
			l->rings_bytes = rings_bytes(rings);
			if (!rings->n_rings)
				return error_set(err, -EFBIG, NO_RING_FITS, rings->ring_bytes,
						 p->pid);
		}
		rc = memory_write(p, l->code, code, l->code_bytes - layout_page_bytes());
		if (rc < 0)
			return error_sys(err, rc, "cannot write the agent into process %d", p->pid);
	}
	in->avoid_start = l->code;
	in->avoid_end = l->code + l->code_bytes;
	TRY(make_rings(in, l, used && used->rings ? used : rings_of(old, l->rings_bytes), old,
		       rings, used != NULL, err));
	rc = used ? 0 : write_blocks(p, h, l);
	if (rc == 0)
		rc = retire(p, old, used);
	if (rc == 0 && used)
		rc = void_notes(p, l);
	if (rc < 0)
		return error_sys(err, rc, "cannot write the agent into process %d", p->pid);
	*ret_reused = used != NULL;
	return 0;
}

/* ---- what an earlier attach left ---- */

/* The rings are there from the remote call on that made them. */
static void read_rings(const struct process_maps *maps, uint64_t rings, struct stale_agent *l)
{
	const struct process_map *m = rings ? maps_at(maps, rings) : NULL;

	if (!m || m->start != rings || !ring_memory_is(m->path))
		return;
	l->rings = rings;
	l->rings_bytes = m->end - m->start;
}

/* Code, directly followed by data; the image says where each part is. */
static bool read_stale_agent(const struct process *p, const struct process_maps *maps,
			     const struct process_map *code, struct stale_agent *ret)
{
	const struct process_map *data = code + 1;
	struct agent_image image;
	struct agent_state s;
	uint64_t rings = 0, retired = 0;

	if (code->inode || code->write || !code->exec || data->inode || !data->write ||
	    data->start != code->end || memory_read(p, code->start, &image, sizeof(image)) < 0 ||
	    image.magic != AGENT_MAGIC || image.abi != AGENT_ABI || image.state != data->start ||
	    memory_read(p, data->start, &s, sizeof(s)) < 0)
		return false;
	*ret = (struct stale_agent){
		.earlier.code = code->start,
		.data = data->start,
		.hooks = image.hooks,
		.stubs = code->start + image.image_bytes,
		.live = image.live,
	};
	/* Its maker may have died before the state was written: then nothing is hooked. */
	if (s.magic == AGENT_MAGIC && s.n_hooks <= AGENT_MAX_HOOKS) {
		ret->n_hooks = s.n_hooks;
		ret->n_rings = s.n_rings;
		ret->ring_bytes = s.ring_bytes;
	}
	uint64_t words = image.live + LAYOUT_WORDS_OFFSET;
	memory_read_u64(p, words + 8 * WORD_RINGS, &rings);
	memory_read_u64(p, words + 8 * WORD_RETIRED, &retired);
	memory_read(p, words + 8 * WORD_BLOCKS, ret->earlier.blocks, sizeof(ret->earlier.blocks));
	ret->retired = retired;
	read_rings(maps, rings, ret);
	return true;
}

int stale_agents_find(const struct process *p, const struct process_maps *maps,
		      struct stale_agents *ret)
{
	*ret = (struct stale_agents){0};
	for (size_t i = 0; i + 1 < maps->n; i++) {
		struct stale_agent one;

		if (!read_stale_agent(p, maps, &maps->v[i], &one))
			continue;
		if (!GROW_ONE(ret->v, ret->n)) {
			stale_agents_done(ret);
			return -ENOMEM;
		}
		ret->v[ret->n++] = one;
	}
	return 0;
}

void stale_agents_done(struct stale_agents *l)
{
	free(l->v);
	*l = (struct stale_agents){0};
}

/* The offset of the jump in a patched instruction; -1: it isn't patched. The rest of its first
 * eight bytes is unchanged, or the kernel has a breakpoint at the first. */
static int jump_left(const struct process *p, const struct agent_hook *hook, uint8_t live[8])
{
	const uint8_t *saved = (const uint8_t *)&hook->saved;

	if ((hook->type != AH_SPAWN && hook->type != AH_ROOT_ENTER) ||
	    memory_read(p, hook->slot, live, 8) < 0)
		return -1;
	return arch_jump_left(live, saved);
}

/* Hooks of code that are in place, and how far their removal has come. */
struct patches_left {
	const struct stale_agent *l;
	struct process *process;
	const struct agent_hook *table;
	uint32_t *v; /* numbers of hooks */
	size_t n, next;
};

static uint64_t stub_left(const struct stale_agent *l, uint32_t hook)
{
	return l->stubs + (uint64_t)hook * AGENT_STUB_BYTES;
}

static int undo_patch(const struct patches_left *left, uint32_t i)
{
	const struct agent_hook *hook = &left->table[i];
	uint8_t live[8];

	if (call_hooks_left(left->process, hook, stub_left(left->l, i)))
		return memory_in_one_page(hook->slot, CALL_HOOKS_FIELD)
			       ? call_hooks_undo(left->process, hook)
			       : 0;
	int at = jump_left(left->process, hook, live);
	return at < 0 || !memory_in_one_page(hook->slot + (uint64_t)at, ARCH_JUMP_BYTES)
		       ? 0
		       : memory_replace(left->process, hook->slot + (uint64_t)at,
					(const uint8_t *)&hook->saved + at, ARCH_JUMP_BYTES);
}

static int undo_some(void *patches_left, const struct process_stop *stopped, uint64_t until_ns,
		     struct error *err)
{
	struct patches_left *left = patches_left;

	(void)stopped;
	while (left->next < left->n) {
		int rc = undo_patch(left, left->v[left->next++]);

		if (rc < 0)
			return error_sys(err, rc, "cannot restore process %d", left->process->pid);
		if (left->next < left->n && left->next % UNDONE_AT_ONCE == 0 &&
		    clock_monotonic_ns() > until_ns)
			return 1;
	}
	return 0;
}

static int undo_patches(const struct stale_agent *l, struct process *p,
			const struct agent_hook *table, uint64_t *stop_ns, struct error *err)
{
	_cleanup_free_ uint32_t *v = calloc(l->n_hooks + 1, sizeof(*v));
	struct patches_left left = {.l = l, .process = p, .table = table, .v = v};

	if (!v)
		return error_sys(err, -ENOMEM, "cannot restore process %d", p->pid);
	for (uint32_t i = 0; i < l->n_hooks; i++) {
		uint8_t live[8];

		if (call_hooks_left(p, &table[i], stub_left(l, i)) ||
		    jump_left(p, &table[i], live) >= 0)
			v[left.n++] = i;
	}
	return left.n ? threads_in_stops(p, undo_some, &left, stop_ns, err) : 0;
}

/* What lies in two pages, once nothing else is changed in them. With a place in the program's own
 * code: in the agent's a thread may be on its way since its pollux was killed. */
static int undo_across(struct stale_agent *l, struct process *p,
		       const struct process_objects *objects, struct error *err)
{
	_cleanup_free_ struct agent_hook *table = calloc(l->n_hooks + 1, sizeof(*table));
	struct injector in = {.process = p, .avoid_start = l->earlier.code, .avoid_end = l->data};
	struct across x = {.in = &in, .words = l->live + LAYOUT_WORDS_OFFSET + 8 * WORD_ACROSS};
	int rc = table ? memory_read(p, l->hooks, table, l->n_hooks * sizeof(*table)) : -ENOMEM;

	for (uint32_t i = 0; i < l->n_hooks && rc >= 0; i++) {
		const struct agent_hook *hook = &table[i];
		struct across_change change = {.addr = hook->slot, .len = CALL_HOOKS_FIELD};
		_cleanup_(maps_done) struct process_maps maps = {0};
		uint8_t live[8];
		int at;

		if (call_hooks_left(p, hook, stub_left(l, i))) {
			if (memory_read(p, hook->slot, live, CALL_HOOKS_FIELD) < 0)
				continue;
			change.after = live;
		} else if ((at = jump_left(p, hook, live)) >= 0) {
			change.addr += (uint64_t)at;
			change.after = live + at;
			change.len = ARCH_JUMP_BYTES;
		} else {
			continue;
		}
		if (memory_in_one_page(change.addr, change.len))
			continue;
		TRY(maps_read(p, &maps, err));
		rc = inject_find_cave(p, &maps, CAVE_BYTES, &x.cave, NULL);
		if (x.cave.size > CAVE_BYTES)
			x.cave.size = CAVE_BYTES;
		rc = rc < 0 ? 1 : across_undo(&x, objects, &change, err);
		l->kept = l->kept || rc != 0;
	}
	return rc < 0 && err && !err->code
		       ? error_sys(err, rc,
				   "cannot reuse what an earlier pollux left in process %d", p->pid)
		       : rc;
}

static int undo_slots(const struct stale_agent *l, const struct process *p,
		      struct agent_hook *table)
{
	const uint32_t off = 0;

	TRY(memory_write(p, l->live, &off, sizeof(off)));
	TRY(memory_read(p, l->hooks, table, l->n_hooks * sizeof(*table)));
	for (uint32_t i = 0; i < l->n_hooks; i++) {
		uint64_t live;

		if (table[i].type == AH_SPAWN || table[i].type == AH_ROOT_ENTER ||
		    table[i].type == AH_ROOT_SITE || hook_is_call(&table[i]) ||
		    memory_read_u64(p, table[i].slot, &live) < 0)
			continue;
		if (live == stub_left(l, i))
			TRY(memory_write_u64(p, table[i].slot, table[i].saved));
	}
	return 0;
}

static int undo(const struct stale_agent *l, struct process *p, uint64_t *stop_ns,
		struct error *err)
{
	_cleanup_free_ struct agent_hook *table = calloc(l->n_hooks + 1, sizeof(*table));
	int rc = table ? undo_slots(l, p, table) : -ENOMEM;

	if (rc < 0)
		return error_sys(err, rc, "cannot take over from an earlier pollux in process %d",
				 p->pid);
	return undo_patches(l, p, table, stop_ns, err);
}

int stale_agents_undo(struct stale_agents *l, struct process *p,
		      const struct process_objects *objects, uint64_t *stop_ns, struct error *err)
{
	for (size_t i = 0; i < l->n; i++)
		if (!l->v[i].retired)
			TRY(undo(&l->v[i], p, stop_ns, err));
	for (size_t i = 0; i < l->n; i++)
		if (!l->v[i].retired)
			TRY(undo_across(&l->v[i], p, objects, err));
	return 0;
}
