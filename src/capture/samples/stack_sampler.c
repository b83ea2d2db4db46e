/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Taking a thread's stack.
 *
 * A thread that sleeps needs not be stopped: /proc/PID/task/TID/syscall has its position, its
 * memory can be read, and if it is still there afterwards, on the same stack with the same
 * arguments, what was read was its stack. (It may have come back to the very same call in between:
 * then it is its stack as well.) rbp is not known: the walk finds it by what functions push, and
 * the first that saved it brings it back.
 *
 * A thread that runs is stopped by ptrace, for the time of reading registers and some memory, 20 to
 * 100 us; unless another process traces it. The stop happens on a tracer's thread
 * (process/threads.h), whose end lets go of a thread that does not stop in time.
 */
#include "capture/samples/stack_sampler.h"

#include "arch/regs.h"
#include "base/clock.h"
#include "base/file_map.h"
#include "base/units.h"
#include "process/threads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STOP_TIMEOUT_NS (20 * NSEC_PER_MSEC)
#define TRIES 3u

struct stack_sampler {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool ending;
	struct sampler_job *asked, **asked_end;
	struct sampler_job *answered, **answered_end;
	/* its thread's */
	struct tracer *tracer;
	uint64_t stop_ns;
};

void sampler_job_free(struct sampler_job *job)
{
	if (job)
		free(job->stack);
	free(job);
}

/* As much as there is, which may be less than asked for at the stack's end. */
static size_t read_stack(const struct process *p, uint64_t sp, uint8_t *out, size_t size)
{
	ssize_t n = pread(p->mem_fd, out, size, (off_t)sp);

	return n < 0 ? 0 : (size_t)n;
}

static void refuse(struct sampler_job *job, const char *why)
{
	job->taken = TAKEN_NOT;
	job->reason = why;
}

/* Where a thread sleeps: "NR ARG... SP PC", "-1 SP PC"; false: it runs, or may not be asked. */
static bool parse_place(const char *text, uint64_t *ret_sp, uint64_t *ret_pc)
{
	const char *last = strrchr(text, ' '), *before = last;

	if (!last || text[0] == 'r')
		return false;
	while (before > text && before[-1] != ' ')
		before--;
	*ret_sp = strtoull(before, NULL, 16);
	*ret_pc = strtoull(last, NULL, 16);
	return *ret_sp && *ret_pc;
}

static bool take_sleeping(struct sampler_job *job)
{
	char name[48], before[256], after[256];

	snprintf(name, sizeof(name), "task/%d/syscall", job->tid);
	for (unsigned i = 0; i < TRIES; i++) {
		if (process_read_file(job->process, name, before, sizeof(before)) <= 0 ||
		    !parse_place(before, &job->sp, &job->ip))
			return false;
		job->time_ns = clock_monotonic_ns();
		job->stack_bytes = read_stack(job->process, job->sp, job->stack, TAKER_STACK_BYTES);
		if (job->stack_bytes &&
		    process_read_file(job->process, name, after, sizeof(after)) > 0 &&
		    !strcmp(before, after)) {
			job->taken = TAKEN_BLOCKED;
			return true;
		}
	}
	return false;
}

struct stop {
	struct sampler_job *job;
	uint64_t stop_ns;
};

/* On the tracer. */
static int stop_and_take(void *arg)
{
	struct stop *s = arg;
	struct sampler_job *job = s->job;
	struct tracer_priority before;
	struct arch_regs regs;
	struct stopped_thread t;
	uint64_t began;
	int rc;

	tracer_hurry(&before);
	began = clock_monotonic_ns();
	rc = thread_stop(job->process, job->tid, STOP_TIMEOUT_NS, &t);
	if (rc == 0) {
		job->time_ns = clock_monotonic_ns();
		rc = arch_regs_read(job->tid, &regs) < 0 ? -errno : 0;
		if (rc == 0) {
			job->ip = regs.pc;
			job->sp = regs.sp;
			job->bp = regs.fp;
			job->stack_bytes =
				read_stack(job->process, regs.sp, job->stack, TAKER_STACK_BYTES);
		}
		thread_resume(&t);
		s->stop_ns += clock_monotonic_ns() - began;
	}
	tracer_calm(&before);
	return rc;
}

static bool traced_by_other(const struct sampler_job *job)
{
	char status[PROCESS_STATUS_BYTES];

	return !process_read_status(job->process, job->tid, status) ||
	       process_status_number(status, "TracerPid", false) > 0;
}

static void take_running(struct stack_sampler *t, struct sampler_job *job)
{
	struct stop stop = {.job = job};
	int rc;

	if (!job->may_stop) {
		job->taken = TAKEN_RUNS;
		return;
	}
	if (traced_by_other(job)) {
		refuse(job, "is traced by another process, or gone");
		return;
	}
	if (!t->tracer && tracer_start(&t->tracer, NULL) < 0) {
		refuse(job, "no thread could be made for it");
		return;
	}
	rc = tracer_call(t->tracer, stop_and_take, &stop);
	t->stop_ns += stop.stop_ns;
	if (rc < 0) {
		/* Its end lets go of a thread that has not stopped. */
		tracer_end(t->tracer);
		t->tracer = NULL;
		refuse(job, rc == -ESRCH       ? "ended"
			    : rc == -ETIMEDOUT ? "did not stop in time"
					       : "may not be stopped");
		return;
	}
	job->taken = TAKEN_RUNNING;
}

static void *sampler_main(void *arg)
{
	struct stack_sampler *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->ending) {
		struct sampler_job *job = t->asked;

		if (!job) {
			pthread_cond_wait(&t->wake, &t->lock);
			continue;
		}
		t->asked = job->next;
		if (!t->asked)
			t->asked_end = &t->asked;
		pthread_mutex_unlock(&t->lock);
		job->next = NULL;
		job->stack = malloc(TAKER_STACK_BYTES);
		if (!job->stack)
			refuse(job, "there was no memory");
		else if (!take_sleeping(job))
			take_running(t, job);
		pthread_mutex_lock(&t->lock);
		*t->answered_end = job;
		t->answered_end = &job->next;
	}
	pthread_mutex_unlock(&t->lock);
	tracer_end(t->tracer);
	return NULL;
}

int stack_sampler_new(struct stack_sampler **ret_sampler, struct error *err)
{
	struct stack_sampler *t = calloc(1, sizeof(*t));
	sigset_t old;
	int rc;

	if (!t)
		return error_sys(err, -ENOMEM, "cannot watch polls");
	t->asked_end = &t->asked;
	t->answered_end = &t->answered;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->wake, NULL);
	/* Signals are the main thread's business. */
	file_map_block_signals(&old);
	rc = pthread_create(&t->thread, NULL, sampler_main, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		free(t);
		return error_sys(err, -rc, "cannot watch polls");
	}
	*ret_sampler = t;
	return 0;
}

static void free_jobs(struct sampler_job *job)
{
	for (struct sampler_job *next; job; job = next) {
		next = job->next;
		sampler_job_free(job);
	}
}

void stack_sampler_free(struct stack_sampler *t, uint64_t *ret_stop_ns)
{
	pthread_mutex_lock(&t->lock);
	t->ending = true;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	*ret_stop_ns = t->stop_ns;
	free_jobs(t->asked);
	free_jobs(t->answered);
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->wake);
	free(t);
}

void stack_sampler_submit(struct stack_sampler *t, struct sampler_job *job)
{
	job->next = NULL;
	pthread_mutex_lock(&t->lock);
	*t->asked_end = job;
	t->asked_end = &job->next;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
}

struct sampler_job *stack_sampler_poll(struct stack_sampler *t)
{
	struct sampler_job *job;

	pthread_mutex_lock(&t->lock);
	job = t->answered;
	if (job) {
		t->answered = job->next;
		if (!t->answered)
			t->answered_end = &t->answered;
		job->next = NULL;
	}
	pthread_mutex_unlock(&t->lock);
	return job;
}
