/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The trace that a verb reads: the one that is named, else the newest in this folder. */
#include "cli/input.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/own_command.h"
#include "base/units.h"
#include "trace/trace.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define AGE_SLACK_S 2

static bool newer(const struct stat *a, const struct stat *b)
{
	return a->st_mtim.tv_sec != b->st_mtim.tv_sec ? a->st_mtim.tv_sec > b->st_mtim.tv_sec
						      : a->st_mtim.tv_nsec > b->st_mtim.tv_nsec;
}

static bool is_trace_name(const char *name)
{
	size_t len = strlen(name);

	return len > 4 && !strcmp(name + len - 4, ".plx");
}

/* NULL if there is none; for free(). */
static char *newest(void)
{
	struct stat st, best = {0};
	DIR *here = opendir(".");
	char *name = NULL;
	struct dirent *d;

	while (here && (d = readdir(here))) {
		if (!is_trace_name(d->d_name) || fstatat(dirfd(here), d->d_name, &st, 0) < 0 ||
		    !S_ISREG(st.st_mode) || (name && !newer(&st, &best)))
			continue;
		free(name);
		name = strdup(d->d_name);
		best = st;
	}
	if (here)
		closedir(here);
	return name;
}

bool input_is_pid(const char *word)
{
	char path[32];

	if (!*word || strlen(word) > 9 || word[strspn(word, "0123456789")] ||
	    access(word, F_OK) == 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%s", word);
	return access(path, F_OK) == 0;
}

int input_trace(const struct cli_args *args, char **ret_path)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	/* `pollux report < trace` means that one, and not the newest. */
	const char *given = cli_operand(args, 0)		? cli_operand(args, 0)
			    : trace_file_is_trace("/dev/stdin") ? "-"
								: NULL;
	char *path = given ? strdup(given) : newest();

	if (cli_n_operands(args) > 1 || !path || (given && input_is_pid(given))) {
		free(path);
		if (cli_n_operands(args) > 1)
			return cli_usage(args, "only one trace can be read: leave out '%s'",
					 cli_operand(args, 1));
		if (given)
			return cli_usage(args,
					 "%s is a process and no trace: %s record %s makes one",
					 given, own_command(), given);
		return cli_usage(args,
				 "no trace is named, and there is none here: %s record PID makes "
				 "one",
				 own_command());
	}
	if (!given) {
		buf_printf(&text, "the newest trace here: %s", path);
		cli_complain(buf_failed(&text) ? "the newest trace here" : text.data);
	}
	*ret_path = path;
	return 0;
}

/* How long ago a process started; 0: there is none. */
static double age_s(pid_t pid)
{
	unsigned long long ticks = 0;
	char path[32], text[1024] = "";
	struct timespec now;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	fclose(f);
	/* Field 22; the name before it may hold anything. */
	const char *at = strrchr(text, ')');
	if (!at ||
	    sscanf(at + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
		   "%*d %llu",
		   &ticks) != 1)
		return 0;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (double)now.tv_sec - (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* By its number, program and age. */
bool input_lives(void *ctx, const struct trace_process *p)
{
	char path[32], exe[4096];
	struct timespec now;
	ssize_t n;

	(void)ctx;
	snprintf(path, sizeof(path), "/proc/%u/exe", p->pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	if (n <= 0 || !p->exe)
		return false;
	exe[n] = 0;
	clock_gettime(CLOCK_REALTIME, &now);
	return !strcmp(exe, p->exe) &&
	       age_s((pid_t)p->pid) + AGE_SLACK_S >=
		       (double)now.tv_sec - (double)p->start_realtime_ns / NSEC_PER_SEC;
}

bool input_is_file(const char *path)
{
	struct stat st;

	return strncmp(path, "/dev/", 5) != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int input_refuse_trace(const struct cli_args *args, const char *path)
{
	return trace_file_is_trace(path)
		       ? cli_usage(args, "%s is a trace: %s report %s", path, own_command(), path)
		       : 0;
}

int input_check_own(const struct trace_reader *reader, const char *const *own, struct error *err)
{
	for (; own && *own; own++) {
		const struct trace_place *p;
		const struct trace_frame *f;
		bool found = false;

		for (uint32_t i = 0; !found && (p = trace_reader_place(reader, i)); i++)
			found = p->function && trace_names_crate(p->function, *own);
		for (uint32_t i = 0; !found && (f = trace_reader_frame(reader, i)); i++)
			found = f->function && trace_names_crate(f->function, *own);
		if (!found)
			return error_set(
				err, -ENOENT,
				"no function of a crate '%s' is among the await points and "
				"stacks of the trace",
				*own);
	}
	return 0;
}
