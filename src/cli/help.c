/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Help on the terminal. Everything comes from the tables, so it can't be wrong about which options
 * exist. A page has to fit a screen: it has only the first paragraph of a verb's text. `pollux help
 * VERB` and the man page have the rest.
 */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, OPTION_COLUMN = 27 };

/* Columns of a UTF-8 string, one per character. */
static size_t columns(const char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80;
	return n;
}

/* Adds text[0..len) from column `at` on, later lines indented by `indent`. Ends the line. */
static void wrap(struct buf *out, const char *text, size_t len, size_t at, size_t indent)
{
	const char *end = text + len;
	bool first = true;

	while (text < end) {
		size_t word = strcspn(text, " \n"), wide;

		if (word > (size_t)(end - text))
			word = (size_t)(end - text);
		wide = columns(text, word);
		if (!first && at + 1 + wide > WIDTH) {
			buf_printf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (!first) {
			buf_char(out, ' ');
			at++;
		}
		buf_add(out, text, word);
		at += wide;
		first = false;
		text += word;
		text += strspn(text, " \n");
	}
	buf_char(out, '\n');
}

static void wrap_string(struct buf *out, const char *text, size_t at, size_t indent)
{
	wrap(out, text, strlen(text), at, indent);
}

static void examples(struct buf *out, const char *const *example)
{
	for (; example && example[0] && example[1]; example += 2) {
		buf_printf(out, "  %s\n      ", example[0]);
		wrap_string(out, example[1], 6, 6);
	}
}

static void option_row(struct buf *out, const struct cli_option *o)
{
	char left[128];
	char key[] = {'-', o->short_name, ',', ' ', '\0'};
	size_t len;

	snprintf(left, sizeof(left), "  %s--%s%s%s%s", o->short_name ? key : "    ", o->name,
		 !o->arg       ? ""
		 : o->optional ? "[="
			       : " ",
		 o->arg ? o->arg : "", o->optional ? "]" : "");
	len = strlen(left);
	buf_str(out, left);
	if (len + 2 > OPTION_COLUMN)
		buf_printf(out, "\n%*s", OPTION_COLUMN, "");
	else
		buf_printf(out, "%*s", (int)(OPTION_COLUMN - len), "");
	wrap_string(out, o->help, OPTION_COLUMN, OPTION_COLUMN);
}

static void usage(struct buf *out, const struct cli_verb *verb)
{
	size_t indent = strlen("usage: pollux ") + strlen(verb->name) + 1;

	buf_str(out, "usage: pollux ");
	wrap_string(out, verb->synopsis, strlen("usage: pollux "), indent);
	buf_char(out, '\n');
}

static void options_and_examples(struct buf *out, const struct cli_verb *verb)
{
	for (const struct cli_option *o = verb->options; o && o->name; o++)
		option_row(out, o);
	for (const struct cli_option *o = cli_common_options; o->name; o++)
		option_row(out, o);
	if (verb->examples && verb->examples[0]) {
		buf_str(out, "\nExamples:\n");
		examples(out, verb->examples);
	}
}

/* The paragraphs of a text, up to `end`, a line between them. */
static void paragraphs(struct buf *out, const char *text, const char *end)
{
	while (text < end) {
		const char *next = strstr(text, "\n\n");

		if (!next || next > end)
			next = end;
		wrap(out, text, (size_t)(next - text), 0, 0);
		buf_char(out, '\n');
		text = next + strspn(next, "\n");
	}
}

void help_verb(struct buf *out, const struct cli_verb *verb)
{
	const char *paragraph_end = verb->text ? strstr(verb->text, "\n\n") : NULL;

	usage(out, verb);
	if (verb->text)
		paragraphs(out, verb->text,
			   paragraph_end ? paragraph_end : verb->text + strlen(verb->text));
	options_and_examples(out, verb);
	if (paragraph_end)
		buf_printf(out, "\nMore: pollux help %s\n", verb->name);
}

void help_page(struct buf *out, const struct cli_verb *verb)
{
	const char *text = verb->text ? verb->text : verb->summary;

	buf_printf(out, "pollux %s: ", verb->name);
	wrap_string(out, verb->summary, strlen("pollux : ") + strlen(verb->name), 2);
	buf_char(out, '\n');
	usage(out, verb);
	paragraphs(out, text, text + strlen(text));
	options_and_examples(out, verb);
	buf_str(out, "\nExit status: 0 done, 1 failed, 2 wrong use");
	buf_str(out, verb->command ? "; with a command, the command's own.\n" : ".\n");
}

void help_overview(struct buf *out)
{
	static const char *const begin[] = {"pollux record 4242 -d 10",
					    "record a running program for ten seconds",
					    "pollux report pollux-server-4242.plx",
					    "which tasks were slow, waited, or blocked a worker",
					    "pollux view pollux-server-4242.plx",
					    "see every task over time, in the browser",
					    NULL};

	buf_str(out, "usage: pollux VERB [OPTIONS] ..., or pollux PID for the await trees of a "
		     "process\n\n");
	wrap_string(out,
		    "Traces every async task of a Rust program (Tokio, async-std, smol): no "
		    "rebuild, no restart, no root.",
		    0, 0);
	buf_char(out, '\n');
	for (size_t i = 0; cli_verbs[i]; i++) {
		buf_printf(out, "  %-10s ", cli_verbs[i]->name);
		wrap_string(out, cli_verbs[i]->summary, 13, 13);
	}
	buf_str(out, "\nExamples:\n");
	examples(out, begin);
	buf_str(out, "\nMore: pollux help VERB, pollux --version.\n");
}
