/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Unit tests of the kernel source: at which instructions a probe may stand, operands as the
 * programs in the kernel have them, records in the order of time, what they make of tasks; and,
 * where the kernel lets us, both ways of putting probes in, into this very process.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "../probe_eval.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "binary/elf/elf_image.h"
#include "capture/kernel/kernel.h"
#include "tokio_ends.h"

#include <asm/unistd.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- instructions ---- */

static void test_insn_class(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		enum arch_uprobe class;
	} cases[] = {
		{"\x55", 1, UPROBE_EMULATED},			     /* push %rbp */
		{"\x41\x57", 2, UPROBE_EMULATED},		     /* push %r15 */
		{"\xe9\x00\x00\x00\x00", 5, UPROBE_EMULATED},	     /* jmp */
		{"\xe8\x00\x00\x00\x00", 5, UPROBE_EMULATED},	     /* call */
		{"\x0f\x84\x00\x00\x00\x00", 6, UPROBE_EMULATED},    /* je */
		{"\x90", 1, UPROBE_EMULATED},			     /* nop */
		{"\x0f\x1f\x44\x00\x00", 5, UPROBE_EMULATED},	     /* nop of five bytes */
		{"\x48\x89\xf8", 3, UPROBE_STEPPED},		     /* mov %rdi,%rax */
		{"\x48\x83\xec\x28", 4, UPROBE_STEPPED},	     /* sub $40,%rsp */
		{"\xc3", 1, UPROBE_STEPPED},			     /* ret */
		{"\x48\x8d\x05\x00\x00\x00\x00", 7, UPROBE_STEPPED}, /* lea (%rip),%rax */
		{"\xf3\x0f\x1e\xfa", 4, UPROBE_STEPPED},	     /* endbr64 */
		{"\xf0\x48\xff\x47\xf0", 5, UPROBE_REFUSED},	     /* lock incq -16(%rdi) */
		{"\x66\xe8\x00\x00", 4, UPROBE_REFUSED},	     /* callw */
		{"\x2e\x90", 2, UPROBE_REFUSED},		     /* with a segment */
		{"\xcc", 1, UPROBE_REFUSED},
		{"\xf4", 1, UPROBE_REFUSED},
		{"", 0, UPROBE_REFUSED},
		{"\xf0", 1, UPROBE_REFUSED},
		{"\x48", 1, UPROBE_REFUSED}, /* a prefix, and nothing after it */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(arch_uprobe_of((const uint8_t *)cases[i].bytes, cases[i].len),
				 cases[i].class);
}

/* ---- operands ---- */

/* What kernel.bpf.c does with a translated operand, on words and memory of our own. */
static bool evaluate(const struct kernel_arg *a, const uint64_t *words, uint64_t *ret)
{
	uint64_t base = a->base < PROBE_X86_N_WORDS ? words[a->base] : 0, raw = 0;
	uint64_t index = a->index < PROBE_X86_N_WORDS ? words[a->index] : 0;

	switch (a->form) {
	case KA_CONST:
		*ret = (uint64_t)a->value;
		return true;
	case KA_REG:
		*ret = base >> a->shift;
		return true;
	case KA_MEMORY:
		if (a->index_bits == 32)
			index = a->index_signed ? (uint64_t)(int64_t)(int32_t)index
						: (uint32_t)index;
		memcpy(&raw, (void *)(uintptr_t)(base + (index << a->shift) + (uint64_t)a->value),
		       a->size);
		*ret = raw;
		return true;
	default:
		return false;
	}
}

static int read_self(void *ctx, uint64_t addr, void *to, size_t len)
{
	memcpy(to, (void *)(uintptr_t)addr, len);
	return 0;
}

/* Every form of operand says in the kernel what it says to the reader of notes. */
static void test_operands(void **state)
{
	static const char text[] = "8@%rdi -4@%esi 1@%ah -2@8(%rsp) 4@(%rdi,%rcx,4) -8@$-5 "
				   "1@-1(%rdi,%rcx)";
	uint64_t memory[8], words[PROBE_X86_N_WORDS];
	struct probe_arg args[PROBE_MAX_ARGS];
	size_t n = probe_args_parse(PROBE_X86_64, text, args);

	assert_int_equal(n, 7);
	for (size_t i = 0; i < 8; i++)
		memory[i] = 0x8182838485868788ull * (i + 1);
	for (size_t i = 0; i < PROBE_X86_N_WORDS; i++)
		words[i] = 0xfedcba9876543210ull + i;
	words[PROBE_X86_RDI] = words[PROBE_X86_RSP] = (uintptr_t)memory;
	words[PROBE_X86_RCX] = 3;
	for (size_t i = 0; i < n; i++) {
		struct kernel_arg translated;
		uint64_t wanted, got = 0;

		assert_true(kernel_arg_of(&args[i], &translated));
		assert_int_equal(probe_arg_eval(&args[i], words, PROBE_X86_N_WORDS, read_self, NULL,
						&wanted),
				 0);
		assert_true(evaluate(&translated, words, &got));
		assert_int_equal(probe_arg_extend(&args[i], got), wanted);
	}
	n = probe_args_parse(PROBE_X86_64, "8@%xmm0 4@nonsense", args);
	for (size_t i = 0; i < n; i++) {
		struct kernel_arg translated;

		assert_false(kernel_arg_of(&args[i], &translated));
		assert_int_equal(translated.form, KA_NONE);
	}
}

/* ---- in the kernel ---- */

#define CALLS 1000u

/* A function with a nop for a probe, and the nop's offset in this program's file. */
void probed(uint64_t a, uint64_t b);
__asm__(".pushsection .text\n"
	".type probed, @function\n"
	"probed:\n"
	"	nop\n"
	"	ret\n"
	".size probed, . - probed\n"
	".popsection\n");

static uint64_t file_offset(void)
{
	_cleanup_fclose_ FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long start, end, offset;
	char line[512];

	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%llx-%llx %*s %llx", &start, &end, &offset) == 3 &&
		    (uintptr_t)probed >= start && (uintptr_t)probed < end)
			return (uintptr_t)probed - start + offset;
	fail();
	return 0;
}

struct tally {
	uint64_t n, sum, lost;
};

static int tally(void *context, const void *record, size_t len)
{
	const struct kernel_probe_record *r = record;
	struct tally *t = context;

	if (r->type == KR_LOST)
		t->lost += ((const struct kernel_record *)record)->header;
	if (r->type != KR_PROBE)
		return 0;
	assert_int_equal(r->tid, getpid());
	t->n++;
	t->sum += r->args[0] + r->args[1];
	return 0;
}

static void hit_it(bool multi, uint64_t ring_bytes, struct tally *ret)
{
	struct kernel_site site = {.offset = file_offset(), .hook = 0, .program = KP_PROBE};
	struct kernel_place place = {.type = KH_PROBE};
	struct kernel_hook hook = {.type = KH_PROBE, .probe.n_args = 2};
	struct kernel_hooks hooks = {.table = &hook, .places = &place, .n = 1};
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct kernel_links links = {0};
	struct kernel_core *core;
	struct error err = {0};
	int rc;

	hook.probe.args[0] = (struct kernel_arg){
		.form = KA_REG, .size = 8, .base = PROBE_X86_RDI, .index = 0xff};
	hook.probe.args[1] = (struct kernel_arg){
		.form = KA_REG, .size = 8, .base = PROBE_X86_RSI, .index = 0xff};
	rc = kernel_core_open(
		&(struct kernel_core_options){.ring_bytes = ring_bytes, .event_per_probe = !multi},
		&core, &err);
	if (rc < 0) {
		print_message("skipped: %s\n", err.text);
		skip();
	}
	assert_int_equal(kernel_core_emit_hooks(core, &hooks), 0);
	assert_int_equal(kernel_core_attach(core, KP_PROBE, fd, getpid(), &site, 1, &links, &err),
			 0);
	assert_false(site.refused);
	assert_true(links.n > 0);
	for (uint64_t i = 0; i < CALLS; i++)
		probed(i, 1000000);
	kernel_links_close(&links);
	probed(0, 0); /* nobody is there any more */
	assert_int_equal(bpf_ring_drain(kernel_core_ring(core), tally, ret), 0);
	assert_true(kernel_core_cost_ps(core) > 0);
	kernel_core_free(core);
}

static void test_multi(void **state)
{
	struct tally t = {0};

	hit_it(true, 1 << 20, &t);
	assert_int_equal(t.n, CALLS);
	assert_int_equal(t.sum, CALLS * (CALLS - 1) / 2 + CALLS * 1000000ull);
	assert_int_equal(t.lost, 0);
}

/* As on a kernel before 6.6. */
static void test_perf_events(void **state)
{
	struct tally t = {0};

	hit_it(false, 1 << 20, &t);
	assert_int_equal(t.n, CALLS);
	assert_int_equal(t.sum, CALLS * (CALLS - 1) / 2 + CALLS * 1000000ull);
}

/* A ring that holds fewer than come: the rest is dropped, and no wrong ones appear. */
static void test_small_ring(void **state)
{
	struct tally t = {0};

	hit_it(true, 0, &t);
	assert_true(t.n > 100);
	assert_true(t.n < CALLS);
}

/* ---- tasks ---- */

#define HEADER 0x7000u
#define VTABLE 0x5000u

/* Two threads of a process, whose events are in out: all are said to be of one thread, so that
 * nothing is written. */
struct two_threads {
	struct capture_options options;
	struct capture_shared shared;
	struct capture c;
	struct kernel_process p;
	struct kernel_kind kind;
	struct kernel_track t[2];
	uint64_t time;
	uint16_t flags; /* of records, in addition to KF_READ */
};

static struct two_threads *two_threads(void)
{
	struct two_threads *two = calloc(1, sizeof(*two));

	two->shared.options = &two->options;
	two->c.shared = &two->shared;
	two->kind.state_offset = 0;
	two->kind.task = true;
	two->t[0].process = two->t[1].process = &two->p;
	assert_true(map_put(&two->p.kinds, VTABLE, 0, &two->kind) >= 0);
	return two;
}

static void two_threads_free(struct two_threads *two)
{
	map_done(&two->c.open);
	map_done(&two->p.kinds);
	free(two);
}

/* A record of one of the threads; `state` is the task's. */
static void record(struct two_threads *two, int thread, enum kernel_record_type what,
		   enum kernel_hook_type type, uint64_t state)
{
	struct kernel_place place = {.type = type, .kind = KERNEL_NO_KIND, .waker = KERNEL_NO_KIND};
	struct kernel_record r = {.time = ++two->time,
				  .type = what,
				  .flags = KF_READ | two->flags,
				  .sp = 0x1000,
				  .header = HEADER,
				  .words = {state, 7, VTABLE, state}};

	assert_int_equal(kernel_task(&two->c, &two->p, &two->t[thread], &place, &r), 0);
}

static void hit(struct two_threads *two, int thread, enum kernel_hook_type type, uint64_t state)
{
	record(two, thread, KR_HOOK, type, state);
}

static void returns(struct two_threads *two, int thread, uint64_t state)
{
	record(two, thread, KR_RETURN, KH_TOKIO_POLL, state);
}

static void emitted(const struct two_threads *two, const unsigned *types, size_t n)
{
	assert_int_equal(two->c.out.n, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(two->c.out.events[i].type, types[i]);
}

#define EMITTED(two, ...)                                                                          \
	emitted(two, (const unsigned[]){__VA_ARGS__},                                              \
		sizeof((const unsigned[]){__VA_ARGS__}) / sizeof(unsigned))

/* The same rows as the agent's. What the output says is read by the programs in the kernel. */
static void test_tokio_ends(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_TOKIO_ENDS; i++) {
		const struct tokio_end_row *row = &tokio_ends[i];
		struct two_threads *two = two_threads();

		hit(two, 0, KH_TOKIO_POLL, 3 * 64 | 8 | 4);
		two->flags = (row->raised ? KF_RAISED : 0) |
			     (row->output == OUTPUT_PANIC	? KF_PANICKED
			      : row->output == OUTPUT_CANCELLED ? KF_ABORTED
								: 0);
		returns(two, 0, 3 * 64 | row->after);
		EMITTED(two, TE_POLL_BEGIN, TE_POLL_END);
		if (two->c.out.events[1].arg != (unsigned)row->end)
			fail_msg("%s: %u, not %u", row->says, two->c.out.events[1].arg, row->end);
		two_threads_free(two);
	}
}

/* The last reference is given back on another thread, which has not come to the function that
 * frees when the poll returns. */
static void test_freed_meanwhile(void **state)
{
	struct two_threads *two = two_threads();

	hit(two, 0, KH_TOKIO_POLL, 64);
	returns(two, 0, 2);
	hit(two, 1, KH_TOKIO_DEALLOC, 2);
	EMITTED(two, TE_POLL_BEGIN, TE_POLL_END, TE_DROP);
	/* The next one at that place. */
	hit(two, 0, KH_TOKIO_POLL, 64);
	hit(two, 1, KH_TOKIO_DEALLOC, 2);
	returns(two, 0, 0);
	EMITTED(two, TE_POLL_BEGIN, TE_POLL_END, TE_DROP, TE_POLL_BEGIN, TE_POLL_END, TE_DROP);
	hit(two, 0, KH_TOKIO_POLL, 64);
	returns(two, 0, 64 + 2);
	hit(two, 1, KH_TOKIO_DEALLOC, 2);
	EMITTED(two, TE_POLL_BEGIN, TE_POLL_END, TE_DROP, TE_POLL_BEGIN, TE_POLL_END, TE_DROP,
		TE_POLL_BEGIN, TE_POLL_END, TE_DROP);
	two_threads_free(two);
}

/* async-task's tasks have no id: the place may be another's before the thread that polled says that
 * the poll is over. */
static void test_another_at_its_place(void **state)
{
	struct two_threads *two = two_threads();

	hit(two, 0, KH_ASYNC_RUN, 256 + 1);
	hit(two, 1, KH_ASYNC_DESTROY, 4);
	EMITTED(two, TE_POLL_BEGIN, TE_POLL_END, TE_DROP);
	hit(two, 1, KH_ASYNC_SCHEDULE, 256 + 1);
	hit(two, 0, KH_ASYNC_RETURN, 0);
	EMITTED(two, TE_POLL_BEGIN, TE_POLL_END, TE_DROP, TE_SCHEDULE);
	two_threads_free(two);
}

static void ended(const struct two_threads *two, enum trace_outcome outcome)
{
	const struct trace_event *last = NULL;

	for (size_t i = 0; i < two->c.out.n; i++)
		if (two->c.out.events[i].type == TE_POLL_END)
			last = &two->c.out.events[i];
	assert_non_null(last);
	assert_int_equal(last->arg, outcome);
}

#define RUNS 1u
#define OVER 2u
#define QUEUED 4u
#define HANDLE 8u
#define ABORTED 32u
#define REFERENCE 64u

/* Aborted after the poll's probe looked and before the poll did; then its handle is given up, so
 * the poll frees the task, which no probe sees. */
static void test_aborted_at_the_door(void **state)
{
	static const struct {
		unsigned seen; /* by who gives the handle up */
		enum trace_outcome outcome;
	} cases[] = {
		{QUEUED | ABORTED, TO_ABORTED},
		{RUNS | ABORTED, TO_ABORTED},
		{RUNS | QUEUED | ABORTED, TO_CANCELLED}, /* in the poll */
		{OVER | QUEUED | ABORTED, TO_READY},	 /* in the poll, and too late */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct two_threads *two = two_threads();

		hit(two, 0, KH_TOKIO_POLL, 2 * REFERENCE | HANDLE | QUEUED);
		hit(two, 1, KH_TOKIO_OUTPUT_QUERY, 2 * REFERENCE | HANDLE | cases[i].seen);
		returns(two, 0, 0xdeadbeef0);
		EMITTED(two, TE_POLL_BEGIN, TE_POLL_END, TE_DROP);
		ended(two, cases[i].outcome);
		two_threads_free(two);
	}
	/* Who frees it sees the same. */
	for (unsigned queued = 0; queued <= QUEUED; queued += QUEUED) {
		struct two_threads *two = two_threads();

		hit(two, 0, KH_TOKIO_POLL, REFERENCE | QUEUED);
		hit(two, 0, KH_TOKIO_DEALLOC, OVER | ABORTED | queued);
		returns(two, 0, 0xdeadbeef0);
		ended(two, queued ? TO_CANCELLED : TO_ABORTED);
		two_threads_free(two);
	}
}

/* The output is taken by who asks first; who comes later finds nothing that shows the abort. */
static void test_taken_at_once(void **state)
{
	struct two_threads *two = two_threads();
	const unsigned over = 2 * REFERENCE | HANDLE | OVER | QUEUED | ABORTED;

	hit(two, 0, KH_TOKIO_POLL, 2 * REFERENCE | HANDLE | QUEUED);
	two->flags = KF_ABORTED;
	hit(two, 1, KH_TOKIO_OUTPUT_QUERY, over);
	two->flags = 0;
	hit(two, 1, KH_TOKIO_OUTPUT_QUERY, over);
	two->flags = KF_OUTCOME_SAVED;
	returns(two, 0, over);
	ended(two, TO_CANCELLED);
	two_threads_free(two);
}

/* A poll's return is seen when another thread has polled the task to its end. */
static void test_polled_on_elsewhere(void **state)
{
	struct two_threads *two = two_threads();

	hit(two, 0, KH_TOKIO_POLL, REFERENCE | QUEUED);
	hit(two, 1, KH_TOKIO_POLL, REFERENCE | QUEUED);
	returns(two, 0, REFERENCE | OVER);
	ended(two, TO_PENDING);
	returns(two, 1, REFERENCE | OVER);
	ended(two, TO_READY);
	EMITTED(two, TE_POLL_BEGIN, TE_POLL_BEGIN, TE_POLL_END, TE_POLL_END);
	two_threads_free(two);
	/* That thread found it running, and did nothing. */
	two = two_threads();
	hit(two, 0, KH_TOKIO_POLL, REFERENCE | QUEUED);
	hit(two, 1, KH_TOKIO_POLL, REFERENCE | RUNS);
	returns(two, 1, REFERENCE | RUNS);
	hit(two, 1, KH_TOKIO_DEALLOC, OVER);
	returns(two, 0, 0xdeadbeef0);
	ended(two, TO_READY);
	EMITTED(two, TE_POLL_BEGIN, TE_POLL_END, TE_DROP);
	two_threads_free(two);
}

/* A runtime is shut down while a thread is about to poll, or has just polled, a task of it. */
static void test_shut_down_at_the_door(void **state)
{
	struct two_threads *two = two_threads();

	hit(two, 0, KH_TOKIO_POLL, REFERENCE | QUEUED);
	hit(two, 1, KH_TOKIO_SHUTDOWN, REFERENCE | QUEUED);
	returns(two, 0, REFERENCE | RUNS | QUEUED | ABORTED);
	EMITTED(two, TE_POLL_BEGIN, TE_CANCEL, TE_POLL_END);
	ended(two, TO_ABORTED);
	two_threads_free(two);

	two = two_threads();
	hit(two, 0, KH_TOKIO_POLL, REFERENCE | QUEUED);
	hit(two, 1, KH_TOKIO_SHUTDOWN, REFERENCE);
	returns(two, 0, REFERENCE | OVER | ABORTED);
	ended(two, TO_PENDING);
	two_threads_free(two);
}

/* ---- places in files ---- */

/* What stops the search is said as it is. */
static void test_too_many_places(void **state)
{
	static struct kernel_hooks hooks = {.n = KERNEL_MAX_HOOKS};
	void *lib = dlopen("libgcc_s.so.1", RTLD_NOW);
	struct kernel_object o;
	struct elf_image *image;
	struct error err = {0};
	struct link_map *map;

	assert_non_null(lib);
	assert_int_equal(dlinfo(lib, RTLD_DI_LINKMAP, &map), 0);
	_cleanup_close_ int fd = open(map->l_name, O_RDONLY | O_CLOEXEC);
	assert_int_equal(elf_image_open(fd, map->l_name, &image, &err), 0);
	assert_int_equal(kernel_sites_unwinder(image, map->l_name, 0, &hooks, &o, &err), -E2BIG);
	assert_non_null(strstr(err.text, "places to probe"));
	hooks.n = 0;
	assert_int_equal(kernel_sites_unwinder(image, map->l_name, 0, &hooks, &o, &err), 0);
	assert_int_equal(hooks.n, 2);
	kernel_object_done(&o);
	kernel_hooks_done(&hooks);
	elf_image_free(image);
	dlclose(lib);
}

/* ---- system calls ---- */

static void call(struct two_threads *two, enum kernel_record_type type, uint64_t number,
		 uint64_t ns, uint64_t args, uint64_t result)
{
	struct kernel_record r = {.tgid = (uint32_t)getpid(),
				  .tid = 1,
				  .type = type,
				  .header = number,
				  .words = {args, result}};

	two->time += ns;
	r.time = two->time;
	r.sp = two->time - ns;
	assert_int_equal(kernel_take(&two->c, &r, sizeof(r)), 0);
}

static const struct trace_event *last(const struct two_threads *two)
{
	return &two->c.out.events[two->c.out.n - 1];
}

/* As the agent's: which calls of a poll blocked, which call outside of polls was a park. */
static void test_calls(void **state)
{
	enum { LONG = 5000000, SHORT = 9999 };
	struct two_threads *two = two_threads();
	struct kernel_process *processes[] = {&two->p};
	uint64_t waits, never_waits;
	int blocking[2], nonblocking[2];

	(void)state;
	two->p.pid = getpid();
	two->t[0].tid = 1;
	two->c.processes = processes;
	two->c.n_processes = 1;
	assert_true(map_put(&two->c.tracks, 0, 1, &two->t[0]) >= 0);
	assert_int_equal(process_open(getpid(), &two->p.process, NULL), 0);
	assert_int_equal(pipe(blocking), 0);
	assert_int_equal(pipe2(nonblocking, O_NONBLOCK), 0);
	waits = (uint64_t)blocking[0] << 32;
	never_waits = (uint64_t)nonblocking[0] << 32;

	/* Outside of polls: a wait parks from its begin; an epoll may find nothing. */
	call(two, KR_CALL_BEGIN, __NR_epoll_wait, 0, 0, 0);
	call(two, KR_CALL_END, __NR_epoll_wait, LONG, 0, 1);
	assert_int_equal(last(two)->arg, TB_EPOLL_WAIT);
	call(two, KR_CALL_BEGIN, __NR_epoll_wait, 0, 0, 0);
	call(two, KR_CALL_END, __NR_epoll_wait, LONG, 0, 0);
	assert_int_equal(last(two)->arg, TB_EPOLL_WAIT | TRACE_CALL_IDLE);
	call(two, KR_CALL_BEGIN, __NR_futex, 0, 0, 0);
	call(two, KR_CALL_END, __NR_futex, LONG, 0, 0);
	assert_int_equal(last(two)->arg, TB_FUTEX);
	EMITTED(two, TE_PARK, TE_UNPARK, TE_PARK, TE_UNPARK, TE_PARK, TE_UNPARK);
	/* Any other call is recorded as in a poll: only one that may have waited is a park. */
	two->c.out.n = 0;
	call(two, KR_CALL_END, __NR_write, LONG, never_waits, 8);
	assert_int_equal(last(two)->arg, TB_WRITE | TRACE_CALL_NONBLOCKING);
	call(two, KR_CALL_END, __NR_write, LONG, waits, 8);
	assert_int_equal(last(two)->arg, TB_WRITE);
	EMITTED(two, TE_BLOCK, TE_BLOCK);

	two->c.out.n = 0;
	hit(two, 0, KH_TOKIO_POLL, 3 * 64 | 8 | 4);
	call(two, KR_CALL_END, __NR_read, SHORT, waits, 8);
	EMITTED(two, TE_POLL_BEGIN);
	call(two, KR_CALL_END, __NR_read, LONG, waits, 8);
	assert_int_equal(last(two)->arg, TB_READ);
	assert_int_equal(last(two)->value, LONG);
	call(two, KR_CALL_END, __NR_read, LONG, never_waits, 8);
	assert_int_equal(last(two)->arg, TB_READ | TRACE_CALL_NONBLOCKING);
	call(two, KR_CALL_END, __NR_sendto, LONG, waits, 8);
	assert_int_equal(last(two)->arg, TB_SENDTO);
	call(two, KR_CALL_END, __NR_sendto, LONG, waits | MSG_DONTWAIT, 8);
	assert_int_equal(last(two)->arg, TB_SENDTO | TRACE_CALL_NONBLOCKING);
	/* Its argument is no descriptor. */
	call(two, KR_CALL_BEGIN, __NR_futex, 0, 0, 0);
	call(two, KR_CALL_END, __NR_futex, LONG, never_waits, 0);
	assert_int_equal(last(two)->arg, TB_FUTEX);
	EMITTED(two, TE_POLL_BEGIN, TE_BLOCK, TE_BLOCK, TE_BLOCK, TE_BLOCK, TE_BLOCK);

	/* The call in which the poll is when the recording ends. */
	struct kernel_thread open = {
		.call = __NR_read + 1, .call_ns = two->time, .call_args = waits};
	two->c.out.n = 0;
	assert_int_equal(kernel_emit_open_call(&two->c, &two->p, &two->t[0], &open, two->time), 0);
	EMITTED(two, );
	assert_int_equal(
		kernel_emit_open_call(&two->c, &two->p, &two->t[0], &open, two->time + LONG), 0);
	EMITTED(two, TE_BLOCK);
	assert_int_equal(last(two)->arg, TB_READ);
	assert_int_equal(last(two)->time, two->time + LONG);
	assert_int_equal(last(two)->value, LONG);
	/* Outside of polls it is no blocked poll. */
	returns(two, 0, 3 * 64);
	two->c.out.n = 0;
	assert_int_equal(
		kernel_emit_open_call(&two->c, &two->p, &two->t[0], &open, two->time + LONG), 0);
	EMITTED(two, );

	for (int i = 0; i < 2; i++) {
		close(blocking[i]);
		close(nonblocking[i]);
	}
	descriptors_done(&two->p.descriptors);
	process_close(&two->p.process);
	map_done(&two->c.tracks);
	two_threads_free(two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_insn_class),
		cmocka_unit_test(test_operands),
		cmocka_unit_test(test_multi),
		cmocka_unit_test(test_perf_events),
		cmocka_unit_test(test_small_ring),
		cmocka_unit_test(test_tokio_ends),
		cmocka_unit_test(test_freed_meanwhile),
		cmocka_unit_test(test_another_at_its_place),
		cmocka_unit_test(test_aborted_at_the_door),
		cmocka_unit_test(test_taken_at_once),
		cmocka_unit_test(test_polled_on_elsewhere),
		cmocka_unit_test(test_shut_down_at_the_door),
		cmocka_unit_test(test_too_many_places),
		cmocka_unit_test(test_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
