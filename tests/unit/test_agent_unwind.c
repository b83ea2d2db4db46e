/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The agent: panics and backtraces through the thunks' frames, and forks in the middle of a hook. */
#include "agent_tasks.h"

/* ---- unwinding through the frames ---- */

/*
 * int catching(run_fn fn, void *arg): calls fn(arg); 1 if an exception came out of it. A frame with
 * a personality of its own, since C has no catch.
 */
int catching(void *fn, void *arg);
__asm__(".text\n"
	".globl catching\n"
	".type catching, @function\n"
	"catching:\n"
	".cfi_startproc\n"
	".cfi_personality 0x1b, catching_personality\n"
	"push %rbp\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset %rbp, -16\n"
	"mov %rsp, %rbp\n"
	".cfi_def_cfa_register %rbp\n"
	"mov %rdi, %rax\n"
	"mov %rsi, %rdi\n"
	"call *%rax\n"
	"xor %eax, %eax\n"
	"pop %rbp\n"
	".cfi_remember_state\n"
	".cfi_def_cfa %rsp, 8\n"
	"ret\n"
	".globl catching_landing\n"
	"catching_landing:\n"
	".cfi_restore_state\n"
	"mov $1, %eax\n"
	"pop %rbp\n"
	".cfi_def_cfa %rsp, 8\n"
	"ret\n"
	".cfi_endproc\n"
	".size catching, . - catching\n");
extern const char catching_landing[];

_Unwind_Reason_Code catching_personality(int version, _Unwind_Action actions,
					 _Unwind_Exception_Class class,
					 struct _Unwind_Exception *exc,
					 struct _Unwind_Context *context);
_Unwind_Reason_Code catching_personality(int version, _Unwind_Action actions,
					 _Unwind_Exception_Class class,
					 struct _Unwind_Exception *exc,
					 struct _Unwind_Context *context)
{
	(void)version;
	(void)class;
	(void)exc;
	if (actions & _UA_SEARCH_PHASE)
		return _URC_HANDLER_FOUND;
	_Unwind_SetIP(context, (_Unwind_Ptr)catching_landing);
	return _URC_INSTALL_CONTEXT;
}

static bool run_panics(struct async_task *t)
{
	/* As async-task's guard does in passing; a frame in between that is cleaned up would be
	 * too. */
	run_to(t, A_CLOSED);
	exception.exception_class = 0x504f4c4c55580000;
	_Unwind_RaiseException(&exception);
	abort();
}

static bool run_nested_panic(struct async_task *t)
{
	static struct async_task other;

	if (t == &other)
		return run_panics(t);
	other = (struct async_task){async_vtable, A_SCHEDULED | A_REF, {NULL, NULL}, {3}};
	assert_int_equal(catching(area_stub(&area, run_hook), &other), 1);
	assert_int_equal(other.state, A_CLOSED);
	return run_ready(t);
}

static bool run_leaves(struct async_task *t)
{
	swapcontext(&there, &here);
	return run_ready(t);
}

static void run_on_another_stack(void)
{
	run_scenario = run_leaves;
	call(run_hook, &left);
}

static bool run_panics_with_one_left(struct async_task *t)
{
	static char stack[65536];

	left = (struct async_task){async_vtable, A_SCHEDULED | A_TASK | A_REF, {NULL, NULL}, {3}};
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &here;
	makecontext(&there, run_on_another_stack, 0);
	swapcontext(&here, &there);
	return run_panics(t);
}

/* A panic passes a run's frame, while the innermost open run is on another stack. */
static void test_panic_of_another_stack(void **state)
{
	(void)state;
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF);
	expect_thread();
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref());
	run_scenario = run_panics_with_one_left;
	atask.state = A_SCHEDULED | A_REF | A_TASK;
	assert_int_equal(catching(area_stub(&area, run_hook), &atask), 1);
	/* That one's reference is given back, and no other. */
	assert_int_equal(atask.state, A_CLOSED | A_TASK);
	assert_int_equal(left.state / A_REF, 2);
	swapcontext(&here, &there);
	assert_int_equal(left.state / A_REF, 0);
	assert_int_equal(n_destroyed, 0);
}

static void test_panic_through_a_run(void **state)
{
	(void)state;
	/* The first run registers the frames, the second is wrapped for sure. */
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF);
	expect_thread();
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref());

	run_scenario = run_panics;
	atask.state = A_SCHEDULED | A_REF;
	assert_int_equal(catching(area_stub(&area, run_hook), &atask), 1);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PANICKED, async_ref());
	expect(AE_DROP, async_ref());
	assert_int_equal(n_destroyed, 1);
	assert_int_equal(atask.state, A_CLOSED);

	run_scenario = run_panics;
	atask.state = A_SCHEDULED | A_REF | A_TASK;
	assert_int_equal(catching(area_stub(&area, run_hook), &atask), 1);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PANICKED, async_ref());
	expect_nothing();
	assert_int_equal(atask.state, A_CLOSED | A_TASK);

	n_destroyed = 0;
	run_as(run_nested_panic, A_SCHEDULED | A_REF | A_TASK);
	struct agent_event e;
	expect(AE_POLL_BEGIN, async_ref());
	static const int inner_types[] = {AE_POLL_BEGIN, AE_POLL_PANICKED, AE_DROP};
	for (int i = 0; i < 3; i++) {
		assert_true(area_next(&area, area_my_ring(&area), &e));
		assert_int_equal(e.word0 & 255, inner_types[i]);
		assert_int_not_equal(e.word1, async_ref());
	}
	expect(AE_POLL_READY, async_ref());
	expect_nothing();

	/* Switched off on the way: nothing is written, the reference is given back. */
	n_destroyed = 0;
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref());
}

/* ---- no frame where a panic passes and the unwinder doesn't know it ---- */

static void read_panics(struct tokio_task *t, uint64_t *dst)
{
	(void)t;
	(void)dst;
	_Unwind_RaiseException(&exception);
	abort();
}

/* Runs are jumped to; of Tokio's polls no panic comes, so they are seen whole. */
static void check_without_frames(void)
{
	poll_as(to_pending);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_UNSEEN, async_ref());
	expect_nothing();
	run_scenario = run_panics;
	atask.state = A_SCHEDULED | A_REF;
	assert_int_equal(catching(area_stub(&area, run_hook), &atask), 1);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_UNSEEN, async_ref());
	((long (*)(long, ...))area_stub(&area, call_hook))(1);
	expect(AE_PARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_UNPARK, (uint64_t)AC_EPOLL_WAIT << 48);
	on_read = read_panics;
	assert_int_equal(catching(area_stub(&area, read_hook), &task), 1);
	on_read = NULL;
	expect_nothing();
}

static void test_hooks_without_frames(void **state)
{
	(void)state;
	poll_hook->flags &= (uint16_t)~AGENT_HOOK_FRAME;
	run_hook->flags &= (uint16_t)~AGENT_HOOK_FRAME;
	read_hook->flags &= (uint16_t)~AGENT_HOOK_FRAME;
	check_without_frames();
	assert_int_equal(area.state->registered, 2); /* for others */
}

/* The output is asked for before any poll has registered the frames, then after it. */
static void test_panic_through_a_read(void **state)
{
	(void)state;
	on_read = read_panics;
	assert_int_equal(catching(area_stub(&area, read_hook), &task), 1);
	assert_int_equal(area.state->registered, 0);
	poll_as(to_pending);
	assert_int_equal(area.state->registered, 2);
	assert_int_equal(catching(area_stub(&area, read_hook), &task), 1);
	on_read = NULL;
}

static int n_registered;
static bool knows_frames;

static void other_register_frame(const void *begin)
{
	assert_ptr_equal(begin, (void *)area.state->eh_frame);
	n_registered++;
	__asm__ volatile("pxor %%xmm0, %%xmm0" : : : "xmm0");
}

static const void *other_find_fde(void *pc, void *bases)
{
	(void)pc;
	(void)bases;
	return knows_frames ? &knows_frames : NULL;
}

static void add_unwinder(bool knows)
{
	knows_frames = knows;
	area.state->unwinders[1] =
		(struct agent_unwinder){(uint64_t)other_register_frame, (uint64_t)other_find_fde};
	area.state->n_unwinders = 2;
	n_registered = 0;
}

/* An unwinder that is given the frames and does not know them then is another one than expected. */
static void test_unwinder_that_does_not_know(void **state)
{
	(void)state;
	add_unwinder(false);
	check_without_frames();
	assert_int_equal(n_registered, 1);
	assert_int_equal(area.state->registered, 3);
}

/* Its library was unloaded between the attach and the first poll. */
static void test_unwinder_that_is_gone(void **state)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(page != MAP_FAILED);
	munmap(page, 4096);
	area.state->unwinders[1] = (struct agent_unwinder){(uint64_t)page, (uint64_t)page};
	area.state->n_unwinders = 2;
	area.state->may_call |= AGENT_MAY_ASK;
	poll_as(to_pending);
	assert_int_equal(area.state->registered, 2);
}

static double vector_argument;

static void takes_a_vector(void *future, void *context, double argument)
{
	(void)future;
	(void)context;
	vector_argument = argument;
}

/* An optimiser may have made a field of the future an argument. */
static void test_arguments_while_registering(void **state)
{
	typedef void (*poll_fn)(void *, void *, double);

	(void)state;
	add_unwinder(false);
	((poll_fn)area_stub(&area, area_hook(&area, AH_FUTURE, 9, takes_a_vector)))(&task, NULL,
										    1.5);
	assert_int_equal(n_registered, 1);
	assert_true(vector_argument == 1.5);
}

/* By an earlier recording: it isn't given again. */
static void test_unwinder_that_knows_already(void **state)
{
	(void)state;
	add_unwinder(true);
	poll_as(to_pending);
	assert_int_equal(n_registered, 0);
	assert_int_equal(area.state->registered, 2);
}

/* ---- forks in the middle of it ---- */

/*
 * The child returns through the agent's frames and continues. It has no rings: to read one would
 * end it. What its copy of a task holds of the agent's is given back as in the parent.
 */
static enum { FORK_LIBC, FORK_RAW, FORK_CLONE, FORK_HOWS } fork_how;
static bool in_child;
static int fork_status;

static void fork_here(void)
{
	pid_t pid = fork_how == FORK_LIBC  ? fork()
		    : fork_how == FORK_RAW ? (pid_t)syscall(SYS_fork)
					   : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	in_child = !pid;
	fork_status = -1;
	if (pid > 0)
		waitpid(pid, &fork_status, 0);
}

/* After it: the child says by its exit status whether all is right in it. */
static void after_fork(bool right)
{
	if (in_child)
		_exit(right && !area.live->enabled ? 0 : 1);
	assert_int_equal(fork_status, 0);
}

static void forks_pending(struct tokio_task *t)
{
	fork_here();
	to_pending(t);
}

static void shutdown_forks(void *header)
{
	fork_here();
	shutdown_orig(header);
}

static void spawns_pending(struct tokio_task *t)
{
	/* posix_spawn: the child runs in our memory until it executes. */
	char *const argv[] = {"true", NULL};
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, NULL), 0);
	assert_int_equal(waitpid(pid, &fork_status, 0), pid);
	to_pending(t);
}

static struct agent_hook *fork_wait;

static void waits_pending(struct tokio_task *t)
{
	call(fork_wait, NULL);
	to_pending(t);
}

static void test_fork_inside(void **state)
{
	struct agent_hook *shutdown = tokio_hook(AH_TOKIO_SHUTDOWN, shutdown_forks);
	struct agent_hook *wait = area_hook(&area, AH_WAIT, AC_EPOLL_WAIT, call_orig);
	struct agent_hook *other = area_hook(&area, AH_CALL, AC_READ, call_orig);

	(void)state;
	poll_as(to_pending); /* a ring, and the frames are registered */
	for (int how = 0; how < FORK_HOWS; how++) {
		fork_how = how;
		poll_as(forks_pending);
		after_fork(task.state / REF == 2);

		task.state = REF * 3;
		call(shutdown, &task);
		after_fork(task.state / REF == 2);

		/* A park and a long call, outside of a task's poll and inside. */
		call_inside = fork_here;
		call(wait, NULL);
		after_fork(true);
		call(other, NULL);
		after_fork(true);
		fork_wait = wait;
		poll_as(waits_pending);
		after_fork(task.state / REF == 2);
		fork_wait = other;
		poll_as(waits_pending);
		after_fork(task.state / REF == 2);
		call_inside = NULL;
	}
	poll_as(spawns_pending);
	assert_int_equal(fork_status, 0);
	assert_int_equal(area.live->enabled, 1);
}

static bool run_forks_then_panics(struct async_task *t)
{
	fork_here();
	return in_child ? run_panics(t) : run_pending(t);
}

/* The inner run is over, and taken from the notes, when the outer one panics. */
static bool run_forks_inside_then_panics(struct async_task *t)
{
	static struct async_task other;

	if (t == &other) {
		fork_here();
		return run_pending(t);
	}
	other = (struct async_task){async_vtable, A_SCHEDULED | A_TASK | 2 * A_REF, {0}, {3}};
	((run_fn)area_stub(&area, run_hook))(&other);
	if (!in_child)
		return run_pending(t);
	if (other.state != (A_TASK | A_REF))
		_exit(2);
	return run_panics(t);
}

static void test_fork_inside_a_run(void **state)
{
	(void)state;
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF); /* registers */
	for (int how = 0; how < FORK_HOWS; how++) {
		static bool (*const ways[])(struct async_task *) = {run_forks_then_panics,
								    run_forks_inside_then_panics};

		for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
			fork_how = how;
			run_scenario = ways[i];
			atask.state = A_SCHEDULED | A_REF | A_TASK;
			int caught = catching(area_stub(&area, run_hook), &atask);
			after_fork(caught == 1 && atask.state == (A_CLOSED | A_TASK));
			assert_int_equal(caught, 0);
		}
	}
}

/* Switched off while an inner run is open: what comes out of the outer one is the outer one's. */
static bool run_switched_off_then_panics(struct async_task *t)
{
	static struct async_task other;

	if (t == &other) {
		area.live->enabled = 0;
		return run_pending(t);
	}
	other = (struct async_task){async_vtable, A_SCHEDULED | A_TASK | 2 * A_REF, {0}, {3}};
	((run_fn)area_stub(&area, run_hook))(&other);
	assert_int_equal(other.state, A_TASK | A_REF);
	return run_panics(t);
}

static void test_switched_off_inside_a_run(void **state)
{
	(void)state;
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF); /* registers */
	run_scenario = run_switched_off_then_panics;
	atask.state = A_SCHEDULED | A_REF | A_TASK;
	assert_int_equal(catching(area_stub(&area, run_hook), &atask), 1);
	assert_int_equal(atask.state, A_CLOSED | A_TASK);
}

static int n_frames_through;

static void count_frames(struct tokio_task *t)
{
	void *frames[64];

	n_frames_through = backtrace(frames, 64);
	if (t)
		to_pending(t);
}

static __attribute__((noinline)) void count_directly(void)
{
	count_frames(NULL);
	__asm__ volatile("");
}

static void test_backtrace_through_a_poll(void **state)
{
	(void)state;
	count_directly();
	int plain = n_frames_through;
	assert_in_range(plain, 4, 60);
	poll_as(count_frames); /* registers the frames first */
	assert_in_range(n_frames_through, plain, plain + 4);
}

int main(void)
{
#define WITH(name, up) cmocka_unit_test_setup_teardown(name, up, teardown)
	const struct CMUnitTest tests[] = {
		WITH(test_panic_through_a_run, setup_async),
		WITH(test_panic_of_another_stack, setup_async),
		WITH(test_hooks_without_frames, setup_async),
		WITH(test_panic_through_a_read, setup),
		WITH(test_unwinder_that_does_not_know, setup_async),
		WITH(test_unwinder_that_is_gone, setup_async),
		WITH(test_arguments_while_registering, setup),
		WITH(test_unwinder_that_knows_already, setup),
		WITH(test_fork_inside, setup),
		WITH(test_fork_inside_a_run, setup_async),
		WITH(test_switched_off_inside_a_run, setup_async),
		WITH(test_backtrace_through_a_poll, setup),
	};
	return cmocka_run_group_tests_name("agent_unwind", tests, NULL, NULL);
}
