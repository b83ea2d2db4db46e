/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Frameworks wrap what a program gives them. Of poem's functions the type is a parameter of poem's own async
 * function; salvo's, tonic's and all of async_trait's are methods of an impl that has only a number in the debug
 * information: the type is that of the `self` that the future has captured. Where it has captured none, the symbol of
 * the poll function has the type.
 */
#include "future/handler_name.h"

#include "base/cleanup.h"
#include "trace/labels.h"
#include "trace/trace.h"

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

static const char *last_part(const char *path)
{
	const char *last = path;

	for (const char *at = path; (at = strstr(at, "::")); last = at)
		at += 2;
	return last;
}

/* Whether a name has a method of this name of an impl. */
static bool has_method(const char *full_name, const char *method)
{
	static const char impl[] = "::{impl#";
	size_t len = strlen(method);

	for (const char *at = full_name; (at = strstr(at, impl)); at += strlen(impl)) {
		const char *end = at + strcspn(at, "}");

		if (!strncmp(end, "}::", 3) && !strncmp(end + 3, method, len) &&
		    !strncmp(end + 3 + len, "::{", 3))
			return true;
	}
	return false;
}

static const char generated[] = "::into_info::monomorphized_function";

void handler_name_cut(char *name)
{
	size_t len = strlen(name), n = strlen(generated);

	if (len > n && !strcmp(name + len - n, generated))
		name[len - n] = '\0';
}

/* handler_name_by_symbol() of one function; NULL: it is another one. */
static char *by_one_symbol(const char *full_name, const char *name, const char *symbol)
{
	const char *method = last_part(name), *of = last_part(symbol);
	size_t path = (size_t)(method - name);

	for (const char *c = symbol; *c; c++)
		if (!in_path(*c))
			return NULL;
	/* of a type that a macro has made of the function: rocket's and actix's */
	if (strstr(full_name, generated) ||
	    (!strcmp(of, method) && strstr(full_name, "}::register::")))
		return strdup(symbol);
	return *method && !strcmp(of, method) && !strncmp(symbol, name, path) &&
			       of > symbol + path && has_method(full_name, method)
		       ? strdup(symbol)
		       : NULL;
}

char *handler_name_by_symbol(const char *full_name, const char *symbol)
{
	static const char between[] = " or ";
	_cleanup_free_ char *name = handler_name(&(struct trace_kind){.full_name = full_name});
	char *found = NULL;

	for (const char *part = symbol, *end; name && part;
	     part = end ? end + strlen(between) : NULL) {
		_cleanup_free_ char *one = NULL, *better = NULL;

		end = strstr(part, between);
		one = strndup(part, end ? (size_t)(end - part) : strlen(part));
		better = one ? by_one_symbol(full_name, name, one) : NULL;
		if (better && found) {
			free(found);
			return NULL;
		}
		if (better) {
			found = better;
			better = NULL;
		}
	}
	return found;
}
