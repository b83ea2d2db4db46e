/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pollux view: a trace in the browser, until Ctrl-C. */
#include "view/view.h"

#include "base/cleanup.h"
#include "cli/input.h"
#include "cli/verbs.h"

#include <errno.h>
#include <stdlib.h>

static int parse_port(const struct cli_args *args, uint16_t *ret)
{
	const char *text = cli_option(args, "port");
	char *end;

	if (!text)
		return 0;
	errno = 0;
	unsigned long port = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || !port || port > UINT16_MAX)
		return cli_usage(args, "--port needs a number from 1 to 65535, not '%s'", text);
	*ret = (uint16_t)port;
	return 0;
}

static int run(const struct cli_args *args, struct error *err)
{
	static char label[] = "indexing";
	struct view_options opt = {
		.open = !cli_flag(args, "no-open"),
		.progress = cli_progress,
		.progress_ctx = label,
		.progress_done = cli_progress_done,
	};
	_cleanup_free_ char *input = NULL;

	int r = parse_port(args, &opt.port);
	if (r == 0)
		r = input_trace(args, &input);
	if (r)
		return r;
	if (!input_is_file(input))
		return cli_usage(args, "the trace is read many times: give a file, not '%s'",
				 input);
	opt.path = input;
	r = view_serve(&opt, err);
	if (r < 0)
		error_add(err, "cannot show %s", input);
	return r < 0 ? 1 : 0;
}

static const struct cli_option options[] = {
	{0, "port", "N", "listen on port N (default: one that is free)", false},
	{0, "no-open", NULL, "print the address, and open no browser", false},
	{0},
};

static const char *const examples[] = {
	"pollux view trace.plx",
	"open the trace in the browser",
	"pollux view --no-open --port 8900 trace.plx",
	"only print the address, for a browser elsewhere: ssh -L 8900:127.0.0.1:8900 HOST",
	NULL,
};

const struct cli_verb verb_view = {
	.name = "view",
	.synopsis = "view [OPTIONS] [FILE.plx]",
	.summary = "show a trace in the browser",
	.text = "Serves a page that shows the trace FILE.plx (default: the newest here), prints "
		"its "
		"address, opens it in the browser, and ends with Ctrl-C.\n\n"
		"Only this machine can open the address, and only who knows it: it has a random "
		"part. The page loads nothing from the network.",
	.examples = examples,
	.operands = CLI_TRACES,
	.options = options,
	.run = run,
};
