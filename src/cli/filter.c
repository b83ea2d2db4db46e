/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See filter.h. */
#include "cli/filter.h"

#include "base/text.h"
#include "base/units.h"

int filter_time(const struct cli_args *args, const char *name, uint64_t *ret)
{
	const char *s = cli_option(args, name);

	if (s && text_parse_duration(s, NSEC_PER_SEC, ret) < 0)
		return cli_usage(args, "--%s needs a time such as 2.5s or 300ms, not '%s'", name,
				 s);
	return 0;
}

int filter_tasks(const struct cli_args *args, const char *const **ret)
{
	uint64_t number;

	*ret = cli_option_all(args, "task");
	for (const char *const *one = *ret; one && *one; one++)
		if (text_parse_number(*one, &number) < 0)
			return cli_usage(args, "--task is the number of a task, not '%s'", *one);
	return 0;
}

int filter_parse(const struct cli_args *args, struct replay_filter *ret)
{
	int code = filter_time(args, "from", &ret->from_ns);

	if (!code)
		code = filter_time(args, "to", &ret->to_ns);
	if (code)
		return code;
	if (cli_option(args, "to") && ret->to_ns <= ret->from_ns)
		return cli_usage(args, "--to must be later than %s",
				 ret->from_ns ? "--from" : "the begin of the trace");
	ret->families = cli_option_all(args, "family");
	ret->threads = cli_option_all(args, "thread");
	return filter_tasks(args, &ret->tasks);
}
