/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Why a recording has nothing, and what to do: the program that was started has no runtime, or one
 * that pollux does not know; a process below it has one.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/own_command.h"
#include "base/text.h"
#include "cli/recording.h"
#include "process/maps.h"
#include "process/objects.h"
#include "process/process.h"
#include "process/find_processes.h"
#include "runtime/scan_cache.h"

#include <signal.h>
#include <string.h>

#define MAX_LOOKED_AT 32u

/* Of the files only: the process is not touched. */
static bool has_tasks(pid_t pid)
{
	struct process p = PROCESS_INIT;
	struct process_maps maps = {0};
	struct process_objects objects = {0};
	bool found = false;

	if (process_open(pid, &p, NULL) < 0)
		return false;
	if (maps_read(&p, &maps, NULL) == 0 && objects_read(&p, &maps, &objects, NULL) == 0) {
		for (size_t i = 0; i < objects.n && !found; i++) {
			struct runtime_scan f = {0};

			if (objects.v[i].image && scan_cache_get(objects.v[i].image, &f, NULL) == 0)
				found = f.n_kinds > 0;
			runtime_scan_done(&f);
		}
	}
	objects_done(&objects);
	maps_done(&maps);
	process_close(&p);
	return found;
}

static void add_program(struct buf *b, pid_t pid)
{
	_cleanup_free_ char *exe = process_exe(pid);
	const char *slash = exe ? strrchr(exe, '/') : NULL;

	text_safe(b, slash ? slash + 1 : "?");
}

/* The processes below the one that was started that have what it lacks. */
static size_t add_children(struct buf *b, pid_t child)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0, n_found = 0;

	if (child <= 0 || processes_below(child, &pids, &n) < 0)
		return 0;
	for (size_t i = 0; i < n && i < MAX_LOOKED_AT; i++) {
		if (!has_tasks(pids[i]))
			continue;
		buf_str(b, n_found++ ? ", " : "; below it ");
		add_program(b, pids[i]);
		buf_printf(b, " (process %d) has one: %s record %d", pids[i], own_command(),
			   pids[i]);
	}
	return n_found;
}

static void say(const struct buf *b)
{
	cli_complain(buf_failed(b) ? "nothing was recorded" : b->data);
}

/* A process that still runs is looked at itself; of another one only a trace knows. */
static void add_tree(struct buf *b, const struct recording *rec, const struct capture_stats *stats,
		     const char *path)
{
	bool moments = stats->moments[MOMENT_START].n_tasks || stats->moments[MOMENT_END].n_tasks;

	if (path && moments && strcmp(path, "-") != 0) {
		buf_printf(b, " %s tree ", own_command());
		text_shell_word(b, path);
		buf_str(b, " shows where its tasks waited");
	} else if (rec->capture.n_pids == 1 && stats->exit_status < 0 &&
		   kill(rec->pids[0], 0) == 0) {
		buf_printf(b, " %s tree %d shows where its tasks wait", own_command(),
			   rec->pids[0]);
	}
}

void recording_say_empty(const struct recording *rec, const struct capture_stats *stats,
			 const char *path)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	if (stats->n_processes) {
		buf_str(&b, "no task ran while it was recorded: is there load?");
		add_tree(&b, rec, stats, path);
		return say(&b);
	}
	buf_str(&b, "nothing was recorded of ");
	buf_str(&b, rec->name);
	buf_str(&b, ": ");
	buf_str(&b, *stats->why_empty.text ? stats->why_empty.text
					   : "it ended before pollux could look at it");
	if (!add_children(&b, stats->child) && rec->capture.argv)
		buf_printf(
			&b,
			"; if it starts another program that has one, record that: %s record PID",
			own_command());
	say(&b);
}
