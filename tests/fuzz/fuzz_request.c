/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fuzz target for a request to the server of pollux view: lines of address, host, origin, site. One
 * that is answered has the token and our host; its parameters are what is in the address.
 */
#include "fuzz.h"

#include "view/request.h"

#include <string.h>

#define TOKEN "0123456789abcdef0123456789abcdef"

static void check(const struct request_head *head, const struct view_request *r)
{
	const char *end = r->text + sizeof(r->text);
	uint64_t number = 0;

	if (strncmp(head->uri, "/" TOKEN "/", REQUEST_TOKEN + 2) != 0 || !head->host ||
	    (strcmp(head->host, "127.0.0.1:8900") != 0 &&
	     strcmp(head->host, "localhost:8900") != 0))
		abort();
	if (head->origin && strcmp(head->origin, "http://127.0.0.1:8900") != 0 &&
	    strcmp(head->origin, "http://localhost:8900") != 0 &&
	    (strcmp(head->origin, "https://viewer.example") != 0 || strcmp(r->path, "file") != 0))
		abort();
	if (r->n_params > REQUEST_PARAMS || strchr(r->path, '?'))
		abort();
	for (unsigned i = 0; i < r->n_params; i++) {
		const char *value = r->params[i].value;

		if (*value && (value < r->text || value + strlen(value) >= end))
			abort();
		request_u64(r, r->params[i].name, &number);
		if (!request_param(r, r->params[i].name))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct request_gate gate = {.token = TOKEN,
						 .port = 8900,
						 .viewer = "https://viewer.example",
						 .viewer_path = "file"};
	char *text = malloc(size + 1), *lines[4] = {NULL}, *at = text;
	static struct view_request request, copy;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	for (unsigned i = 0; i < 4 && at; i++) {
		lines[i] = at;
		at = strchr(at, '\n');
		if (at)
			*at++ = 0;
		if (!*lines[i] && i)
			lines[i] = NULL;
	}
	struct request_head head = {lines[0], lines[1], lines[2], lines[3]};
	if (request_read(&gate, &head, &request) == 200) {
		check(&head, &request);
		request_copy(&copy, &request);
		memset(&request, 'x', sizeof(request));
		check(&head, &copy);
	}
	free(text);
	return 0;
}
