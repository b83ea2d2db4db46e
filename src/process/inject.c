/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Remote calls: system calls that a thread of the target makes for pollux.
 *
 * One thread is stopped, its instruction pointer set to a stub, and let go at once: some 500 us of
 * one thread's time. The only step that needs pollux is that one PTRACE_SETREGS, which happens or
 * does not; even if pollux dies, the thread runs the stub to its end and continues where it was.
 *
 * Which thread: best one that waits in a system call which the kernel restarts without a trace
 * (futex, sleep, read, poll); then a running one; then one in a call that returns EINTR after any
 * stop (epoll_wait, by kernel design); last one in a call that has a signal mask of its own (ppoll,
 * pselect, sigsuspend): a signal that is blocked in there alone may end the call, with EINTR, if it comes
 * during the list. Never one in vfork, in disk sleep, or already inside pollux's code. A thread
 * whose first stop is a signal's delivery is let go with its signal: a call that the signal
 * interrupts must be finished by the signal's rules.
 *
 * Signals. All are blocked while the thread makes the list; the list's last call sets its mask again,
 * whatever becomes of pollux. So no handler runs in the middle, for which the other threads would
 * have to wait. And pollux goes with the thread up to that call's end, where it stops it before it
 * executes another instruction, and gives it the registers that it had: those of a thread that was
 * stopped inside its own system call. A signal that has come meanwhile is then delivered by the
 * kernel's rules for a call that is interrupted: pause() and sigsuspend() return, read() returns
 * EINTR or is made again, as the handler was installed. (If pollux dies on the way, the stub itself
 * makes the call again, after the handler. That is the rest of it: a program that relies on EINTR,
 * a signal within these 500 us, and a pollux that is killed in them.)
 *
 * By that the thread is known to be out of the stub: no handler has begun inside, so no saved
 * registers lead there. Only then what was at the code's place before is written back. So a place
 * in which something is left is never used again, by no later pollux either: a thread may come back
 * to it at any time.
 *
 * A thread inside a restartable sequence (rseq) must not come back there: the kernel, which
 * would have aborted the sequence for this stop, finds the thread elsewhere and forgets the
 * sequence. So it comes back where the kernel would have sent it, to the sequence's abort handler.
 */
#include "process/inject.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "process/memory.h"
#include "process/objects.h"
#include "process/rights.h"
#include "process/seccomp.h"
#include "process/threads.h"

#include <asm/unistd.h>
#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOP_ALL_TIMEOUT (2000 * NSEC_PER_MSEC)
#define ERRAND_TIMEOUT (5000 * NSEC_PER_MSEC)
#define ALONE_TIMEOUT (20 * NSEC_PER_MSEC)
#define BUSY_TIMEOUT (200 * NSEC_PER_MSEC) /* of a thread that could run */
#define MAX_TRIES 8
#define TRY_AGAIN_NS (100000)
#define MAX_LOOKED_AT 256
#define RSEQ_CS_OFFSET 8 /* of struct rseq.rseq_cs, Linux include/uapi/linux/rseq.h */
#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

/* ---- a place for the first stub ---- */

static size_t trailing_zeros(const uint8_t page[PAGE])
{
	size_t n = 0;

	while (n < PAGE && !page[PAGE - 1 - n])
		n++;
	return n;
}

#define TAIL 32u /* the first zeros may be the tail of something */

/* Whether memory is still what the program's file has there: no earlier stub is in it. */
static bool as_in_file(const struct process *p, const struct process_map *m, uint64_t addr,
		       size_t size)
{
	uint8_t there[PAGE], file[PAGE] = {0}; /* after the file's end there are zeros */
	char path[48];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/exe", p->proc_fd);
	_cleanup_close_ int fd = file_open(path, FILE_EMPTY, NULL);

	return size <= PAGE && fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == m->inode &&
	       memory_read(p, addr, there, size) == 0 &&
	       pread(fd, file, size, (off_t)(m->offset + (addr - m->start))) >= 0 &&
	       !memcmp(there, file, size);
}

/* The rest of the program's last executable page after its segment's end, with any content: the
 * file's next section, mapped by accident. */
static uint64_t behind_text(const struct process *p, uint64_t *ret_end)
{
	Elf64_Phdr phdr[PROCESS_MAX_HEADERS];
	uint64_t bias, end = 0;
	size_t n = process_headers(p, phdr, &bias);

	for (size_t i = 0; i < n; i++)
		if (phdr[i].p_type == PT_LOAD && (phdr[i].p_flags & PF_X))
			end = phdr[i].p_vaddr + phdr[i].p_memsz;
	if (!end)
		return 0;
	*ret_end = (bias + end + PAGE - 1) & ~(PAGE - 1);
	return (bias + end + 15) & ~15ull;
}

int inject_find_cave(const struct process *p, const struct process_maps *maps, size_t size,
		     struct code_cave *ret_place, struct error *err)
{
	uint64_t best = 0, end;
	size_t best_zeros = 0;
	uint8_t page[PAGE];

	for (size_t i = 0; i < maps->n; i++) {
		const struct process_map *m = &maps->v[i];

		/* The kernel reads the signal mask there, for the program. */
		if (!m->exec || !m->read || m->shared || !m->inode)
			continue;
		if (memory_read(p, m->end - PAGE, page, PAGE) < 0)
			continue;
		size_t zeros = trailing_zeros(page);
		if (zeros >= size + TAIL && zeros > best_zeros) {
			best = (m->end - zeros + TAIL + 15) & ~15ull;
			best_zeros = m->end - best;
		}
	}
	if (best_zeros >= size) {
		*ret_place = (struct code_cave){.addr = best, .size = best_zeros};
		return 0;
	}
	best = behind_text(p, &end);
	if (best && end - best >= size) {
		const struct process_map *m = maps_at(maps, best);
		if (m && m->exec && m->read && !m->shared && as_in_file(p, m, best, end - best)) {
			*ret_place = (struct code_cave){.addr = best, .size = end - best};
			return 0;
		}
	}
	for (size_t i = 0; i < maps->n; i++) {
		const struct process_map *m = &maps->v[i];

		if (strcmp(m->path, "[vdso]") || memory_read(p, m->end - PAGE, page, PAGE) < 0)
			continue;
		size_t zeros = trailing_zeros(page) & ~15ull;
		if (m->read && zeros >= size + TAIL) {
			*ret_place = (struct code_cave){.addr = m->end - zeros + TAIL,
							.size = zeros - TAIL};
			return 0;
		}
	}
	return error_set(err, -ENOENT, "process %d has no %zu unused bytes of executable memory",
			 p->pid, size);
}

bool inject_is_free(const struct process *p, uint64_t addr, size_t size)
{
	uint8_t page[PAGE] = {0};

	for (uint64_t at = addr, end = addr + size; at < end; at += PAGE) {
		size_t n = end - at < PAGE ? end - at : PAGE;

		if (memory_read(p, at, page + PAGE - n, n) < 0 || trailing_zeros(page) < n)
			return false;
	}
	return true;
}

/* ---- choosing a thread ---- */

struct thread_candidate {
	pid_t tid;
	int score; /* lower is better, below 0: never */
};

static int score_syscall(long nr)
{
	switch (nr) {
	case __NR_futex:
	case __NR_nanosleep:
	case __NR_clock_nanosleep:
	case __NR_restart_syscall:
		return 0;
	case __NR_read:
#ifdef __NR_poll
	case __NR_poll:
	case __NR_select:
#endif
	case __NR_wait4:
	case __NR_waitid:
		return 1;
	/* Their signal mask holds within the call only, and is not had again after the list. */
	case __NR_ppoll:
	case __NR_pselect6:
	case __NR_rt_sigsuspend:
		return 5;
#ifdef __NR_vfork
	case __NR_vfork:
#endif
	case __NR_rt_sigreturn:
		return -1;
	default:
		return 4;
	}
}

static int score_thread(const struct injector *in, pid_t tid)
{
	const struct process *p = in->process;
	char name[48], text[512];
	unsigned long long sp, pc;
	long nr;

	if (strchr("DZX", process_thread_state(p, tid)) || process_is_worker(p, tid))
		return -1;
	snprintf(name, sizeof(name), "task/%d/syscall", tid);
	if (process_read_file(p, name, text, sizeof(text)) <= 0)
		return 3; /* kernels may be built without it */
	if (!strncmp(text, "running", 7))
		return 2;
	if (sscanf(text, "%ld %*x %*x %*x %*x %*x %*x %llx %llx", &nr, &sp, &pc) == 3) {
		if (pc >= in->avoid_start && pc < in->avoid_end)
			return 5;
		return score_syscall(nr);
	}
	return 3;
}

static int by_score(const void *a, const void *b)
{
	const struct thread_candidate *x = a, *y = b;

	return ASCENDING(x->score, y->score) ?: ASCENDING(x->tid, y->tid);
}

static size_t candidates(const struct injector *in, struct thread_candidate out[MAX_LOOKED_AT])
{
	pid_t *tids;
	size_t n, kept = 0;

	if (threads_list(in->process, &tids, &n) < 0)
		return 0;
	for (size_t i = 0; i < n && i < MAX_LOOKED_AT; i++) {
		struct thread_candidate c = {.tid = tids[i], .score = score_thread(in, tids[i])};

		if (c.score < 0)
			continue;
		/* The thread of the remote call before is no better than its like, but a second
		 * thread need not be disturbed. */
		if (c.tid == in->last_tid && c.score < 4)
			c.score = 0;
		out[kept++] = c;
	}
	free(tids);
	qsort(out, kept, sizeof(out[0]), by_score);
	return kept;
}

/* ---- running ---- */

static bool finished(const struct injector *in, const struct remote_calls *e, uint64_t waiting,
		     uint64_t *ret_value)
{
	if (e->done_at)
		return memory_read_u64(in->process, e->done_at, ret_value) == 0 &&
		       *ret_value != waiting;
	return memory_read_u64(in->process, e->mapped_at, ret_value) == 0 &&
	       *ret_value == e->mapped_value;
}

static bool held(const struct process *p)
{
	return process_thread_state(p, p->pid) == 'T';
}

static int held_error(const struct process *p, struct error *err)
{
	return error_set(
		err, -EBUSY,
		"process %d is stopped (SIGSTOP, ^Z or a debugger): let it go on first (kill "
		"-CONT %d)",
		p->pid, p->pid);
}

static bool inside(const struct code_cave *cave, uint64_t pc)
{
	return pc >= cave->addr && pc < cave->addr + cave->size;
}

/* ---- signals during a list ---- */

#define MASK_BYTES 8u /* the kernel's, of 64 signals; at the end of the stub's place */
#define MASK_CALL __NR_rt_sigprocmask
#define MAX_CALLS 64u

static uint64_t mask_addr(const struct code_cave *cave)
{
	return cave->addr + cave->size - MASK_BYTES;
}

/* The list with one more call, which sets the mask. */
static int with_mask(const struct code_cave *cave, const struct remote_calls *e,
		     struct stub_call calls[MAX_CALLS], struct remote_calls *ret)
{
	if (e->n_calls >= MAX_CALLS)
		return -ENOSPC;
	memcpy(calls, e->calls, e->n_calls * sizeof(*calls));
	calls[e->n_calls] = (struct stub_call){
		.nr = MASK_CALL,
		.args = {SIG_SETMASK, mask_addr(cave), 0, MASK_BYTES},
		.always = 1,
	};
	*ret = *e;
	ret->calls = calls;
	ret->n_calls++;
	return 0;
}

/* What is in memory for a list, and what was there before. */
struct placed {
	uint8_t before[STUB_MAX_BYTES];
	size_t len; /* from the place's begin */
};

static int write_mask(const struct injector *in, const struct code_cave *cave, pid_t tid)
{
	uint64_t mask;

	/* Of a thread in sigsuspend() the one that it returns to. */
	if (ptrace(PTRACE_GETSIGMASK, tid, MASK_BYTES, &mask) < 0)
		return -errno;
	return memory_write_u64(in->process, mask_addr(cave), mask);
}

/* Once the thread is on its way to the list, at whose end it has its mask again. But where --force
 * took the place of a proof, that call may fail. */
static void block_signals(const struct process *p, pid_t tid)
{
	uint64_t all = UINT64_MAX;

	if (!p->forced)
		ptrace(PTRACE_SETSIGMASK, tid, MASK_BYTES, &all);
}

/* The code and the mask. */
static int write_stub(struct injector *in, const struct code_cave *cave,
		      const struct remote_calls *e, const struct arch_regs *regs, uint64_t waiting,
		      pid_t tid, struct placed *ret_placed)
{
	uint8_t code[STUB_MAX_BYTES];
	size_t room = cave->size - MASK_BYTES;
	struct stub_resume resume;

	ret_placed->len = cave->size < sizeof(code) ? cave->size : sizeof(code);
	TRY(memory_read(in->process, cave->addr, ret_placed->before, ret_placed->len));
	stub_resume_of(regs, &resume);
	if (in->parked)
		resume.pc = in->parked->addr;
	long len = stub_build(code, room < sizeof(code) ? room : sizeof(code), e->calls, e->n_calls,
			      e->done_at, waiting + 1, &resume);
	if (len < 0)
		return (int)len;
	if (e->done_at) {
		int rc = memory_write_u64(in->process, e->done_at, waiting);
		/* Memory that the list itself makes is not there yet: it will start as 0. */
		if (rc < 0 && rc != -EIO && rc != -EFAULT)
			return rc;
	}
	TRY(memory_write(in->process, cave->addr, code, (size_t)len));
	return write_mask(in, cave, tid);
}

/* The thread is known to be outside. */
static void clear_stub(const struct injector *in, struct code_cave *cave,
		       const struct placed *placed)
{
	cave->dirty = memory_write(in->process, cave->addr, placed->before, placed->len) < 0;
}

/* The other threads, while they are stopped. */
struct others {
	struct process_stop *stop; /* NULL: they run */
	uint64_t since_ns;	   /* the list began; of its stops there are many */
	bool must_wait;		   /* the thread is in a call that is made alone */
};

/* Whether they have to wait for the thread still. A signal's handler, in whose middle it may be, may wait for one
 * of them; a thread that only gets no CPU has more time. */
static bool others_wait(const struct process *p, pid_t tid, const struct others *others)
{
	uint64_t now = clock_monotonic_ns(), since_ns = others->since_ns;

	return now < since_ns + (others->must_wait ? ERRAND_TIMEOUT : ALONE_TIMEOUT) ||
	       (now < since_ns + BUSY_TIMEOUT && process_thread_state(p, tid) != 'S');
}

static bool are_stopped(const struct others *others)
{
	return others->stop && others->stop->v;
}

/* Waits for the thread's next stop. */
static int wait_for_stop(const struct process *p, pid_t tid, const struct others *others,
			 int *ret_status)
{
	int rc = -ETIMEDOUT;

	while (rc == -ETIMEDOUT && are_stopped(others)) {
		if (others_wait(p, tid, others))
			rc = thread_wait(tid, ALONE_TIMEOUT, ret_status);
		else
			threads_resume(others->stop);
	}
	return rc == -ETIMEDOUT ? thread_wait(tid, ERRAND_TIMEOUT, ret_status) : rc;
}

#define NO_ADDRESS 1 /* no page begins here */

static int hold(const struct remote_calls *e, size_t call, pid_t tid, struct arch_regs *regs,
		bool alone)
{
	process_step("held");
	if (e->held(e->arg, call, alone))
		return 0;
	regs->args[0] = NO_ADDRESS;
	return arch_regs_write(tid, regs);
}

/*
 * Goes with the thread from system call to system call, up to the end of the list's last one. It is
 * held right before those that are asked for, unless the list is stopped before. Whatever becomes
 * of us, it goes on by itself.
 */
static int go_with(const struct process *p, const struct code_cave *cave,
		   const struct remote_calls *e, pid_t tid, struct others *others)
{
	struct arch_regs regs;
	int status, signal = 0;
	bool entered = false;

	for (size_t next = 0;;) {
		process_step("syscall");
		if (ptrace(PTRACE_SYSCALL, tid, 0, (long)signal) < 0)
			return -errno;

		TRY(wait_for_stop(p, tid, others, &status));
		if (!WIFSTOPPED(status))
			return -ESRCH;
		signal = 0;
		if (status >> 16)
			continue; /* also of job control: it is stopped again when it is let go */
		if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
			signal = WSTOPSIG(status);
			continue;
		}
		if (arch_regs_read(tid, &regs) < 0)
			return -errno;
		/* A signal handler's call, or its way back to the list? */
		if (!inside(cave, regs.pc) || regs.call == ARCH_NO_CALL)
			continue;
		entered = !entered;
		if (!entered && regs.call == MASK_CALL)
			return 0;
		if (!entered)
			continue;
		while (next < e->n_calls && e->calls[next].nr != regs.call)
			next++;
		if (e->held && next < MAX_CALLS && e->hold >> next & 1)
			TRY(hold(e, next, tid, &regs, !others->stop || are_stopped(others)));
		others->must_wait = next < MAX_CALLS && e->alone >> next & 1;
		next++;
	}
}

/* At the end of the last call: it stops inside the kernel before it executes another instruction,
 * and is in the state in which it was stopped first. */
static int take_out(const struct process *p, struct stopped_thread *t, const struct arch_regs *regs,
		    const struct others *others)
{
	int status;

	process_step("take out");
	if (ptrace(PTRACE_INTERRUPT, t->tid, 0, 0) < 0 || ptrace(PTRACE_CONT, t->tid, 0, 0) < 0)
		return -errno;
	TRY(wait_for_stop(p, t->tid, others, &status));
	if (!WIFSTOPPED(status))
		return -ESRCH;
	t->signal = status >> 16 ? 0 : WSTOPSIG(status);
	process_step("give back");
	return arch_regs_write(t->tid, regs);
}

/*
 * Aborts the restartable sequence that a stopped thread is in, if it is in one, in its registers:
 * by the kernel's structures and its rules (Linux kernel/rseq.c, rseq_ip_fixup). False: it is in
 * one that the kernel would not abort, or that can't be read.
 */
static bool abort_sequence(const struct process *p, pid_t tid, struct arch_regs *regs)
{
	struct {
		uint64_t area;
		uint32_t size, signature, flags, pad;
	} config = {0};
	struct {
		uint32_t version, flags;
		uint64_t start, len, abort;
	} section;
	uint64_t section_at;
	uint32_t signature;

	/* A kernel before 5.13, or without sequences, does not report it. */
	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof(config), &config) < 0 || !config.area)
		return true;
	if (memory_read_u64(p, config.area + RSEQ_CS_OFFSET, &section_at) < 0)
		return false;
	if (!section_at)
		return true;
	if (memory_read(p, section_at, &section, sizeof(section)) < 0)
		return false;
	if (regs->pc - section.start >= section.len)
		return true; /* a former one */
	if (section.version || section.flags || section.abort - section.start < section.len ||
	    memory_read(p, section.abort - sizeof(signature), &signature, sizeof(signature)) < 0 ||
	    signature != config.signature)
		return false;
	regs->pc = section.abort;
	return true;
}

/* Whether a stopped thread may be sent: not one that steps, since a SIGTRAP which is blocked, as all
 * signals are during the list, kills. *ret_regs: where it is to come back to. */
static bool is_fit(const struct injector *in, const struct code_cave *cave,
		   const struct stopped_thread *t, struct arch_regs *ret_regs)
{
	process_step("getregs");
	return t->state == THREAD_STOPPED && arch_regs_read(t->tid, ret_regs) == 0 &&
	       ret_regs->native && !ret_regs->steps &&
	       !(ret_regs->pc >= in->avoid_start && ret_regs->pc < in->avoid_end) &&
	       !inside(cave, ret_regs->pc) && abort_sequence(in->process, t->tid, ret_regs);
}

/* Why a thread that was sent did not come to the list's end. */
static int lost(const struct injector *in, int rc, struct error *err)
{
	const struct process *p = in->process;

	if (rc == -ESRCH && process_alive(p))
		return error_set(err, -EAGAIN,
				 "a thread of process %d ended during a remote call: try again",
				 p->pid);
	if (rc == -ESRCH)
		return error_set(err, rc, "process %d has ended", p->pid);
	if (rc == -ETIMEDOUT && held(p))
		return held_error(p, err);
	if (rc == -ETIMEDOUT)
		return error_set(err, rc,
				 "a thread of process %d got no CPU: try again "
				 "when the machine is less busy",
				 p->pid);
	return error_sys(err, rc, "cannot trace thread %d of process %d", in->last_tid, p->pid);
}

/* Sends a stopped thread, which the caller lets go. 1: the list is over; or negative errno. */
static int send_off(struct injector *in, struct code_cave *cave, const struct remote_calls *e,
		    struct stopped_thread *t, const struct arch_regs *regs, uint64_t waiting,
		    struct process_stop *stop, struct error *err)
{
	struct process *p = in->process;
	struct arch_regs sent = *regs;
	struct others others = {.stop = stop};
	struct placed placed;
	int rc;

	TRY(seccomp_allows(p, t->tid, e->calls, e->n_calls, &in->trial, err));
	p->stopped_tid = t->tid;
	rc = ptrace(PTRACE_SETOPTIONS, t->tid, 0, (long)PTRACE_O_TRACESYSGOOD) < 0 ? -errno : 0;
	if (rc == 0)
		rc = write_stub(in, cave, e, regs, waiting, t->tid, &placed);
	if (rc == 0) {
		sent.pc = cave->addr;
		sent.call = ARCH_NO_CALL;
		process_step("setregs");
		cave->dirty = true;
		rc = arch_regs_write(t->tid, &sent);
		if (rc < 0)
			clear_stub(in, cave, &placed);
	}
	if (rc < 0) {
		p->stopped_tid = 0;
		return error_sys(err, rc, "cannot make a remote call on thread %d of process %d",
				 t->tid, p->pid);
	}
	in->last_tid = t->tid;
	in->fs_base = regs->thread;
	block_signals(p, t->tid);
	others.since_ns = clock_monotonic_ns();
	rc = go_with(p, cave, e, t->tid, &others);
	if (rc == 0)
		rc = take_out(p, t, regs, &others);
	if (rc == 0)
		clear_stub(in, cave, &placed);
	p->stopped_tid = 0;
	return rc < 0 ? lost(in, rc, err) : 1;
}

/* Sends one running thread. 1: the list is over; 0: another one should be asked. */
static int send(struct injector *in, struct code_cave *cave, const struct remote_calls *e,
		pid_t tid, uint64_t waiting, struct error *err)
{
	struct arch_regs regs;
	struct stopped_thread t;
	uint64_t began = clock_monotonic_ns();
	int rc = thread_stop(in->process, tid, THREAD_STOP_TIMEOUT, &t);

	if (rc == -ESRCH)
		return 0;
	if (rc == -ETIMEDOUT)
		return error_set(err, rc, "thread %d of process %d does not stop: try again", tid,
				 in->process->pid);
	if (rc < 0) {
		/* One thread may be ending; the process's rights are those of its leader. */
		rights_explain(in->process->pid, rc, err);
		return rc;
	}
	if (t.state == THREAD_HELD) {
		thread_resume(&t);
		return held_error(in->process, err);
	}
	if (is_fit(in, cave, &t, &regs))
		rc = send_off(in, cave, e, &t, &regs, waiting, NULL, err);
	thread_resume(&t);
	in->stop_ns += clock_monotonic_ns() - began;
	return rc;
}

static struct stopped_thread *find_stopped(const struct process_stop *all, pid_t tid)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].tid == tid)
			return &all->v[i];
	return NULL;
}

/* The first of them that can be used, while all threads are stopped: then no other thread passes on
 * to a child what the remote calls hold meanwhile, a descriptor. Results as above. */
static int send_alone(struct injector *in, struct code_cave *cave, const struct remote_calls *e,
		      const struct thread_candidate *order, size_t n, uint64_t waiting,
		      struct error *err)
{
	struct process_stop all;
	int rc = 0;

	TRY(threads_stop(in->process, STOP_ALL_TIMEOUT, &all, err));
	if (all.v[0].state == THREAD_HELD)
		rc = held_error(in->process, err);
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct stopped_thread *at = find_stopped(&all, order[i].tid), t;
		struct arch_regs regs;

		if (!at || !is_fit(in, cave, at, &regs))
			continue;
		t = *at;
		at->state = THREAD_GONE; /* it is let go by itself */
		rc = send_off(in, cave, e, &t, &regs, waiting, &all, err);
		thread_resume(&t);
	}
	if (all.v)
		threads_resume(&all);
	in->stop_ns += all.stop_ns;
	return rc;
}

/* Whether a stop is where the program was parked. */
static bool is_back(const struct entry_stop *parked, int signal, const struct arch_regs *regs)
{
	if (!parked->is_call)
		return signal == SIGTRAP && regs->pc == parked->addr + ARCH_BREAKPOINT_PASSED;
	return signal == (SIGTRAP | 0x80) && regs->pc == parked->addr + ARCH_SYSCALL_BYTES &&
	       regs->call == parked->call && regs->enters;
}

/* From the remote call's begin to its end: back to where the program was parked. */
static int come_back(struct injector *in, struct error *err)
{
	const struct entry_stop *parked = in->parked;
	struct arch_regs regs;
	pid_t tid = parked->tid;
	int rc, status, signal = 0;

	for (;;) {
		process_step("cont");
		if (ptrace(parked->is_call ? PTRACE_SYSCALL : PTRACE_CONT, tid, 0, (long)signal) <
		    0)
			return error_sys(err, -errno, "cannot resume process %d", tid);
		rc = thread_wait(tid, ERRAND_TIMEOUT, &status);
		if (rc < 0)
			return error_sys(err, rc, "process %d did not return from a remote call",
					 tid);
		if (!WIFSTOPPED(status))
			return error_set(err, -ESRCH, "process %d ended while pollux prepared it",
					 tid);
		signal = WSTOPSIG(status);
		if (status >> 16) {
			signal = 0; /* an event, no signal */
			continue;
		}
		if ((signal & ~0x80) != SIGTRAP)
			continue;
		if (arch_regs_read(tid, &regs) < 0)
			return error_sys(err, -errno, "cannot read the registers of process %d",
					 tid);
		if (is_back(parked, signal, &regs))
			break;
		if (signal != SIGTRAP)
			signal = 0; /* another system call */
	}
	if (parked->is_call)
		return 1;
	regs.pc = parked->addr;
	regs.call = ARCH_NO_CALL;
	if (arch_regs_write(tid, &regs) < 0)
		return error_sys(err, -errno, "cannot set the registers of process %d", tid);
	return 1;
}

/* The system call before which a parked program is held is not made then, but skipped: a filter sees
 * the number -1. It may answer with any error, but not kill. */
static int may_skip(struct injector *in, pid_t tid, struct error *err)
{
	static const struct stub_call skipped = {.nr = UINT32_MAX};
	const struct seccomp_trial trial = seccomp_try(&skipped, 1);

	return seccomp_allows(in->process, tid, &skipped, 1, &trial, err);
}

/* The same for a parked program, whose libc's start is in no restartable sequence. */
static int send_parked(struct injector *in, struct code_cave *cave, const struct remote_calls *e,
		       uint64_t waiting, struct error *err)
{
	static const arch_breakpoint breakpoint = ARCH_BREAKPOINT;
	struct others none = {0};
	struct arch_regs regs;
	struct placed placed;
	pid_t tid = in->parked->tid;
	int rc;

	TRY(seccomp_allows(in->process, tid, e->calls, e->n_calls, &in->trial, err));
	if (in->parked->is_call)
		TRY(may_skip(in, tid, err));
	if (arch_regs_read(tid, &regs) < 0)
		return error_sys(err, -errno, "cannot read the registers of process %d", tid);
	in->process->stopped_tid = tid;
	if (in->parked->is_call)
		regs.result = (uint64_t)in->parked->call;
	rc = write_stub(in, cave, e, &regs, waiting, tid, &placed);
	if (rc == 0 && !in->parked->is_call)
		rc = memory_write(in->process, in->parked->addr, &breakpoint, sizeof(breakpoint));
	if (rc < 0)
		return error_sys(err, rc, "cannot write into process %d", tid);
	in->fs_base = regs.thread;
	in->last_tid = tid;
	regs.pc = cave->addr;
	regs.call = ARCH_NO_CALL;
	process_step("setregs");
	cave->dirty = true;
	rc = arch_regs_write(tid, &regs);
	if (rc == 0) {
		block_signals(in->process, tid);
		rc = go_with(in->process, cave, e, tid, &none);
	}
	rc = rc < 0 ? lost(in, rc, err) : come_back(in, err);
	if (rc > 0)
		clear_stub(in, cave, &placed);
	if (rc != -ESRCH && !in->parked->is_call &&
	    memory_write(in->process, in->parked->addr, &in->parked->original,
			 sizeof(in->parked->original)) < 0 &&
	    rc >= 0)
		rc = error_set(err, -EIO, "cannot lift a breakpoint in process %d", tid);
	return rc;
}

static int outcome(const struct remote_calls *e, uint64_t value, uint64_t waiting)
{
	if (!e->done_at || value == waiting + 1)
		return 0;
	return (int64_t)value < 0 && (int64_t)value >= -4095 ? (int)(int64_t)value : -EIO;
}

static int run(struct injector *in, struct code_cave *cave, const struct remote_calls *e,
	       struct error *err)
{
	struct thread_candidate order[MAX_LOOKED_AT];
	uint64_t waiting = in->serial += 2; /* 0 would be fresh memory */
	uint64_t value = 0;
	struct stub_call calls[MAX_CALLS];
	struct remote_calls masked;
	int rc = 0;

	TRY(with_mask(cave, e, calls, &masked));
	e = &masked;
	if (cave->dirty)
		return error_set(err, -EBUSY, "a thread of process %d is still in a remote call",
				 in->process->pid);
	/* A word far from every result of a system call: no address, no small number. */
	waiting |= 0x5a5aull << 48;
	in->trial = seccomp_try(e->calls, e->n_calls);
	if (!in->parked && held(in->process))
		return held_error(in->process, err);
	if (in->parked)
		rc = send_parked(in, cave, e, waiting, err);
	for (int tries = 0; tries < MAX_TRIES && rc == 0; tries++) {
		size_t n = candidates(in, order);

		if (e->held)
			rc = send_alone(in, cave, e, order, n, waiting, err);
		for (size_t i = 0; i < n && rc == 0 && !e->held; i++)
			rc = send(in, cave, e, order[i].tid, waiting, err);
		if (rc == 0)
			clock_sleep(TRY_AGAIN_NS);
	}
	if (rc < 0)
		return rc;
	if (rc == 0)
		return error_set(err, process_alive(in->process) ? -EAGAIN : -ESRCH,
				 process_alive(in->process)
					 ? "no thread of process %d could be stopped: try again"
					 : "process %d has ended",
				 in->process->pid);
	if (finished(in, e, waiting, &value))
		return outcome(e, value, waiting);
	if (in->parked)
		return -ENOMEM;
	return error_set(err, -ENOMEM,
			 "process %d may not map more memory: see its limits "
			 "(ulimit -v and -d, vm.max_map_count, "
			 "vm.overcommit_memory)",
			 in->process->pid);
}

int inject_run(struct injector *in, struct code_cave *cave, const struct remote_calls *e,
	       struct error *err)
{
	struct tracer_priority before;
	int rc;

	assert(e->n_calls && e->n_calls < MAX_CALLS && (!e->held || e->hold));
	assert(in->parked || !in->process->stopped_tid); /* the thread has to run */
	tracer_hurry(&before);
	rc = run(in, cave, e, err);
	log_debug(LOG_ATTACH, "%zu remote calls, from number %u on, by thread %d: %s", e->n_calls,
		  e->calls[0].nr, in->last_tid, rc < 0 ? strerror(-rc) : "done");
	tracer_calm(&before);
	return rc;
}

/* ---- the tid in the thread control block ---- */

#define TCB_SCAN 2048u
#define MAX_HITS 16u

static size_t tid_hits(const struct process *p, uint64_t fs_base, pid_t own_tid,
		       uint32_t out[MAX_HITS])
{
	uint8_t block[TCB_SCAN];
	size_t n = 0, len = TCB_SCAN;

	/* The block may lie at the end of its mapping. */
	while (len && memory_read(p, fs_base, block, len) < 0)
		len /= 2;
	for (size_t at = 0; at + 4 <= len && n < MAX_HITS; at += 4) {
		int32_t word;

		memcpy(&word, block + at, sizeof(word));
		if (word == own_tid)
			out[n++] = (uint32_t)at;
	}
	return n;
}

static uint64_t fs_base_of(struct injector *in, pid_t tid)
{
	uint64_t began = clock_monotonic_ns();
	struct arch_regs regs = {0};
	struct stopped_thread t;

	if (thread_stop(in->process, tid, THREAD_STOP_TIMEOUT, &t) < 0)
		return 0;
	if (arch_regs_read(tid, &regs) < 0)
		regs.thread = 0;
	thread_resume(&t);
	in->stop_ns += clock_monotonic_ns() - began;
	return regs.thread;
}

/* Where libcs keep it: glibc's struct pthread.tid (2.17 to 2.41), musl's (1.2). */
static const uint32_t known_offsets[] = {0x2d0, 0x30};

static uint32_t known_tid_offset(const struct process *p, uint64_t fs_base, pid_t own_tid)
{
	for (size_t i = 0; i < sizeof(known_offsets) / sizeof(known_offsets[0]); i++) {
		int32_t word;

		if (memory_read(p, fs_base + known_offsets[i], &word, sizeof(word)) == 0 &&
		    word == own_tid)
			return known_offsets[i];
	}
	return 0;
}

uint32_t inject_tid_offset(struct injector *in)
{
	uint32_t hits[MAX_HITS], other[MAX_HITS];
	pid_t own = process_own_tid(in->process, in->last_tid);
	uint32_t found = own && in->fs_base ? known_tid_offset(in->process, in->fs_base, own) : 0;
	size_t n = own && in->fs_base ? tid_hits(in->process, in->fs_base, own, hits) : 0;

	if (found)
		return found;
	/* Elsewhere: believed if it is the one place common to a second thread, which is stopped
	 * for a moment to ask. */
	pid_t *tids;
	size_t n_tids;
	if (!n || in->parked || threads_list(in->process, &tids, &n_tids) < 0)
		return 0;
	for (size_t i = 0; i < n_tids; i++) {
		if (tids[i] == in->last_tid || score_thread(in, tids[i]) < 0)
			continue;
		uint64_t fs_base = fs_base_of(in, tids[i]);
		size_t n_other = tid_hits(in->process, fs_base,
					  process_own_tid(in->process, tids[i]), other);
		size_t common = 0;
		for (size_t a = 0; a < n; a++)
			for (size_t b = 0; b < n_other; b++)
				if (hits[a] == other[b]) {
					found = hits[a];
					common++;
				}
		if (common != 1)
			found = 0;
		break;
	}
	free(tids);
	return found;
}
