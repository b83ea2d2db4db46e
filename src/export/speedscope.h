/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The internals of Speedscope's format, shared by its files: speedscope.c (slices of threads and
 * tasks onto stacks, the file) and speedscope_inside.c (what is inside polls, samples).
 */
#pragma once

#include "export/export.h"
#include "export/lanes.h"
#include "export/out.h"
#include "export/limits.h"
#include "export/short_names.h"
#include "export/spill.h"
#include "timeline/pool.h"

/* Frames: parts of one list. Those of futures, system calls, times off the CPU and functions on
 * stacks are made at first use, after all others. */
enum {
	FRAME_POLL,
	FRAME_WAITING,
	FRAME_SCHEDULED,
	FRAME_UNKNOWN,
	FRAME_SECTION,
	FRAME_LOST,
	FRAME_UNSEEN, /* in a poll that lasted at least this time */
	FRAME_N_STATES
};
#define MAX_CALLS 256u			      /* more than trace_call_name() knows */
#define FRAME_BLOCK FRAME_N_STATES	      /* + call: blocked in it */
#define FRAME_PARK (FRAME_BLOCK + MAX_CALLS)  /* + call: parked in it */
#define FRAME_FAMILY (FRAME_PARK + MAX_CALLS) /* + index of the family */
#define MAX_FRAMES 512u			      /* of a stack */
#define FRAME_MADE (1ull << 40)		      /* + number in the order of making */

/* By what a made frame is found again. */
enum made { MADE_FUTURE = 1, MADE_CALL, MADE_OFF, MADE_FUNCTION, MADE_PLACE };

/* The weight of one stack in a profile of samples. */
struct sampled {
	uint32_t profile; /* index + 1; 0: that of all tasks */
	uint32_t kind;	  /* there: of the task */
	uint32_t handler; /* and of its request's handler + 1; 0: none */
	unsigned type;	  /* enum trace_sample */
	uint64_t stack, weight;
};

struct slice {
	uint64_t begin_ns, end_ns;
	uint64_t frame;
};

/* An open or a close. */
struct edge {
	uint64_t at_ns;
	uint64_t frame_close; /* frame << 1 | 1 for a close */
};

struct speedscope_profile {
	char *name;
	struct spill slices;
	bool worker;
	uint64_t busy_ns; /* in polls */
};

/* How long the tasks of a family waited at an await point. */
struct speedscope_wait {
	uint64_t family_frame, place, frame, ns;
};

struct speedscope {
	struct trace_reader *reader;
	struct export_scope sel;
	struct out out;
	struct pool tasks;
	struct short_names names;
	struct spill_file file;
	struct speedscope_profile *profiles; /* threads in order of rank, then tasks */
	size_t n_profiles, n_thread_profiles;
	uint32_t *thread_profile;	/* by thread: index + 1, 0 if not shown */
	bool calls_seen[2 * MAX_CALLS]; /* from FRAME_BLOCK on */
	bool any_unseen;		/* FRAME_UNSEEN is in use */
	uint32_t *frame_places;		/* by frame: its index in the file's list */
	struct map numbers;		/* (enum made, number) or two hashes to its number + 1 */
	struct buf made_names;		/* JSON of the made frames */
	size_t n_made, made_place;	/* place of the first */
	struct map waits;		/* (family's frame, place) to struct speedscope_wait */
	struct speedscope_wait **wait_sums; /* in that order, when all were read */
	struct map by_stack;		    /* to struct sampled */
	struct sampled **sampled;	    /* in the order of profiles */
	size_t n_sampled;
	uint64_t n_slices;
};

struct speedscope_task {
	struct lane_slot placed;
	struct speedscope_profile *profile; /* NULL if not shown */
	uint64_t family_frame;
	struct tl_sample long_sample; /* the last of its open poll; stack 0: none */
};

/* The profile of a thread, NULL if it isn't shown. */
struct speedscope_profile *speedscope_thread(struct speedscope *s, uint32_t thread);
/* What the timeline's task is here; NULL when out of memory. */
struct speedscope_task *speedscope_task(struct speedscope *s, struct tl_task *task);
/* A slice in a poll: onto the profiles of its thread and of its task. */
int speedscope_push(struct speedscope *s, struct tl_task *task, uint32_t thread, uint64_t frame,
		    uint64_t begin_ns, uint64_t end_ns);
/* The index of a frame in the file's list. */
uint64_t speedscope_place(const struct speedscope *s, uint64_t frame);

/* speedscope_inside.c, as callbacks of the timeline */
int speedscope_syscall(void *ctx, const struct tl_syscall *call);
int speedscope_off_cpu(void *ctx, const struct tl_off_cpu *off);
int speedscope_sample(void *ctx, const struct tl_sample *sample);
int speedscope_future_poll(void *ctx, const struct tl_future_poll *poll);
/* The poll is over: its stack, if it was sampled as a long one. */
int speedscope_long_poll(struct speedscope *s, struct speedscope_task *t,
			 const struct tl_poll *poll);
/* The frame of an await point; of a request. */
uint64_t speedscope_place_frame(struct speedscope *s, uint64_t place);
uint64_t speedscope_handler_frame(struct speedscope *s, uint32_t kind);
/* Puts the samples in order and makes the frames of their functions, before the list is written. */
int speedscope_order_samples(struct speedscope *s);
int speedscope_write_samples(struct speedscope *s);
void speedscope_samples_done(struct speedscope *s);
