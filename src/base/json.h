/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A JSON writer onto a sink of bytes: no tree, constant memory. Commas and nesting are kept by the
 * writer; strings are escaped, among them all characters that are hidden (text_hidden()), so that
 * the text is safe on a terminal; bytes that are no UTF-8 become U+FFFD.
 */
#pragma once

#include "base/buf.h"
#include "base/hist.h"

#include <stdint.h>

struct json {
	struct buf *out;
	bool comma; /* a value precedes on this level */
	bool pretty;
	bool shown; /* strings by json_quote_shown(); the caller may set it */
	unsigned depth;
};

void json_init(struct json *j, struct buf *out, bool pretty);
void json_object(struct json *j, const char *key); /* key NULL inside arrays and at the top */
void json_array(struct json *j, const char *key);
void json_end_object(struct json *j);
void json_end_array(struct json *j);
void json_string(struct json *j, const char *key, const char *value); /* NULL value: null */
void json_u64(struct json *j, const char *key, uint64_t value);
void json_i64(struct json *j, const char *key, int64_t value);
void json_double(struct json *j, const char *key, double value); /* not finite: null */
void json_bool(struct json *j, const char *key, bool value);
/* An object of its count, sum, extremes and quantiles, in the unit of its values. */
void json_hist(struct json *j, const char *key, const struct hist *h);
/* Just the quoted, escaped string, without comma: for hot exporters. */
void json_quote(struct buf *out, const char *s);
/* The same for a text that a viewer shows: in it hidden characters (but \n, \t, \r) are as
 * text_safe() writes them. */
void json_quote_shown(struct buf *out, const char *s);
