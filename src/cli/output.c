/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Text for people on standard output: how wide, in colour or not, in which characters, and through
 * a pager where a terminal shows less than all of it.
 *
 * A pager is another program, and can start further ones (`!` in less). So with rights that the
 * user does not have (set-user-id, file capabilities) there is none; and for root, who may be so by
 * sudo for this one command, it is less, which may start nothing (LESSSECURE).
 */
#include "base/buf.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LESS "command -v less >/dev/null || exit 127; exec less -FRX"

enum { PIPE_COLUMNS = 120, TERMINAL_COLUMNS = 80, MOST_COLUMNS = 100000, NOT_STARTED = 127 };

bool cli_color(void)
{
	const char *no_color = getenv("NO_COLOR"); /* https://no-color.org */
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no_color && *no_color) && term &&
	       strcmp(term, "dumb") != 0;
}

/* As setlocale(3) looks: the first that is set counts. Without any it is left as it is: most of
 * what reads us then (cron, CI) takes UTF-8. */
static bool ascii_only(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return !strcasestr(value, "utf-8") && !strcasestr(value, "utf8");
	}
	return false;
}

void cli_ascii(struct buf *text)
{
	static const char *const plain[][2] = {
		{"\u2022", "*"}, {"\u00b5", "u"}, {"\u00d7", "x"}, {"\u2514", "`"}, {"\u251c", "|"},
		{"\u2502", "|"}, {"\u2026", "~"}, {"\u203a", ">"}, {"\u2192", ">"},
	};
	struct buf out = BUF_INIT;

	if (!ascii_only() || buf_failed(text))
		return;
	for (const char *at = text->data; at && *at;) {
		const char *with = NULL;
		size_t len = 1;

		for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]) && !with; i++) {
			len = strlen(plain[i][0]);
			with = strncmp(at, plain[i][0], len) ? NULL : plain[i][1];
		}
		if (with)
			buf_str(&out, with);
		else
			buf_add(&out, at, len = 1);
		at += len;
	}
	buf_done(text);
	*text = out;
}

/* Columns and lines of the terminal; false: standard output is none. */
static bool terminal_size(struct winsize *ret)
{
	if (!isatty(STDOUT_FILENO))
		return false;
	*ret = (struct winsize){0};
	ioctl(STDOUT_FILENO, TIOCGWINSZ, ret);
	return true;
}

unsigned cli_columns(const struct cli_args *args, unsigned otherwise)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	unsigned long n;
	char *end;

	if (cli_flag(args, "wide"))
		return 0;
	if (terminal_size(&size))
		return size.ws_col ? size.ws_col : TERMINAL_COLUMNS;
	if (columns && *columns >= '0' && *columns <= '9') {
		n = strtoul(columns, &end, 10);
		if (!*end && n && n <= MOST_COLUMNS)
			return (unsigned)n;
	}
	return otherwise ? otherwise : PIPE_COLUMNS;
}

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

/* What the shell is to run; NULL: no pager. */
static const char *pager_command(const struct cli_args *args)
{
	const char *pager = getenv("PAGER"), *term = getenv("TERM");

	if (cli_flag(args, "no-pager") || is_set("NO_PAGER") || getauxval(AT_SECURE) || !term ||
	    !strcmp(term, "dumb"))
		return NULL;
	if (pager && (!*pager || !strcmp(pager, "cat")))
		return NULL;
	return pager && geteuid() != 0 ? pager : LESS;
}

static bool is_longer_than_screen(const struct buf *text)
{
	struct winsize size;
	size_t lines = 0;

	if (!terminal_size(&size) || !size.ws_row)
		return false;
	for (const char *at = text->data; at && (at = strchr(at, '\n')); at++)
		lines++;
	return lines >= size.ws_row;
}

static void become_pager(const char *command, int in)
{
	struct sigaction plain = {.sa_handler = SIG_DFL};

	sigaction(SIGPIPE, &plain, NULL);
	sigaction(SIGXFSZ, &plain, NULL);
	if (geteuid() == 0)
		setenv("LESSSECURE", "1", 1);
	if (dup2(in, STDIN_FILENO) >= 0)
		execl("/bin/sh", "sh", "-c", command, NULL);
	_exit(NOT_STARTED);
}

/* Until all is written or the reader has seen enough. */
static void write_all(int fd, const struct buf *text)
{
	for (size_t at = 0; at < text->len;) {
		ssize_t n = write(fd, (const char *)text->data + at, text->len - at);

		if (n < 0 && errno != EINTR)
			return;
		at += n > 0 ? (size_t)n : 0;
	}
}

/* True if a pager has shown it. */
static bool page(const struct cli_args *args, const struct buf *text)
{
	const char *command = pager_command(args);
	struct sigaction ignore = {.sa_handler = SIG_IGN}, old_int, old_quit;
	int fds[2], status = 0;
	pid_t pid;

	if (!command || !is_longer_than_screen(text) || pipe(fds) < 0)
		return false;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		close(fds[1]);
		become_pager(command, fds[0]);
	}
	close(fds[0]);
	/* Ctrl-C is for the pager. */
	sigaction(SIGINT, &ignore, &old_int);
	sigaction(SIGQUIT, &ignore, &old_quit);
	if (pid > 0)
		write_all(fds[1], text);
	close(fds[1]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	sigaction(SIGINT, &old_int, NULL);
	sigaction(SIGQUIT, &old_quit, NULL);
	return pid > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == NOT_STARTED);
}

int cli_write(struct buf *text, struct error *err)
{
	if (buf_failed(text))
		return error_set(err, -ENOMEM, "out of memory");
	if (!text->len)
		return 0;
	bool written = fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0;
	/* The reader has seen enough. */
	if (!written && errno != EPIPE)
		return error_sys(err, -errno, "cannot write to standard output");
	return 0;
}

int cli_show(const struct cli_args *args, struct buf *text, struct error *err)
{
	cli_ascii(text);
	if (!buf_failed(text) && text->len && page(args, text))
		return 0;
	return cli_write(text, err);
}
