/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The trace that a verb reads. */
#pragma once

#include "cli/cli.h"

struct trace_process;
struct trace_reader;

/* The only operand, or the newest trace in this folder, named on stderr; for free(). 0, or what the
 * verb returns after wrong use. */
int input_trace(const struct cli_args *args, char **ret_path);
/* The word is the number of a process, and no file has that name. */
bool input_is_pid(const char *word);
/* A file of its own, which can be read again: no pipe. */
bool input_is_file(const char *path);
/* A recorded process still runs; for report_options.lives. */
bool input_lives(void *ctx, const struct trace_process *p);
/* For what reads programs: 0, or what the verb returns if the file is a trace. */
int input_refuse_trace(const struct cli_args *args, const char *path);
/* After a trace was read: -ENOENT, with a sentence, if there is nothing of a crate of `own`
 * (NULL or NULL-terminated), which would be as none, without a word. */
int input_check_own(const struct trace_reader *reader, const char *const *own, struct error *err);
