/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which code is the program's own, by the names of functions, source files and objects. */
#include "trace/trace.h"

#include "base/text.h"

#include <string.h>

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

bool trace_names_crate(const char *function, const char *crate)
{
	size_t len = strlen(crate);

	for (const char *at = function; len && (at = strstr(at, crate)); at++)
		if ((at == function || (!is_name_char(at[-1]) && at[-1] != ':')) &&
		    !strncmp(at + len, "::", 2))
			return true;
	return false;
}

const char *trace_crate_of(const char *function, size_t *ret_len)
{
	function += strspn(function, "<&*([");
	*ret_len = strcspn(function, ":<> ,");
	return strncmp(function + *ret_len, "::", 2) ? NULL : function;
}

static bool is_rust_file(const char *file)
{
	size_t len = strlen(file);

	return len > 3 && !strcmp(file + len - 3, ".rs");
}

/* Whether the crate is named like the file that the code is in. */
static bool is_crate_of(const struct trace_frame *f, const char *crate, size_t len)
{
	const char *slash = f->object ? strrchr(f->object, '/') : NULL;
	const char *file = slash ? slash + 1 : f->object ? f->object : "";

	for (size_t i = 0; i < len; i++)
		if (file[i] != crate[i] && !(file[i] == '-' && crate[i] == '_'))
			return false;
	return !file[len];
}

bool trace_frame_is_own(const struct trace_frame *f, const char *const *own)
{
	const char *crate;
	size_t len;

	if (!f || !f->function || !(crate = trace_crate_of(f->function, &len)))
		return false;
	for (; own && *own; own++)
		if (trace_names_crate(f->function, *own))
			return true;
	if (f->file && *f->file)
		return is_rust_file(f->file) && !text_library_file(f->file);
	return is_crate_of(f, crate, len);
}

bool trace_frame_is_below_poll(const struct trace_frame *f)
{
	static const char *const crates[] = {
		"std",		"core",	    "alloc", "tokio",	       "async_task",
		"async_std",	"async_io", "smol",  "async_executor", "async_global_executor",
		"futures_lite", "blocking",
	};
	const char *crate;
	size_t len;

	if (!f || !f->function || !*f->function || trace_frame_is_own(f, NULL))
		return false;
	crate = trace_crate_of(f->function, &len);
	if (!crate)
		return !strstr(f->function, "::") && !(f->file && strstr(f->file, ".rs"));
	for (size_t i = 0; i < sizeof(crates) / sizeof(crates[0]); i++)
		if (!strncmp(crate, crates[i], len) && !crates[i][len])
			return true;
	return false;
}
