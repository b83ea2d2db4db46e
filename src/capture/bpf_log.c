/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See bpf_log.h. The verifier's reasons come as one text of many lines; each is one of the log. */
#include "capture/bpf_log.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 0))) static int write_lines(enum libbpf_print_level level,
							     const char *fmt, va_list args)
{
	_cleanup_free_ char *text = NULL;
	char *rest;

	if (level == LIBBPF_DEBUG || vasprintf(&text, fmt, args) < 0)
		return 0;
	rest = text;
	for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
		if (*line)
			log_write(LOG_KERNEL, "%s", line);
	return 0;
}

void bpf_log_begin(void)
{
	libbpf_set_print(log_on(LOG_KERNEL) ? write_lines : NULL);
}
