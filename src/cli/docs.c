/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Man pages out of the tables of verbs, and shell completion. Runs when pollux is built and is not
 * installed:
 *
 *     gen-docs man [VERB]      roff for man(1): pollux(1) or pollux-VERB(1)
 *     gen-docs bash|zsh|fish   completion for that shell
 *     gen-docs parse VERB ...  whether pollux would understand these words: a test reads with it
 *                              the commands that the documentation shows
 */
#include "base/buf.h"
#include "base/log.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/completion.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Text in roff: backslashes and dashes escaped, no line that starts with a control character. */
static void roff_words(struct buf *out, const char *text)
{
	for (const char *c = text; *c; c++) {
		bool line_start = c == text || c[-1] == '\n';

		if (line_start && (*c == '.' || *c == '\''))
			buf_str(out, "\\&");
		if (c[0] == '\n' && c[1] == '\n') {
			buf_str(out, "\n.PP\n");
			c++;
		} else if (*c == '\\') {
			buf_str(out, "\\e");
		} else if (*c == '-') {
			buf_str(out, "\\-");
		} else {
			buf_char(out, *c);
		}
	}
}

static void roff(struct buf *out, const char *text)
{
	roff_words(out, text);
	buf_char(out, '\n');
}

/* What help says without a full stop, as a sentence. */
static void man_option_help(struct buf *out, const struct cli_option *o)
{
	size_t len = strlen(o->help);

	roff_words(out, o->help);
	if (o->many && !strstr(o->help, "more than once") && !strstr(o->help, "repeatable"))
		buf_str(out, "; may be given more than once");
	buf_str(out, len && o->help[len - 1] == '.' ? "\n" : ".\n");
}

static void man_title(struct buf *out, const char *verb)
{
	buf_str(out, ".TH POLLUX-");
	for (; *verb; verb++)
		buf_char(out, (char)toupper((unsigned char)*verb));
	buf_printf(out, " 1 \"\" \"pollux %s\" \"pollux manual\"\n", POLLUX_VERSION);
}

static void man_examples(struct buf *out, const char *const *example)
{
	if (!example || !example[0])
		return;
	buf_str(out, ".SH EXAMPLES\n");
	for (; example[0] && example[1]; example += 2) {
		buf_str(out, ".TP\n.B ");
		roff(out, example[0]);
		roff(out, example[1]);
	}
}

static void man_exit_status(struct buf *out)
{
	buf_str(out, ".SH EXIT STATUS\n");
	roff(out,
	     "0 done, 1 failed, 2 wrong use. A program that was started by pollux record gives "
	     "its own.");
}

static void man_options(struct buf *out, const struct cli_option *o)
{
	for (; o && o->name; o++) {
		buf_str(out, ".TP\n");
		if (o->short_name)
			buf_printf(out, "\\fB\\-%c\\fR, ", o->short_name);
		buf_str(out, "\\fB\\-\\-");
		roff_words(out, o->name);
		buf_str(out, "\\fR");
		if (o->arg) {
			buf_str(out, o->optional ? "[=" : " ");
			roff_words(out, o->arg);
			buf_str(out, o->optional ? "]" : "");
		}
		buf_char(out, '\n');
		man_option_help(out, o);
	}
}

static void man_verb(struct buf *out, const struct cli_verb *verb)
{
	man_title(out, verb->name);
	buf_printf(out, ".SH NAME\npollux\\-%s \\- ", verb->name);
	roff(out, verb->summary);
	buf_str(out, ".SH SYNOPSIS\n.B pollux\n");
	roff(out, verb->synopsis);
	buf_str(out, ".SH DESCRIPTION\n");
	roff(out, verb->text ? verb->text : verb->summary);
	buf_str(out, ".SH OPTIONS\n");
	man_options(out, verb->options);
	man_options(out, cli_common_options);
	man_examples(out, verb->examples);
	man_exit_status(out);
	buf_str(out, ".SH SEE ALSO\n.BR pollux (1)\n");
}

static void man_pollux(struct buf *out)
{
	buf_printf(out, ".TH POLLUX 1 \"\" \"pollux %s\" \"pollux manual\"\n.SH NAME\n",
		   POLLUX_VERSION);
	buf_str(out, "pollux \\- tracer and profiler for async Rust programs\n"
		     ".SH SYNOPSIS\n.B pollux\nVERB [OPTIONS] ...\n.SH DESCRIPTION\n");
	roff(out, "Shows what every async task of a Rust program did. Works on programs of Tokio, "
		  "async-std and smol as they are: a release binary, already running, no rebuild, "
		  "no root.");
	buf_str(out, ".SH VERBS\n");
	for (size_t i = 0; cli_verbs[i]; i++) {
		buf_printf(out, ".TP\n.BR pollux\\-%s (1)\n", cli_verbs[i]->name);
		roff(out, cli_verbs[i]->summary);
	}
	man_exit_status(out);
	buf_str(out, ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\n");
	roff(out, "If set and not empty, no output is coloured.");
	buf_str(out, ".TP\n.B POLLUX_DEBUG\n");
	roff(out, "A list of domains, separated by commas, that are logged on stderr: " LOG_DOMAINS
		  ". The option -v of every verb logs all of them.");
	buf_str(out, ".SH SEE ALSO\n");
	for (size_t i = 0; cli_verbs[i]; i++)
		buf_printf(out, ".BR pollux\\-%s (1)%s\n", cli_verbs[i]->name,
			   cli_verbs[i + 1] ? "," : "");
}

static const struct cli_verb *find_verb(const char *name)
{
	for (size_t i = 0; cli_verbs[i]; i++) {
		if (strcmp(cli_verbs[i]->name, name) == 0)
			return cli_verbs[i];
	}
	return NULL;
}

/* Only the words are sorted: nothing is run, no value is looked at. */
static int parse(const struct cli_verb *verb, int argc, char **argv)
{
	struct cli_args args;
	struct error err = {0};

	if (args_parse(verb, argc, argv, &args, &err) < 0)
		return args_usage(verb->name, err.text);
	args_done(&args);
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	const char *what = argc > 1 ? argv[1] : "";
	const struct cli_verb *verb = argc > 2 ? find_verb(argv[2]) : NULL;

	if (strcmp(what, "parse") == 0 && verb)
		return parse(verb, argc - 3, argv + 3);
	if (strcmp(what, "man") == 0 && argc == 2)
		man_pollux(&out);
	else if (strcmp(what, "man") == 0 && verb)
		man_verb(&out, verb);
	else if (argc != 2 || completion_write(&out, what) < 0) {
		fputs("usage: gen-docs man [VERB] | parse VERB ... | bash | zsh | fish\n", stderr);
		return 2;
	}
	if (buf_failed(&out) || fwrite(out.data, 1, out.len, stdout) != out.len ||
	    fflush(stdout) != 0) {
		fputs("gen-docs: cannot write\n", stderr);
		return 1;
	}
	return 0;
}
