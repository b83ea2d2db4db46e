/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See process_operand.h. */
#include "cli/process_operand.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/own_command.h"
#include "base/text.h"
#include "cli/args.h"
#include "process/find_processes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LISTED 20u

/* The process of a name, if it is one. */
static int find_named(const struct cli_args *args, const char *name, const char *hint, pid_t *ret)
{
	_cleanup_buf_ struct buf list = BUF_INIT;
	_cleanup_free_ pid_t *pids = NULL;
	struct error err = {0};
	size_t n;

	if (strchr(name, '/') && access(name, X_OK) == 0)
		return cli_usage(args,
				 "'%s' is no number or name of a process; to start a program and "
				 "record it: %s %s -- %s",
				 name, own_command(),
				 args->verb->command ? args->verb->name : "record", name);
	if (!*name || strchr(name, '/'))
		return cli_usage(args, "a process is given by its number or its name, not by '%s'",
				 name);
	if (processes_named(name, &pids, &n, &err) < 0)
		return cli_usage(args, "%s%s", err.text, hint);
	if (n == 1) {
		*ret = pids[0];
		return 0;
	}
	for (size_t i = 0; i < n && i < MAX_LISTED; i++)
		buf_printf(&list, "%s%d", i ? ", " : "", pids[i]);
	return cli_usage(args, "there are %zu processes '%s': give the number of one: %s%s", n,
			 name, buf_failed(&list) ? "" : list.data, n > MAX_LISTED ? ", ..." : "");
}

static bool is_number(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

int process_operand(const struct cli_args *args, const char *text, const char *hint, pid_t *ret)
{
	uint64_t number;

	if (!is_number(text))
		return find_named(args, text, hint, ret);
	if (text_parse_number(text, &number) < 0 || !number || number > INT32_MAX)
		return cli_usage(args, "a process is given by its number or its name, not by '%s'",
				 text);
	*ret = (pid_t)number;
	return 0;
}

int process_or_file(const struct cli_args *args, const char *text, pid_t *ret)
{
	_cleanup_free_ pid_t *pids = NULL;
	struct stat st;
	size_t n;
	bool there = stat(text, &st) == 0;

	*ret = 0;
	if (is_number(text))
		return process_operand(args, text, "", ret);
	if (strchr(text, '/') || (there && S_ISREG(st.st_mode)))
		return 0;
	/* A folder may have the name of the program that is built in it. */
	if (there && processes_named(text, &pids, &n, NULL) < 0)
		return 0;
	return find_named(args, text, ", and no file", ret);
}
