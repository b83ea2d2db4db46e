/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a rule is, and what all rules share. Private to this module. */
#pragma once

#include "base/buf.h"
#include "base/map.h"
#include "base/text.h"
#include "base/units.h"
#include "findings/findings.h"
#include "findings/long_waits.h"
#include "findings/poll_notes.h"
#include "moment/graph.h"
#include "timeline/live.h"
#include "trace/waits_for.h"

struct rule_moment;

/* A rule's state begins with it. */
struct rule_state {
	struct findings *all;
	const struct finding_rule *rule;
	enum finding_verdict verdict;
	const char *reason;
};

struct finding_rule {
	const char *name, *title;
	const char *advice;		  /* of its findings that have no other */
	bool stays;			  /* as in struct finding */
	const struct timeline_sink *sink; /* its context is the state; NULL: it needs no items */
	size_t state_bytes;		  /* zeroed at first */
	/* After the replay, all shared facts are known: once, or once for each moment that the trace
	 * has (and not at all where it has none). 0 or -ENOMEM. */
	int (*judge)(struct rule_state *st);
	int (*judge_moment)(struct rule_state *st, const struct rule_moment *rm);
	bool needs_events;		     /* lost or filtered ones might be what it is about */
	void (*done)(struct rule_state *st); /* NULL: nothing to release */
};

/* quality.c */
extern const struct finding_rule rule_events_lost, rule_samples_lost, rule_short,
	rule_spawns_unseen;
/* cpu.c */
extern const struct finding_rule rule_throttled, rule_no_cpu;
/* polls.c */
extern const struct finding_rule rule_open_poll, rule_long_polls, rule_blocking_calls;
/* wakes.c */
extern const struct finding_rule rule_herd;
/* busy.c */
extern const struct finding_rule rule_busy, rule_spin;
/* workers.c */
extern const struct finding_rule rule_driver, rule_lifo_slot, rule_imbalance, rule_nothing_polled;
/* delays.c */
extern const struct finding_rule rule_delay, rule_never_polled, rule_queue_depth;
/* moments.c */
extern const struct finding_rule rule_deadlock, rule_lost_task, rule_stuck_poll, rule_pool_stuck,
	rule_overdue, rule_kept, rule_descriptors;
/* calls.c */
extern const struct finding_rule rule_failing_calls;
/* held.c */
extern const struct finding_rule rule_read_twice, rule_guard, rule_held_future, rule_semaphore,
	rule_runtime_drop, rule_idle_waits;
/* channels.c: whether it is a send into a channel; what such a place waits for is room, but by a semaphore. */
bool place_is_send(const struct rule_state *st, uint64_t place);
extern const struct finding_rule rule_channel, rule_full_channel, rule_overtaken, rule_unserved;
/* sizes.c */
extern const struct finding_rule rule_large_future, rule_boxed_future;
/* requests.c */
extern const struct finding_rule rule_slow_requests;
/* pool.c */
extern const struct finding_rule rule_pool_full, rule_chatty_pool, rule_in_place;
/* waits.c */
extern const struct finding_rule rule_no_progress, rule_convoy;
/* tasks.c */
extern const struct finding_rule rule_panicked, rule_growth, rule_cancelled;
/* futures.c */
extern const struct finding_rule rule_dropped;

/* ---- facts that the rules share, known when they judge ---- */

/* A process's moment of the end, or else of the start, and who waits for whom there. */
struct rule_moment {
	struct trace_moment m;
	struct graph graph;
	uint32_t *kinds; /* by task: the kind in the trace, TRACE_KIND_NONE: it has none */
};

struct findings_facts {
	struct trace_reader *reader;
	struct findings_scope scope;
	struct tl_thread *threads; /* all that were seen */
	size_t n_threads, cap_threads;
	struct map workers;	     /* by number, those of them that are */
	uint64_t worker_ns, busy_ns; /* of the workers */
	uint32_t n_workers;
	uint64_t n_lost;
	struct poll_notes notes;
	struct poll_note note; /* of the poll that rules get */
	struct wait_notes waits;
	struct rule_moment *moments;
	size_t n_moments;
};

const struct findings_facts *rule_facts(const struct rule_state *st);
/* What another rule has collected. */
const struct rule_state *rule_state_of(const struct rule_state *st,
				       const struct finding_rule *rule);
bool rule_is_worker(const struct rule_state *st, uint32_t thread);
/* How many of these are. */
uint32_t rule_count_workers(const struct rule_state *st, const uint32_t *threads, size_t n);
/* For how long the threads of a thread's process, or of a process, were ready and had no CPU, or were throttled, all
 * together, where that is much; else 0. */
uint64_t rule_cpu_lacked_ns(const struct rule_state *st, uint32_t thread);
uint64_t rule_process_lacked_ns(const struct rule_state *st, uint32_t process);
/* For how long the threads of a thread's process were ready and had no CPU, however short that is; UINT64_MAX: the
 * trace is cut off before what says so. */
uint64_t rule_run_delay_ns(const struct rule_state *st, uint32_t thread);
/* Whether that of any process lacked. */
bool rule_any_cpu_is_short(const struct rule_state *st);

/* What the timeline knows of it when the recording ends. NULL: the timeline knows none of that name. */
const struct live_task *rule_live(const struct rule_state *st, const struct rule_moment *rm,
				  const struct moment_task *t);
/* Whether it is alive and had no event in the whole recording. */
bool rule_is_quiet(const struct rule_state *st, const struct rule_moment *rm,
		   const struct moment_task *t);

/* For how long it has been in the state of the moment; 0: not known. */
uint64_t rule_waited_ns(const struct rule_state *st, const struct rule_moment *rm,
			const struct moment_task *t);

/* Until when there are events before its moment: on a busy machine it is taken long after the last one. */
uint64_t rule_seen_until_ns(const struct rule_state *st, const struct rule_moment *rm);

/* A wake by its serial, where it is not too long ago; NULL. */
struct recent_wake {
	uint64_t serial, source; /* source: serial of the task in whose poll it fired; 0: none */
	uint32_t thread, source_kind;
};
const struct recent_wake *rule_wake(const struct rule_state *st, uint64_t serial);

/* ---- results ---- */

/* A finding of this rule, whose text the caller writes; NULL: out of memory, which findings_judge()
 * gives back. */
struct finding_draft {
	struct finding f;
	struct buf text;
};
struct finding_draft *rule_finds(struct rule_state *st, unsigned score);
/* Of a rule that may find many: the worst ones. */
#define MOST_FINDINGS 3
/* What it is about: a stretch of time, which begins when to look at it; a thread; a task, by its
 * serial and number, none if the serial is 0. Threads and tasks add up, each once. */
void finding_spans(struct finding_draft *d, uint64_t from_ns, uint64_t to_ns);
void finding_on(struct finding_draft *d, uint32_t thread);
void finding_of(struct finding_draft *d, uint64_t serial, uint64_t number);
/* A task of a moment, its family and its process, and the thread on which it runs. */
void finding_of_moment(struct finding_draft *d, const struct rule_state *st,
		       const struct rule_moment *rm, const struct moment_task *t);
void finding_of_moment_thread(struct finding_draft *d, const struct rule_state *st,
			      const struct rule_moment *rm, const struct moment_thread *t);
/* Whether a rule that has judged before, this one or any, has a finding of that family. */
bool rule_has_found(const struct rule_state *st, const struct finding_rule *rule, uint32_t kind);
bool rule_has_found_any(const struct rule_state *st, uint32_t kind);
/* `reason` continues "not applicable, because ...". */
int rule_skips(struct rule_state *st, const char *reason);
/* Skips with the reason, true, where events are missing that the rule needs. */
bool rule_lacks_events(struct rule_state *st);
/* `base` and up to `more`, as `part` of `whole` comes near to `full_share`. */
unsigned finding_score(unsigned base, unsigned more, uint64_t part, uint64_t whole,
		       double full_share);

/* ---- words ---- */

void say_family(const struct rule_state *st, struct buf *out, uint32_t kind);
/* "axum connection › order": `handler` as in struct finding. */
void say_handler(const struct rule_state *st, struct buf *out, uint32_t kind, uint32_t handler);
static inline uint32_t round_handler(const struct tl_round *round)
{
	return round->serial ? round->kind : TRACE_KIND_NONE;
}
void say_thread(const struct rule_state *st, struct buf *out, uint32_t thread);
/* "1 poll", "3 polls" */
void say_count(struct buf *out, uint64_t n, const char *one, const char *many);
/* "12.0 to 135 ms", or one of them if they read the same. */
void say_range(struct buf *out, uint64_t min_ns, uint64_t max_ns);
/* Since the zero of times. */
void say_time(const struct rule_state *st, struct buf *out, uint64_t time_ns);
/* "src/main.rs:15 app::serve"; false, and nothing, where it is not known. */
bool say_place(const struct rule_state *st, struct buf *out, uint64_t place);
/* The innermost frame of a stack that is the program's own, else the innermost that is Rust. */
bool say_stack(const struct rule_state *st, struct buf *out, uint64_t stack);
/* moments.c: "task 12 app::serve" */
void say_moment_task(struct buf *out, const struct moment_task *t);
/* " at src/main.rs:12 app::serve" */
void say_at(struct buf *out, const char *file, uint32_t line, const char *function);
/* The same without " at ", as say_stack() writes it. */
void say_line(struct buf *out, const char *file, uint32_t line, const char *function);
/* "futex, at src/main.rs:12 app::flush" of what a thread does; false: it is in no system call. */
bool say_call(struct buf *out, const struct moment_thread *t);
/* polls.c: of a thread that waits for a lock when the recording ends: that others have it meanwhile, in a call at
 * the same line. Then they are the cause: their finding scores more. false: no others are seen. */
bool rule_say_has_lock(const struct rule_state *st, struct finding_draft *d,
		       const struct moment_thread *t);
/* "; 2 other threads are in such polls, too" */
void say_others_too(struct buf *out, uint64_t n);
/* held.c: the leaf for which alone a task waits, *n_leaves is 0 at first; NULL: there is none, or several. */
const struct await_node *only_leaf(const struct await_node *n, size_t *n_leaves);
/* What other tasks give, and should some time: no sockets, timers, messages. */
bool is_given_by_tasks(enum await_wait wait);
/* From when the last of these tasks came into its state, up to the moment. */
void finding_spans_since(struct finding_draft *d, const struct rule_state *st,
			 const struct rule_moment *rm, const size_t *tasks, size_t n);
/* The same for all places that read the same: they differ in what is around the program's own code.
 * 0: out of memory. */
uint64_t same_place(const struct rule_state *st, uint64_t place);
/* What the program's own code awaits there: "tokio::sync::mutex::lock", "" if not known. */
const char *place_awaits(const struct rule_state *st, uint64_t place);
/* Whether that, or what it awaits itself down to the innermost link, has the part in its name. */
bool place_awaits_a(const struct rule_state *st, uint64_t place, const char *part);
/* As trace_place_waits_for(). */
enum wait_for place_waits_for(const struct rule_state *st, uint64_t place);
