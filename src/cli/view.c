/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pollux view: a trace in the browser, until Ctrl-C. */
#include "cli/view.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/input.h"
#include "cli/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

int view_show(struct view_options *opt, struct error *err)
{
	static char label[] = "indexing";

	opt->progress = cli_progress;
	opt->progress_ctx = label;
	opt->progress_done = cli_progress_done;
	int r = view_serve(opt, err);
	if (r < 0)
		error_add(err, "cannot show %s", opt->path);
	return r;
}

static int run(const struct cli_args *args, struct error *err)
{
	struct view_options opt = {
		.open = !cli_flag(args, "no-open"),
		.follow = cli_flag(args, "follow"),
		.in = cli_option(args, "in"),
	};
	_cleanup_free_ char *input = NULL;

	if (opt.in && strcmp(opt.in, "perfetto") != 0 && strcmp(opt.in, "firefox") != 0 &&
	    strcmp(opt.in, "speedscope") != 0)
		return cli_usage(args, "--in is perfetto, firefox or speedscope, not '%s'", opt.in);
	if (opt.in && opt.follow)
		return cli_usage(args, "--follow works with pollux's own page only: other viewers "
				       "read a trace once");
	int r = parse_port(args, &opt.port);
	if (r == 0 && opt.in && !strcmp(opt.in, "perfetto") && opt.port && opt.port != 9001)
		return cli_usage(args, "Perfetto loads a trace from port 9001 only, not from %u",
				 opt.port);
	if (r == 0)
		r = input_trace(args, &input);
	if (r)
		return r;
	if (strcmp(input, "-") != 0 && access(input, F_OK) < 0) {
		error_sys(err, -errno, "cannot open %s", input);
		return 1;
	}
	if (!input_is_file(input))
		return cli_usage(args, "the trace is read many times: give a file, not '%s'",
				 input);
	opt.path = input;
	return view_show(&opt, err) < 0 ? 1 : 0;
}

static const struct cli_option options[] = {
	{0, "port", "N", "listen on port N (default: one that is free)", false},
	{0, "no-open", NULL, "print the address, and open no browser", false},
	{0, "follow", NULL, "the trace is still being recorded: show what is added to it", false},
	{0, "in", "VIEWER", "open the trace in perfetto, firefox or speedscope instead", false,
	 false, "perfetto firefox speedscope"},
	{0},
};

static const char *const examples[] = {
	"pollux view trace.plx",
	"open the trace in the browser",
	"pollux view --no-open --port 8900 trace.plx",
	"only print the address, for a browser elsewhere: ssh -L 8900:127.0.0.1:8900 HOST",
	"pollux view --in perfetto trace.plx",
	"open it in ui.perfetto.dev, which loads it from this machine",
	NULL,
};

const struct cli_verb verb_view = {
	.name = "view",
	.synopsis = "view [OPTIONS] [FILE.plx]",
	.summary = "show a trace in the browser",
	.text = "Serves a page that shows the trace FILE.plx (default: the newest here), prints "
		"its address, opens it in the browser, and ends with Ctrl-C.\n\n"
		"Only programs on this machine that know the address can open it: it has a random "
		"part. The page loads nothing from the network.",
	.examples = examples,
	.operands = CLI_TRACES,
	.options = options,
	.run = run,
};
