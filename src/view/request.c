/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A request is answered if it names the token, which only the page that pollux opened knows, and if
 * it is for this host by name: a page that lets its own name resolve to 127.0.0.1 (DNS rebinding)
 * sends that name as Host. A page of another origin says so by Origin or Sec-Fetch-Site.
 */
#include "view/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_host(const struct request_gate *gate, const char *host)
{
	char name[32];

	snprintf(name, sizeof(name), "127.0.0.1:%u", gate->port);
	if (!strcmp(host, name))
		return true;
	snprintf(name, sizeof(name), "localhost:%u", gate->port);
	return !strcmp(host, name);
}

static bool is_origin(const struct request_gate *gate, const char *origin)
{
	return !strncmp(origin, "http://", 7) && is_host(gate, origin + 7);
}

/* In the same time for every wrong one. */
static bool is_token(const char *token, const char *text)
{
	unsigned char differs = 0;

	if (strnlen(text, REQUEST_TOKEN) < REQUEST_TOKEN)
		return false;
	for (size_t i = 0; i < REQUEST_TOKEN; i++)
		differs |= (unsigned char)(token[i] ^ text[i]);
	return !differs;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* In place; false: malformed, or with a NUL. */
static bool decode(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text != '%') {
			*to++ = *text == '+' ? ' ' : *text;
			continue;
		}
		int high = hex(text[1]), low = high < 0 ? -1 : hex(text[2]);
		if (low < 0 || !(high | low))
			return false;
		*to++ = (char)(high << 4 | low);
		text += 2;
	}
	*to = 0;
	return true;
}

static int read_query(struct view_request *r, char *query)
{
	while (query && *query) {
		char *next = strchr(query, '&'), *value;

		if (next)
			*next++ = 0;
		value = strchr(query, '=');
		if (value)
			*value++ = 0;
		if (r->n_params == REQUEST_PARAMS || !decode(query) || (value && !decode(value)))
			return 400;
		r->params[r->n_params].name = query;
		r->params[r->n_params++].value = value ? value : "";
		query = next;
	}
	return 200;
}

int request_read(const struct request_gate *gate, const struct request_head *head,
		 struct view_request *ret)
{
	const char *origin = head->origin, *site = head->fetch_site;
	bool viewer = origin && gate->viewer && !strcmp(origin, gate->viewer);

	memset(ret, 0, offsetof(struct view_request, text));
	if (!head->host || !is_host(gate, head->host))
		return 403;
	if (origin && !viewer && !is_origin(gate, origin))
		return 403;
	if (site && !viewer && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
		return 403;
	size_t len = strnlen(head->uri, REQUEST_BYTES);
	if (len == REQUEST_BYTES)
		return 400;
	memcpy(ret->text, head->uri, len + 1);
	if (*ret->text != '/')
		return 400;
	if (!is_token(gate->token, ret->text + 1) || ret->text[1 + REQUEST_TOKEN] != '/')
		return 404;
	char *path = ret->text + 1 + REQUEST_TOKEN + 1, *query = strchr(path, '?');
	if (query)
		*query++ = 0;
	ret->path = path;
	ret->for_viewer = viewer;
	if (viewer && strcmp(path, gate->viewer_path) != 0)
		return 403;
	return read_query(ret, query);
}

void request_copy(struct view_request *to, const struct view_request *from)
{
	*to = *from;
	to->path = to->text + (from->path - from->text);
	for (unsigned i = 0; i < from->n_params; i++) {
		const char *value = from->params[i].value;

		to->params[i].name = to->text + (from->params[i].name - from->text);
		to->params[i].value = *value ? to->text + (value - from->text) : "";
	}
}

const char *request_param(const struct view_request *r, const char *name)
{
	for (unsigned i = 0; i < r->n_params; i++)
		if (!strcmp(r->params[i].name, name))
			return r->params[i].value;
	return NULL;
}

int request_u64(const struct view_request *r, const char *name, uint64_t *ret)
{
	const char *text = request_param(r, name);
	char *end;

	if (!text)
		return 0;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno)
		return -EINVAL;
	*ret = value;
	return 0;
}
