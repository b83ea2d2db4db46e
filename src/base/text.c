/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Numbers, durations and foreign strings as people read them, and back. All arithmetic is on
 * integers: a rounded value that reaches the next unit is shown in that unit ("1.00 ms", never
 * "1000 µs").
 */
#include "base/text.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* v / unit in three digits; false if it rounds to 1000 or more. unit is a multiple of 100. */
static bool three_digits(struct buf *out, uint64_t v, uint64_t unit)
{
	uint64_t whole = v / unit, rest = v % unit;
	uint64_t hundredths = whole * 100 + (rest + unit / 200) / (unit / 100);
	uint64_t tenths = whole * 10 + (rest + unit / 20) / (unit / 10);
	uint64_t rounded = whole + (rest + unit / 2) / unit;

	if (whole < 10 && hundredths < 1000)
		buf_printf(out, "%u.%02u", (unsigned)(hundredths / 100),
			   (unsigned)(hundredths % 100));
	else if (whole < 100 && tenths < 1000)
		buf_printf(out, "%u.%u", (unsigned)(tenths / 10), (unsigned)(tenths % 10));
	else if (rounded < 1000)
		buf_printf(out, "%u", (unsigned)rounded);
	else
		return false;
	return true;
}

void text_duration(struct buf *out, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = {{NSEC_PER_USEC, " µs"}, {NSEC_PER_MSEC, " ms"}, {NSEC_PER_SEC, " s"}};
	const uint64_t second = NSEC_PER_SEC;

	if (ns < 1000) {
		buf_u64(out, ns);
		buf_str(out, " ns");
		return;
	}
	/* 59.95 s would round to 60.0 s. */
	if (ns < 60 * second - second / 20) {
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
			if (three_digits(out, ns, units[i].ns)) {
				buf_str(out, units[i].name);
				return;
			}
		}
	}
	uint64_t s = ns / second + (ns % second >= second / 2);
	if (s < 3600)
		buf_printf(out, "%u min %02u s", (unsigned)(s / 60), (unsigned)(s % 60));
	else
		buf_printf(out, "%llu h %02u min", (unsigned long long)(s / 3600),
			   (unsigned)(s % 3600 / 60));
}

void text_count(struct buf *out, uint64_t n)
{
	static const char units[] = "kMGTPE";

	if (n < 100000) {
		text_exact(out, n);
		return;
	}
	uint64_t unit = 1000;
	for (const char *u = units; *u; u++, unit *= 1000) {
		if (three_digits(out, n, unit)) {
			buf_char(out, ' ');
			buf_char(out, *u);
			return;
		}
	}
}

void text_rate(struct buf *out, uint64_t n, uint64_t ns)
{
	unsigned __int128 rate = (unsigned __int128)n * NSEC_PER_SEC / (ns ? ns : 1);

	text_count(out, rate > UINT64_MAX ? UINT64_MAX : (uint64_t)rate);
}

void text_exact(struct buf *out, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf_char(out, ',');
		buf_char(out, digits[i]);
	}
}

void text_share(struct buf *out, uint64_t part, uint64_t whole)
{
	double percent = whole ? 100.0 * (double)part / (double)whole : 0;

	if (!whole)
		buf_char(out, '-');
	else if (part > whole)
		buf_str(out, "100.0 %");
	else if (part && percent < 0.05)
		buf_str(out, "< 0.1 %");
	else
		buf_printf(out, "%.1f %%", percent);
}

uint64_t text_percent(uint64_t part, uint64_t whole)
{
	if (part > whole)
		part = whole;
	return whole ? (uint64_t)((unsigned __int128)part * 100 / whole) : 0;
}

void text_bytes(struct buf *out, uint64_t n)
{
	static const char units[] = "KMGTPE";

	if (n < 1024) {
		buf_u64(out, n);
		buf_str(out, " B");
		return;
	}
	for (unsigned i = 0; units[i]; i++) {
		unsigned shift = 10 * (i + 1);
		uint64_t rest = (n & ((1ULL << shift) - 1)) >> (shift - 10); /* of 1024 */
		uint64_t tenths = (n >> shift) * 10 + (rest * 10 + 512) / 1024;
		if (tenths < 10240 || !units[i + 1]) {
			buf_u64(out, tenths / 10);
			buf_char(out, '.');
			buf_char(out, (char)('0' + tenths % 10));
			buf_printf(out, " %ciB", units[i]);
			return;
		}
	}
}

size_t text_point(const char *s, size_t len, uint32_t *ret_point)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t n;
	uint32_t point, least;

	if (!len)
		return 0;
	if (u[0] < 0x80) {
		n = 1, point = u[0], least = 0;
	} else if (u[0] >= 0xc2 && u[0] <= 0xdf) {
		n = 2, point = u[0] & 0x1f, least = 0x80;
	} else if ((u[0] & 0xf0) == 0xe0) {
		n = 3, point = u[0] & 0x0f, least = 0x800;
	} else if (u[0] >= 0xf0 && u[0] <= 0xf4) {
		n = 4, point = u[0] & 0x07, least = 0x10000;
	} else {
		return 0;
	}
	if (n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (u[i] & 0x3f);
	}
	if (point < least || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
		return 0;
	*ret_point = point;
	return n;
}

/* Lines and colors are text, too. */
static bool is_written(uint32_t point)
{
	return (point >= 0x20 && point != 0x7f) || point == '\t' || point == '\n' ||
	       point == '\r' || point == '\033';
}

size_t text_of_bytes(const char *s, size_t len)
{
	size_t n = strnlen(s, len), good = 0, one;
	uint32_t point;

	for (size_t i = n; i < len; i++)
		if (s[i])
			return 0;
	while (good < n && (one = text_point(s + good, n - good, &point)) && is_written(point))
		good += one;
	return good == n || (n == len && n - good < 4) ? good : 0;
}

/* Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt), and also the controls, the
 * separators of lines and what annotates other characters. */
bool text_hidden(uint32_t point)
{
	static const uint32_t ranges[][2] = {
		{0x7f, 0x9f},	    {0xad, 0xad},	{0x34f, 0x34f},	  {0x61c, 0x61c},
		{0x115f, 0x1160},   {0x17b4, 0x17b5},	{0x180b, 0x180f}, {0x200b, 0x200f},
		{0x2028, 0x202e},   {0x2060, 0x206f},	{0x3164, 0x3164}, {0xfe00, 0xfe0f},
		{0xfeff, 0xfeff},   {0xffa0, 0xffa0},	{0xfff0, 0xfffb}, {0x1bca0, 0x1bca3},
		{0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
	};

	if (point < 0x7f)
		return point < 0x20;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]) && point >= ranges[i][0]; i++)
		if (point <= ranges[i][1])
			return true;
	return false;
}

void text_safe(struct buf *out, const char *s)
{
	size_t len = strlen(s), from = 0, i = 0;

	while (i < len) {
		uint32_t point;
		size_t n = text_point(s + i, len - i, &point);

		if (n && !text_hidden(point)) {
			i += n;
			continue;
		}
		buf_add(out, s + from, i - from);
		for (size_t end = i + (n ? n : 1); i < end; i++)
			buf_printf(out, "\\x%02x", (unsigned char)s[i]);
		from = i;
	}
	buf_add(out, s + from, i - from);
}

void text_shell_word(struct buf *out, const char *s)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789._/-+@%:,=";

	if (*s && *s != '-' && !s[strspn(s, plain)]) {
		buf_str(out, s);
		return;
	}
	/* A word that begins with "-" would be an option. */
	buf_str(out, *s == '-' ? "'./" : "'");
	for (const char *quote; (quote = strchr(s, '\'')); s = quote + 1) {
		_cleanup_free_ char *part = strndup(s, (size_t)(quote - s));

		text_safe(out, part ? part : "");
		buf_str(out, "'\\''");
	}
	text_safe(out, s);
	buf_char(out, '\'');
}

static bool parse_digits(const char **s, uint64_t *ret)
{
	uint64_t v = 0;
	const char *at = *s;

	if (*at < '0' || *at > '9')
		return false;
	for (; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *at - '0', &v))
			return false;
	*s = at;
	*ret = v;
	return true;
}

int text_parse_duration(const char *s, uint64_t unit_ns, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"ns", 1},
		{"us", NSEC_PER_USEC},
		{"µs", NSEC_PER_USEC},
		{"ms", NSEC_PER_MSEC},
		{"s", NSEC_PER_SEC},
		{"m", 60 * NSEC_PER_SEC},
		{"min", 60 * NSEC_PER_SEC},
		{"h", 3600 * NSEC_PER_SEC},
	};
	uint64_t whole, fraction = 0, scale = 1, unit = 0;

	if (*s == '.')
		whole = 0; /* ".5s": digits follow */
	else if (!parse_digits(&s, &whole))
		return -EINVAL;
	if (*s == '.') {
		s++;
		if (*s < '0' || *s > '9')
			return -EINVAL;
		/* Digits below 1e-15 of a unit are below any ns. */
		for (; *s >= '0' && *s <= '9'; s++) {
			if (scale < 1000000000000000) {
				fraction = fraction * 10 + (*s - '0');
				scale *= 10;
			}
		}
	}
	if (!*s)
		unit = unit_ns;
	for (size_t i = 0; !unit && i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(s, units[i].name))
			unit = units[i].ns;
	if (!unit)
		return -EINVAL;

	unsigned __int128 ns = (unsigned __int128)whole * unit;
	ns += (unsigned __int128)fraction * unit / scale;
	if (ns > UINT64_MAX)
		return -EINVAL;
	*ret_ns = (uint64_t)ns;
	return 0;
}

int text_parse_number(const char *s, uint64_t *ret)
{
	char *end;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	unsigned long long v = strtoull(s, &end, s[1] == 'x' ? 16 : 10);
	if (*end || errno)
		return -EINVAL;
	*ret = v;
	return 0;
}

int text_parse_bytes(const char *s, uint64_t *ret_bytes)
{
	uint64_t v;
	unsigned shift = 0;

	if (!parse_digits(&s, &v))
		return -EINVAL;
	if (*s) {
		static const char units[] = "kKmMgGtT";
		const char *u = strchr(units, *s++);
		if (!u)
			return -EINVAL;
		shift = 10 * ((unsigned)(u - units) / 2 + 1);
		if (*s && strcmp(s, "iB") != 0)
			return -EINVAL;
	}
	if (v > UINT64_MAX >> shift)
		return -EINVAL;
	*ret_bytes = v << shift;
	return 0;
}

const char *text_short_file(const char *file)
{
	const char *registry = strstr(file, "/registry/src/"), *rest = NULL;

	if (registry)
		rest = strchr(registry + strlen("/registry/src/"), '/');
	else if (!strncmp(file, "/rustc/", 7))
		rest = strchr(file + 7, '/');
	return rest ? rest + 1 : file;
}

/* ".../target/release/build/shop-0123456789abcdef/out/shop.rs" */
static bool is_generated(const char *file)
{
	static const char build[] = "/build/", out[] = "/out/";
	enum { HASH = 16 };

	for (const char *at = file; (at = strstr(at, build)); at++) {
		const char *folder = at + sizeof(build) - 1, *end = strchr(folder, '/');
		size_t len = end ? (size_t)(end - folder) : 0;

		if (len > HASH + 1 && end[-HASH - 1] == '-' &&
		    strspn(end - HASH, "0123456789abcdef") == HASH &&
		    !strncmp(end, out, sizeof(out) - 1))
			return true;
	}
	return false;
}

bool text_library_file(const char *file)
{
	return is_generated(file) || strstr(file, "/registry/src/") ||
	       strstr(file, "/git/checkouts/") || !strncmp(file, "/rustc/", 7) ||
	       strstr(file, "/lib/rustlib/");
}

const char *text_object_name(const char *path, bool folder, size_t *ret_len)
{
	const char *base = strrchr(path, '/'), *from, *dot;

	base = base ? base + 1 : path;
	from = base;
	if (folder && from > path)
		from--;
	while (folder && from > path && from[-1] != '/')
		from--;
	dot = strchr(base + (*base == '.'), '.');
	*ret_len = dot ? (size_t)(dot - from) : strlen(from);
	return from;
}

bool text_same_object(const char *path, const char *other)
{
	size_t a_len, b_len;
	const char *a = text_object_name(path, false, &a_len);
	const char *b = text_object_name(other, false, &b_len);

	return strcmp(path, other) != 0 && a_len == b_len && memcmp(a, b, a_len) == 0;
}
