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

int filter_parse(const struct cli_args *args, struct replay_filter *ret)
{
	int code = filter_time(args, "from", &ret->from_ns);

	if (!code)
		code = filter_time(args, "to", &ret->to_ns);
	if (code)
		return code;
	if (ret->to_ns && ret->to_ns <= ret->from_ns)
		return cli_usage(args, "--to must be later than --from");
	ret->families = cli_option_all(args, "family");
	ret->threads = cli_option_all(args, "thread");
	ret->tasks = cli_option_all(args, "task");
	return 0;
}
