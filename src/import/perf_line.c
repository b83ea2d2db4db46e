/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Taking apart lines of perf script. What the columns look like was read off the output of perf 6.1
 * and of older recordings: the command padded to the left or not, "pid/tid" or "tid", with or
 * without a processor, microseconds or nanoseconds, with or without a period, stack frames on lines
 * of their own or after the event.
 */
#include "import/perf_line.h"

#include "base/units.h"

#include <string.h>

static inline bool is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

static inline bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static inline int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool perf_text_is(const struct perf_text *t, const char *s)
{
	size_t len = strlen(s);
	return t->len == len && !memcmp(t->p, s, len);
}

bool perf_text_starts(const struct perf_text *t, const char *s)
{
	size_t len = strlen(s);
	return t->len >= len && !memcmp(t->p, s, len);
}

static void trim_left(struct perf_text *t)
{
	while (t->len && is_space(*t->p)) {
		t->p++;
		t->len--;
	}
}

/* ---- the columns before the time ---- */

/* The run of digits that ends before `end`; its begin, NULL if there is none. */
static const char *digits_before(const char *begin, const char *end)
{
	const char *p = end;
	while (p > begin && is_digit(p[-1]))
		p--;
	return p < end ? p : NULL;
}

/* Digits to a number; false if it does not fit. */
static bool digits(const char *p, const char *end, uint64_t *ret)
{
	uint64_t v = 0;

	if (end - p > 19)
		return false;
	for (; p < end; p++)
		v = v * 10 + (uint64_t)(*p - '0');
	*ret = v;
	return true;
}

/* A time ends before `colon`: "746.150187" or with nine digits. Gives where it begins. */
static const char *time_before(const char *line, const char *colon, uint64_t *ret_ns)
{
	const char *fraction = digits_before(line, colon);
	if (!fraction || (colon - fraction != 6 && colon - fraction != 9) || fraction == line ||
	    fraction[-1] != '.')
		return NULL;
	const char *seconds = digits_before(line, fraction - 1);
	uint64_t s, f;
	if (!seconds || seconds == line || !is_space(seconds[-1]) ||
	    !digits(seconds, fraction - 1, &s) || !digits(fraction, colon, &f) ||
	    s > UINT64_MAX / NSEC_PER_SEC - 1)
		return NULL;
	*ret_ns = s * NSEC_PER_SEC + (colon - fraction == 6 ? f * 1000 : f);
	return seconds;
}

static const char *spaces_before(const char *line, const char *end)
{
	while (end > line && is_space(end[-1]))
		end--;
	return end;
}

/* "[001]" before end: where it begins; else end. */
static const char *cpu_before(const char *line, const char *end)
{
	if (end == line || end[-1] != ']')
		return end;
	const char *number = digits_before(line, end - 1);
	return number && number > line && number[-1] == '[' ? spaces_before(line, number - 1) : end;
}

static bool ids_before(const char *line, const char *end, struct perf_head *ret)
{
	const char *tid = digits_before(line, end);
	uint64_t v;
	if (!tid || !digits(tid, end, &v) || v > UINT32_MAX)
		return false;
	/* -1: the thread is gone already, but for its last switch. */
	bool gone = v == 1 && tid > line && tid[-1] == '-';
	tid -= gone;
	ret->tid = gone ? UINT32_MAX : (uint32_t)v;
	ret->pid = 0;
	if (tid > line && tid[-1] == '/') {
		const char *pid = digits_before(line, tid - 1);
		if (!pid || !digits(pid, tid - 1, &v) || v > UINT32_MAX)
			return false;
		ret->pid = (uint32_t)v;
		tid = pid;
	}
	if (tid > line && !is_space(tid[-1]))
		return false;
	const char *comm_end = spaces_before(line, tid), *comm = line;
	while (comm < comm_end && is_space(*comm))
		comm++;
	/* ":4711", ":-1": perf knows no name of the thread. */
	if (comm < comm_end && *comm == ':') {
		const char *number = digits_before(comm, comm_end);
		if (number && number - comm == (comm[1] == '-' ? 2 : 1))
			comm = comm_end;
	}
	ret->comm = (struct perf_text){comm, (size_t)(comm_end - comm)};
	return true;
}

/* ---- after the time ---- */

/* "1001001 cycles/freq=999/: ..." or "sdt_tokio:task_poll_begin: (...) ...". */
static bool event_parse(struct perf_text rest, struct perf_head *ret)
{
	const char *end = rest.p + rest.len, *p;

	trim_left(&rest);
	ret->period = 0;
	for (p = rest.p; p < end && is_digit(*p); p++)
		;
	if (p > rest.p && p < end && is_space(*p)) {
		digits(rest.p, p, &ret->period);
		rest = (struct perf_text){p, (size_t)(end - p)};
		trim_left(&rest);
	}
	const char *space = memchr(rest.p, ' ', rest.len);
	const char *event_end = space ? space : end;
	/* PERF_RECORD_LOST and its like have a colon only sometimes. */
	bool colon = event_end > rest.p && event_end[-1] == ':';
	if (!colon && !perf_text_starts(&rest, "PERF_RECORD_"))
		return false;
	ret->event = (struct perf_text){rest.p, (size_t)(event_end - rest.p) - colon};
	ret->rest = (struct perf_text){event_end, (size_t)(end - event_end)};
	trim_left(&ret->rest);
	return ret->event.len > 0;
}

bool perf_head_parse(const char *line, size_t len, struct perf_head *ret)
{
	const char *end = line + len, *from = line, *colon;

	while ((colon = memchr(from, ':', (size_t)(end - from)))) {
		from = colon + 1;
		if (colon == line || !is_digit(colon[-1]))
			continue;
		const char *time = time_before(line, colon, &ret->time);
		if (!time)
			continue;
		const char *at = cpu_before(line, spaces_before(line, time));
		if (!ids_before(line, at, ret))
			continue;
		return event_parse((struct perf_text){from, (size_t)(end - from)}, ret);
	}
	return false;
}

/* ---- stack frames ---- */

/* Without the "+0x1f3" at its end. */
static size_t without_offset(const char *p, size_t len)
{
	size_t i = len;
	while (i && hex_digit(p[i - 1]) >= 0)
		i--;
	return i >= 3 && i < len && p[i - 1] == 'x' && p[i - 2] == '0' && p[i - 3] == '+' ? i - 3
											  : len;
}

bool perf_frame_parse(const char *line, size_t len, struct perf_frame *ret)
{
	const char *p = line, *end = line + len;
	uint64_t addr = 0;
	int digit;

	while (p < end && is_space(*p))
		p++;
	const char *first = p;
	while (p < end && (digit = hex_digit(*p)) >= 0) {
		addr = addr << 4 | (uint64_t)digit;
		p++;
	}
	if (p == first || p - first > 16 || (p < end && !is_space(*p)))
		return false;
	while (p < end && is_space(*p))
		p++;
	while (end > p && is_space(end[-1]))
		end--;
	*ret = (struct perf_frame){.addr = addr};
	/* The object is in the last parentheses; functions may have some of their own. */
	const char *open = NULL;
	if (end > p && end[-1] == ')') {
		unsigned depth = 0;
		for (const char *q = end; q > p;) {
			q--;
			depth += *q == ')';
			if (*q == '(' && --depth == 0) {
				open = q;
				break;
			}
		}
	}
	const char *name_end = end;
	if (open && (open == p || is_space(open[-1]))) {
		ret->object = (struct perf_text){open + 1, (size_t)(end - 1 - (open + 1))};
		name_end = spaces_before(p, open);
		if (perf_text_is(&ret->object, "inlined")) {
			ret->is_inlined = true;
			ret->object.len = 0;
		}
	}
	ret->function = (struct perf_text){p, without_offset(p, (size_t)(name_end - p))};
	if (perf_text_is(&ret->function, "[unknown]"))
		ret->function.len = 0;
	if (perf_text_is(&ret->object, "[unknown]"))
		ret->object.len = 0;
	return true;
}

/* ---- fields ---- */

bool perf_number(struct perf_text *text, uint64_t *ret)
{
	const char *p = text->p, *end = p + text->len;
	bool minus = p < end && *p == '-', hex = false;
	uint64_t v = 0;

	p += minus;
	if (end - p > 2 && p[0] == '0' && (p[1] | 0x20) == 'x') {
		hex = true;
		p += 2;
	}
	const char *first = p;
	for (; p < end; p++) {
		int d = hex ? hex_digit(*p) : is_digit(*p) ? *p - '0' : -1;
		if (d < 0)
			break;
		if (__builtin_mul_overflow(v, hex ? 16u : 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)d, &v))
			return false;
	}
	if (p == first)
		return false;
	*ret = minus ? 0 - v : v;
	text->p = p;
	text->len = (size_t)(end - p);
	return true;
}

bool perf_field_next(struct perf_text *rest, struct perf_field *ret)
{
	const char *end = rest->p + rest->len;
	const char *equals = rest->len ? memchr(rest->p, '=', rest->len) : NULL;

	if (!equals)
		return false;
	const char *name = equals;
	while (name > rest->p && !is_space(name[-1]))
		name--;
	*ret = (struct perf_field){.name = {name, (size_t)(equals - name)}};
	struct perf_text value = {equals + 1, (size_t)(end - (equals + 1))};
	if (value.len && *value.p == '"') {
		const char *quote = memchr(value.p + 1, '"', value.len - 1);
		const char *text_end = quote ? quote : end;
		ret->is_string = true;
		ret->text = (struct perf_text){value.p + 1, (size_t)(text_end - value.p - 1)};
		rest->p = quote ? quote + 1 : end;
	} else {
		const char *space = memchr(value.p, ' ', value.len);
		ret->text =
			(struct perf_text){value.p, space ? (size_t)(space - value.p) : value.len};
		struct perf_text number = ret->text;
		ret->is_number = perf_number(&number, &ret->value) && !number.len;
		rest->p = ret->text.p + ret->text.len;
	}
	rest->len = (size_t)(end - rest->p);
	return true;
}
