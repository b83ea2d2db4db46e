/*
 * Man pages and shell completion out of the tables of verbs. Runs when pollux is built and is not
 * installed:
 *
 *     gen-docs man [VERB]     roff for man(1): pollux(1) or pollux-VERB(1)
 *     gen-docs bash|zsh|fish  completion for that shell
 *
 * What completes an option's value follows from the name of its argument: a file, a process, or
 * nothing that a shell could know. "A|B|C" as an argument's name is a choice of these words.
 */
#include "base/buf.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum value { VALUE_NONE, VALUE_FILE, VALUE_PID, VALUE_CHOICE };

static enum value value_of(const char *arg)
{
	if (strchr(arg, '|'))
		return VALUE_CHOICE;
	if (strstr(arg, "FILE") || strstr(arg, "BINARY") || strstr(arg, "TRACE"))
		return VALUE_FILE;
	if (strcmp(arg, "PID") == 0)
		return VALUE_PID;
	return VALUE_NONE;
}

static void choice_words(struct buf *out, const char *arg)
{
	for (; *arg; arg++)
		buf_char(out, *arg == '|' ? ' ' : *arg);
}

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

static void man_verb(struct buf *out, const struct cli_verb *verb)
{
	buf_printf(out, ".TH POLLUX-%s 1 \"\" \"pollux %s\" \"pollux manual\"\n.SH NAME\n",
		   verb->name, POLLUX_VERSION);
	buf_printf(out, "pollux\\-%s \\- ", verb->name);
	roff(out, verb->summary);
	buf_str(out, ".SH SYNOPSIS\n.B pollux\n");
	roff(out, verb->synopsis);
	buf_str(out, ".SH DESCRIPTION\n");
	roff(out, verb->text ? verb->text : verb->summary);
	buf_str(out, ".SH OPTIONS\n");
	for (const struct cli_option *o = verb->options; o && o->name; o++) {
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
		roff(out, o->help);
		if (o->many)
			roff(out, "May be given more than once.");
	}
	buf_str(out, ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\n");
	roff(out, "Show a short help.");
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
	roff(out, "If set to anything but nothing, no output is coloured.");
	buf_str(out, ".SH SEE ALSO\n");
	for (size_t i = 0; cli_verbs[i]; i++)
		buf_printf(out, ".BR pollux\\-%s (1)%s\n", cli_verbs[i]->name,
			   cli_verbs[i + 1] ? "," : "");
}

static void option_words(struct buf *out, const struct cli_verb *verb)
{
	for (const struct cli_option *o = verb->options; o && o->name; o++) {
		buf_printf(out, "--%s ", o->name);
		if (o->short_name)
			buf_printf(out, "-%c ", o->short_name);
	}
	buf_str(out, "--help");
}

static void bash(struct buf *out)
{
	buf_str(out, "# bash completion for pollux\n"
		     "_pollux() {\n"
		     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
		     "\tCOMPREPLY=()\n"
		     "\tif ((COMP_CWORD == 1)); then\n"
		     "\t\tCOMPREPLY=($(compgen -W '");
	for (size_t i = 0; cli_verbs[i]; i++)
		buf_printf(out, "%s ", cli_verbs[i]->name);
	buf_str(out, "help --help --version' -- \"$cur\"))\n\t\treturn\n\tfi\n"
		     "\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; cli_verbs[i]; i++) {
		const struct cli_verb *verb = cli_verbs[i];

		buf_printf(out, "\t%s)\n\t\tcase $prev in\n", verb->name);
		for (const struct cli_option *o = verb->options; o && o->name; o++) {
			if (!o->arg || o->optional)
				continue;
			buf_printf(out, "\t\t--%s", o->name);
			if (o->short_name)
				buf_printf(out, " | -%c", o->short_name);
			buf_str(out, ") COMPREPLY=($(compgen ");
			switch (value_of(o->arg)) {
			case VALUE_CHOICE:
				buf_str(out, "-W '");
				choice_words(out, o->arg);
				buf_char(out, '\'');
				break;
			case VALUE_PID:
				buf_str(out, "-W \"$(ps -u \"$UID\" -o pid= 2>/dev/null)\"");
				break;
			case VALUE_FILE:
				buf_str(out, "-f");
				break;
			case VALUE_NONE:
				buf_str(out, "-W ''");
				break;
			}
			buf_str(out, " -- \"$cur\")); return ;;\n");
		}
		buf_str(out, "\t\tesac\n\t\t[[ $cur == -* ]] && COMPREPLY=($(compgen -W '");
		option_words(out, verb);
		buf_str(out, "' -- \"$cur\")) && return\n\t\tCOMPREPLY=($(compgen -f -- \"$cur\")) "
			     ";;\n");
	}
	buf_str(out, "\tesac\n}\ncomplete -o filenames -F _pollux pollux\n");
}

/* Text inside '...' of a zsh option spec or a fish command. */
static void quoted(struct buf *out, const char *text, const char *escape)
{
	for (; *text; text++) {
		if (*text == '\'')
			buf_str(out, "'\\''");
		else if (strchr(escape, *text))
			buf_printf(out, "\\%c", *text);
		else
			buf_char(out, *text);
	}
}

static void zsh_option(struct buf *out, const struct cli_option *o, bool short_form)
{
	buf_printf(out, "\t\t\t'%s", o->many ? "*" : "");
	if (short_form)
		buf_printf(out, "-%c%s", o->short_name, !o->arg ? "" : o->optional ? "-" : "+");
	else
		buf_printf(out, "--%s%s", o->name, !o->arg ? "" : o->optional ? "=-" : "=");
	buf_char(out, '[');
	quoted(out, o->help, "[]:\\");
	buf_char(out, ']');
	if (o->arg) {
		buf_str(out, o->optional ? "::" : ":");
		quoted(out, o->arg, "[]:\\");
		buf_char(out, ':');
		switch (value_of(o->arg)) {
		case VALUE_CHOICE:
			buf_char(out, '(');
			choice_words(out, o->arg);
			buf_char(out, ')');
			break;
		case VALUE_PID:
			buf_str(out, "_pids");
			break;
		case VALUE_FILE:
			buf_str(out, "_files");
			break;
		case VALUE_NONE:
			buf_char(out, ' ');
			break;
		}
	}
	buf_str(out, "' \\\n");
}

static void zsh(struct buf *out)
{
	buf_str(out, "#compdef pollux\n"
		     "_pollux() {\n"
		     "\tlocal -a verbs\n"
		     "\tverbs=(\n");
	for (size_t i = 0; cli_verbs[i]; i++) {
		buf_printf(out, "\t\t'%s:", cli_verbs[i]->name);
		quoted(out, cli_verbs[i]->summary, ":\\");
		buf_str(out, "'\n");
	}
	buf_str(out,
		"\t)\n\tif ((CURRENT == 2)); then\n\t\t_describe verb verbs\n\t\treturn\n\tfi\n"
		"\tlocal verb=$words[2]\n\tshift words\n\t((CURRENT--))\n\tcase $verb in\n");
	for (size_t i = 0; cli_verbs[i]; i++) {
		buf_printf(out, "\t%s)\n\t\t_arguments -s \\\n", cli_verbs[i]->name);
		for (const struct cli_option *o = cli_verbs[i]->options; o && o->name; o++) {
			if (o->short_name)
				zsh_option(out, o, true);
			zsh_option(out, o, false);
		}
		buf_str(out, "\t\t\t'--help[show help]' \\\n");
		buf_printf(out, "\t\t\t'*::: :%s' ;;\n",
			   cli_verbs[i]->command ? "_normal" : "_files");
	}
	buf_str(out, "\tesac\n}\n_pollux \"$@\"\n");
}

static void fish(struct buf *out)
{
	buf_str(out,
		"# fish completion for pollux\ncomplete -c pollux -n __fish_use_subcommand -f\n");
	for (size_t i = 0; cli_verbs[i]; i++) {
		const struct cli_verb *verb = cli_verbs[i];

		buf_printf(out, "complete -c pollux -n __fish_use_subcommand -a %s -d '",
			   verb->name);
		quoted(out, verb->summary, "\\");
		buf_str(out, "'\n");
		for (const struct cli_option *o = verb->options; o && o->name; o++) {
			buf_printf(out,
				   "complete -c pollux -n '__fish_seen_subcommand_from %s' -l %s",
				   verb->name, o->name);
			if (o->short_name)
				buf_printf(out, " -s %c", o->short_name);
			if (o->arg && !o->optional) {
				buf_str(out, " -r");
				switch (value_of(o->arg)) {
				case VALUE_CHOICE:
					buf_str(out, " -f -a '");
					choice_words(out, o->arg);
					buf_char(out, '\'');
					break;
				case VALUE_PID:
					buf_str(out, " -f -a '(__fish_complete_pids)'");
					break;
				case VALUE_FILE:
					break;
				case VALUE_NONE:
					buf_str(out, " -f");
					break;
				}
			}
			buf_str(out, " -d '");
			quoted(out, o->help, "\\");
			buf_str(out, "'\n");
		}
	}
}

static const struct cli_verb *find_verb(const char *name)
{
	for (size_t i = 0; cli_verbs[i]; i++) {
		if (strcmp(cli_verbs[i]->name, name) == 0)
			return cli_verbs[i];
	}
	return NULL;
}

int main(int argc, char **argv)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	const char *what = argc > 1 ? argv[1] : "";
	const struct cli_verb *verb = argc > 2 ? find_verb(argv[2]) : NULL;

	if (strcmp(what, "man") == 0 && argc == 2)
		man_pollux(&out);
	else if (strcmp(what, "man") == 0 && verb)
		man_verb(&out, verb);
	else if (strcmp(what, "bash") == 0)
		bash(&out);
	else if (strcmp(what, "zsh") == 0)
		zsh(&out);
	else if (strcmp(what, "fish") == 0)
		fish(&out);
	else {
		fputs("usage: gen-docs man [VERB] | bash | zsh | fish\n", stderr);
		return 2;
	}
	if (buf_failed(&out) || fwrite(out.data, 1, out.len, stdout) != out.len ||
	    fflush(stdout) != 0) {
		fputs("gen-docs: cannot write\n", stderr);
		return 1;
	}
	return 0;
}
