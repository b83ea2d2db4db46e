/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The known probes: who carries them, what their arguments are. The numbers and orders of arguments
 * are all that distinguishes providers that share names, so a row is found by both.
 *
 * From the sources of crepererum/tokio (branch crepererum/probes, and pull request 5352 of Tokio),
 * oxidecomputer/tokio-dtrace 0.1.0 and 0.1.1, Tokio's pull request 7717, and skade/async-std
 * (branch tracing-new-scheduler).
 */
#include "runtime/providers.h"

#include "binary/machine.h"
#include "binary/elf/probes.h"

#include <ctype.h>
#include <string.h>

#define T2C "Tokio2Chrome's Tokio, pull request 5352"
#define HOOKS "tokio-dtrace, pollux-probes"
#define HOOKS_ID "tokio-dtrace 0.1.0, Tokio's pull request 7717"
#define HOOKS_OLD "tokio-dtrace 0.1.0"
#define PR7717 "Tokio's pull request 7717"
#define ASYNC_STD "async-std of 2019 with `tracing`"

/* What the arguments are says how many there are. */
#define ROW(provider, name, symbol, source, make, what, means, ...)                                \
	{                                                                                          \
		provider, name, source, means, symbol, make, what,                                 \
			sizeof((uint8_t[]){0, __VA_ARGS__}) - 1,                                   \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
#define CHROME(name, ...) ROW("tokio", name, NULL, T2C, PM_TOKIO2CHROME, __VA_ARGS__)
#define HOOK(name, source, ...) ROW("tokio", name, NULL, source, PM_HOOKS, __VA_ARGS__)
#define CALL(name, ...)                                                                            \
	ROW("async_std", name, "async_std_" name, ASYNC_STD, PM_ASYNC_STD, __VA_ARGS__)

static const struct provider_probe rows[] = {
	CHROME("task_start", PW_SPAWN, "a task is made; also a blocking task or a worker's loop",
	       PV_TASK),
	CHROME("task_schedule_start", PW_SCHEDULE, "a task is put into a run queue", PV_TASK),
	CHROME("task_poll_begin", PW_POLL_BEGIN, "a poll begins", PV_TASK),
	CHROME("task_poll_end", PW_POLL_END_TOLD, "a poll ends: ready, pending or panicked",
	       PV_TASK, PV_READY, PV_PANICKED),
	CHROME("task_poll_end", PW_POLL_END_TOLD, "a poll ends: ready or pending", PV_TASK,
	       PV_READY),
	CHROME("task_finish", PW_FINISH, "a task's future or output is dropped: it has ended",
	       PV_TASK),
	CHROME("task_blocking_begin", PW_BLOCKING_BEGIN,
	       "the poll is a blocking task's or a worker's loop"),
	CHROME("task_blocking_end", PW_BLOCKING_END, "the closure of a blocking task returns"),
	HOOK("task-spawn", HOOKS, PW_SPAWN, "a task is spawned at file:line:column", PV_TASK,
	     PV_FILE, PV_LINE, PV_COLUMN),
	HOOK("task-poll-start", HOOKS, PW_POLL_BEGIN, "a poll begins", PV_TASK, PV_FILE, PV_LINE,
	     PV_COLUMN),
	HOOK("task-poll-end", HOOKS, PW_POLL_END, "a poll ends: ready if the task has terminated",
	     PV_TASK, PV_FILE, PV_LINE, PV_COLUMN),
	HOOK("task-terminate", HOOKS, PW_TERMINATE, "a task has ended, also a blocking one",
	     PV_TASK, PV_FILE, PV_LINE, PV_COLUMN),
	HOOK("worker-thread-start", HOOKS, PW_THREAD_START, "a thread of the runtime begins"),
	HOOK("worker-thread-stop", HOOKS, PW_THREAD_STOP, "a thread of the runtime ends"),
	HOOK("worker-thread-park", HOOKS, PW_PARK, "a worker parks"),
	HOOK("worker-thread-unpark", HOOKS, PW_UNPARK, "a worker goes on"),
	HOOK("task-spawn", HOOKS_OLD, PW_SPAWN, "a task is spawned", PV_TASK),
	HOOK("task-terminate", HOOKS_OLD, PW_TERMINATE, "a task has ended, also a blocking one",
	     PV_TASK),
	HOOK("task-poll-start", HOOKS_ID, PW_POLL_BEGIN, "a poll begins", PV_TASK),
	HOOK("task-poll-end", HOOKS_ID, PW_POLL_END, "a poll ends: ready if the task terminates",
	     PV_TASK),
	HOOK("task-terminate", PR7717, PW_TERMINATE,
	     "a task has ended: done, cancelled or panicked", PV_TASK, PV_REASON),
	HOOK("task-details", PR7717, PW_DETAILS, "a task's name, and file:line:column of its spawn",
	     PV_TASK, PV_NAME, PV_FILE, PV_LINE, PV_COLUMN),
	HOOK("task-start", PR7717, PW_SPAWN, "a task is spawned, or a block_on begins", PV_TASK,
	     PV_TASK_KIND, PV_UNUSED, PV_UNUSED),
	HOOK("waker-wake", PR7717, PW_WAKE, "a task's waker fires", PV_TASK),
	HOOK("waker-clone", PR7717, PW_NOTHING, "not recorded", PV_TASK),
	HOOK("waker-drop", PR7717, PW_NOTHING, "not recorded", PV_TASK),
	HOOK("trace-root", PR7717, PW_NOTHING, "not recorded"),
	CALL("task_spawn", PW_SPAWN, "a task is spawned by its parent", PV_TASK, PV_PARENT, PV_NAME,
	     PV_NAME_BYTES),
	CALL("task_completed", PW_COMPLETED, "a task's future is done", PV_TASK),
	CALL("machine_scheduled_task", PW_MACHINE_TASK,
	     "a task goes into or comes out of a machine's queue", PV_MACHINE, PV_TASK, PV_LOCAL),
	CALL("machine_blocked", PW_MACHINE_BLOCKED, "a machine makes no progress", PV_MACHINE),
	CALL("machine_starting", PW_MACHINE_STARTING, "a machine's thread begins", PV_MACHINE),
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

const struct provider_probe *providers_row(size_t i)
{
	return i < N_ROWS ? &rows[i] : NULL;
}

/* "task__poll__start" is "task-poll-start": how C's and DTrace's tools write it in symbols. */
static bool is_name(const char *row, const char *name, size_t len, bool perf)
{
	size_t i = 0;

	for (; i < len && *row; row++, i++) {
		if (*row == '-' && name[i] == '_' && i + 1 < len && name[i + 1] == '_')
			i++;
		else if (*row != name[i] && !(perf && *row == '-' && name[i] == '_'))
			return false;
	}
	return i == len && !*row;
}

static bool is_provider(const char *row, const char *name)
{
	size_t n = strlen(row);

	return strncmp(name, row, n) == 0 && strspn(name + n, "0123456789") == strlen(name + n);
}

static const struct provider_probe *find(const char *provider, const char *name, size_t len,
					 size_t n_args, bool perf)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		if (rows[i].n_args == n_args && is_provider(rows[i].provider, provider) &&
		    is_name(rows[i].name, name, len, perf))
			return &rows[i];
	}
	return NULL;
}

const struct provider_probe *providers_match(const struct probe *probe)
{
	return find(probe->provider, probe->name, strlen(probe->name), probe->n_args, false);
}

const struct provider_probe *providers_match_event(const char *provider, const char *name,
						   size_t n_args)
{
	size_t len = strlen(name), digits = 0;
	const struct provider_probe *row;

	if (strncmp(provider, "sdt_", 4) == 0)
		provider += 4;
	/* perf's probes on functions have what was written for them: the name's address alone, and
	 * perhaps not all of the others. */
	row = find(provider, name, len, n_args, true);
	if (!row && strcmp(provider, "async_std") == 0) {
		for (size_t i = 0; i < N_ROWS && !row; i++) {
			if (rows[i].symbol && is_name(rows[i].name, name, len, true))
				row = &rows[i];
		}
	}
	/* The second site of a probe is called NAME_1. */
	while (!row && digits < len && isdigit((unsigned char)name[len - 1 - digits]))
		digits++;
	if (!row && digits && digits + 1 < len && name[len - 1 - digits] == '_')
		row = find(provider, name, len - 1 - digits, n_args, true);
	return row;
}

const struct provider_probe *providers_function(const char *symbol)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		if (rows[i].symbol && strcmp(rows[i].symbol, symbol) == 0)
			return &rows[i];
	}
	return NULL;
}

void providers_function_arg(const struct machine *machine, size_t i, struct probe_arg *ret_arg)
{
	const uint8_t *registers = machine->arg_words;
	bool there = i < sizeof(machine->arg_words);

	*ret_arg = (struct probe_arg){
		.machine = machine->probes,
		.form = there ? PA_REG : PA_REFUSED,
		.size = 8,
		.base = there ? registers[i] : PROBE_NO_REG,
		.index = PROBE_NO_REG,
		.index_bits = 64,
		.reason = there ? NULL : "not in a register",
		.operand = "",
	};
}

bool provider_arg_is_string(enum provider_arg arg)
{
	return arg == PV_FILE || arg == PV_NAME;
}

const char *provider_arg_name(enum provider_arg arg)
{
	static const char *const names[PV_N] = {
		[PV_UNUSED] = "",	  [PV_TASK] = "task",
		[PV_PARENT] = "parent",	  [PV_FILE] = "file",
		[PV_LINE] = "line",	  [PV_COLUMN] = "column",
		[PV_NAME] = "name",	  [PV_NAME_BYTES] = "name_bytes",
		[PV_READY] = "is_ready",  [PV_PANICKED] = "panicked",
		[PV_REASON] = "reason",	  [PV_TASK_KIND] = "task_kind",
		[PV_MACHINE] = "machine", [PV_LOCAL] = "local",
	};

	return arg < PV_N ? names[arg] : "";
}

const char *provider_what_text(enum provider_what what)
{
	static const char *const texts[PW_N] = {
		[PW_NOTHING] = "nothing",
		[PW_SPAWN] = "spawn",
		[PW_DETAILS] = "spawn",
		[PW_SCHEDULE] = "schedule",
		[PW_WAKE] = "wake",
		[PW_POLL_BEGIN] = "poll_begin",
		[PW_POLL_END] = "poll_end",
		[PW_POLL_END_TOLD] = "poll_end",
		[PW_TERMINATE] = "poll_end, cancel",
		[PW_FINISH] = "cancel",
		[PW_BLOCKING_BEGIN] = "role blocking, worker",
		[PW_BLOCKING_END] = "role blocking",
		[PW_THREAD_START] = "thread_begin",
		[PW_THREAD_STOP] = "thread_end",
		[PW_PARK] = "park",
		[PW_UNPARK] = "unpark",
		[PW_COMPLETED] = "cancel (ready)",
		[PW_MACHINE_TASK] = "machine",
		[PW_MACHINE_BLOCKED] = "machine",
		[PW_MACHINE_STARTING] = "machine",
	};

	return what < PW_N ? texts[what] : "?";
}
