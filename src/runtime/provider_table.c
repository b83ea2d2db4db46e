/*
 * The known probes: who carries them, what their arguments are. The numbers and orders of arguments
 * are the only thing that tells apart the makes that share names, so a row is found by both.
 *
 * From the sources of crepererum/tokio (branch crepererum/probes, and pull request 5352 of Tokio),
 * oxidecomputer/tokio-dtrace 0.1.0 and 0.1.1, Tokio's pull request 7717, and skade/async-std
 * (branch tracing-new-scheduler).
 */
#include "runtime/providers.h"

#include "binary/probes.h"

#include <ctype.h>
#include <string.h>

#define T2C "Tokio2Chrome's Tokio, pull request 5352"
#define HOOKS "tokio-dtrace, pollux-probes"
#define HOOKS_ID "tokio-dtrace 0.1.0, Tokio's pull request 7717"
#define HOOKS_OLD "tokio-dtrace 0.1.0"
#define PR7717 "Tokio's pull request 7717"
#define ASYNC_STD "async-std of 2019 with `tracing`"

static const struct provider_probe rows[] = {
	{"tokio",
	 "task_start",
	 T2C,
	 "a task is made; also a blocking task or a worker's loop",
	 NULL,
	 PM_TOKIO2CHROME,
	 PW_SPAWN,
	 1,
	 {PV_TASK}},
	{"tokio",
	 "task_schedule_start",
	 T2C,
	 "a task is put into a run queue",
	 NULL,
	 PM_TOKIO2CHROME,
	 PW_SCHEDULE,
	 1,
	 {PV_TASK}},
	{"tokio",
	 "task_poll_begin",
	 T2C,
	 "a poll begins",
	 NULL,
	 PM_TOKIO2CHROME,
	 PW_POLL_BEGIN,
	 1,
	 {PV_TASK}},
	{"tokio",
	 "task_poll_end",
	 T2C,
	 "a poll ends: ready, pending or panicked",
	 NULL,
	 PM_TOKIO2CHROME,
	 PW_POLL_END_TOLD,
	 3,
	 {PV_TASK, PV_READY, PV_PANICKED}},
	{"tokio",
	 "task_poll_end",
	 T2C,
	 "a poll ends: ready or pending",
	 NULL,
	 PM_TOKIO2CHROME,
	 PW_POLL_END_TOLD,
	 2,
	 {PV_TASK, PV_READY}},
	{"tokio",
	 "task_finish",
	 T2C,
	 "a task's future or output is dropped: it has ended",
	 NULL,
	 PM_TOKIO2CHROME,
	 PW_FINISH,
	 1,
	 {PV_TASK}},
	{"tokio",
	 "task_blocking_begin",
	 T2C,
	 "the poll is a blocking task's or a worker's loop",
	 NULL,
	 PM_TOKIO2CHROME,
	 PW_BLOCKING_BEGIN,
	 0,
	 {0}},
	{"tokio",
	 "task_blocking_end",
	 T2C,
	 "the closure of a blocking task returns",
	 NULL,
	 PM_TOKIO2CHROME,
	 PW_BLOCKING_END,
	 0,
	 {0}},

	{"tokio",
	 "task-spawn",
	 HOOKS,
	 "a task is spawned at file:line:column",
	 NULL,
	 PM_HOOKS,
	 PW_SPAWN,
	 4,
	 {PV_TASK, PV_FILE, PV_LINE, PV_COLUMN}},
	{"tokio",
	 "task-spawn",
	 HOOKS_OLD,
	 "a task is spawned",
	 NULL,
	 PM_HOOKS,
	 PW_SPAWN,
	 1,
	 {PV_TASK}},
	{"tokio",
	 "task-poll-start",
	 HOOKS,
	 "a poll begins",
	 NULL,
	 PM_HOOKS,
	 PW_POLL_BEGIN,
	 4,
	 {PV_TASK, PV_FILE, PV_LINE, PV_COLUMN}},
	{"tokio",
	 "task-poll-start",
	 HOOKS_ID,
	 "a poll begins",
	 NULL,
	 PM_HOOKS,
	 PW_POLL_BEGIN,
	 1,
	 {PV_TASK}},
	{"tokio",
	 "task-poll-end",
	 HOOKS,
	 "a poll ends: ready if the task has terminated",
	 NULL,
	 PM_HOOKS,
	 PW_POLL_END,
	 4,
	 {PV_TASK, PV_FILE, PV_LINE, PV_COLUMN}},
	{"tokio",
	 "task-poll-end",
	 HOOKS_ID,
	 "a poll ends: ready if the task terminates",
	 NULL,
	 PM_HOOKS,
	 PW_POLL_END,
	 1,
	 {PV_TASK}},
	{"tokio",
	 "task-terminate",
	 HOOKS,
	 "a task has ended, also a blocking one",
	 NULL,
	 PM_HOOKS,
	 PW_TERMINATE,
	 4,
	 {PV_TASK, PV_FILE, PV_LINE, PV_COLUMN}},
	{"tokio",
	 "task-terminate",
	 PR7717,
	 "a task has ended: done, cancelled or panicked",
	 NULL,
	 PM_HOOKS,
	 PW_TERMINATE,
	 2,
	 {PV_TASK, PV_REASON}},
	{"tokio",
	 "task-terminate",
	 HOOKS_OLD,
	 "a task has ended, also a blocking one",
	 NULL,
	 PM_HOOKS,
	 PW_TERMINATE,
	 1,
	 {PV_TASK}},
	{"tokio",
	 "worker-thread-start",
	 HOOKS,
	 "a thread of the runtime begins",
	 NULL,
	 PM_HOOKS,
	 PW_THREAD_START,
	 0,
	 {0}},
	{"tokio",
	 "worker-thread-stop",
	 HOOKS,
	 "a thread of the runtime ends",
	 NULL,
	 PM_HOOKS,
	 PW_THREAD_STOP,
	 0,
	 {0}},
	{"tokio", "worker-thread-park", HOOKS, "a worker parks", NULL, PM_HOOKS, PW_PARK, 0, {0}},
	{"tokio",
	 "worker-thread-unpark",
	 HOOKS,
	 "a worker goes on",
	 NULL,
	 PM_HOOKS,
	 PW_UNPARK,
	 0,
	 {0}},

	{"tokio",
	 "task-details",
	 PR7717,
	 "a task's name, and file:line:column of its spawn",
	 NULL,
	 PM_HOOKS,
	 PW_DETAILS,
	 5,
	 {PV_TASK, PV_NAME, PV_FILE, PV_LINE, PV_COLUMN}},
	{"tokio",
	 "task-start",
	 PR7717,
	 "a task is spawned, or a block_on begins",
	 NULL,
	 PM_HOOKS,
	 PW_SPAWN,
	 4,
	 {PV_TASK, PV_TASK_KIND}},
	{"tokio",
	 "waker-wake",
	 PR7717,
	 "a task's waker fires",
	 NULL,
	 PM_HOOKS,
	 PW_WAKE,
	 1,
	 {PV_TASK}},
	{"tokio", "waker-clone", PR7717, "not recorded", NULL, PM_HOOKS, PW_NOTHING, 1, {PV_TASK}},
	{"tokio", "waker-drop", PR7717, "not recorded", NULL, PM_HOOKS, PW_NOTHING, 1, {PV_TASK}},
	{"tokio", "trace-root", PR7717, "not recorded", NULL, PM_HOOKS, PW_NOTHING, 0, {0}},

	{"async_std",
	 "task_spawn",
	 ASYNC_STD,
	 "a task is spawned by its parent",
	 "async_std_task_spawn",
	 PM_ASYNC_STD,
	 PW_SPAWN,
	 4,
	 {PV_TASK, PV_PARENT, PV_NAME, PV_NAME_BYTES}},
	{"async_std",
	 "task_completed",
	 ASYNC_STD,
	 "a task's future is done",
	 "async_std_task_completed",
	 PM_ASYNC_STD,
	 PW_COMPLETED,
	 1,
	 {PV_TASK}},
	{"async_std",
	 "machine_scheduled_task",
	 ASYNC_STD,
	 "a task goes into or comes out of a machine's queue",
	 "async_std_machine_scheduled_task",
	 PM_ASYNC_STD,
	 PW_MACHINE_TASK,
	 3,
	 {PV_MACHINE, PV_TASK, PV_LOCAL}},
	{"async_std",
	 "machine_blocked",
	 ASYNC_STD,
	 "a machine makes no progress",
	 "async_std_machine_blocked",
	 PM_ASYNC_STD,
	 PW_MACHINE_BLOCKED,
	 1,
	 {PV_MACHINE}},
	{"async_std",
	 "machine_starting",
	 ASYNC_STD,
	 "a machine's thread begins",
	 "async_std_machine_starting",
	 PM_ASYNC_STD,
	 PW_MACHINE_STARTING,
	 1,
	 {PV_MACHINE}},
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

void providers_function_arg(size_t i, struct probe_arg *ret_arg)
{
	static const uint8_t registers[] = {PROBE_X86_RDI, PROBE_X86_RSI, PROBE_X86_RDX,
					    PROBE_X86_RCX, PROBE_X86_R8,  PROBE_X86_R9};
	bool there = i < sizeof(registers);

	*ret_arg = (struct probe_arg){
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
