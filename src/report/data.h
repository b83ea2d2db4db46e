/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a report knows, between its collection (report.c) and its two forms (text.c, json.c). */
#pragma once

#include "base/hist.h"
#include "base/map.h"
#include "findings/findings.h"
#include "report/report.h"
#include "trace/labels.h"

/* Calls of one sort, summed up. */
struct call_sum {
	uint16_t call; /* enum trace_call */
	uint64_t n, ns, max_ns;
};

struct call_list {
	struct call_sum *items;
	size_t n;
};

struct family {
	uint32_t kind;
	unsigned role;				    /* enum trace_role */
	uint64_t n_tasks, n_spawned, n_ended[TO_N]; /* [TO_PENDING]: alive */
	uint64_t n_unpolled; /* alive, spawned in the recording, never polled */
	/* of these, those that waited long, and longer than any that was polled; the longest */
	uint64_t n_starved, max_starved_ns;
	uint64_t n_polls, n_wakes, n_stray_wakes;
	uint64_t n_self_wakes, n_deferred_wakes; /* the latter are part of the former */
	uint64_t n_self_polls;			 /* with a self-wake */
	uint64_t n_unmeasured;			 /* polls of which no length is known */
	uint64_t waiting_ns, scheduled_ns, blocked_ns;
	uint64_t max_delay_at_ns;  /* when the longest delay ended, ... */
	bool max_delay_open;	   /* ... or the trace, before it did */
	uint32_t max_delay_thread; /* who ended it */
	uint64_t max_polled_ns;	   /* the longest that a poll ended */
	struct hist poll, delay;
	struct call_list calls; /* blocking ones inside polls that kept a worker */
	/* Where its tasks handle requests, what belongs to which handler: parts[0] to none. They add
	 * up to the family in all that happens in polls and between; the rest of a part is 0. */
	struct family **parts;
	size_t n_parts;
	struct family *last_part;
	/* of a part only */
	uint32_t handler; /* its kind; TRACE_KIND_NONE: none */
	uint64_t n_requests, request_ends[TO_N];
	struct hist latency; /* of those that returned, from the handler's first poll to the last */
};

/* The waits of a family's tasks at one await point, in one handler. */
struct wait_place {
	struct family *family;
	uint32_t handler;	/* TRACE_KIND_NONE: none */
	uint64_t place;		/* 1 + index of a struct trace_place */
	size_t n_resources;	/* that are waited for there, as far as they are known */
	uint16_t resource_type; /* enum trace_resource, of all of them */
	struct hist waits;
};

/* The stack of a poll that took long, the last that was taken. */
struct long_stack {
	uint64_t stack;	   /* index + 1; 0: none */
	uint64_t after_ns; /* since the poll's begin */
	uint32_t n_taken;
	uint8_t type; /* TM_LONG_RUNNING or TM_LONG_BLOCKED */
};

struct long_poll {
	struct tl_poll poll; /* its task pointer is not valid any more */
	struct family *family;
	uint32_t handler; /* TRACE_KIND_NONE: none */
	uint64_t serial, id, number;
	uint64_t preempted_ns; /* ready to run, but without a CPU, where that was recorded */
	struct call_list calls;
	struct long_stack stack;
};

/* What is known of a poll that is still open. */
struct open_poll {
	uint64_t serial; /* of its task */
	uint64_t preempted_ns;
	struct call_list calls;
	struct long_stack stack;
};

struct open_polls {
	struct open_poll *open;
	size_t n;
};

struct json;
struct samples;	      /* samples.c */
struct system;	      /* system.c */
struct still;	      /* still.c */
struct future_sums;   /* futures.c */
struct resource_sums; /* resources.c */

struct report {
	struct trace_reader *reader;
	struct report_options opt;
	struct timeline_totals totals;
	bool filtered;
	uint64_t base_ns, begin_ns, end_ns; /* zero of times; the window */
	uint64_t length_ns;		    /* of the recording, or of the window */

	struct family **families; /* by kind while collecting, then sorted and without holes */
	size_t n_families;
	struct map waits_by_place; /* (kind, place) to struct wait_place, while collecting */
	struct map same_places;	   /* hash of texts to the first place that has them */
	struct wait_place **waits; /* longest in all first */
	size_t n_waits;
	uint64_t n_placed, n_unplaced; /* waits of tasks; n_unplaced: at no known place */
	struct life *lives;	       /* of the tasks that were asked for, see task_history.c */
	size_t n_lives, n_omitted_lives;
	struct tl_thread *threads; /* those that polled, workers first, busiest first */
	size_t n_threads;
	struct long_poll *longest; /* longest first */
	size_t n_longest, cap_longest;
	struct tl_loss *losses; /* one per thread: the sum, from the first to the last */
	size_t n_losses;
	uint64_t n_lost, n_lost_aux;
	struct samples *samples; /* each NULL if the trace has nothing of the kind */
	struct system *system;
	struct still *still; /* NULL: each task had an event */
	struct future_sums *futures;
	struct resource_sums *resources;
	struct findings *findings;
	struct kind_labels labels;     /* made when all is collected */
	char **shorts;		       /* by kind, the same */
	const char **families_by_kind; /* report_family() where that is no label */
	struct map parts;	       /* (kind, handler) to the part of a family */
	bool handlers;		       /* there are any */

	struct open_polls *open; /* by thread, while collecting */
	size_t n_open;
};

/* One thing in a task's life. */
enum step_type { ST_SPAWN = 0, ST_POLL, ST_WAIT, ST_WAKE, ST_END, ST_FUTURE };

struct history_step {
	enum step_type type;
	uint64_t begin_ns, end_ns;
	uint64_t place;	 /* as tl_poll.place */
	uint64_t source; /* ST_SPAWN, ST_WAKE: number of the task that did it, 0: none */
	uint64_t blocked_ns;
	uint64_t waited_ns, future; /* ST_FUTURE: since its poll before; its serial */
	uint32_t source_kind;	    /* ST_FUTURE: its own */
	uint32_t depth;		    /* ST_FUTURE: futures around it */
	uint32_t thread;	    /* UINT32_MAX: not known */
	uint8_t detail;		    /* outcome, enum task_state, or enum trace_wake, by type */
	bool by_waker, inferred, self;
	bool unmeasured; /* ST_POLL, ST_FUTURE: of unknown length */
};

/* The waits of a request at one await point. */
struct request_wait {
	uint64_t place, n, ns;
};

/* A request that a task served: a round, see timeline.h. */
struct request {
	uint64_t serial, begin_ns, end_ns, n_polls, poll_ns, blocked_ns;
	uint32_t handler;
	uint8_t outcome;
	struct request_wait *waits; /* longest first */
	size_t n_waits;
};

struct life {
	uint64_t serial, number, id;
	uint32_t kind;
	struct history_step *steps; /* in order of their begins */
	size_t n_steps, cap_steps, n_omitted;
	struct request *requests; /* in order of their ends, the open ones last */
	size_t n_requests, cap_requests, n_open, n_omitted_requests;
};

/* task_history.c: each does nothing unless tasks were asked for. 0 or -ENOMEM. */
int life_poll(struct report *rep, const struct tl_poll *poll);
int life_wait(struct report *rep, const struct tl_wait *wait);
int life_wake(struct report *rep, const struct tl_wake *wake);
int life_future(struct report *rep, const struct tl_future_poll *poll);
int life_request(struct report *rep, const struct tl_future *future);
int life_task(struct report *rep, const struct tl_task *task, bool ends);
void lives_sort(struct report *rep);
void lives_done(struct report *rep);
void lives_text(const struct report *rep, struct buf *out);
/* findings.c: the section that leads the text, with `most` findings (0: all that matter, and a word where there are none);
 * the arrays of the JSON. */
void findings_text(const struct report *rep, struct buf *out, size_t most);
void findings_json(const struct report *rep, struct json *j);
void lives_json(const struct report *rep, struct json *j);

/* resources.c: what several tasks wait for. 0 or -ENOMEM. */
int resources_wait(struct report *rep, struct wait_place *at, const struct tl_wait *wait);
void resources_sort(struct report *rep);
void resources_done(struct report *rep);
void resources_count_text(struct buf *out, const struct wait_place *at);
void resources_text(const struct report *rep, struct buf *out);
void resources_json(const struct report *rep, struct json *j);

/* waits.c */
void waits_text(const struct report *rep, struct buf *out);

/* json_parts.c */
/* What families and their parts have in common. */
void report_sums_json(const struct family *f, struct json *j);
void report_calls_json(struct json *j, const char *key, const struct call_list *calls);
/* The name of a handler; null: none. */
void report_handler_json(const struct report *rep, struct json *j, uint32_t handler);
/* The place of a wait or poll, in the program's own code; NULL if not known. */
const struct trace_place *report_place(const struct report *rep, uint64_t place);
/* Whether they read the same; NULL: neither is known. */
bool report_same_place(const struct trace_place *a, const struct trace_place *b);
/* The innermost place of it; NULL if that is the same one. */
const struct trace_place *report_leaf(const struct report *rep, uint64_t place);
/* 0 or -ENOMEM. */
int call_add(struct call_list *list, const struct call_sum *more);
/* The longest first. */
void calls_sort(struct call_list *list);
uint64_t family_sort_key(const struct family *f, enum report_sort sort);
/* handlers.c: the part of a family that what belongs to that round counts in; NULL: it has no parts.
 * The first one of a handler begins them, so what is not counted yet counts in both. */
int family_part(struct report *rep, struct family *f, const struct tl_round *round,
		struct family **ret);
void family_parts_done(struct family *f);
int handlers_request(struct report *rep, const struct tl_future *future);
void handlers_sort(struct report *rep);
void handlers_text(const struct report *rep, struct buf *out);
void handlers_json(const struct report *rep, const struct family *f, struct json *j);
/* Whose a sample or a call inside a poll is: TRACE_KIND_NONE, also where handlers are not asked for. */
uint32_t report_handler(const struct report *rep, const struct tl_round *round);
const char *report_short(const struct report *rep, uint32_t kind);

/* The longest poll that kept others waiting, NULL: none. */
const struct long_poll *report_longest_on_worker(const struct report *rep);
const char *family_name(const struct report *rep, const struct family *f);
/* For a text: distinct from other kinds of the same name. */
const char *report_label(const struct report *rep, uint32_t kind);
/* What all texts call the family of a kind: its label, or "axum connection". */
const char *report_family(const struct report *rep, uint32_t kind);
/* Whether a panic of a task of that kind can be distinguished from being ready. */
bool report_sees_panics(const struct report *rep, uint32_t kind);
/* The same of all tasks that are counted in report_sum(). */
bool report_sees_all_panics(const struct report *rep);
/* Whether a task whose spawn isn't in the trace must be from before it. */
bool report_sees_all_spawns(const struct report *rep);
/* Sums over the families of role task and blocking. */
struct family report_sum(const struct report *rep);
uint64_t report_busy_ns(const struct report *rep);
void cpu_use_json(const struct report *rep, struct json *j);
/* CPU time of the processes while they were recorded; 0 if not known. */
uint64_t cpu_used_ns(const struct report *rep);
/* 0 to 1: an estimate may be larger than all of it. */
double cpu_share(uint64_t part_ns, uint64_t whole_ns);
