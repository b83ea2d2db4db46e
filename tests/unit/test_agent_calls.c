/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The agent: blocking calls, and the trampolines of spawn sites. */
#include "agent_tasks.h"

/* ---- calls ---- */

static long the_call(void)
{
	typedef long (*seven_fn)(long, long, long, long, long, long, long);

	return ((seven_fn)area_stub(&area, call_hook))(1, 2, 3, 4, 5, 6, 7);
}

static void check_call(void)
{
	static const long args[7] = {1, 2, 3, 4, 5, 6, 7};

	memset(call_args, 0, sizeof(call_args));
	call_result = -42;
	errno = 0;
	assert_int_equal(the_call(), -42);
	assert_int_equal(errno, EAGAIN);
	assert_memory_equal(call_args, args, sizeof(args));
}

static void blocks(struct tokio_task *t)
{
	check_call();
	to_pending(t);
}

static void wait_a_little(void)
{
	usleep(2000);
}

static void test_waits(void **state)
{
	struct agent_event e;

	(void)state;
	check_call(); /* a thread without a ring isn't looked at */
	assert_null(area_my_ring(&area));
	area.state->n_roots = 2; /* others are in a block_on */
	area.state->roots[0] = area.state->roots[1] = (uint32_t)getppid();
	check_call();
	assert_null(area_my_ring(&area));
	area.state->roots[1] = (uint32_t)syscall(SYS_gettid);
	check_call();
	expect_thread();
	expect(AE_PARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_UNPARK, (uint64_t)AC_EPOLL_WAIT << 48);
	assert_int_equal(area.state->roots[1], 0);
	poll_as(to_pending);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());

	check_call();
	expect(AE_PARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_UNPARK, (uint64_t)AC_EPOLL_WAIT << 48);

	area.state->call_min_ticks = 1000000; /* under half a millisecond anywhere */
	poll_as(blocks);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	call_inside = wait_a_little;
	poll_as(blocks);
	expect(AE_POLL_BEGIN, tokio_ref());
	assert_true(area_next(&area, area_my_ring(&area), &e));
	assert_int_equal(e.word0 & 255, AE_BLOCK);
	assert_int_equal(e.word1 >> 48, AC_EPOLL_WAIT);
	assert_in_range(e.word1 & 0xffffffffffff, 1000000, 100000000000);
	expect(AE_POLL_PENDING, tokio_ref());
	call_inside = NULL;

	/* What an epoll came back with. */
	call_result = 0;
	assert_int_equal(the_call(), 0);
	expect(AE_PARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_UNPARK, (uint64_t)AC_EPOLL_WAIT << 48 | AGENT_UNPARK_IDLE);

	/* In a worker's main loop a call is a park. */
	poll_hook->flags |= AGENT_HOOK_WORKER;
	poll_as(blocks);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_PARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_UNPARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_POLL_PENDING, tokio_ref());
	expect_nothing();
}

static struct agent_hook *send_hook;

static void send_it(void)
{
	typedef long (*six_fn)(long, long, long, long, long, long);
	static const long args[6] = {1, 2, 3, 4, 5, 6};

	memset(call_args, 0, sizeof(call_args));
	call_result = -43;
	errno = 0;
	uint64_t before = arch_ticks();
	assert_int_equal(((six_fn)area_stub(&area, send_hook))(1, 2, 3, 4, 5, 6), -43);
	assert_int_equal(errno, EAGAIN);
	assert_memory_equal(call_args, args, sizeof(args));
	if (!area.live->enabled)
		return;
	/* by which one that isn't over is found: process/open_call.c */
	assert_in_range(call_frame[1], before, arch_ticks());
	assert_int_equal(call_frame[2], (uint64_t)send_hook);
	assert_int_equal(call_frame[4], 1);
}

static void sends(struct tokio_task *t)
{
	send_it();
	to_pending(t);
}

static void expect_long_send(void)
{
	struct agent_event e;

	expect(AE_DESCRIPTOR, 1ull << 32 | 4); /* its first and fourth argument */
	assert_true(area_next(&area, area_my_ring(&area), &e));
	assert_int_equal(e.word0 & 255, AE_BLOCK);
	assert_int_equal(e.word1 >> 48, AC_SENDTO);
	assert_in_range(e.word1 & 0xffffffffffff, 1000000, 100000000000);
}

/* Of other calls than waits only those that were long are recorded, in polls and outside of
 * them. */
static void test_calls(void **state)
{
	(void)state;
	send_hook = area_hook(&area, AH_CALL, AC_SENDTO, call_orig);
	area.state->call_min_ticks = 1000000;
	area.state->n_roots = 1;
	area.state->roots[0] = (uint32_t)syscall(SYS_gettid);
	call_inside = wait_a_little;
	send_it(); /* a thread without a ring isn't looked at, not even in a block_on */
	assert_null(area_my_ring(&area));
	assert_int_equal(area.state->roots[0], (uint32_t)syscall(SYS_gettid));
	area.state->n_roots = 0;
	call_inside = NULL;
	poll_as(sends);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	send_it();
	expect_nothing();
	call_inside = wait_a_little;
	poll_as(sends);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect_long_send();
	expect(AE_POLL_PENDING, tokio_ref());
	send_it();
	expect_long_send();
	area.live->enabled = 0;
	send_it();
	area.live->enabled = 1;
	expect_nothing();
}

static void test_futex_operations(void **state)
{
	struct agent_hook *h;

	(void)state;
	poll_as(to_pending);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	h = area_hook(&area, AH_WAIT, AC_FUTEX, call_orig);
	syscall_fn fn = (syscall_fn)area_stub(&area, h);
	for (long op = 0; op < 256; op++) {
		long base = op & 127;
		assert_int_equal(fn(SYS_futex, 2L, op, 4L, 5L, 6L, 7L), call_result);
		assert_int_equal(call_args[2], op);
		assert_int_equal(call_args[6], 7);
		if (base == 0 || base == 6 || base == 9 || base == 13) {
			expect(AE_PARK, (uint64_t)AC_FUTEX << 48);
			expect(AE_UNPARK, (uint64_t)AC_FUTEX << 48);
		}
		expect_nothing();
	}
	fn(SYS_getpid, 0L, 0L);
	expect_nothing();
}

/* Whether the agent may make no more system calls, once the program has made this one. */
static bool confines(const struct agent_hook *h, long nr, long what, long then)
{
	syscall_fn fn = (syscall_fn)area_stub(&area, h);
	uint32_t all = AGENT_MAY_ASK | AGENT_MAY_WAKE | AGENT_MAY_GETTID;

	area.state->may_call = all;
	assert_int_equal(fn(nr, what, then, 4L, 5L, 6L, 7L), call_result);
	assert_int_equal(call_args[0], nr);
	assert_int_equal(call_args[1], what);
	assert_int_equal(call_args[2], then);
	assert_int_equal(call_args[3], 4);
	assert_int_equal(call_args[6], 7);
	bool none = !area.state->may_call;
	assert_true(none || area.state->may_call == all);
	area.state->may_call = all;
	expect_nothing();
	return none;
}

/* Where a thread forbids itself to read the clock the agent is switched off before, and stays so. */
static void test_calls_that_forbid_the_clock(void **state)
{
	const struct agent_hook *prctl_hook =
		area_hook(&area, AH_CONFINE, AGENT_CONFINE_PRCTL, call_orig);
	const struct agent_hook *syscall_hook =
		area_hook(&area, AH_CONFINE, AGENT_CONFINE_SYSCALL, call_orig);
	const struct {
		const struct agent_hook *hook;
		long args[3];
		bool forbids;
	} calls[] = {
		{prctl_hook, {26, 2, 0}, true},	 /* PR_SET_TSC, PR_TSC_SIGSEGV */
		{prctl_hook, {26, 1, 0}, false}, /* PR_TSC_ENABLE */
		{prctl_hook, {25, 2, 0}, false},
		{syscall_hook, {SYS_prctl, 26, 2}, true},
		{syscall_hook, {SYS_prctl, 26, 1}, false},
		{syscall_hook, {SYS_prctl, 25, 2}, false},
		{syscall_hook, {SYS_getpid, 26, 2}, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		syscall_fn fn = (syscall_fn)area_stub(&area, calls[i].hook);

		*area.live = (struct agent_switch){.enabled = 1};
		assert_int_equal(fn(calls[i].args[0], calls[i].args[1], calls[i].args[2]),
				 call_result);
		assert_int_equal(call_args[1], calls[i].args[1]);
		assert_int_equal(area.live->enabled, !calls[i].forbids);
		assert_int_equal(area.live->no_clock, calls[i].forbids);
	}
	*area.live = (struct agent_switch){.enabled = 1};
	expect_nothing();
}

/* Also while it is switched off: the tool may be about to enable it. */
static void test_calls_that_confine(void **state)
{
	struct agent_hook *prctl_hook, *load_hook, *syscall_hooks[2];

	(void)state;
	prctl_hook = area_hook(&area, AH_CONFINE, AGENT_CONFINE_PRCTL, call_orig);
	load_hook = area_hook(&area, AH_CONFINE, AGENT_CONFINE_LOAD, call_orig);
	syscall_hooks[0] = area_hook(&area, AH_CONFINE, AGENT_CONFINE_SYSCALL, call_orig);
	syscall_hooks[1] = area_hook(&area, AH_WAIT, AC_FUTEX, call_orig);
	for (uint32_t live = 2; live--;) {
		area.live->enabled = live;
		for (long option = 0; option < 80; option++)
			assert_int_equal(confines(prctl_hook, option, 2, 3),
					 option == 22 || option == 59);
		assert_true(confines(load_hook, 0x1234, 0, 0));
		for (int i = 0; i < 2; i++) {
			const struct agent_hook *h = syscall_hooks[i];

			assert_true(confines(h, SYS_seccomp, 0, 0));
			assert_true(confines(h, SYS_seccomp, 1, 1));
			assert_false(confines(h, SYS_seccomp, 2, 0)); /* it only asks */
			assert_true(confines(h, SYS_prctl, 22, 2));
			assert_false(confines(h, SYS_prctl, 26, 2));
			assert_true(confines(h, SYS_prctl, 59, 1));
			assert_false(confines(h, SYS_prctl, 38, 1));
			assert_false(confines(h, SYS_getpid, 22, 22));
		}
	}
}

#define NO_RING 77

/* The exit status of a child that is forked, with the ring being written to or not, and writes on
 * if there is memory. */
static int write_in_child(const struct agent_hook *h, bool busy)
{
	typedef pid_t (*fork_fn)(void);
	struct ring *r = area_my_ring(&area);
	struct agent_notes *n = (struct agent_notes *)((char *)area.state + area.image->notes);
	int status;

	n->busy = busy;
	pid_t pid = ((fork_fn)area_stub(&area, h))();
	if (pid == 0) {
		int ends[2];
		if (pipe(ends) || write(ends[1], r, 1) != 1)
			_exit(NO_RING);
		r->head = 1;
		r->dropped = 2;
		area.rings->asleep = 3;
		*((char *)(r + 1) + n->owner.mask) = 4;
		_exit(r->head == 1 ? 0 : 1);
	}
	n->busy = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_not_equal(area.rings->asleep, 3);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_fork_in_an_event(void **state)
{
	struct agent_hook *h = area_hook(&area, AH_FORK, 0, (const void *)fork);

	(void)state;
	poll_as(to_pending);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	assert_int_equal(write_in_child(h, true), 0);
	/* Else there are none. */
	assert_int_equal(write_in_child(h, false), NO_RING);
	area.live->enabled = 0;
	assert_int_equal(write_in_child(h, true), 0);
	expect_nothing();
}

/* Without permission the agent takes no ring for a thread whose tid needs a system call. */
static void test_no_gettid_without_leave(void **state)
{
	(void)state;
	area.state->tid_offset = 0;
	area.state->may_call = AGENT_MAY_ASK | AGENT_MAY_WAKE;
	poll_as(to_pending);
	expect_nothing();
	assert_int_equal(area.state->no_ring, 2);
	area.state->may_call |= AGENT_MAY_GETTID;
	usleep(10000); /* it looks again after a while */
	poll_as(to_pending);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
}

/* ---- trampolines ---- */

/*
 * Runs the bytes of a trampoline with known values in every register, the flags and the red zone,
 * and stores what it finds afterwards: rax rbx rcx rdx rsi rdi rbp r8..r15 flags, then 16 words of
 * red zone.
 */
void through_trampoline(const void *code, uint64_t *ret_values);
__asm__(".text\n"
	".globl through_trampoline\n"
	".type through_trampoline, @function\n"
	"through_trampoline:\n"
	"push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"push %rsi\n"
	"sub $512, %rsp\n"
	"mov %rdi, 256(%rsp)\n" /* the trampoline's address, jumped to through memory */
	"lea 1f(%rip), %rax\n"
	"mov %rax, 264(%rsp)\n" /* where it comes back */
	".set i, 1\n"
	".rept 16\n"
	"movq $0x5a00 + i, -8 * i(%rsp)\n"
	".set i, i + 1\n"
	".endr\n"
	"mov $101, %eax; mov $102, %ebx; mov $103, %ecx; mov $104, %edx; mov $105, %esi\n"
	"mov $106, %edi; mov $107, %ebp; mov $108, %r8d; mov $109, %r9d; mov $110, %r10d\n"
	"mov $111, %r11d; mov $112, %r12d; mov $113, %r13d; mov $114, %r14d; mov $115, %r15d\n"
	"cmp $102, %rax\n" /* carry, sign */
	"jmp *256(%rsp)\n"
	"1: mov %rax, 272(%rsp)\n"
	"pushfq\n"
	"pop %rax\n"
	"mov %rax, 392(%rsp)\n"
	"mov %rbx, 280(%rsp); mov %rcx, 288(%rsp); mov %rdx, 296(%rsp); mov %rsi, 304(%rsp)\n"
	"mov %rdi, 312(%rsp); mov %rbp, 320(%rsp); mov %r8, 328(%rsp); mov %r9, 336(%rsp)\n"
	"mov %r10, 344(%rsp); mov %r11, 352(%rsp); mov %r12, 360(%rsp); mov %r13, 368(%rsp)\n"
	"mov %r14, 376(%rsp); mov %r15, 384(%rsp)\n"
	"mov 512(%rsp), %rdi\n"
	"lea 272(%rsp), %rsi\n"
	"mov $16, %ecx\n"
	"rep movsq\n"
	".set i, 2\n" /* the first word was used by our own pushfq */
	".rept 15\n"
	"mov -8 * i(%rsp), %rax\n"
	"stosq\n"
	".set i, i + 1\n"
	".endr\n"
	"add $520, %rsp\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
	"ret\n"
	".size through_trampoline, . - through_trampoline\n");

static uint8_t *make_trampoline(struct agent_hook *hook)
{
	static const uint8_t head[] = {0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x50, 0xb8};
	static const uint8_t tail[] = {
		0x58, 0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0,
		0,    0xff, 0xa4, 0x24, 0x08, 0x01, 0,	  0}; /* jmp *264(%rsp) */
	uint32_t i = (uint32_t)(hook - area.hooks);
	uint64_t thunk = (uint64_t)area.image + area.image->thunks[hook->type];
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *at = p;

	at = mempcpy(at, head, sizeof(head));
	at = mempcpy(at, &i, 4);
	at = mempcpy(at, "\xff\x15\x00\x00\x00\x00", 6); /* call *address after */
	uint8_t *next = at;
	at = mempcpy(at, tail, sizeof(tail));
	int32_t rel = (int32_t)(at - next);
	memcpy(next - 4, &rel, 4);
	memcpy(at, &thunk, 8);
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	return p;
}

static void check_trampoline(const uint8_t *code)
{
	uint64_t got[31] = {0};

	through_trampoline(code, got);
	for (uint64_t i = 0; i < 15; i++)
		assert_int_equal(got[i], 101 + i);
	assert_int_equal(got[15] & 0x8d5, 0x95); /* of 101 - 102: CF PF AF SF, no ZF, no OF */
	for (uint64_t i = 0; i < 15; i++)
		assert_int_equal(got[16 + i], 0x5a02 + i);
}

static void test_trampolines(void **state)
{
	uint64_t next_id = 1001;

	(void)state;
	struct agent_hook *spawn = area_hook(&area, AH_SPAWN, 3, NULL);
	struct agent_hook *root = area_hook(&area, AH_ROOT_ENTER, 4, NULL);
	const uint8_t *at_spawn = make_trampoline(spawn);
	spawn->spawn.next_id = (uint64_t)&next_id;
	check_trampoline(at_spawn);
	expect_thread();
	expect(AE_SPAWN, 3ull << 48 | 1000);
	next_id = 1002;
	check_trampoline(at_spawn);
	expect(AE_SPAWN, 3ull << 48 | 1001);
	spawn->spawn.next_id = 0;
	check_trampoline(at_spawn);
	expect(AE_SPAWN, 3ull << 48);
	check_trampoline(make_trampoline(root));
	expect(AE_ROOT_ENTER, 4ull << 48);
	area.live->enabled = 0;
	check_trampoline(at_spawn);
	expect_nothing();
}

static const uint8_t *trampoline_there;

static void trampoline_on_its_stack(void)
{
	check_trampoline(trampoline_there);
}

/* Reads what came up to AE_SPAWN; false if there was no stack. */
static bool read_stack(const uint8_t *stack, size_t len, const uint8_t *code)
{
	struct ring *r = area_my_ring(&area);
	uint64_t sp = 0, last = 0, found = 0;
	struct agent_event e;
	unsigned n = 0;

	while (area_next(&area, r, &e) && (e.word0 & 255) == AE_STACK) {
		uint64_t which = e.word1 >> 48, word = e.word1 & 0xffffffffffff;

		if (n < 3) {
			const uint64_t registers[] = {0x1234, word, 107};

			assert_int_equal(which, AGENT_STACK_IP + n);
			assert_int_equal(word, registers[n]);
			sp = n == 1 ? word : sp;
		} else {
			assert_true(which < AGENT_STACK_WORDS && (n == 3 || which > last));
			assert_in_range(sp + which * 8, (uint64_t)stack, (uint64_t)stack + len - 8);
			found += word == (uint64_t)code;
			last = which;
		}
		n++;
	}
	assert_int_equal(e.word0 & 255, AE_SPAWN);
	assert_true(!n || found);
	return n;
}

/* The stack ends before what would be copied of it, and nothing is mapped after its end. */
static void test_stack_of_a_spawn(void **state)
{
	const size_t len = 16384;
	uint8_t *stack =
		mmap(NULL, len + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct agent_hook *spawn = area_hook(&area, AH_SPAWN, 3, NULL);
	static ucontext_t elsewhere, back;
	static unsigned n;

	(void)state;
	mprotect(stack + len, 4096, PROT_NONE);
	spawn->slot = 0x1234;
	area.state->stacks = AGENT_STACKS_SPAWNS;
	trampoline_there = make_trampoline(spawn);
	/* Until half of the ring is full; what comes then has no stack, and is there. */
	for (unsigned i = 0; i < 400; i++) {
		getcontext(&elsewhere);
		elsewhere.uc_stack.ss_sp = stack;
		elsewhere.uc_stack.ss_size = len;
		elsewhere.uc_link = &back;
		makecontext(&elsewhere, trampoline_on_its_stack, 0);
		swapcontext(&back, &elsewhere);
	}
	area.state->stacks = 0;
	expect_thread();
	for (unsigned i = 0; i < 400; i++) {
		bool there_is = read_stack(stack, len, trampoline_there);

		assert_true(there_is || i);
		n += there_is;
	}
	expect_nothing();
	assert_in_range(n, 1, 399);
	assert_int_equal(area_my_ring(&area)->dropped, 0);
	munmap(stack, len + 4096);
}

int main(void)
{
#define WITH(name, up) cmocka_unit_test_setup_teardown(name, up, teardown)
	const struct CMUnitTest tests[] = {
		WITH(test_waits, setup),
		WITH(test_calls, setup),
		WITH(test_futex_operations, setup),
		WITH(test_calls_that_confine, setup),
		WITH(test_calls_that_forbid_the_clock, setup),
		WITH(test_no_gettid_without_leave, setup),
		WITH(test_fork_in_an_event, setup),
		WITH(test_trampolines, setup),
		WITH(test_stack_of_a_spawn, setup_large),
	};
	return cmocka_run_group_tests_name("agent_calls", tests, NULL, NULL);
}
