/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The command line. A verb is one row of `verbs` and one file: parse, call, print once. Help, man
 * pages and shell completion all come from the same table.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_option {
	char short_name; /* 0 if none */
	const char *name;
	const char *arg; /* name of its argument for help ("SECONDS"), NULL for a flag */
	const char *help;
	bool many;	   /* may be given more than once */
	bool optional;	   /* the argument may be missing: --cpu, --cpu=99 (of a verb with a command
			    * also --cpu 99); its value is "" then */
	const char *words; /* for completion: what the argument may be, separated by spaces; NULL:
			    * its name says whether it is a file, a process or free */
};

/* What a verb's operands are, for completion. */
enum cli_operands { CLI_FILES = 1, CLI_TRACES = 2, CLI_PROCESSES = 4, CLI_SHELLS = 8 };

struct buf;
struct cli_args;

struct cli_verb {
	const char *name;
	const char *synopsis; /* "record [OPTIONS] -p PID... | -- CMD [ARGS...]" without "pollux" */
	const char *summary;  /* one line */
	const char *text;     /* paragraphs for help and man page */
	const char *const *examples;	  /* NULL-terminated: command, what it does, command, ... */
	const struct cli_option *options; /* ended by name NULL */
	bool command;			  /* what follows `--` is a command to run */
	unsigned operands;		  /* enum cli_operands, or-ed */
	/* Exit code: 0 done, 1 failed (err is set and printed by main, once), 2 usage. */
	int (*run)(const struct cli_args *args, struct error *err);
};

extern const struct cli_verb *const cli_verbs[]; /* NULL-terminated */
/* Options of every verb, after its own; main.c does what they ask for. Ended by name NULL. */
extern const struct cli_option cli_common_options[];

/* What was given. Strings point into argv. */
const char *cli_option(const struct cli_args *args,
		       const char *name); /* last one; NULL if absent */
bool cli_flag(const struct cli_args *args, const char *name);
const char *const *cli_option_all(const struct cli_args *args,
				  const char *name); /* 0-terminated; NULL if absent */
size_t cli_n_operands(const struct cli_args *args);
const char *cli_operand(const struct cli_args *args, size_t i);
char *const *cli_command(const struct cli_args *args); /* after `--`; NULL if none */

/* Prints one sentence on stderr, after "pollux: ". All such text goes through here: whatever names
 * and paths of others are in it, a terminal shows and does not obey. */
void cli_complain(const char *text);
/* Wrong use: prints one sentence and how to get help; returns 2. */
int cli_usage(const struct cli_args *args, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A progress line on stderr, only if that is a terminal. cli_progress_done() wipes it. */
void cli_progress(void *label, uint64_t done, uint64_t total);
void cli_progress_done(void);
/* The same for work that can't say how far it is: "WHAT OF" after a second, until cli_slow_end().
 */
void cli_slow_begin(const char *what, const char *of);
void cli_slow_end(void);
