/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "findings/poll_notes.h"

#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>

static struct poll_note *note_of(struct poll_notes *notes, uint32_t thread, uint64_t serial)
{
	struct poll_notes_of_thread *t = map_get_or_new(&notes->threads, thread, 0, sizeof(*t));

	if (!t)
		return NULL;
	for (size_t i = t->n; i-- > 0;)
		if (t->open[i].serial == serial)
			return &t->open[i];
	if (!GROW_ONE(t->open, t->n))
		return NULL;
	t->open[t->n] = (struct poll_note){.serial = serial};
	return &t->open[t->n++];
}

int poll_notes_block(struct poll_notes *notes, const struct tl_block *block)
{
	uint64_t ns = block->end_ns - block->begin_ns;
	struct poll_note *note;

	/* What others did on the CPU explains a long poll, too. */
	if (!block->keeps_worker && !trace_call_waits_for_cpu(block->call))
		return 0;
	note = note_of(notes, block->thread, block->task->serial);
	if (!note)
		return -ENOMEM;
	note->n_calls++;
	note->calls_ns += ns;
	if (note->call == TB_NONE || ns > note->call_ns) {
		note->call = block->call;
		note->call_ns = ns;
		note->in_call = note->stack && note->stack_ns >= block->begin_ns;
		note->in_call_stack = note->stack;
		note->in_call_blocked = note->blocked_stack;
	}
	return 0;
}

int poll_notes_sample(struct poll_notes *notes, const struct tl_sample *sample)
{
	bool of_long = sample->type == TM_LONG_RUNNING || sample->type == TM_LONG_BLOCKED;
	struct poll_note *note;

	bool of_cpu = sample->type == TM_CPU_CLOCK;

	if (!sample->task || !(of_cpu || (of_long && sample->stack)))
		return 0;
	note = note_of(notes, sample->thread, sample->task->serial);
	if (!note)
		return -ENOMEM;
	if (of_cpu) {
		note->cpu_ns += sample->weight;
		note->n_cpu++;
		return 0;
	}
	note->stack = sample->stack;
	note->stack_ns = sample->time_ns;
	note->blocked_stack = sample->type == TM_LONG_BLOCKED;
	return 0;
}

int poll_notes_off_cpu(struct poll_notes *notes, const struct tl_off_cpu *off)
{
	struct poll_note *note;

	if (!off->task || off->reason != TX_PREEMPTED)
		return 0;
	note = note_of(notes, off->thread, off->task->serial);
	if (!note)
		return -ENOMEM;
	note->preempted_ns += off->end_ns - off->begin_ns;
	return 0;
}

struct poll_note poll_notes_take(struct poll_notes *notes, const struct tl_poll *poll)
{
	struct poll_notes_of_thread *t = map_get(&notes->threads, poll->thread, 0);

	for (size_t i = t ? t->n : 0; i-- > 0;) {
		if (t->open[i].serial != poll->task->serial)
			continue;
		struct poll_note note = t->open[i];

		t->open[i] = t->open[--t->n];
		if (note.in_call) {
			note.stack = note.in_call_stack;
			note.blocked_stack = note.in_call_blocked;
		}
		return note;
	}
	return (struct poll_note){0};
}

static void thread_free(void *value)
{
	free(((struct poll_notes_of_thread *)value)->open);
	free(value);
}

void poll_notes_done(struct poll_notes *notes)
{
	map_free(&notes->threads, thread_free);
	*notes = (struct poll_notes){0};
}
