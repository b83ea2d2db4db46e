/*
 * Await points in recordings: what the one who reads debug information (src/future) hands to the
 * one who records (src/capture), kind by kind, while the program runs already.
 *
 * Reading debug information takes as long as it takes, and a recording must not wait for it. So it
 * happens on a thread of its own; the recorder takes what is ready, when it comes by.
 */
#ifndef POLLUX_PROCESS_PLACES_H
#define POLLUX_PROCESS_PLACES_H

#include "process/attach.h"

/* The layout program of one kind (agent/ring.h) and the places of its await points: the point with
 * the number first + i is places[i]. All of it belongs to the compiler, until it ends. */
struct place_program {
	uint32_t kind; /* agent kind number */
	uint32_t first;
	const uint64_t *words;
	size_t n_words;
	const struct trace_place *places;
	size_t n_places;
};

struct places_ops {
	/* Begins with the kinds of one process; NULL: out of memory. The attach must stay until the
	 * end. */
	void *(*begin)(struct attach *a);
	/* 1: *ret is the next program; 0: none is ready; -ENODATA: there will be no more. */
	int (*next)(void *compiler, struct place_program *ret);
	/* Waits until all are ready, but at most so long. */
	void (*wait)(void *compiler, uint64_t ns);
	void (*end)(void *compiler);
};

#endif
