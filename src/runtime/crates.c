/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "runtime/crates.h"

#include "base/text.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* Sorted by nothing: few, and asked for at spawn sites only. */
static const char *const crates[] = {
	"tokio",
	"async_task",
	"async_executor",
	"async_std",
	"blocking",
	"async_io",
	"async_global_executor",
	"smol",
	"core",
	"alloc",
	"std",
	"once_cell",
	"async_lock",
	"futures_executor",
	"futures_lite",
	"futures_util",
	"futures_core",
	"parking",
};

bool crates_runtime_function(const char *name)
{
	name += *name == '<';
	for (size_t i = 0; i < sizeof(crates) / sizeof(*crates); i++) {
		size_t n = strlen(crates[i]);

		if (!strncmp(name, crates[i], n) && !strncmp(name + n, "::", 2))
			return true;
	}
	return false;
}

/* "async-task-4.7.1/src/raw.rs" is async_task's: in a registry `_` may be `-`. */
static bool is_of(const char *file, const char *crate)
{
	for (; *crate; crate++, file++)
		if (*file != *crate && !(*file == '-' && *crate == '_'))
			return false;
	return *file == '-' && isdigit((unsigned char)file[1]);
}

bool crates_runtime_file(const char *file)
{
	const char *crate = text_short_file(file);

	if (!text_library_file(file))
		return false;
	if (!strncmp(file, "/rustc/", 7) || strstr(file, "/lib/rustlib/"))
		return true;
	for (size_t i = 0; i < sizeof(crates) / sizeof(*crates); i++)
		if (is_of(crate, crates[i]))
			return true;
	return false;
}
