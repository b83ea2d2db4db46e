/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Printing events, of a file (print.c) or of a recording that goes on (record.c). */
#pragma once

#include "cli/cli.h"
#include "report/print.h"
#include "timeline/match.h"

struct print_job {
	struct printer *printer;
	const char *const *events;   /* names of those to print; NULL: all */
	const char *const *families; /* words in the names of kinds; NULL: all events */
	uint8_t *matches;	     /* by kind: 1 not, 2 matches; 0: not asked yet */
	uint32_t n_matches;
	struct match match;    /* of the families, with the kinds that were asked for */
	bool seen[TE_N_TYPES]; /* events of this type were there; TE_NONE: of unknown ones */
	bool moments;	       /* they are printed, too: with --json */
	uint32_t n_moments;    /* that were */
	bool output_closed;    /* the reader of the output has closed it */
};

/* --format, --json and --event, where the verb has them. 0, or what the verb returns. */
int print_parse(const struct cli_args *args, struct print_job *job);
void print_done(struct print_job *job);
/* Prints the reader's events to its end. `ctx` is a struct print_job. */
int print_events(void *ctx, struct trace_reader *r, struct error *err);
