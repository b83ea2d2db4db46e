/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Words into options, operands and a command, by a verb's table of options.
 *
 * The usual forms: -d 10, -d10, --duration 10, --duration=10, flags together as in -qj. A value
 * that may be missing is the next word only where follows() says so. Options and operands may come
 * in any order. `--` ends the options; for a verb that runs a command everything after it is that
 * command, untouched, so that the program's options are never taken for those of pollux. A word that
 * is no option of the verb is an error with the nearest name that would have been one.
 */
#include "cli/args.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/own_command.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORD = 32 };

const struct cli_option cli_common_options[] = {
	{'v', "verbose", NULL, "log each step on stderr", false},
	{'h', "help", NULL, "show this help", false},
	{0},
};

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap of neighbours) from a to b: optimal string alignment. */
static size_t distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	size_t d[MAX_WORD + 1][MAX_WORD + 1];

	if (la > MAX_WORD || lb > MAX_WORD)
		return SIZE_MAX;
	for (size_t i = 0; i <= la; i++)
		d[i][0] = i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= la; i++) {
		for (size_t j = 1; j <= lb; j++) {
			size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			best = min_size(best, min_size(d[i - 1][j], d[i][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = min_size(best, d[i - 2][j - 2] + 1);
			d[i][j] = best;
		}
	}
	return d[la][lb];
}

const char *args_nearest(const char *word, const char *const *candidates)
{
	size_t len = strlen(word);
	size_t best = SIZE_MAX;
	const char *ret = NULL;

	for (; *candidates; candidates++) {
		/* The beginning of a name is nearer than any misspelling. */
		bool prefix = len >= 2 && strncmp(word, *candidates, len) == 0;
		size_t d = prefix ? 0 : distance(word, *candidates);

		if (d < best && d <= (len + 2) / 3 && d < len) {
			best = d;
			ret = *candidates;
		}
	}
	return ret;
}

static size_t count_options(const struct cli_verb *verb)
{
	size_t n = 0;

	while (verb->options && verb->options[n].name)
		n++;
	return n;
}

/* Index of the option called name[0..len), or -1. */
static int find_long(const struct cli_verb *verb, const char *name, size_t len)
{
	size_t n = count_options(verb);

	for (size_t i = 0; i < n; i++) {
		const char *have = verb->options[i].name;

		if (strlen(have) == len && memcmp(have, name, len) == 0)
			return (int)i;
	}
	return -1;
}

static int find_short(const struct cli_verb *verb, char c)
{
	size_t n = count_options(verb);

	for (size_t i = 0; i < n; i++) {
		if (verb->options[i].short_name == c && c != '\0')
			return (int)i;
	}
	return -1;
}

/* -v and -h, by their letter; 0: it is neither. */
static char find_common(const char *name)
{
	for (const struct cli_option *o = cli_common_options; o->name; o++) {
		if (strcmp(o->name, name) == 0)
			return o->short_name;
	}
	return '\0';
}

static bool take_common(struct cli_args *args, char letter)
{
	args->verbose = args->verbose || letter == 'v';
	args->help = args->help || letter == 'h';
	return letter == 'v' || letter == 'h';
}

static int unknown_long(const struct cli_verb *verb, const char *name, size_t len,
			struct error *err)
{
	size_t n = count_options(verb);
	_cleanup_free_ const char **names = calloc(n + 3, sizeof(*names));
	_cleanup_free_ char *word = strndup(name, len);
	const char *near;

	if (!names || !word)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		names[i] = verb->options[i].name;
	for (size_t i = 0; cli_common_options[i].name; i++)
		names[n + i] = cli_common_options[i].name;
	near = args_nearest(word, names);
	if (near)
		return error_set(err, -EINVAL, "%s has no option --%s; did you mean --%s?",
				 verb->name, word, near);
	return error_set(err, -EINVAL, "%s has no option --%s", verb->name, word);
}

static int add_value(struct cli_args *args, int option, const char *value, struct error *err)
{
	const char **list = args->values[option];
	size_t n = 0;

	while (list && list[n])
		n++;
	list = reallocarray(list, n + 2, sizeof(*list));
	if (!list)
		return error_set(err, -ENOMEM, "out of memory");
	list[n] = value;
	list[n + 1] = NULL;
	args->values[option] = list;
	return 0;
}

static int missing(const struct cli_verb *verb, int option, struct error *err)
{
	const struct cli_option *o = &verb->options[option];

	return error_set(err, -EINVAL, "option --%s needs a value: --%s %s", o->name, o->name,
			 o->arg);
}

/* Is the word one of the verb's options? A value never is, by mistake it is one if what should be
 * there is an empty variable of a shell. */
static bool is_option(const struct cli_verb *verb, const char *word)
{
	if (word[0] != '-' || !word[1])
		return false;
	if (word[1] == '-')
		return find_long(verb, word + 2, strcspn(word + 2, "=")) >= 0;
	return !word[2] && find_short(verb, word[1]) >= 0;
}

/* Its value is that word, which is NULL if there is none. */
static int take_value(struct cli_args *args, int option, const char *word, struct error *err)
{
	if (!word || !*word || is_option(args->verb, word))
		return missing(args->verb, option, err);
	return add_value(args, option, word, err);
}

/* A value that may be missing is the next word if that can be nothing else: a verb that runs a
 * command has its words after "--", and no option begins with a digit. */
static bool follows(const struct cli_verb *verb, int argc, char **argv, int i)
{
	return verb->command && i + 1 < argc && argv[i + 1][0] >= '0' && argv[i + 1][0] <= '9';
}

/* `word` starts with "--". *i is advanced if its value is the next word. */
static int parse_long(struct cli_args *args, int argc, char **argv, int *i, struct error *err)
{
	const char *name = argv[*i] + 2;
	const char *eq = strchr(name, '=');
	size_t len = eq ? (size_t)(eq - name) : strlen(name);
	int option = find_long(args->verb, name, len);

	if (option < 0)
		return unknown_long(args->verb, name, len, err);
	if (!args->verb->options[option].arg) {
		if (eq)
			return error_set(err, -EINVAL, "option --%s takes no value",
					 args->verb->options[option].name);
		return add_value(args, option, "", err);
	}
	if (eq)
		return eq[1] ? add_value(args, option, eq + 1, err)
			     : missing(args->verb, option, err);
	if (args->verb->options[option].optional && !follows(args->verb, argc, argv, *i))
		return add_value(args, option, "", err);
	++*i;
	return take_value(args, option, *i < argc ? argv[*i] : NULL, err);
}

/* One word of short options: flags, the last of them may take a value. */
static int parse_short(struct cli_args *args, int argc, char **argv, int *i, struct error *err)
{
	for (const char *c = argv[*i] + 1; *c; c++) {
		int option = find_short(args->verb, *c);

		if (option < 0 && take_common(args, *c)) {
			if (args->help)
				return 0;
			continue;
		}
		if (option < 0) {
			/* "-json" for "--json" is the usual slip. */
			if (find_long(args->verb, argv[*i] + 1, strlen(argv[*i] + 1)) >= 0)
				return error_set(err, -EINVAL,
						 "%s has no option -%c; did you mean -%s?",
						 args->verb->name, *c, argv[*i]);
			return error_set(err, -EINVAL, "%s has no option -%c", args->verb->name,
					 *c);
		}
		if (!args->verb->options[option].arg) {
			TRY(add_value(args, option, "", err));
			continue;
		}
		if (c[1])
			return add_value(args, option, c + 1, err);
		if (args->verb->options[option].optional && !follows(args->verb, argc, argv, *i))
			return add_value(args, option, "", err);
		++*i;
		return take_value(args, option, *i < argc ? argv[*i] : NULL, err);
	}
	return 0;
}

/* An empty word is a shell's variable that is not set. */
static int add_operand(struct cli_args *args, const char *word, struct error *err)
{
	if (!*word)
		return error_set(err, -EINVAL, "an empty word ('') names nothing");
	args->operands[args->n_operands++] = word;
	return 0;
}

static int parse(struct cli_args *args, int argc, char **argv, struct error *err)
{
	for (int i = 0; i < argc; i++) {
		const char *word = argv[i];
		int r = 0;

		if (strcmp(word, "--") == 0) {
			if (args->verb->command) {
				args->command = argv + i + 1;
				return 0;
			}
			for (i++; i < argc && !r; i++)
				r = add_operand(args, argv[i], err);
			return r;
		}
		if (word[0] != '-' || !word[1])
			r = add_operand(args, word, err);
		else if (word[1] != '-')
			r = parse_short(args, argc, argv, &i, err);
		else if (!take_common(args, find_common(word + 2)))
			r = parse_long(args, argc, argv, &i, err);
		if (r < 0 || args->help)
			return r;
	}
	return 0;
}

int args_parse(const struct cli_verb *verb, int argc, char **argv, struct cli_args *ret_args,
	       struct error *err)
{
	struct cli_args args = {.verb = verb};
	int r;

	args.values = calloc(count_options(verb) + 1, sizeof(*args.values));
	args.operands = calloc((size_t)argc + 1, sizeof(*args.operands));
	if (args.values && args.operands)
		r = parse(&args, argc, argv, err);
	else
		r = error_set(err, -ENOMEM, "out of memory");
	if (r < 0) {
		args_done(&args);
		return r;
	}
	*ret_args = args;
	return 0;
}

void args_done(struct cli_args *args)
{
	size_t n = args->values ? count_options(args->verb) : 0;

	for (size_t i = 0; i < n; i++)
		free(args->values[i]);
	free(args->values);
	free(args->operands);
	*args = (struct cli_args){0};
}

const char *const *cli_option_all(const struct cli_args *args, const char *name)
{
	int option = find_long(args->verb, name, strlen(name));

	/* A name that the verb's own table lacks is a slip of the verb's author. */
	if (option < 0)
		abort();
	return (const char *const *)args->values[option];
}

const char *cli_option(const struct cli_args *args, const char *name)
{
	const char *const *list = cli_option_all(args, name);
	const char *last = NULL;

	while (list && *list)
		last = *list++;
	return last;
}

bool cli_flag(const struct cli_args *args, const char *name)
{
	return cli_option_all(args, name) != NULL;
}

size_t cli_n_operands(const struct cli_args *args)
{
	return args->n_operands;
}

const char *cli_operand(const struct cli_args *args, size_t i)
{
	return i < args->n_operands ? args->operands[i] : NULL;
}

char *const *cli_command(const struct cli_args *args)
{
	return args->command && args->command[0] ? args->command : NULL;
}

void cli_complain(const char *text)
{
	_cleanup_buf_ struct buf line = BUF_INIT;

	buf_str(&line, "pollux: ");
	text_safe(&line, text);
	buf_char(&line, '\n');
	fputs(buf_failed(&line) ? "pollux: out of memory\n" : line.data, stderr);
}

int args_usage(const char *verb, const char *text)
{
	cli_complain(text);
	fprintf(stderr, "Try: %s %s%s--help\n", own_command(), verb ? verb : "", verb ? " " : "");
	return ARGS_USAGE;
}

int cli_usage(const struct cli_args *args, const char *fmt, ...)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	return args_usage(args->verb->name, buf_failed(&text) ? "out of memory" : text.data);
}
