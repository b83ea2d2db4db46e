/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Walks through stacks: of children that stop at known places, in nested functions, in a signal's
 * handler, in the vDSO, at the bottom of a recursion that is deeper than the copy; and compared
 * with gdb's.
 *
 *     test_unwind PID      prints the frames of each thread of any process, for tests/e2e
 */
#include "base/clock.h"
#include "process/memory.h"
#include "process/threads.h"
#include "process/unwind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COPY 8192u

/* ---- looking at a process ---- */

struct snapshot {
	pid_t pid, tid;
	struct process process;
	struct unwind_files files;
	struct unwind_map *map;
	struct user_regs_struct regs;
	uint8_t stack[64 * 1024];
	size_t stack_bytes, copy;
	bool no_bp;
	struct unwind_frame frames[UNWIND_MAX_FRAMES];
	size_t n;
	enum unwind_end end;
};

static int take(void *arg)
{
	struct snapshot *l = arg;
	struct stopped_thread t;
	int rc = thread_stop(&l->process, l->tid, 1000000000u, &t);

	if (rc < 0)
		return rc;
	ptrace(PTRACE_GETREGS, l->tid, 0, &l->regs);
	ssize_t n = pread(l->process.mem_fd, l->stack, l->copy, (off_t)l->regs.rsp);
	l->stack_bytes = n > 0 ? (size_t)n : 0;
	thread_resume(&t);
	return 0;
}

static void walk(struct snapshot *l, const uint64_t *returns, size_t n_returns)
{
	const struct unwind_start start = {.ip = l->regs.rip,
					   .sp = l->regs.rsp,
					   .bp = l->regs.rbp,
					   .bp_known = !l->no_bp,
					   .stack = l->stack,
					   .stack_addr = l->regs.rsp,
					   .stack_bytes = l->stack_bytes,
					   .returns = returns,
					   .n_returns = n_returns};

	l->end = unwind(l->map, &start, l->frames, &l->n);
}

static void snapshot_open(struct snapshot *l, pid_t pid)
{
	struct error err = {0};

	memset(l, 0, sizeof(*l));
	l->pid = l->tid = pid;
	l->copy = sizeof(l->stack);
	if (process_open(pid, &l->process, &err) < 0 ||
	    unwind_map_read(&l->process, &l->files, &l->map, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
}

static void look_at(struct snapshot *l)
{
	struct tracer *t;

	assert_int_equal(tracer_start(&t, NULL), 0);
	assert_int_equal(tracer_call(t, take, l), 0);
	tracer_end(t);
	walk(l, NULL, 0);
}

static void snapshot_done(struct snapshot *l)
{
	unwind_map_free(l->map);
	unwind_files_done(&l->files, NULL);
	process_close(&l->process);
}

/* The symbol at a frame, "" if there is none. */
static const char *name_of(const struct unwind_frame *f)
{
	const struct elf_symbol *s =
		f->code && f->code->file && f->code->file->image
			? elf_image_symbol_at(f->code->file->image, f->ip - f->code->bias)
			: NULL;

	return s ? s->name : "";
}

static size_t find(const struct snapshot *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(name_of(&l->frames[i]), name))
			return i;
	return SIZE_MAX;
}

/* ---- children ---- */

/* What the child reports to its parent. */
static struct shared {
	volatile int there;
	volatile uint64_t sink;
	volatile int three; /* what compilers can't know */
} * shared;

/* Its frame is as compilers make it, also where a sanitizer would change it. */
#define PLAIN __attribute__((noinline, no_sanitize("address", "undefined")))

PLAIN static void stay(void)
{
	shared->there = 1;
	for (;;)
		syscall(SYS_pause); /* pause() is a sanitizer's own function */
}

PLAIN static void third(int n)
{
	char room[100];

	memset(room, n, sizeof(room));
	shared->sink += (unsigned char)room[n & 63];
	stay();
	shared->sink++;
}

PLAIN static void second(int n)
{
	third(n + 1);
	shared->sink++;
}

/* With a frame of a size that isn't known before. */
PLAIN static void first(int n)
{
	char *room = alloca((size_t)n * 16);

	memset(room, n, (size_t)n * 16);
	second(n + room[n]);
	shared->sink += (unsigned char)room[1];
}

PLAIN static void nested(void)
{
	first(shared->three);
}

PLAIN static void handler(int sig)
{
	second(sig);
}

PLAIN static void interrupted(void)
{
	raise(SIGUSR1);
	shared->sink++;
}

PLAIN static void in_signal(void)
{
	static char stack[65536];
	const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};

	sigaltstack(&other, NULL);
	sigaction(SIGUSR1, &action, NULL);
	interrupted();
}

/* Compilers don't know that it never returns. */
static void (*volatile stay_there)(void) = stay;

/* With frame pointers, and with pushes after them. */
PLAIN static uint64_t framed_inner(uint64_t n)
{
	uint64_t a = n * shared->sink, b = n ^ shared->sink, c = n + shared->sink;

	shared->sink = (uint64_t)__builtin_frame_address(0);
	stay_there();
	return a + b + c;
}

PLAIN static uint64_t framed_outer(uint64_t n)
{
	volatile char room[300];

	shared->sink = (uint64_t)__builtin_frame_address(0);
	room[n] = (char)framed_inner(n);
	return (uint64_t)room[n] + n;
}

PLAIN static void framed(void)
{
	shared->sink = framed_outer((uint64_t)shared->three);
}

PLAIN static uint64_t deeper(uint64_t n)
{
	volatile char room[200];

	room[n % 200] = (char)n;
	if (n == 0) {
		stay_there();
		return 0;
	}
	return deeper(n - 1) + (uint64_t)room[n % 200];
}

PLAIN static void deep(void)
{
	shared->sink = deeper(200 + (uint64_t)shared->three - 3);
}

PLAIN static void reading_clock(void)
{
	struct timespec t;

	shared->there = 1;
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		shared->sink += (uint64_t)t.tv_nsec;
	}
}

static pid_t child_of(void (*fn)(void))
{
	pid_t pid;

	shared->there = 0;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no child */
		fn();
		_exit(0);
	}
	while (!shared->there)
		usleep(1000);
	usleep(5000);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- tests ---- */

static struct snapshot l;

static void test_nested(void **state)
{
	pid_t pid = child_of(nested);
	size_t at;

	snapshot_open(&l, pid);
	look_at(&l);
	assert_int_equal(l.end, UNWIND_DONE);
	at = find(&l, "third");
	assert_true(at != SIZE_MAX);
	assert_string_equal(name_of(&l.frames[at + 1]), "second");
	assert_string_equal(name_of(&l.frames[at + 2]), "first");
	assert_true(find(&l, "main") != SIZE_MAX);
	assert_string_equal(name_of(&l.frames[l.n - 1]), "_start");

	/* Without rbp up to the function with alloca, whose frame hangs on it, unless it was saved
	 * by what it calls. */
	l.no_bp = true;
	walk(&l, NULL, 0);
#ifndef __SANITIZE_ADDRESS__ /* such builds have a frame pointer in each function */
	assert_true(find(&l, "second") != SIZE_MAX);
#endif
	assert_true(l.end == UNWIND_DONE || l.end == UNWIND_NO_RULE);

	/* A return probe in the place of second's return address, with and without word of it. */
	l.no_bp = false;
	walk(&l, NULL, 0);
	uint64_t real = l.frames[at + 2].ip + 1, page = 0x7fffffffe000;
	size_t n = l.n;
	for (size_t i = 0; i + 8 <= l.stack_bytes; i += 8)
		if (!memcmp(l.stack + i, &real, 8))
			memcpy(l.stack + i, &page, 8);
	walk(&l, NULL, 0);
	assert_int_equal(l.end, UNWIND_RETPROBE);
	assert_int_equal(l.n, at + 2);
	walk(&l, &real, 1);
	assert_int_equal(l.end, UNWIND_DONE);
	assert_int_equal(l.n, n);
	snapshot_done(&l);
	end_child(pid);
}

/* rbp isn't known, as of a thread that sleeps: the code shows what was pushed since the frame was
 * made. */
static void test_frame_pointers(void **state)
{
	pid_t pid = child_of(framed);
	size_t at;

	snapshot_open(&l, pid);
	look_at(&l);
	assert_int_equal(l.end, UNWIND_DONE);
	l.no_bp = true;
	walk(&l, NULL, 0);
	at = find(&l, "framed_inner");
	assert_true(at != SIZE_MAX);
	assert_true(at + 2 < l.n);
	assert_string_equal(name_of(&l.frames[at + 1]), "framed_outer");
	assert_string_equal(name_of(&l.frames[at + 2]), "framed");
	assert_int_equal(l.end, UNWIND_DONE);
	snapshot_done(&l);
	end_child(pid);
}

static void test_signal(void **state)
{
	pid_t pid = child_of(in_signal);
	size_t h, i;

	snapshot_open(&l, pid);
	look_at(&l);
	h = find(&l, "handler");
	i = find(&l, "interrupted");
	assert_true(h != SIZE_MAX);
	/* On the other stack, which is not copied with this one. */
	assert_int_equal(l.end, UNWIND_CUT);
	assert_true(i == SIZE_MAX);
	snapshot_done(&l);
	end_child(pid);
}

static int read_memory(void *arg, uint64_t addr, void *out, size_t len)
{
	return memory_read(arg, addr, out, len);
}

/* With a reader nothing is out of reach. */
static void test_reader(void **state)
{
	pid_t pid = child_of(in_signal);
	struct unwind_start start;
	size_t h, i;

	snapshot_open(&l, pid);
	look_at(&l);
	start = (struct unwind_start){.ip = l.regs.rip,
				      .sp = l.regs.rsp,
				      .bp = l.regs.rbp,
				      .bp_known = true,
				      .read = read_memory,
				      .arg = &l.process};
	assert_int_equal(unwind(l.map, &start, l.frames, &l.n), UNWIND_DONE);
	h = find(&l, "handler");
	i = find(&l, "interrupted");
	assert_true(h != SIZE_MAX && i != SIZE_MAX && i > h + 1);
	assert_string_equal(name_of(&l.frames[l.n - 1]), "_start");
	snapshot_done(&l);
	end_child(pid);
}

static void test_deep(void **state)
{
	pid_t pid = child_of(deep);

	snapshot_open(&l, pid);
	l.copy = COPY;
	look_at(&l);
	assert_int_equal(l.end, UNWIND_CUT);
	assert_true(l.n > 10 && l.n < 60);
	assert_string_equal(name_of(&l.frames[l.n - 1]), "deeper");
	l.copy = sizeof(l.stack);
	look_at(&l);
	assert_int_equal(l.end, UNWIND_DONE);
	assert_true(l.n > 200);
	snapshot_done(&l);
	end_child(pid);
}

static void test_vdso(void **state)
{
	pid_t pid = child_of(reading_clock);
	unsigned in_vdso = 0;

	snapshot_open(&l, pid);
	for (int i = 0; i < 200 && in_vdso < 3; i++) {
		look_at(&l);
		if (!l.frames[0].code || l.frames[0].code->type != UNWIND_VDSO)
			continue;
		in_vdso++;
		assert_int_equal(l.end, UNWIND_DONE);
		assert_string_equal(name_of(&l.frames[l.n - 1]), "_start");
	}
	assert_int_equal(in_vdso, 3);
	snapshot_done(&l);
	end_child(pid);
}

/* The same program counters as gdb has. */
static void test_gdb(void **state)
{
	static void (*const children[])(void) = {nested, deep};
	char command[256], line[512];
	FILE *f;

	if (system("gdb --version >/dev/null 2>&1") != 0) {
		print_message("no gdb here\n");
		skip();
	}
	for (size_t k = 0; k < sizeof(children) / sizeof(children[0]); k++) {
		pid_t pid = child_of(children[k]);
		struct unwind_start start;
		uint64_t last_sp = 0, last_pc = 0;
		size_t n = 0;

		snapshot_open(&l, pid);
		look_at(&l);
		start = (struct unwind_start){.ip = l.regs.rip,
					      .sp = l.regs.rsp,
					      .bp = l.regs.rbp,
					      .bp_known = true,
					      .read = read_memory,
					      .arg = &l.process};
		assert_int_equal(unwind(l.map, &start, l.frames, &l.n), UNWIND_DONE);
		snprintf(command, sizeof(command),
			 "gdb -nx -batch -p %d -ex 'set backtrace past-main on' -ex 'set "
			 "backtrace past-entry on' -ex 'frame apply all -q printf \"= %%lx "
			 "%%lx\\n\", $pc, $sp' 2>/dev/null",
			 pid);
		f = popen(command, "r");
		while (fgets(line, sizeof(line), f)) {
			uint64_t pc, sp;

			/* what was inlined has its own frames, at the same place */
			if (sscanf(line, "= %" SCNx64 " %" SCNx64, &pc, &sp) != 2 ||
			    (n && (sp == last_sp ||
				   (pc == last_pc && n < l.n && pc != l.frames[n].ip + 1))))
				continue;
			last_sp = sp;
			last_pc = pc;
			assert_true(n < l.n);
			/* the test's are inside the call */
			if (pc != l.frames[n].ip && pc != l.frames[n].ip + 1)
				fail_msg("frame %zu: %#" PRIx64 " %s, gdb's is %#" PRIx64, n,
					 l.frames[n].ip, name_of(&l.frames[n]), pc);
			n++;
		}
		pclose(f);
		print_message("gdb: %zu frames\n", n);
		assert_true(n >= 5 && n == l.n);
		snapshot_done(&l);
		end_child(pid);
	}
}

/* ---- for others ---- */

static int print_threads(pid_t pid)
{
	pid_t *tids;
	size_t n;
	struct tracer *t;
	uint64_t ns = 0, frames = 0;

	snapshot_open(&l, pid);
	if (threads_list(&l.process, &tids, &n) < 0 || tracer_start(&t, NULL) < 0)
		return 1;
	for (size_t i = 0; i < n; i++) {
		l.tid = tids[i];
		if (tracer_call(t, take, &l) < 0)
			continue;
		walk(&l, NULL, 0);
		printf("thread %d end %d\n", tids[i], l.end);
		for (size_t k = 0; k < l.n; k++)
			printf("%#" PRIx64 " %s %s\n", l.frames[k].ip,
			       l.frames[k].code && l.frames[k].code->file
				       ? l.frames[k].code->file->path
				       : "?",
			       name_of(&l.frames[k]));
		uint64_t began = clock_monotonic_ns();
		for (unsigned k = 0; k < 1000; k++)
			walk(&l, NULL, 0);
		ns += clock_monotonic_ns() - began;
		frames += 1000 * l.n;
	}
	tracer_end(t);
	free(tids);
	fprintf(stderr, "%.1f ns a frame\n", frames ? (double)ns / (double)frames : 0);
	snapshot_done(&l);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nested), cmocka_unit_test(test_frame_pointers),
		cmocka_unit_test(test_signal), cmocka_unit_test(test_reader),
		cmocka_unit_test(test_deep),   cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_gdb),
	};

	if (argc == 2 && atoi(argv[1]) > 0)
		return print_threads(atoi(argv[1]));
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared->three = 3;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
