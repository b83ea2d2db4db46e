/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pollux completion: what a shell needs to complete pollux's words, out of the tables of verbs.
 *
 * What completes an option's value is in the option (its words) or follows from the name of its
 * argument: a file, a process, or nothing that a shell could know. Of processes those are offered
 * whose program can be read, as pollux has to: no kernel threads, no processes of other users.
 */
#include "cli/completion.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SHELLS "bash zsh fish"

enum value { VALUE_NONE, VALUE_FILE, VALUE_PROCESS, VALUE_WORDS };

static enum value value_of(const struct cli_option *o)
{
	if (o->words)
		return VALUE_WORDS;
	if (strstr(o->arg, "FILE") || strstr(o->arg, "BINARY") || strstr(o->arg, "TRACE"))
		return VALUE_FILE;
	if (strncmp(o->arg, "PID", 3) == 0)
		return VALUE_PROCESS;
	return VALUE_NONE;
}

static void option_words(struct buf *out, const struct cli_option *o)
{
	for (; o && o->name; o++) {
		buf_printf(out, "--%s ", o->name);
		if (o->short_name)
			buf_printf(out, "-%c ", o->short_name);
	}
}

static void bash_option(struct buf *out, const struct cli_option *o)
{
	buf_printf(out, "\t\t--%s", o->name);
	if (o->short_name)
		buf_printf(out, " | -%c", o->short_name);
	buf_str(out, ") ");
	if (o->optional)
		buf_str(out, "[[ $eq ]] && ");
	switch (value_of(o)) {
	case VALUE_WORDS:
		buf_printf(out, "_pollux_words '%s'", o->words);
		break;
	case VALUE_PROCESS:
		buf_str(out, "_pollux_processes");
		break;
	case VALUE_FILE:
		buf_str(out, "_pollux_files");
		break;
	case VALUE_NONE:
		buf_char(out, ':');
		break;
	}
	buf_str(out, o->optional ? " && return ;;\n" : "; return ;;\n");
}

static void bash_operands(struct buf *out, const struct cli_verb *verb)
{
	if (verb->command)
		buf_str(out, "\t\tif [[ \" ${COMP_WORDS[*]:0:COMP_CWORD} \" == *' -- '* ]]; then\n"
			     "\t\t\tCOMPREPLY=($(compgen -c -- \"$cur\"))\n"
			     "\t\t\t_pollux_files; return\n\t\tfi\n");
	if (verb->operands & CLI_PROCESSES)
		buf_str(out, "\t\t_pollux_processes\n");
	if (verb->operands & CLI_TRACES)
		buf_str(out, "\t\t_pollux_files '!*.plx'\n");
	if (verb->operands & CLI_FILES)
		buf_str(out, "\t\t_pollux_files\n");
	if (verb->operands & CLI_SHELLS)
		buf_str(out, "\t\t_pollux_words '" SHELLS "'\n");
}

static void bash(struct buf *out)
{
	buf_str(out, "# bash completion for pollux\n"
		     "_pollux_words() { COMPREPLY+=($(compgen -W \"$1\" -- \"$cur\")); }\n"
		     "_pollux_files() {\n"
		     "\tlocal IFS=$'\\n'\n"
		     "\tCOMPREPLY+=($(compgen -f -X \"${1-}\" -- \"$cur\") $([[ ${1-} ]] && "
		     "compgen -d -- "
		     "\"$cur\"))\n"
		     "}\n"
		     "_pollux_processes() {\n"
		     "\tlocal folder\n"
		     "\tfor folder in /proc/[0-9]*; do\n"
		     "\t\t[[ ${folder#/proc/} == \"$cur\"* && -e $folder/exe ]] && "
		     "COMPREPLY+=(\"${folder#/proc/}\")\n"
		     "\tdone\n"
		     "}\n"
		     "_pollux() {\n"
		     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} eq=\n"
		     "\tCOMPREPLY=()\n"
		     "\tif ((COMP_CWORD == 1)); then\n"
		     "\t\t_pollux_words '");
	for (size_t i = 0; cli_verbs[i]; i++)
		buf_printf(out, "%s ", cli_verbs[i]->name);
	buf_str(out, "help version --help --version'\n\t\treturn\n\tfi\n"
		     "\t# --sort=KEY is three words\n"
		     "\tif [[ $cur == = ]]; then\n\t\teq=1 cur=\n"
		     "\telif [[ $prev == = ]]; then\n\t\teq=1 prev=${COMP_WORDS[COMP_CWORD-2]}\n"
		     "\tfi\n"
		     "\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; cli_verbs[i]; i++) {
		const struct cli_verb *verb = cli_verbs[i];

		buf_printf(out, "\t%s)\n\t\tcase $prev in\n", verb->name);
		for (const struct cli_option *o = verb->options; o && o->name; o++) {
			if (o->arg)
				bash_option(out, o);
		}
		buf_str(out, "\t\tesac\n\t\tif [[ $cur == -* ]]; then\n\t\t\t_pollux_words '");
		option_words(out, verb->options);
		option_words(out, cli_common_options);
		buf_str(out, "'\n\t\t\treturn\n\t\tfi\n");
		bash_operands(out, verb);
		buf_str(out, "\t\t;;\n");
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
		switch (value_of(o)) {
		case VALUE_WORDS:
			buf_printf(out, "(%s)", o->words);
			break;
		case VALUE_PROCESS:
			buf_str(out, "_pollux_processes");
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

static void zsh_options(struct buf *out, const struct cli_option *o)
{
	for (; o && o->name; o++) {
		if (o->short_name)
			zsh_option(out, o, true);
		zsh_option(out, o, false);
	}
}

static const char *zsh_operands(const struct cli_verb *verb)
{
	if (verb->operands & CLI_SHELLS)
		return "(" SHELLS ")";
	if (!(verb->operands & CLI_PROCESSES))
		return verb->operands & CLI_TRACES ? "_pollux_traces" : "_files";
	return verb->operands & CLI_TRACES  ? "_pollux_processes_and_traces"
	       : verb->operands & CLI_FILES ? "_pollux_processes_and_files"
					    : "_pollux_processes";
}

static void zsh(struct buf *out)
{
	buf_str(out, "#compdef pollux\n"
		     "_pollux_processes() {\n"
		     "\tlocal folder\n"
		     "\tlocal -a processes\n"
		     "\tfor folder in /proc/<->(N); do\n"
		     "\t\t[[ -e $folder/exe ]] && processes+=(\"$folder:t:$(<$folder/comm)\")\n"
		     "\tdone 2>/dev/null\n"
		     "\t_describe process processes\n"
		     "}\n"
		     "_pollux_traces() { _files -g '*.plx' }\n"
		     "_pollux_processes_and_traces() { _pollux_processes; _pollux_traces }\n"
		     "_pollux_processes_and_files() { _pollux_processes; _files }\n"
		     "# behind the first --: a command's words have completions of their own\n"
		     "_pollux_command() {\n"
		     "\tlocal n=$words[(i)--]\n"
		     "\t((n < CURRENT)) || return 1\n"
		     "\tshift $n words\n"
		     "\t((CURRENT -= n))\n"
		     "\t_normal\n"
		     "\treturn 0\n"
		     "}\n"
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
		buf_printf(out, "\t%s)\n", cli_verbs[i]->name);
		if (cli_verbs[i]->command)
			buf_str(out, "\t\t_pollux_command && return\n");
		buf_str(out, "\t\t_arguments -s \\\n");
		zsh_options(out, cli_verbs[i]->options);
		zsh_options(out, cli_common_options);
		buf_printf(out, "\t\t\t'*: :%s' ;;\n", zsh_operands(cli_verbs[i]));
	}
	buf_str(out, "\tesac\n}\n_pollux \"$@\"\n");
}

static void fish_operands(struct buf *out, const struct cli_verb *verb)
{
	static const char before[] = "complete -c pollux -n '__fish_seen_subcommand_from";

	if (verb->operands & CLI_TRACES)
		buf_printf(out, "%s %s' -f -k -a '(__fish_complete_suffix .plx)'\n", before,
			   verb->name);
	if (verb->operands & CLI_PROCESSES)
		buf_printf(out, "%s %s' -a '(__pollux_processes)'\n", before, verb->name);
	if (verb->operands & CLI_SHELLS)
		buf_printf(out, "%s %s' -f -a '" SHELLS "'\n", before, verb->name);
}

static void fish_options(struct buf *out, const struct cli_verb *verb, const struct cli_option *o)
{
	for (; o && o->name; o++) {
		buf_printf(out, "complete -c pollux -n '__fish_seen_subcommand_from %s' -l %s",
			   verb->name, o->name);
		if (o->short_name)
			buf_printf(out, " -s %c", o->short_name);
		if (o->arg && !o->optional) {
			buf_str(out, " -r");
			switch (value_of(o)) {
			case VALUE_WORDS:
				buf_printf(out, " -f -a '%s'", o->words);
				break;
			case VALUE_PROCESS:
				buf_str(out, " -f -a '(__pollux_processes)'");
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

static void fish(struct buf *out)
{
	buf_str(out, "# fish completion for pollux\n"
		     "function __pollux_processes\n"
		     "\tfor folder in (string match -r '^/proc/[0-9]+$' /proc/*)\n"
		     "\t\ttest -e $folder/exe; and printf '%s\\t%s\\n' (basename $folder) "
		     "(cat $folder/comm 2>/dev/null)\n"
		     "\tend\n"
		     "end\n"
		     "complete -c pollux -n __fish_use_subcommand -f\n");
	for (size_t i = 0; cli_verbs[i]; i++) {
		const struct cli_verb *verb = cli_verbs[i];

		buf_printf(out, "complete -c pollux -n __fish_use_subcommand -a %s -d '",
			   verb->name);
		quoted(out, verb->summary, "\\");
		buf_str(out, "'\n");
		fish_operands(out, verb);
		fish_options(out, verb, verb->options);
		fish_options(out, verb, cli_common_options);
	}
}

int completion_write(struct buf *out, const char *shell)
{
	if (strcmp(shell, "bash") == 0)
		bash(out);
	else if (strcmp(shell, "zsh") == 0)
		zsh(out);
	else if (strcmp(shell, "fish") == 0)
		fish(out);
	else
		return -EINVAL;
	return 0;
}

static const struct cli_option options[] = {{.name = NULL}};

static const char *const examples[] = {
	"pollux completion bash > ~/.local/share/bash-completion/completions/pollux",
	"where bash looks for it",
	"pollux completion zsh > ~/.zfunc/_pollux",
	"in a folder of $fpath",
	"pollux completion fish > ~/.config/fish/completions/pollux.fish",
	"where fish looks for it",
	NULL,
};

static int run(const struct cli_args *args, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (cli_n_operands(args) != 1 || completion_write(&out, cli_operand(args, 0)) < 0)
		return cli_usage(args, "completion needs one of the shells bash, zsh and fish");
	if (buf_failed(&out)) {
		error_set(err, -ENOMEM, "out of memory");
		return 1;
	}
	fwrite(out.data, 1, out.len, stdout);
	return 0;
}

const struct cli_verb verb_completion = {
	.name = "completion",
	.synopsis = "completion bash|zsh|fish",
	.summary = "print the completion script for a shell",
	.text = "Prints a script by which a shell completes verbs, options, values, processes and "
		"traces. Packages install it; use this command if you copied the executable.",
	.examples = examples,
	.operands = CLI_SHELLS,
	.options = options,
	.run = run,
};
