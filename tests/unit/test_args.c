/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The command line's words: every form of an option, and every way to get one wrong. */
#include "cli/args.h"
#include "cli/help.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int run_nothing(const struct cli_args *args, struct error *err)
{
	return 0;
}

static const struct cli_option options[] = {
	{'p', "pid", "PID", "attach to this process", true},
	{'d', "duration", "SECONDS", "stop after so long", false},
	{'q', "quiet", NULL, "say nothing", false},
	{'j', "json", NULL, "as JSON", false},
	{0, "ring-size", "BYTES", "memory per thread", false},
	{'c', "cpu", "HZ", "samples", false, true},
	{0},
};

static const char *const examples[] = {"pollux try -p 1", "what it does", NULL};

static const struct cli_verb verb_try = {
	.name = "try",
	.synopsis = "try [OPTIONS] [FILE...] | -- CMD [ARGS...]",
	.summary = "tries",
	.text = "First paragraph.\n\nSecond paragraph.",
	.examples = examples,
	.options = options,
	.command = true,
	.run = run_nothing,
};

static const struct cli_verb verb_read = {
	.name = "read",
	.synopsis = "read FILE",
	.summary = "reads",
	.text = "Reads.",
	.options = options,
	.run = run_nothing,
};

const struct cli_verb *const cli_verbs[] = {&verb_try, &verb_read, NULL};

#define WORDS(...) ((char *[]){__VA_ARGS__, NULL})

static int parse(const struct cli_verb *verb, char **words, struct cli_args *args,
		 struct error *err)
{
	int n = 0;

	while (words[n])
		n++;
	*err = (struct error){0};
	return args_parse(verb, n, words, args, err);
}

static void test_forms(void **state)
{
	char **const forms[] = {
		WORDS("-d", "10", "-q"),
		WORDS("-d10", "-q"),
		WORDS("--duration", "10", "-q"),
		WORDS("--duration=10", "--quiet"),
		WORDS("-qd", "10"),
		WORDS("-qd10"),
		WORDS("-d", "3", "-q", "-d", "10"),
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct cli_args args;
		struct error err;

		assert_int_equal(parse(&verb_try, forms[i], &args, &err), 0);
		assert_string_equal(cli_option(&args, "duration"), "10");
		assert_true(cli_flag(&args, "quiet"));
		assert_false(cli_flag(&args, "json"));
		assert_null(cli_option(&args, "ring-size"));
		assert_null(cli_option_all(&args, "pid"));
		assert_int_equal(cli_n_operands(&args), 0);
		assert_null(cli_command(&args));
		args_done(&args);
	}
}

static void test_many(void **state)
{
	struct cli_args args;
	struct error err;
	const char *const *pids;

	assert_int_equal(parse(&verb_try, WORDS("-p1", "--pid=2", "--pid", "3"), &args, &err), 0);
	pids = cli_option_all(&args, "pid");
	assert_string_equal(pids[0], "1");
	assert_string_equal(pids[1], "2");
	assert_string_equal(pids[2], "3");
	assert_null(pids[3]);
	assert_string_equal(cli_option(&args, "pid"), "3");
	args_done(&args);
}

static void test_values(void **state)
{
	struct cli_args args;
	struct error err;

	/* A value may begin as an option, but is none, and isn't empty. */
	assert_int_equal(parse(&verb_try, WORDS("-d", "-1", "--ring-size=-x"), &args, &err), 0);
	assert_string_equal(cli_option(&args, "duration"), "-1");
	assert_string_equal(cli_option(&args, "ring-size"), "-x");
	args_done(&args);
}

static void test_optional_values(void **state)
{
	struct cli_args args;
	struct error err;

	assert_int_equal(parse(&verb_try, WORDS("--cpu", "x", "-c", "-c", "--cpu"), &args, &err),
			 0);
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(cli_option_all(&args, "cpu")[i], "");
	assert_int_equal(cli_n_operands(&args), 1);
	args_done(&args);
	/* a number can be nothing else */
	assert_int_equal(parse(&verb_try, WORDS("--cpu", "99", "-c", "7"), &args, &err), 0);
	assert_string_equal(cli_option_all(&args, "cpu")[0], "99");
	assert_string_equal(cli_option_all(&args, "cpu")[1], "7");
	assert_int_equal(cli_n_operands(&args), 0);
	args_done(&args);
	assert_int_equal(parse(&verb_try, WORDS("--cpu=99", "-c7"), &args, &err), 0);
	assert_string_equal(cli_option_all(&args, "cpu")[0], "99");
	assert_string_equal(cli_option_all(&args, "cpu")[1], "7");
	args_done(&args);
}

static void test_operands(void **state)
{
	struct cli_args args;
	struct error err;

	assert_int_equal(parse(&verb_read, WORDS("a", "-q", "-", "--", "-b", "--"), &args, &err),
			 0);
	assert_int_equal(cli_n_operands(&args), 4);
	assert_string_equal(cli_operand(&args, 0), "a");
	assert_string_equal(cli_operand(&args, 1), "-");
	assert_string_equal(cli_operand(&args, 2), "-b");
	assert_string_equal(cli_operand(&args, 3), "--");
	assert_null(cli_operand(&args, 4));
	assert_true(cli_flag(&args, "quiet"));
	args_done(&args);
}

static void test_command(void **state)
{
	struct cli_args args;
	struct error err;

	assert_int_equal(parse(&verb_try, WORDS("-q", "--", "server", "-p", "--help"), &args, &err),
			 0);
	assert_string_equal(cli_command(&args)[0], "server");
	assert_string_equal(cli_command(&args)[1], "-p");
	assert_string_equal(cli_command(&args)[2], "--help");
	assert_null(cli_command(&args)[3]);
	assert_null(cli_option_all(&args, "pid"));
	assert_false(args.help);
	args_done(&args);

	assert_int_equal(parse(&verb_try, WORDS("--"), &args, &err), 0);
	assert_null(cli_command(&args));
	args_done(&args);
}

static void test_wrong(void **state)
{
	static const struct {
		char *words[4];
		const char *text;
	} wrong[] = {
		{{"--durtion=1"}, "try has no option --durtion; did you mean --duration?"},
		{{"--ring", "1"}, "try has no option --ring; did you mean --ring-size?"},
		{{"--xyzzy"}, "try has no option --xyzzy"},
		{{"--hlep"}, "try has no option --hlep; did you mean --help?"},
		{{"-x"}, "try has no option -x"},
		{{"-ring-size"}, "try has no option -r; did you mean --ring-size?"},
		{{"-d"}, "option --duration needs a value: --duration SECONDS"},
		{{"--duration"}, "option --duration needs a value: --duration SECONDS"},
		{{"--duration="}, "option --duration needs a value: --duration SECONDS"},
		{{"-d", ""}, "option --duration needs a value: --duration SECONDS"},
		{{"-d", "--ring-size"}, "option --duration needs a value: --duration SECONDS"},
		{{"--duration", "-d"}, "option --duration needs a value: --duration SECONDS"},
		{{"--json=1"}, "option --json takes no value"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct cli_args args;
		struct error err;

		assert_int_equal(parse(&verb_try, (char **)(uintptr_t)wrong[i].words, &args, &err),
				 -EINVAL);
		assert_string_equal(err.text, wrong[i].text);
	}
}

static void test_help(void **state)
{
	char **const forms[] = {WORDS("--help"), WORDS("-h"), WORDS("-qh"),
				WORDS("a", "--help", "--x")};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct cli_args args;
		struct error err;

		assert_int_equal(parse(&verb_try, forms[i], &args, &err), 0);
		assert_true(args.help);
		args_done(&args);
	}
}

static void test_nearest(void **state)
{
	static const char *const verbs[] = {"record", "report", "export", "doctor", NULL};

	assert_string_equal(args_nearest("recrod", verbs), "record");
	assert_string_equal(args_nearest("rep", verbs), "report");
	assert_string_equal(args_nearest("reports", verbs), "report");
	assert_string_equal(args_nearest("exprot", verbs), "export");
	assert_null(args_nearest("banana", verbs));
	assert_null(args_nearest("x", verbs));
	assert_null(args_nearest("", verbs));
	assert_null(args_nearest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", verbs));
}

static void test_verbose(void **state)
{
	char **const forms[] = {WORDS("-v"), WORDS("a", "--verbose"), WORDS("-qv"),
				WORDS("-vd", "1")};
	struct error err = {0};
	struct cli_args args;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		assert_int_equal(parse(&verb_try, forms[i], &args, &err), 0);
		assert_true(args.verbose);
		assert_false(args.help);
		args_done(&args);
	}
	assert_int_equal(parse(&verb_try, WORDS("-q", "--", "cmd", "-v"), &args, &err), 0);
	assert_false(args.verbose);
	args_done(&args);
}

static void test_help_text(void **state)
{
	struct buf out = BUF_INIT;

	help_verb(&out, &verb_try);
	assert_false(buf_failed(&out));
	assert_non_null(strstr(out.data, "usage: pollux try [OPTIONS]"));
	assert_non_null(strstr(out.data, "First paragraph."));
	assert_null(strstr(out.data, "Second paragraph."));
	assert_non_null(strstr(out.data, "More: pollux help try"));
	assert_non_null(strstr(out.data, "  -p, --pid PID"));
	assert_non_null(strstr(out.data, "      --ring-size BYTES"));
	assert_non_null(strstr(out.data, "  pollux try -p 1\n      what it does\n"));
	buf_clear(&out);
	help_page(&out, &verb_try);
	assert_non_null(strstr(out.data, "First paragraph.\n\nSecond paragraph.\n\n"));
	assert_non_null(strstr(out.data, "  -p, --pid PID"));
	assert_non_null(strstr(out.data, "Exit status: "));
	buf_clear(&out);
	help_overview(&out);
	assert_non_null(strstr(out.data, "  try        tries\n  read       reads\n"));
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),	  cmocka_unit_test(test_many),
		cmocka_unit_test(test_values),	  cmocka_unit_test(test_optional_values),
		cmocka_unit_test(test_operands),  cmocka_unit_test(test_command),
		cmocka_unit_test(test_wrong),	  cmocka_unit_test(test_help),
		cmocka_unit_test(test_verbose),	  cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_help_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
