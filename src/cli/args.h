/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Words of a command line, sorted by a verb's table of options. Private to the command line. */
#pragma once

#include "cli/cli.h"

struct cli_args {
	const struct cli_verb *verb;
	/* values[i] belongs to verb->options[i]: NULL, or a 0-terminated list in the order given (a
	 * flag's values are ""). */
	const char ***values;
	const char **operands;
	size_t n_operands;
	char **command;
	bool verbose; /* -v or --verbose */
	bool help;    /* -h or --help was among them: nothing else was looked at */
};

/* Sorts argv[0..argc), the words after the verb. -EINVAL with one sentence for wrong use. */
int args_parse(const struct cli_verb *verb, int argc, char **argv, struct cli_args *ret_args,
	       struct error *err);
void args_done(struct cli_args *args);

/* Says what was wrong and where help is; verb may be NULL. Returns the exit code of wrong use. */
enum { ARGS_USAGE = 2 };
int args_usage(const char *verb, const char *text);

/* The candidate that `word` was probably meant to be, NULL if none is near. */
const char *args_nearest(const char *word, const char *const *candidates);
