/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See log.h. Each line is written by one call, so that lines of threads don't mix; times are since
 * the log was enabled. */
#include "base/log.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

unsigned log_domains;

static uint64_t began_ns;
static const char *const names[LOG_N] = {"attach", "find", "debug", "drain", "kernel", "tree"};

static unsigned domain_bits(const char *name, size_t len)
{
	if (len == strlen("all") && !memcmp(name, "all", len))
		return (1u << LOG_N) - 1;
	for (unsigned i = 0; i < LOG_N; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], name, len))
			return 1u << i;
	return 0;
}

int log_enable(const char *list)
{
	unsigned bits = 0;

	for (;;) {
		size_t len = strcspn(list, ",");
		unsigned one = domain_bits(list, len);

		if (!one)
			return -EINVAL;
		bits |= one;
		if (!list[len])
			break;
		list += len + 1;
	}
	began_ns = began_ns ? began_ns : clock_monotonic_ns();
	log_domains = bits;
	return 0;
}

void log_write(enum log_domain domain, const char *fmt, ...)
{
	_cleanup_buf_ struct buf line = BUF_INIT;
	uint64_t us = (clock_monotonic_ns() - began_ns) / 1000;
	char text[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	buf_printf(&line, "pollux: %s %u.%03u ms: ", names[domain], (unsigned)(us / 1000),
		   (unsigned)(us % 1000));
	text_safe(&line, text);
	buf_printf(&line, "\n");
	if (!buf_failed(&line))
		fwrite(line.data, 1, line.len, stderr);
}
