/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whether each word of a filter matches something of a trace: a word that doesn't is a slip, and
 * the user is to know what there is instead. */
#pragma once

#include "base/map.h"
#include "timeline/fan_out.h"
#include "timeline/replay.h"

struct match {
	struct trace_reader *reader;
	const struct replay_filter *filter;
	struct map kinds;		   /* of the tasks that were there */
	struct map tasks;		   /* those of the filter that were there, by number */
	uint64_t n_tasks, lowest, highest; /* of those with a number */
	uint64_t n_wanted;
};

/* Whether a kind's name contains one of the words, also after the object that reports put before it;
 * of a handler, the name of the program's function. */
bool match_kind(const char *const *list, struct trace_reader *r, const struct trace_kind *k);
/* Whether one of the words is this number. */
bool match_number(const char *const *list, uint64_t number);
/* The same of a thread's name; or one of the words is its tid. */
bool match_thread(const char *const *list, const struct trace_thread *t);

void match_done(struct match *m);
/* Of each task once; `wanted`: it passes the filter. -ENOMEM or 0. */
int match_note(struct match *m, const struct tl_task *task, bool wanted);
/* Of each kind of handler that a task has served, once. */
int match_note_handler(struct match *m, uint32_t kind, bool wanted);
/* A sink that notes all that it sees, of a replay without a filter. */
struct fan_out_sink match_sink(struct match *m);
/* At the end of a trace of this length. 0, or -ENOENT with a sentence. */
int match_check(const struct match *m, uint64_t length_ns, struct error *err);
