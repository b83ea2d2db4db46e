/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "trace/objects.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

char *trace_object_label(const struct trace_reader *r, const char *path)
{
	bool folder = false;
	const char *name;
	size_t len;

	for (uint32_t i = 0; i < trace_reader_n_runtimes(r); i++) {
		const struct trace_runtime *rt = trace_reader_runtime(r, i);

		folder = folder || (rt && rt->object && text_same_object(path, rt->object));
	}
	name = text_object_name(path, folder, &len);
	return strndup(name, len);
}

static const char *program_of(const struct trace_process *p)
{
	const char *slash = p && p->exe ? strrchr(p->exe, '/') : NULL;

	return slash ? slash + 1 : p && p->exe && *p->exe ? p->exe : "?";
}

char *trace_process_label(const struct trace_reader *r, uint32_t process)
{
	const struct trace_process *p = trace_reader_process(r, process);
	unsigned n_same = 0, n_before = 0;
	char *label;
	int len;

	for (uint32_t i = 0; p && i < trace_reader_n_processes(r); i++) {
		const struct trace_process *other = trace_reader_process(r, i);
		bool same = i != process && other && !strcmp(program_of(p), program_of(other));

		n_same += same;
		n_before += same && i < process && other->pid == p->pid;
	}
	if (n_same) {
		len = n_before ? asprintf(&label, "%s/%u again (%u)", program_of(p), p->pid,
					  n_before + 1)
			       : asprintf(&label, "%s/%u", program_of(p), p->pid);
		return len < 0 ? NULL : label;
	}
	return strdup(program_of(p));
}

bool trace_has_objects(const struct trace_reader *r, uint32_t process)
{
	const char *first = NULL;

	for (uint32_t i = 0; i < trace_reader_n_runtimes(r); i++) {
		const struct trace_runtime *rt = trace_reader_runtime(r, i);

		if (!rt || rt->process != process || !rt->object || !*rt->object)
			continue;
		if (first && strcmp(first, rt->object) != 0)
			return true;
		first = rt->object;
	}
	return false;
}

const char *trace_kind_object(const struct trace_reader *r, const struct trace_kind *k)
{
	const struct trace_runtime *rt = k ? trace_reader_runtime(r, k->runtime) : NULL;

	return rt && rt->process == k->process && rt->object ? rt->object : "";
}
