/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names of perf's events. A tracepoint is "group:name"; everything else is a counter, whose name
 * may be wrapped in that of its unit ("cpu_core/cycles/"), and carry settings ("cycles/freq=999/")
 * and modifiers ("cycles:ppp").
 */
#include "import/perf_events.h"

#include "base/syscalls.h"

#include <string.h>

static bool counter(const struct perf_text *t, enum trace_sample *ret)
{
	static const struct {
		const char *name;
		enum trace_sample sample;
	} counters[] = {
		{"cpu-clock", TM_CPU_CLOCK},
		{"task-clock", TM_CPU_CLOCK},
		{"cycles", TM_CYCLES},
		{"cpu-cycles", TM_CYCLES},
		{"instructions", TM_INSTRUCTIONS},
	};
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		if (perf_text_is(t, counters[i].name)) {
			*ret = counters[i].sample;
			return true;
		}
	}
	return false;
}

static bool is_counter(const char *name, size_t len, enum trace_sample *ret)
{
	size_t n = 0;

	while (n < len && name[n] != ':' && name[n] != '/')
		n++;
	struct perf_text t = {name, n};
	if (counter(&t, ret))
		return true;
	/* In its unit: the text between the slashes. */
	if (n >= len || name[n] != '/' || strncmp(name, "cpu", n < 3 ? n : 3) != 0)
		return false;
	t = (struct perf_text){name + n + 1, 0};
	while (n + 1 + t.len < len && t.p[t.len] != '/' && t.p[t.len] != ',')
		t.len++;
	return counter(&t, ret);
}

static int named_syscall(const struct perf_text *name, const char *prefix)
{
	char copy[64];
	size_t skip = strlen(prefix);

	if (!perf_text_starts(name, prefix) || name->len - skip >= sizeof(copy))
		return -1;
	memcpy(copy, name->p + skip, name->len - skip);
	copy[name->len - skip] = 0;
	return syscall_number(copy);
}

static void tracepoint(struct perf_text group, struct perf_text name, struct perf_event *ret)
{
	bool raw = perf_text_is(&group, "raw_syscalls"), named = perf_text_is(&group, "syscalls");

	if (raw && perf_text_is(&name, "sys_enter")) {
		ret->type = PE_SYS_ENTER;
	} else if (raw && perf_text_is(&name, "sys_exit")) {
		ret->type = PE_SYS_EXIT;
	} else if (named && (ret->syscall = named_syscall(&name, "sys_enter_")) >= 0) {
		ret->type = PE_SYS_ENTER;
	} else if (named && (ret->syscall = named_syscall(&name, "sys_exit_")) >= 0) {
		ret->type = PE_SYS_EXIT;
	} else if (perf_text_is(&group, "sched") && perf_text_is(&name, "sched_switch")) {
		ret->type = PE_SWITCH;
	} else if (group.len < sizeof(ret->provider) && name.len < sizeof(ret->name)) {
		memcpy(ret->provider, group.p, group.len);
		memcpy(ret->name, name.p, name.len);
		for (size_t n = 0; n <= PROVIDER_MAX_ARGS; n++) {
			ret->probes[n] = providers_match_event(ret->provider, ret->name, n);
			if (ret->probes[n])
				ret->type = PE_PROBE;
		}
	}
}

void perf_event_classify(const char *name, size_t len, struct perf_event *ret)
{
	enum trace_sample sample;

	*ret = (struct perf_event){.syscall = -1};
	if (is_counter(name, len, &sample)) {
		ret->type = PE_SAMPLE;
		ret->sample = sample;
		return;
	}
	const char *colon = memchr(name, ':', len);
	if (colon)
		tracepoint((struct perf_text){name, (size_t)(colon - name)},
			   (struct perf_text){colon + 1, (size_t)(name + len - (colon + 1))}, ret);
}

const struct provider_probe *perf_event_probe(const struct perf_event *e, size_t n_args)
{
	for (size_t n = n_args < PROVIDER_MAX_ARGS ? n_args : PROVIDER_MAX_ARGS;; n--) {
		if (e->probes[n] || !n)
			return e->probes[n];
	}
}
