/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Help on the terminal. Everything comes from the tables, so it can't be wrong about which options
 * exist. A page has to fit a screen: it has only the first paragraph of a verb's text, the man page
 * has the rest.
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

void help_verb(struct buf *out, const struct cli_verb *verb)
{
	const char *paragraph_end = verb->text ? strstr(verb->text, "\n\n") : NULL;
	size_t indent = strlen("usage: pollux ") + strlen(verb->name) + 1;

	buf_str(out, "usage: pollux ");
	wrap_string(out, verb->synopsis, strlen("usage: pollux "), indent);
	buf_char(out, '\n');
	if (verb->text) {
		size_t len =
			paragraph_end ? (size_t)(paragraph_end - verb->text) : strlen(verb->text);

		wrap(out, verb->text, len, 0, 0);
		buf_char(out, '\n');
	}
	for (const struct cli_option *o = verb->options; o && o->name; o++)
		option_row(out, o);
	for (const struct cli_option *o = cli_common_options; o->name; o++)
		option_row(out, o);
	if (verb->examples && verb->examples[0]) {
		buf_str(out, "\nExamples:\n");
		examples(out, verb->examples);
	}
	if (paragraph_end)
		buf_printf(out, "\nMore: man pollux-%s\n", verb->name);
}

void help_overview(struct buf *out)
{
	static const char *const begin[] = {
		"pollux record 4242 -d 10",
		"record a running program for ten seconds",
		"pollux report pollux-server-4242.plx",
		"which tasks were slow, waited, or blocked a worker",
		"pollux export pollux-server-4242.plx -o trace.json",
		"see every task over time, in ui.perfetto.dev or chrome://tracing",
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
	buf_str(out, "\nMore: pollux VERB --help, pollux --version.\n");
}
