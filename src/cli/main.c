/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pollux: one command, a verb per job. Finds the verb, sorts its words, runs it, prints what went
 * wrong exactly once. Exit codes: 0 done, 1 failed, 2 wrong use; `record -- CMD` gives the
 * program's own.
 *
 * A reader that goes away (`pollux report | head`) is no error. Writes have to say so by EPIPE
 * and not by a signal, since a recording must be able to detach first. SIGPIPE is caught and not
 * ignored: exec() resets a caught signal, but would hand an ignored one on to the traced program.
 * SIGXFSZ (ulimit -f) is of the same kind, by EFBIG.
 */
#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/own_command.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/input.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "process/find_processes.h"
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1 };

static void on_write_signal(int signal_number)
{
	(void)signal_number;
}

static void catch_sigpipe(void)
{
	struct sigaction old;
	struct sigaction act = {.sa_handler = on_write_signal, .sa_flags = SA_RESTART};

	sigemptyset(&act.sa_mask);
	if (sigaction(SIGPIPE, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
		sigaction(SIGPIPE, &act, NULL);
	if (sigaction(SIGXFSZ, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
		sigaction(SIGXFSZ, &act, NULL);
}

/* A file that we open must never become standard output because the caller had closed that. To write there
 * fails, as it would: what is asked for must not vanish. */
static void fill_standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0)
			return;
}

static int print(struct buf *text)
{
	if (!buf_failed(text))
		fwrite(text->data, 1, text->len, stdout);
	buf_done(text);
	return EXIT_DONE;
}

/* "pollux 0.2.0 (1b2c3d4e5f, static, with BPF)" */
static int print_version(void)
{
	struct buf text = BUF_INIT;

	buf_printf(&text, "pollux %s (%s%s%swith%s BPF)\n", POLLUX_VERSION, POLLUX_COMMIT,
		   *POLLUX_COMMIT ? ", " : "", POLLUX_STATIC ? "static, " : "",
		   POLLUX_BPF ? "" : "out");
	return print(&text);
}

static const struct cli_verb *find_verb(const char *name)
{
	for (size_t i = 0; cli_verbs[i]; i++) {
		if (strcmp(cli_verbs[i]->name, name) == 0)
			return cli_verbs[i];
	}
	return NULL;
}

static bool is_process(const char *name)
{
	pid_t *pids;
	size_t n;

	if (processes_named(name, &pids, &n, NULL) < 0)
		return false;
	free(pids);
	return true;
}

/* Verbs of other tools, and what does their work here. */
static const char *known_elsewhere(const char *name)
{
	static const char *const words[][2] = {
		{"attach", "record PID"},     {"trace", "record PID"},
		{"run", "record -- CMD"},     {"top", "hist PID --every 1"},
		{"stat", "hist PID"},	      {"ps", "doctor PID"},
		{"list", "doctor PID"},	      {"dump", "tree PID"},
		{"stack", "tree PID"},	      {"show", "report FILE.plx"},
		{"script", "print FILE.plx"}, {"convert", "export FILE.plx -o FILE.json"},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(name, words[i][0]))
			return words[i][1];
	return NULL;
}

static int unknown_verb(const char *name)
{
	const char *instead = known_elsewhere(name);
	const char *names[32] = {NULL};
	const char *near;
	struct error text = {0};

	for (size_t i = 0; cli_verbs[i] && i + 1 < sizeof(names) / sizeof(names[0]); i++)
		names[i] = cli_verbs[i]->name;
	near = args_nearest(name, names);
	if (!*name)
		error_set(&text, -EINVAL, "an empty word ('') names nothing");
	else if (instead)
		error_set(&text, -EINVAL, "there is no verb '%s'; use %s %s", name, own_command(),
			  instead);
	else if (!name[strspn(name, "0123456789")])
		error_set(&text, -ESRCH, "there is no process %s", name);
	else if (is_process(name))
		error_set(&text, -EINVAL,
			  "there is no verb '%s'; to record the process of this name: %s "
			  "record %s",
			  name, own_command(), name);
	else if (!near && trace_file_is_trace(name))
		error_set(&text, -EINVAL,
			  "there is no verb '%s'; to read it as a trace: %s report %s", name,
			  own_command(), name);
	else
		error_set(&text, -EINVAL, "there is no verb '%s'%s%s%s", name,
			  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	return args_usage(NULL, text.text);
}

static int run_verb(const struct cli_verb *verb, int argc, char **argv)
{
	struct error err = {0};
	struct cli_args args;
	struct buf text = BUF_INIT;
	int code;

	if (args_parse(verb, argc, argv, &args, &err) < 0)
		return args_usage(verb->name, err.text);
	if (args.verbose)
		log_enable("all");
	if (args.help) {
		help_verb(&text, verb);
		code = print(&text);
	} else {
		code = verb->run(&args, &err);
		cli_progress_done();
	}
	args_done(&args);
	if (code == EXIT_FAILED && err.code == -EPIPE)
		return EXIT_DONE;
	if (code == EXIT_FAILED && err.code != 0)
		cli_complain(err.text);
	return code;
}

/* POLLUX_DEBUG=DOMAINS, or -v, which may also come before the verb: all of them. */
static int enable_log(int *argc, char ***argv)
{
	const char *list = getenv("POLLUX_DEBUG");
	struct error text = {0};

	if (*argc > 1 && (!strcmp((*argv)[1], "-v") || !strcmp((*argv)[1], "--verbose"))) {
		(*argc)--;
		(*argv)++;
		list = "all";
	}
	if (!list || !*list || log_enable(list) == 0)
		return 0;
	error_set(&text, -EINVAL,
		  "POLLUX_DEBUG takes the domains " LOG_DOMAINS ", separated by commas, not '%s'",
		  list);
	return args_usage(NULL, text.text);
}

static int run(int argc, char **argv)
{
	struct buf text = BUF_INIT;
	const char *word = argc > 1 ? argv[1] : NULL;
	const struct cli_verb *verb;

	if (!word) {
		help_overview(&text);
		fputs(buf_failed(&text) ? "" : text.data, stderr);
		buf_done(&text);
		return ARGS_USAGE;
	}
	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 ||
	    strcmp(word, "version") == 0)
		return print_version();
	if (strcmp(word, "help") == 0 && argc > 2) {
		verb = find_verb(argv[2]);
		if (!verb)
			return unknown_verb(argv[2]);
		help_page(&text, verb);
		return print(&text);
	}
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
		help_overview(&text);
		return print(&text);
	}
	if (word[0] == '-')
		return args_usage(NULL, "a verb comes first, then its options");
	verb = find_verb(word);
	/* pollux PID: what it does now. */
	if (!verb && input_is_pid(word))
		return run_verb(&verb_tree, argc - 1, argv + 1);
	if (!verb)
		return unknown_verb(word);
	return run_verb(verb, argc - 2, argv + 2);
}

static bool reader_gone(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

int main(int argc, char **argv)
{
	int code;

	fill_standard_fds();
	catch_sigpipe();
	own_command_set(argc > 0 ? argv[0] : "");
	code = enable_log(&argc, &argv);
	if (!code)
		code = run(argc, argv);
	errno = 0;
	if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_DONE && !reader_gone()) {
		fprintf(stderr, "pollux: cannot write to standard output: %s\n",
			errno ? strerror(errno) : "an earlier write failed");
		return EXIT_FAILED;
	}
	return code;
}
