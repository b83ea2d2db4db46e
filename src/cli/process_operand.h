/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A process that a verb is given, by its number or its name. */
#pragma once

#include "cli/cli.h"

#include <sys/types.h>

/* 0, or what the verb returns after wrong use; `hint` is added to the sentence if there is none of
 * that name. */
int process_operand(const struct cli_args *args, const char *text, const char *hint, pid_t *ret);
/* The same where the word may be a file as well: *ret is 0 if there is such a file. */
int process_or_file(const struct cli_args *args, const char *text, pid_t *ret);
