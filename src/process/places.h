/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Await points in recordings: what the one who reads debug information (src/future) hands to the
 * one who records (src/capture), kind by kind, while the program runs already.
 *
 * Reading debug information takes as long as it takes, and a recording must not wait for it. So it
 * happens on a thread of its own; the recorder takes what is ready, when it comes by.
 */
#pragma once

#include "process/attach.h"

/* A future whose poll may be a part of its awaiter's: it lies in that by value. */
struct place_future {
	const char *name, *full_name, *where; /* "src/main.rs:12", NULL if not known */
	uint64_t size;
	uint32_t type_kind; /* as place_program.type_kind, 0: its poll is hooked nowhere */
};

/* What the number of a point says. Only the first kind has a place. */
enum point_kind {
	POINT_AWAIT,	/* the future is suspended at an await point */
	POINT_RETURNED, /* the future has returned */
	POINT_BOX,	/* no future, but a pointer that owns what it leads to, */
	POINT_BORROW,	/* or borrows it: what follows lies there */
};

/* What proves that a future that is gone was ready, and not dropped. A later one includes those
 * before it. */
enum ready_proof {
	READY_UNPROVEN,
	READY_IF_GONE,	   /* the awaiter is still at the point, and that future is gone */
	READY_IF_MOVED_ON, /* the awaiter is at another point, or ready; or the task is */
};

struct place_point {
	enum point_kind kind;
	enum ready_proof proof;
	uint32_t future;      /* index of a struct place_future; PLACE_NO_FUTURE: a pointer */
	int64_t state_offset; /* from that future's address to what is read for it */
	uint64_t size;	      /* of the future, or of what a pointer leads to */
	/* The agent kind + 1 of a future whose poll is hooked and in which it lies, or which it is:
	 * the innermost; 0: none. */
	uint32_t hooked_parent;
	bool own;	 /* the program's own code, not a library's that it awaits */
	bool self;	 /* of the kind itself, whose poll is hooked */
	bool concurrent; /* something else is polled with it, and isn't recorded */
};
#define PLACE_NO_FUTURE UINT32_MAX

/* What a place of a chain is a link of. */
struct place_link {
	uint32_t outer; /* 1 + index of the place around it, 0: none */
	bool holds_box; /* what is awaited there may poll a `dyn Future` in a box */
};

/* Where a method's object has a box with the future (AGENT_HOOK_HELD). */
struct place_held {
	uint32_t pointer_offset; /* from the object to the pointer to the box */
	uint16_t future_offset;	 /* from there to the future */
	/* The box begins with a tag of this number of bytes, which has this value if there is a
	 * future; 0 bytes: it has none. */
	uint8_t tag_size, tag_some;
	uint32_t state_offset; /* from the future to its state */
	uint8_t state_size;
	uint16_t last_state; /* a larger one means that there is none; 0: nothing is known */
	/* No coroutine: the state is counted from the box's begin, and has this value if there is no
	 * future; `last_state` is 1. */
	bool written;
	uint64_t none;
	bool memory; /* the method returns in memory: the object is its second argument */
};

/* The layout program of one kind (agent/ring.h) and the places of its await points: the point with
 * the number first + i is places[i]. All of it belongs to the compiler, until it ends. */
struct place_program {
	uint32_t kind; /* agent kind number */
	uint32_t first;
	const uint64_t *words;
	size_t n_words;
	const struct trace_place *places;
	size_t n_places;
	/* Where chains were asked for: by place. Else NULL. */
	const struct place_link *links;
	/* Then, of a task: nothing of the program's own lies in it, so what is in boxes there handles
	 * what it serves. It may have no words then. */
	bool serves;
	/* And of a future in a box that is the program's own, or holds such a one, and is no known
	 * middleware: what it is. The same. Else its name is NULL. */
	struct place_future handler;
	struct place_held held;
	/* Of a future in a box whose poll was written by hand: how it shows that it is pending, as in
	 * agent_hook. Else from AR_UNKNOWN. */
	struct agent_result returns;
	uint64_t pending;
	/* Where every future was asked for: by point, as the places. Else NULL. */
	const struct place_point *points;
	const struct place_future *futures;
	size_t n_futures;
	/* Of a kind whose poll is hooked, else 0: the size of its future, and the kind + 1 that
	 * represents all of the same type. */
	uint64_t size;
	uint32_t type_kind;
	/* Of a task of async-task how large it is by its own vtable, else 0. */
	uint64_t task_bytes;
};

/* Whose kinds are compiled. All that it leads to stays as it is until the end; the functions are
 * called by another thread. */
struct places_target {
	const struct attach_kind *kinds; /* a program's `kind` is an index into these */
	size_t n_kinds;
	/* The ELF file of an object, the callee's; negative: it can't be had. */
	int (*object_fd)(const void *ctx, const struct attach_object *o);
	/* The process' memory. 0 or negative errno. */
	int (*read)(const void *ctx, uint64_t addr, void *out, size_t len);
	const void *ctx;
	/* The crates that are the program's own, NULL-terminated, not empty; NULL: by where their
	 * source lies. */
	const char *const *own;
};

enum places_depth {
	PLACES_NEAR,	/* the innermost await point of the program itself */
	PLACES_DEEP,	/* chains of await points */
	PLACES_FUTURES, /* every future is listed */
};

struct places_ops {
	/* Begins with the kinds of one process; NULL: out of memory. */
	void *(*begin)(const struct places_target *target, enum places_depth depth);
	/* 1: *ret is the next program; 0: none is ready; -ENODATA: there will be no more. */
	int (*next)(void *compiler, struct place_program *ret);
	/* Why debug information that may be there wasn't read by now: negative errno with a
	 * sentence, which says nothing about the program; 0: it was. */
	int (*trouble)(void *compiler, struct error *err);
	/* Waits until all are ready, up to a limit. */
	void (*wait)(void *compiler, uint64_t ns);
	/* Asks it to read no more, and does not wait for that. */
	void (*stop)(void *compiler);
	/* The same, and waits. */
	void (*end)(void *compiler);
};
