/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The words of a slice (draw.h), for viewers that have tables of names and of fields. */
#pragma once

#include "export/draw.h"

enum note_key {
	NOTE_TASK,
	NOTE_FAMILY,
	NOTE_PARENT,
	NOTE_OUTCOME,
	NOTE_BEGIN,
	NOTE_END,
	NOTE_THREAD,
	NOTE_BLOCKED,
	NOTE_PLACE,
	NOTE_AWAITS,
	NOTE_HANDLER,
	NOTE_POLLS,
	NOTE_WAKES,
	NOTE_POLLED,
	NOTE_WAITING,
	NOTE_SCHEDULED,
	NOTE_INSTANCE,
	NOTE_SELF,
	NOTE_WAITED,
	NOTE_RESULT,
	NOTE_STACK,
	NOTE_FUTURE,
	NOTE_TEXT,
	NOTE_ADVICE,
	NOTE_N
};

/* One field of a slice: a text, or a number. */
struct slice_note {
	enum note_key key;
	const char *text; /* NULL: it is the number */
	uint64_t number;
};
enum { SLICE_MAX_NOTES = 12 };

struct note_type {
	const char *name;  /* "blocked_ns" */
	const char *label; /* "blocked" */
	bool text, ns;	   /* else a plain number */
};
extern const struct note_type note_types[NOTE_N];

/* "poll", "wait": what a slice is of. */
const char *slice_category(enum draw_type type);

/* What has the same key has the same name. Lives of tasks are named by their family. */
struct slice_key {
	uint64_t a, b;
};
struct slice_key slice_key(const struct draw_slice *s);
void slice_name(struct draw *d, const struct draw_slice *s, struct buf *out);
/* The fields, and their number. Texts are valid until the draw is done. */
unsigned slice_notes(struct draw *d, const struct draw_slice *s,
		     struct slice_note ret[SLICE_MAX_NOTES]);
