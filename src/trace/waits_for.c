/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "trace/waits_for.h"

#include <string.h>

bool trace_place_awaits_a(const struct trace_reader *r, uint64_t place, const char *const *own,
			  const char *part)
{
	const struct trace_place *p = NULL, *last = NULL;

	if (place) {
		p = trace_reader_place(r, (uint32_t)(place - 1));
		last = trace_reader_own_place(r, (uint32_t)(place - 1), own);
	}
	/* From the innermost one on; each is an earlier one than the one before. */
	for (unsigned n = 0; p && n < TRACE_MAX_OUTER; n++) {
		if (p->awaits && strstr(p->awaits, part))
			return true;
		p = p != last && p->outer ? trace_reader_place(r, p->outer - 1) : NULL;
	}
	return false;
}

enum wait_for trace_place_waits_for(const struct trace_reader *r, uint64_t place,
				    const char *const *own)
{
	static const struct {
		const char *part;
		enum wait_for what;
	} parts[] = {
		{"mutex", WF_LOCK},	 {"Mutex", WF_LOCK},
		{"rwlock", WF_LOCK},	 {"RwLock", WF_LOCK},
		{"emaphore", WF_LOCK},	 {"Acquire", WF_LOCK},
		{"Sleep", WF_TIMER},	 {"sleep", WF_TIMER},
		{"Interval", WF_TIMER},	 {"interval", WF_TIMER},
		{"Timer", WF_TIMER},	 {"timeout", WF_TIMER},
		{"channel", WF_MESSAGE}, {"sync::mpsc", WF_MESSAGE},
		{"notify", WF_MESSAGE},	 {"Notified", WF_MESSAGE},
		{"Recv", WF_MESSAGE},	 {"recv", WF_MESSAGE},
		{"oneshot", WF_MESSAGE}, {"signal", WF_MESSAGE},
		{"net::", WF_IO},	 {"Tcp", WF_IO},
		{"Udp", WF_IO},		 {"Unix", WF_IO},
		{"eadiness", WF_IO},	 {"accept", WF_IO},
		{"::io::", WF_IO}, /* not "tokio::" */
		{"read", WF_IO},	 {"write", WF_IO},
		{"onnection", WF_IO},	 {"async_io", WF_IO},
		{"yield_now", WF_YIELD},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (trace_place_awaits_a(r, place, own, parts[i].part))
			return parts[i].what;
	return WF_OTHER;
}
