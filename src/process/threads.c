/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stopping threads.
 *
 * All are seized first and interrupted afterwards: seizing does not disturb a thread, so the time
 * in which some are stopped and others run is a third shorter than with both calls for each in
 * turn. New threads made meanwhile are found by listing again until none is new: a stopped thread
 * makes no children. While threads are stopped the tracer asks for a real-time priority, since on a
 * machine with busy CPUs it would itself wait for its turn (measured: 434 ms against
 * 0.7).
 *
 * A thread that waits for a vfork or a disk stops only when that is over. The others don't stay
 * stopped for it: they resume, and all is tried again.
 *
 * The stop that comes first may be that of a signal on its way. It is kept and goes with the
 * resume; a tracer that drops it has eaten the program's signal.
 *
 * A stop must not end the call in which a thread waits. Most calls the kernel makes again by
 * itself; some return EINTR, which a program without signal handlers need not expect
 * (interrupted.h). And the kernel's own workers are among a process' threads: a stop makes what
 * they do for io_uring fail, so they are left alone.
 */
#include "process/threads.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file_map.h"
#include "base/log.h"
#include "base/map.h"
#include "base/units.h"
#include "base/vec.h"
#include "process/interrupted.h"
#include "process/rights.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 100000u
#define STRANGER_TIMEOUT NSEC_PER_SEC
#define STOP_ALL_TIMEOUT (2000 * NSEC_PER_MSEC)
/* Code is changed for this long while the threads are stopped, or for as long as they took to stop.
 */
#define CHANGE_NS (2 * NSEC_PER_MSEC)
#define PATIENCE (50 * NSEC_PER_MSEC) /* of the others, with a thread that can't stop */

/* ---- the tracer ---- */

struct tracer {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int (*fn)(void *arg); /* NULL: nothing to do */
	void *arg;
	int result;
	bool ending;
};

static void *tracer_main(void *arg)
{
	struct tracer *t = arg;

	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	prctl(PR_SET_NAME, "tracer", 0, 0, 0);
	pthread_mutex_lock(&t->lock);
	for (;;) {
		while (!t->fn && !t->ending)
			pthread_cond_wait(&t->changed, &t->lock);
		if (!t->fn)
			break;
		pthread_mutex_unlock(&t->lock);
		int result = t->fn(t->arg);
		pthread_mutex_lock(&t->lock);
		t->result = result;
		t->fn = NULL;
		pthread_cond_broadcast(&t->changed);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

int tracer_start(struct tracer **ret_tracer, struct error *err)
{
	struct tracer *t = calloc(1, sizeof(*t));
	sigset_t old;
	int rc;

	if (!t)
		return error_sys(err, -ENOMEM, "cannot start a tracer");
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->changed, NULL);
	/* Signals are the main thread's business. */
	file_map_block_signals(&old);
	rc = pthread_create(&t->thread, NULL, tracer_main, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		free(t);
		return error_sys(err, -rc, "cannot start a tracer");
	}
	*ret_tracer = t;
	return 0;
}

int tracer_call(struct tracer *t, int (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&t->lock);
	t->fn = fn;
	t->arg = arg;
	pthread_cond_broadcast(&t->changed);
	while (t->fn)
		pthread_cond_wait(&t->changed, &t->lock);
	int result = t->result;
	pthread_mutex_unlock(&t->lock);
	return result;
}

void tracer_signal(struct tracer *t, int signal_number)
{
	pthread_kill(t->thread, signal_number);
}

void tracer_end(struct tracer *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->ending = true;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->changed);
	free(t);
}

/* ---- priority ---- */

void tracer_hurry(struct tracer_priority *ret_before)
{
	struct sched_param param = {0};

	ret_before->policy = sched_getscheduler(0);
	sched_getparam(0, &param);
	ret_before->rt_priority = param.sched_priority;
	ret_before->nice = getpriority(PRIO_PROCESS, 0);
	if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}) < 0)
		setpriority(PRIO_PROCESS, 0, -20); /* refused too: then it takes what it takes */
}

void tracer_calm(const struct tracer_priority *before)
{
	sched_setscheduler(0, before->policy,
			   &(struct sched_param){.sched_priority = before->rt_priority});
	setpriority(PRIO_PROCESS, 0, before->nice);
}

/* ---- waiting ---- */

/* A pause in a loop that waits for the target: short at first, and always a real sleep, since a
 * real-time tracer that spins on the only CPU would wait for ever. */
static void pause_in_loop(unsigned round)
{
	long ns = round < 20 ? 10000 : round < 100 ? 100000 : 1000000;

	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* The last end that was taken: tid << 32 | waitpid's status. */
static _Atomic uint64_t last_end;

bool thread_end_taken(pid_t tid, int *ret_status)
{
	uint64_t end = last_end;

	if (end >> 32 != (uint64_t)tid)
		return false;
	*ret_status = (int)(uint32_t)end;
	return true;
}

/* As waitpid(): its number if there is something of it, 0, or -1. An end is noted, since the
 * kernel reports it only once. */
static pid_t look_at(pid_t tid, int *ret_status)
{
	pid_t got = waitpid(tid, ret_status, __WALL | __WNOTHREAD | WNOHANG);

	if (got == tid && !WIFSTOPPED(*ret_status))
		last_end = (uint64_t)tid << 32 | (uint32_t)*ret_status;
	return got;
}

int thread_wait(pid_t tid, uint64_t timeout_ns, int *ret_status)
{
	uint64_t until = clock_monotonic_ns() + timeout_ns;

	for (unsigned round = 0;; round++) {
		pid_t got = look_at(tid, ret_status);

		if (got == tid)
			return 0;
		if (got < 0 && errno != EINTR)
			return -errno;
		if (clock_monotonic_ns() > until)
			return -ETIMEDOUT;
		pause_in_loop(round);
	}
}

static void note_status(struct stopped_thread *t, int status)
{
	t->waiting = false;
	t->signal = 0;
	if (!WIFSTOPPED(status)) {
		t->state = THREAD_GONE;
		return;
	}
	if (status >> 16 == PTRACE_EVENT_STOP) {
		t->state = WSTOPSIG(status) == SIGTRAP ? THREAD_STOPPED : THREAD_HELD;
	} else {
		t->state = THREAD_SIGNALED;
		t->signal = WSTOPSIG(status);
	}
	/* Where job control has stopped it the call was ended by that. */
	if (t->state != THREAD_HELD)
		interrupted_again(t->tid);
}

int threads_list(const struct process *p, pid_t **ret_tids, size_t *ret_n)
{
	int fd = openat(p->proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t *tids = NULL;
	size_t n = 0, cap = 0;
	struct dirent *e;
	DIR *dir;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		int rc = -errno;
		close(fd);
		return rc;
	}
	while ((e = readdir(dir)) && n < MAX_THREADS) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);

		if (tid <= 0)
			continue;
		if (!GROW(tids, n, cap)) {
			free(tids);
			closedir(dir);
			return -ENOMEM;
		}
		tids[n++] = tid;
	}
	closedir(dir);
	*ret_tids = tids;
	*ret_n = n;
	return 0;
}

/* ---- one thread ---- */

/* A thread that is just ending can't be seized. */
static bool ends(const struct process *p, pid_t tid)
{
	char status[PROCESS_STATUS_BYTES];

	return !process_read_status(p, tid, status) || strstr(status, "State:\tZ") ||
	       strstr(status, "State:\tX");
}

/*
 * exec() waits until the process' other threads have ended, and a traced thread has ended only when
 * its tracer has reaped it. Meanwhile the kernel blocks each PTRACE_SEIZE of a thread of the
 * process: so a tracer that seizes threads one by one waits for the exec, which waits for the
 * tracer (ptrace_attach and de_thread, cred_guard_mutex). A timer's signal breaks that: its handler
 * reaps the threads that have ended, also those that were killed while they were stopped, and the
 * kernel goes on with the call.
 */
#define ENDS_NS 20000000l

static _Thread_local const struct process *seizing_in;

/* The main thread may be a child of pollux: its end is left. */
static void take_ends(int signo)
{
	const int ended = WEXITED | WNOHANG | __WALL | __WNOTHREAD;
	const struct process *p = seizing_in;
	int before = errno;

	(void)signo;
	for (bool more = p != NULL; more;) {
		siginfo_t info = {0};

		more = waitid(P_ALL, 0, &info, ended | WNOWAIT) == 0 && info.si_pid &&
		       info.si_pid != p->pid && process_has_thread(p, info.si_pid) &&
		       waitid(P_PID, (id_t)info.si_pid, &info, ended) == 0;
	}
	errno = before;
}

struct ends_timer {
	timer_t timer;
	bool armed;
	sigset_t before;
};

static void ends_begin(struct ends_timer *t, const struct process *p)
{
	const struct sigaction act = {.sa_handler = take_ends, .sa_flags = SA_RESTART};
	const struct itimerspec every = {{0, ENDS_NS}, {0, ENDS_NS}};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
	sigset_t own;

	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	seizing_in = p;
	sigemptyset(&own);
	sigaddset(&own, SIGRTMIN);
	sigaction(SIGRTMIN, &act, NULL);
	pthread_sigmask(SIG_UNBLOCK, &own, &t->before);
	t->armed = timer_create(CLOCK_MONOTONIC, &event, &t->timer) == 0 &&
		   timer_settime(t->timer, 0, &every, NULL) == 0;
}

static void ends_end(struct ends_timer *t)
{
	if (t->armed)
		timer_delete(t->timer);
	pthread_sigmask(SIG_SETMASK, &t->before, NULL);
	seizing_in = NULL;
}

/*
 * ptrace knows threads by number, and the number of a thread that has ended may be given to one of
 * any process. So it is looked up in the process before, and again when it is seized and can't end
 * unseen. A stranger is let go, which the kernel allows only of a stopped thread; if it doesn't
 * stop the tracer's end does it (-ETIMEDOUT, as in thread_stop). -ESRCH: there is no such thread.
 */
static int seize(const struct process *p, pid_t tid)
{
	struct ends_timer timer;
	int rc, status = 0;

	if (!process_has_thread(p, tid))
		return -ESRCH;
	process_step("seize");
	ends_begin(&timer, p);
	rc = ptrace(PTRACE_SEIZE, tid, 0, 0) < 0 ? -errno : 0;
	ends_end(&timer);
	if (rc < 0)
		return rc == -EPERM && ends(p, tid) ? -ESRCH : rc;
	if (process_has_thread(p, tid))
		return 0;
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	if (thread_wait(tid, STRANGER_TIMEOUT, &status) == -ETIMEDOUT)
		return -ETIMEDOUT;
	if (WIFSTOPPED(status))
		ptrace(PTRACE_DETACH, tid, 0, status >> 16 ? 0L : (long)WSTOPSIG(status));
	return -ESRCH;
}

int thread_stop(const struct process *p, pid_t tid, uint64_t timeout_ns,
		struct stopped_thread *ret_thread)
{
	struct stopped_thread t = {.tid = tid};
	int status, rc = process_is_worker(p, tid) ? -ESRCH : seize(p, tid);

	if (rc < 0)
		return rc;
	process_step("interrupt");
	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) < 0)
		return -errno;
	process_step("wait");
	rc = thread_wait(tid, timeout_ns, &status);
	if (rc < 0)
		return rc == -ECHILD ? -ESRCH : rc;
	note_status(&t, status);
	if (t.state == THREAD_GONE)
		return -ESRCH;
	if (!process_same_memory(p, tid)) {
		thread_resume(&t);
		return -ESRCH;
	}
	*ret_thread = t;
	return 0;
}

void thread_resume(struct stopped_thread *t)
{
	if (t->state == THREAD_GONE)
		return;
	process_step("detach");
	ptrace(PTRACE_DETACH, t->tid, 0, (long)t->signal);
	t->state = THREAD_GONE;
}

/* ---- all threads ---- */

/* `seized` has the tids that are in s. */
static int seize_new(const struct process *p, struct process_stop *s, struct map *seized,
		     size_t *ret_new)
{
	pid_t *tids;
	size_t n, before = s->n;
	int rc = 0;

	TRY(threads_list(p, &tids, &n));
	for (size_t i = 0; i < n; i++) {
		/* The kernel lists threads in the order of their making, so the known ones come at
		 * the same place again: look there first. */
		if (i < before && s->v[i].tid == tids[i])
			continue;
		if (map_get(seized, (uint64_t)tids[i], 0))
			continue;
		if (!GROW(s->v, s->n, s->cap)) {
			rc = -ENOMEM;
			break;
		}
		rc = process_is_worker(p, tids[i]) ? -ESRCH : seize(p, tids[i]);
		if (rc == -ESRCH) {
			rc = 0;
			continue; /* it has ended meanwhile, or is the kernel's */
		}
		if (rc < 0)
			break;
		s->v[s->n++] = (struct stopped_thread){.tid = tids[i], .waiting = true};
		rc = map_put(seized, (uint64_t)tids[i], 0, seized);
		if (rc < 0)
			break;
	}
	free(tids);
	*ret_new = s->n - before;
	return rc;
}

/* Whether it has stopped, or is gone. */
static bool has_stopped(struct stopped_thread *t)
{
	int status;
	pid_t got = look_at(t->tid, &status);

	if (got == t->tid) {
		note_status(t, status);
	} else if (got < 0 && errno == ECHILD) {
		t->waiting = false;
		t->state = THREAD_GONE;
	}
	return !t->waiting;
}

/*
 * -EAGAIN: one of them can't stop now, since it waits for a vfork or a disk. They are waited for in
 * their order: those that stop after the next one cost nothing until it has stopped. In a process
 * of many threads the tracer shares the CPUs with them.
 */
static int interrupt_new(const struct process *p, struct process_stop *s, size_t n_new,
			 uint64_t until_ns)
{
	uint64_t patient_until_ns = clock_monotonic_ns() + PATIENCE;
	size_t next = s->n - n_new;
	int rc = 0;

	for (size_t i = next; i < s->n; i++) {
		process_step("interrupt");
		ptrace(PTRACE_INTERRUPT, s->v[i].tid, 0, 0);
	}
	for (unsigned round = 0; rc == 0; round++) {
		while (next < s->n && has_stopped(&s->v[next]))
			next++;
		if (next == s->n)
			return 0;
		uint64_t now = clock_monotonic_ns();
		if (now > until_ns) {
			rc = -ETIMEDOUT;
		} else if (now > patient_until_ns) {
			if (process_thread_state(p, s->v[next].tid) == 'D')
				rc = -EAGAIN;
			patient_until_ns = now + PATIENCE;
		}
		pause_in_loop(round);
	}
	/* Whatever has stopped is let go by the caller. */
	for (size_t i = next; i < s->n; i++)
		has_stopped(&s->v[i]);
	return rc;
}

static void leave_out_gone(struct process_stop *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].state != THREAD_GONE)
			s->v[n++] = s->v[i];
	s->n = n;
}

/* The others go on until those that could not stop can: each of them is let go as soon as it
 * has. */
static int wait_for_late(struct process_stop *s, uint64_t until_ns)
{
	size_t n_late = s->n;
	int rc = 0;

	for (size_t i = 0; i < s->n; i++)
		if (!s->v[i].waiting)
			thread_resume(&s->v[i]);
	tracer_calm(&s->before);
	s->stop_ns += clock_monotonic_ns() - s->began_ns;
	for (unsigned round = 0; n_late && rc == 0; round++) {
		n_late = 0;
		for (size_t i = 0; i < s->n; i++) {
			struct stopped_thread *t = &s->v[i];

			if (t->waiting && !has_stopped(t))
				n_late++;
			else
				thread_resume(t);
		}
		if (n_late && clock_monotonic_ns() > until_ns)
			rc = -ETIMEDOUT;
		else if (n_late)
			pause_in_loop(round);
	}
	s->n = 0;
	return rc;
}

static int stop_all(const struct process *p, struct process_stop *s, uint64_t until_ns)
{
	_cleanup_(map_done) struct map seized = {0};
	size_t n_new;
	int rc;

	/* The first seizing stops no thread: the clock starts after it. */
	rc = seize_new(p, s, &seized, &n_new);
	tracer_hurry(&s->before);
	s->began_ns = clock_monotonic_ns();
	while (rc == 0 && n_new) {
		rc = interrupt_new(p, s, n_new, until_ns);
		rc = rc < 0 ? rc : seize_new(p, s, &seized, &n_new);
	}
	leave_out_gone(s);
	if (rc < 0)
		return rc;
	/* What exec'ed meanwhile is another program, perhaps with more rights. */
	return s->n && process_same_memory(p, s->v[0].tid) ? 0 : -ESRCH;
}

int threads_stop(const struct process *p, uint64_t timeout_ns, struct process_stop *ret_stop,
		 struct error *err)
{
	uint64_t until_ns = clock_monotonic_ns() + timeout_ns;
	struct process_stop s = {0};
	int rc;

	while ((rc = stop_all(p, &s, until_ns)) == -EAGAIN) {
		rc = wait_for_late(&s, until_ns);
		if (rc < 0) {
			free(s.v);
			goto fail;
		}
	}
	s.stopped_ns = clock_monotonic_ns();
	if (rc == 0) {
		*ret_stop = s;
		return 0;
	}
	threads_resume(&s);
fail:
	if (rc == -EPERM || rc == -EACCES)
		return rights_explain(p->pid, rc, err);
	if (rc == -ETIMEDOUT)
		return error_set(
			err, rc,
			"a thread of process %d did not stop in %llu ms (it may wait for a "
			"vfork or for a disk, or its control group is frozen): try again",
			p->pid, (unsigned long long)(timeout_ns / NSEC_PER_MSEC));
	return error_sys(err, rc, "cannot stop the threads of process %d", p->pid);
}

/* One that was killed meanwhile can't be let go: it remains, dead, until the tracer has taken
 * its end (take_ends) or has ended itself. A tracer ends with the attach or detach that it is
 * for, so that is some ten milliseconds; the one that is kept for a detach has stopped nothing
 * yet. */
void threads_resume(struct process_stop *s)
{
	uint64_t now_ns = clock_monotonic_ns(), end_ns;
	size_t n = s->n;

	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].state == THREAD_GONE || s->v[i].waiting)
			continue;
		assert(s->v[i].tid > 0 && s->v[i].signal >= 0);
		process_step("detach");
		ptrace(PTRACE_DETACH, s->v[i].tid, 0, (long)s->v[i].signal);
	}
	end_ns = clock_monotonic_ns();
	s->stop_ns += end_ns - s->began_ns;
	free(s->v);
	s->v = NULL;
	s->n = s->cap = 0;
	tracer_calm(&s->before);
	log_debug(LOG_ATTACH,
		  "%zu threads: stopped in %.3f ms, did not run for %.3f ms, resumed in %.3f ms", n,
		  (double)(s->stopped_ns - s->began_ns) / 1e6,
		  (double)(now_ns - s->stopped_ns) / 1e6, (double)(end_ns - now_ns) / 1e6);
}

int threads_in_stops(struct process *p,
		     int (*some)(void *arg, const struct process_stop *stopped, uint64_t until_ns,
				 struct error *err),
		     void *arg, uint64_t *stop_ns, struct error *err)
{
	struct process_stop stopped;
	uint64_t longest_ns = 0;
	unsigned n = 0;
	int rc;

	do {
		if (n++)
			clock_sleep(stopped.stop_ns);
		TRY(threads_stop(p, STOP_ALL_TIMEOUT, &stopped, err));
		uint64_t now = clock_monotonic_ns(), took_ns = now - stopped.began_ns;

		p->stopped_tid = stopped.n ? stopped.v[0].tid : 0;
		rc = some(arg, &stopped, now + (took_ns > CHANGE_NS ? took_ns : CHANGE_NS), err);
		p->stopped_tid = 0;
		threads_resume(&stopped);
		*stop_ns += stopped.stop_ns;
		if (stopped.stop_ns > longest_ns)
			longest_ns = stopped.stop_ns;
	} while (rc > 0);
	log_debug(LOG_ATTACH, "code was changed in %u stops, the longest of %.3f ms: %s", n,
		  (double)longest_ns / 1e6, rc < 0 ? strerror(-rc) : "done");
	return rc;
}
