/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stacks of single threads, taken from outside on a separate thread, since it may take a while: the
 * recorder submits a job, and polls for the answer.
 */
#pragma once

#include "base/error.h"
#include "process/process.h"

#include <stdbool.h>
#include <stdint.h>

#define TAKER_STACK_BYTES (64u << 10)

enum taken {
	TAKEN_BLOCKED = 0, /* read while it slept: its rbp isn't known */
	TAKEN_RUNNING,	   /* stopped for a moment */
	TAKEN_RUNS,	   /* it runs, and was not to be stopped */
	TAKEN_NOT,	   /* `why` says it */
};

struct sampler_job {
	/* the asker's */
	const struct process *process; /* stays until the answer is there */
	pid_t tid;
	bool may_stop;
	void *user;
	uint64_t number, begin_ns; /* of the poll */
	/* the answer */
	enum taken taken;
	const char *reason;
	uint64_t time_ns; /* when it was like that */
	uint64_t ip, sp, bp;
	uint8_t *stack; /* from sp on; the asker frees it with the job, see sampler_job_free() */
	size_t stack_bytes;
	struct sampler_job *next;
};
void sampler_job_free(struct sampler_job *job);

struct stack_sampler;
int stack_sampler_new(struct stack_sampler **ret_sampler, struct error *err);
/* Finishes the current job; jobs not yet begun are dropped, answers too. *ret_stop_ns: how long
 * threads were stopped, in total. */
void stack_sampler_free(struct stack_sampler *t, uint64_t *ret_stop_ns);
/* Takes the job over. */
void stack_sampler_submit(struct stack_sampler *t, struct sampler_job *job);
/* The next answer, the asker's again; NULL: there is none now. */
struct sampler_job *stack_sampler_poll(struct stack_sampler *t);
