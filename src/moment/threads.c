/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A stack ends in the thread's first function; a task's part of it ends where the runtime polls the
 * task: at the first frame of the module in which a runtime keeps its tasks. What is left of the
 * runtime and of the standard library on the outer side of the task's own code is left out, too.
 */
#include "moment/threads.h"

#include "base/syscalls.h"
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

static struct trace_frame frame_of(const struct moment_frame *f)
{
	return (struct trace_frame){.object = f->object, .function = f->function, .file = f->file};
}

/* Of what polls tasks, or futures of a block_on. */
static bool polls_tasks(const struct moment_frame *f)
{
	static const char *const modules[] = {"tokio::runtime::task::", "async_task::"};

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (!strncmp(f->function, modules[i], strlen(modules[i])))
			return true;
	return false;
}

static bool is_block_on(const struct moment_frame *f)
{
	const struct trace_frame frame = frame_of(f);

	return strstr(f->function, "block_on") && trace_frame_is_below_poll(&frame);
}

static size_t task_frames(const struct moment_thread *t, bool of_block_on)
{
	size_t end = 0, n;

	while (end < t->n_frames &&
	       !(of_block_on ? is_block_on(&t->frames[end]) : polls_tasks(&t->frames[end])))
		end++;
	for (n = end; n; n--) {
		const struct trace_frame frame = frame_of(&t->frames[n - 1]);

		if (!trace_frame_is_below_poll(&frame))
			return n;
	}
	/* Nothing but a runtime's or a library's: all of it, if where the poll begins is known. */
	return end < t->n_frames ? end : 0;
}

static bool in_block_in_place(const struct moment_thread *t, size_t n_frames)
{
	for (size_t i = 0; i < n_frames; i++)
		if (strstr(t->frames[i].function, "block_in_place"))
			return true;
	return false;
}

static void use(struct thread_use *u, const struct moment_thread *t)
{
	/* A block_on's future is idle while its thread is parked, or polls other tasks. */
	bool root_runs = !u->task && u->root && moment_task_runs(u->root);

	u->n_frames =
		u->task || root_runs || (!u->worker && !u->root) ? task_frames(t, root_runs) : 0;
	u->in_place = u->task && in_block_in_place(t, u->n_frames);
	u->parked = !u->task && !root_runs && t->call;
}

struct thread_use *moment_thread_uses(const struct trace_moment *m)
{
	struct thread_use *uses = calloc(m->n_threads + 1, sizeof(*uses));

	for (size_t i = 0; uses && i < m->n_tasks; i++) {
		const struct moment_task *t = &m->tasks[i];
		struct thread_use *u =
			t->thread && t->thread <= m->n_threads ? &uses[t->thread - 1] : NULL;

		if (!u)
			continue;
		if (t->kind->role == TR_WORKER)
			u->worker = t;
		else if (t->kind->role == TR_ROOT)
			u->root = t;
		else if (moment_task_runs(t))
			u->task = t;
	}
	for (size_t i = 0; uses && i < m->n_threads; i++)
		use(&uses[i], &m->threads[i]);
	return uses;
}

size_t moment_task_frames(const struct trace_moment *m, const struct thread_use *uses,
			  const struct moment_task *t)
{
	const struct thread_use *u =
		t->thread && t->thread <= m->n_threads ? &uses[t->thread - 1] : NULL;

	return u && (u->task == t || (!u->task && u->root == t)) ? u->n_frames : 0;
}

const char *moment_call_name(const struct moment_thread *t)
{
	const char *name = t->call ? syscall_name(t->call - 1) : NULL;

	/* The kernel goes on with a sleep by a call of its own: the function says which it is. */
	if (name && !strcmp(name, "restart_syscall") && t->n_frames && *t->frames[0].function)
		return t->frames[0].function + strspn(t->frames[0].function, "_");
	return name;
}
