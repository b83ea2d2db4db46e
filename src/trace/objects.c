#include "trace/objects.h"

#include <string.h>

struct name {
	const char *at;
	size_t len;
};

/* "lib" of "/usr/lib/app/lib.abi3.so". `full`: with the folder. */
static struct name object_name(const char *path, bool full)
{
	const char *base = strrchr(path, '/'), *dot, *from;

	base = base ? base + 1 : path;
	from = base;
	for (int n = 0; full && from > path && n < 2; from--)
		n += from[-1] == '/';
	from += from < base && *from == '/';
	dot = strchr(base + (*base == '.'), '.');
	return (struct name){from, dot ? (size_t)(dot - from) : strlen(from)};
}

char *trace_object_label(const struct trace_reader *r, const char *path)
{
	struct name own = object_name(path, false);
	bool full = false;

	for (uint32_t i = 0; i < trace_reader_n_runtimes(r); i++) {
		const struct trace_runtime *rt = trace_reader_runtime(r, i);
		struct name other = object_name(rt && rt->object ? rt->object : "", false);

		full = full || (rt && rt->object && strcmp(rt->object, path) != 0 &&
				own.len == other.len && memcmp(own.at, other.at, own.len) == 0);
	}
	own = object_name(path, full);
	return strndup(own.at, own.len);
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
