#include "trace/objects.h"

#include "base/text.h"

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
