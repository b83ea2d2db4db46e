/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The JSON writer. `comma` alone remembers the level: it is false right after a bracket opened and
 * true after any value, and a bracket that closed is a value of the level above.
 */
#include "base/json.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool is_clean(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* How many bytes from s on need no escape and are ASCII; eight at a time. A high bit in `bad` may
 * belong to a clean byte above a bad one (borrows), so the byte loop decides. */
static size_t clean_run(const char *s, size_t len)
{
	const uint64_t ones = 0x0101010101010101ULL, highs = 0x8080808080808080ULL;
	size_t i = 0;

	for (; len - i >= 8; i += 8) {
		uint64_t v;
		memcpy(&v, s + i, 8);
		uint64_t quote = v ^ (ones * '"'), back = v ^ (ones * '\\');
		/* adding 1 gives a DEL its high bit */
		uint64_t bad = v | (v + ones) | (v - ones * 0x20) | (quote - ones) | (back - ones);
		if (bad & highs)
			break;
	}
	while (i < len && is_clean((unsigned char)s[i]))
		i++;
	return i;
}

/* A hidden character: as JSON writes it (in UTF-16), or so that a reader of the text sees it. */
static void put_hidden(struct buf *out, const char *s, size_t n, uint32_t point, bool shown)
{
	if (shown)
		for (size_t i = 0; i < n; i++)
			buf_printf(out, "\\\\x%02x", (unsigned char)s[i]);
	else if (point > 0xffff)
		buf_printf(out, "\\u%04x\\u%04x", 0xd800 + (point - 0x10000) / 0x400,
			   0xdc00 + point % 0x400);
	else
		buf_printf(out, "\\u%04x", point);
}

static void quote(struct buf *out, const char *s, bool shown)
{
	size_t len = strlen(s);

	if (!buf_reserve(out, len + 2))
		return;
	buf_char(out, '"');
	for (size_t i = 0; i < len;) {
		size_t run = clean_run(s + i, len - i);
		buf_add(out, s + i, run);
		i += run;
		if (i == len)
			break;

		char c = s[i];
		uint32_t point = 0;
		size_t n = text_point(s + i, len - i, &point);
		if (c == '"' || c == '\\')
			buf_add(out, (char[]){'\\', c}, 2);
		else if (c == '\n')
			buf_add(out, "\\n", 2);
		else if (c == '\t')
			buf_add(out, "\\t", 2);
		else if (c == '\r')
			buf_add(out, "\\r", 2);
		else if (n && text_hidden(point))
			put_hidden(out, s + i, n, point, shown);
		else if (n)
			buf_add(out, s + i, n);
		else
			buf_add(out, "\xef\xbf\xbd", 3);
		i += n ? n : 1;
	}
	buf_char(out, '"');
}

void json_quote(struct buf *out, const char *s)
{
	quote(out, s, false);
}

void json_quote_shown(struct buf *out, const char *s)
{
	quote(out, s, true);
}

void json_init(struct json *j, struct buf *out, bool pretty)
{
	*j = (struct json){.out = out, .pretty = pretty};
}

static void new_line(struct json *j)
{
	buf_char(j->out, '\n');
	for (unsigned i = 0; i < j->depth; i++)
		buf_add(j->out, "  ", 2);
}

static void before(struct json *j, const char *key)
{
	if (j->comma)
		buf_char(j->out, ',');
	if (j->pretty && j->depth)
		new_line(j);
	if (key) {
		json_quote(j->out, key);
		buf_char(j->out, ':');
		if (j->pretty)
			buf_char(j->out, ' ');
	}
	j->comma = true;
}

static void open_bracket(struct json *j, const char *key, char bracket)
{
	before(j, key);
	buf_char(j->out, bracket);
	j->depth++;
	j->comma = false;
}

static void close_bracket(struct json *j, char bracket)
{
	if (j->depth)
		j->depth--;
	if (j->pretty && j->comma)
		new_line(j);
	buf_char(j->out, bracket);
	j->comma = true;
}

void json_object(struct json *j, const char *key)
{
	open_bracket(j, key, '{');
}

void json_array(struct json *j, const char *key)
{
	open_bracket(j, key, '[');
}

void json_end_object(struct json *j)
{
	close_bracket(j, '}');
}

void json_end_array(struct json *j)
{
	close_bracket(j, ']');
}

void json_string(struct json *j, const char *key, const char *value)
{
	before(j, key);
	if (value)
		quote(j->out, value, j->shown);
	else
		buf_str(j->out, "null");
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
	before(j, key);
	buf_u64(j->out, value);
}

void json_i64(struct json *j, const char *key, int64_t value)
{
	before(j, key);
	if (value < 0)
		buf_char(j->out, '-');
	buf_u64(j->out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_double(struct json *j, const char *key, double value)
{
	before(j, key);
	if (!isfinite(value)) {
		buf_str(j->out, "null");
		return;
	}
	/* The shorter spelling if it reads back as the same number. */
	char text[40];
	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof(text), "%.17g", value);
	/* A program that called setlocale() may have another decimal point. */
	for (char *c = text; *c; c++)
		if (*c == ',')
			*c = '.';
	buf_str(j->out, text);
}

void json_bool(struct json *j, const char *key, bool value)
{
	before(j, key);
	buf_str(j->out, value ? "true" : "false");
}

void json_hist(struct json *j, const char *key, const struct hist *h)
{
	json_object(j, key);
	json_u64(j, "count", h->count);
	json_u64(j, "sum", h->sum);
	json_u64(j, "min", h->count ? h->min : 0);
	json_u64(j, "p50", hist_quantile(h, 0.5));
	json_u64(j, "p90", hist_quantile(h, 0.9));
	json_u64(j, "p99", hist_quantile(h, 0.99));
	json_u64(j, "max", h->max);
	json_end_object(j);
}
