/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Frameworks wrap what a program gives them. Of poem's functions the type is a parameter of poem's own async
 * function; salvo's, tonic's and all of async_trait's are methods of an impl that has only a number in the debug
 * information: the type is that of the `self` that the future has captured.
 */
#include "future/handler_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool in_path(char c)
{
	return c == ':' || c == '_' || isalnum((unsigned char)c);
}

char *handler_name_by_parameter(const char *full_name, const char *own)
{
	const char *parameters = strchr(full_name, '<'), *end = strstr(own, "::");

	if (!parameters || !end || strstr(parameters, "::{") || strstr(parameters, "fn("))
		return NULL;
	size_t crate = (size_t)(end - own) + 2, len = 0;

	for (const char *at = parameters; (at = strstr(at, "::")); at += 2) {
		const char *begin = at;

		while (begin > parameters && in_path(begin[-1]))
			begin--;
		if (strncmp(begin, own, crate) != 0)
			continue;
		while (in_path(begin[len]))
			len++;
		return len > crate ? strndup(begin, len) : NULL;
	}
	return NULL;
}

char *handler_name_by_method(const char *full_name, const char *self)
{
	static const char impl[] = "::{impl#", impl_end[] = "}::";
	const char *at = strstr(full_name, impl), *method = at ? strstr(at, impl_end) : NULL;
	char *name;

	if (!method || !strstr(self, "::"))
		return NULL;
	/* its parameters are none of the name */
	int len = (int)strcspn(self, "<{");

	return asprintf(&name, "%.*s::%s", len, self, method + strlen(impl_end)) < 0 ? NULL : name;
}
