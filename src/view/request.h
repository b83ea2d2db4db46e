/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a request asks for, and whether it is answered at all. It may come from any page that the
 * user has open and from any local program, so all of it is untrusted: paths, queries, headers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_TOKEN 32 /* characters of a token */

struct request_gate {
	const char *token;  /* REQUEST_TOKEN hexadecimal digits */
	uint16_t port;	    /* the server's own, on 127.0.0.1 */
	const char *viewer; /* origin of the one foreign page that may read `viewer_path`; NULL */
	const char *viewer_path;
};

enum { REQUEST_PARAMS = 16, REQUEST_BYTES = 4096 };

struct view_request {
	const char *path; /* after the token: "", "api/cells"; not decoded */
	struct {
		const char *name, *value; /* decoded */
	} params[REQUEST_PARAMS];
	unsigned n_params;
	bool for_viewer; /* the foreign page asks for its file: it may read the answer */
	char text[REQUEST_BYTES];
};

/* What HTTP gives; each but `uri` may be NULL. */
struct request_head {
	const char *uri; /* "/TOKEN/api/cells?n=5" */
	const char *host, *origin, *fetch_site;
};

/* 200 with *ret, or the status of a refusal: 400 it is malformed or too long, 403 it is for another
 * host or by another page, 404 the token is wrong. */
int request_read(const struct request_gate *gate, const struct request_head *head,
		 struct view_request *ret);
void request_copy(struct view_request *to, const struct view_request *from);
/* NULL if absent. */
const char *request_param(const struct view_request *r, const char *name);
/* A number; absent: *ret stays. -EINVAL: it is none. */
int request_u64(const struct view_request *r, const char *name, uint64_t *ret);
