/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The options by which verbs choose a part of a trace: times, families, tasks, threads. */
#pragma once

#include "cli/cli.h"
#include "timeline/replay.h"

/* Rows of a verb's table of options. */
/* clang-format off */
#define FILTER_OPTIONS \
	{0, "from", "TIME", "start at TIME after the first event (2.5s, 300ms)", false}, \
	{0, "to", "TIME", "stop at TIME after the first event", false}, \
	{0, "family", "TEXT", "only families, and handlers of requests, whose name contains TEXT", true}, \
	{0, "task", "TASK", "only this task, by its number in the report", true}, \
	{0, "thread", "THREAD", "only what ran on this thread, by tid or part of its name", true}
/* clang-format on */

/* 0, or what the verb returns after wrong use. */
int filter_parse(const struct cli_args *args, struct replay_filter *ret);
/* --task of all verbs: numbers; NULL without it. */
int filter_tasks(const struct cli_args *args, const char *const **ret);
/* One option that is a time; *ret stays as it is without it. */
int filter_time(const struct cli_args *args, const char *name, uint64_t *ret);
