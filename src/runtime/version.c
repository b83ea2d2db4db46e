/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Versions of crates. A panic's location names its source file, and a crate from a registry lies in
 * a folder NAME-VERSION: ".../tokio-1.38.0/src/runtime/task/core.rs". These strings are in
 * read-only data of nearly every binary, stripped ones too. Not there: vendored or path
 * dependencies, remapped paths, -Zlocation-detail=none.
 */
#include "runtime/find.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MAX_VERSIONS 8u
#define MAX_VERSION_BYTES 40u

/* Three numbers, and what may follow them: "1.38.0", "2.0.0-rc.1", "1.0.3+git". */
static bool is_version(const char *p, size_t len)
{
	const char *end = p + len;

	for (unsigned i = 0; i < 3; i++) {
		const char *from = p;

		while (p < end && isdigit((unsigned char)*p))
			p++;
		if (p == from || (i < 2 && (p == end || *p++ != '.')))
			return false;
	}
	return p == end || ((*p == '-' || *p == '+') && p + 1 < end);
}

/* The length of a version at p that is followed by "/src/", 0 if there is none. */
static size_t version_at(const char *p, size_t left)
{
	size_t len = 0;

	while (len < left && len < MAX_VERSION_BYTES && p[len] &&
	       (isalnum((unsigned char)p[len]) || strchr(".-+", p[len])))
		len++;
	return is_version(p, len) && left - len >= 5 && memcmp(p + len, "/src/", 5) == 0 ? len : 0;
}

static bool known(const struct buf *out, const char *version, size_t len)
{
	const char *p = out->data;

	while (p && *p) {
		size_t n = strcspn(p, ",");

		if (n == len && memcmp(p, version, len) == 0)
			return true;
		p += n + (p[n] ? 2 : 0);
	}
	return false;
}

char *version_find(const struct elf_image *image, const char *crate)
{
	struct buf out = BUF_INIT;
	char needle[64];
	int needle_len = snprintf(needle, sizeof(needle), "/%s-", crate);
	unsigned n = 0;

	buf_str(&out, "");
	for (uint64_t at = 0;
	     n < MAX_VERSIONS && (at = elf_image_find(image, at, needle, (size_t)needle_len));
	     at += (size_t)needle_len) {
		size_t left, len;
		const char *p =
			(const char *)elf_image_bytes(image, at + (size_t)needle_len, &left);

		len = p ? version_at(p, left) : 0;
		if (!len || known(&out, p, len))
			continue;
		if (n++ > 0)
			buf_str(&out, ", ");
		buf_add(&out, p, len);
	}
	return buf_steal(&out);
}

#define MAX_LIBRARIES 4096u

/* The length of a crate's name in "NAME-VERSION/src/", 0 if it is none. */
static size_t crate_at(const char *p, size_t left)
{
	for (size_t len = 0; len < left && len < 64; len++) {
		if (p[len] == '-' && version_at(p + len + 1, left - len - 1))
			return len;
		if (!isalnum((unsigned char)p[len]) && p[len] != '-' && p[len] != '_')
			return 0;
	}
	return 0;
}

/* Adds the name as it is in paths, unless it is there. */
static bool add_library(struct buf *out, const char *name, size_t len)
{
	char word[64];

	for (size_t i = 0; i < len; i++)
		word[i] = name[i] == '-' ? '_' : name[i];
	for (const char *p = out->data; p && *p; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, ",") == len && memcmp(p, word, len) == 0)
			return false;
	if (out->len)
		buf_char(out, ',');
	buf_add(out, word, len);
	return true;
}

char *libraries_find(const struct elf_image *image)
{
	static const char folder[] = "/registry/src/";
	struct buf out = BUF_INIT;
	unsigned n = 0;

	buf_str(&out, "");
	for (uint64_t at = 0;
	     n < MAX_LIBRARIES && (at = elf_image_find(image, at, folder, strlen(folder)));
	     at += strlen(folder)) {
		size_t left, len, index;
		const char *p = (const char *)elf_image_bytes(image, at + strlen(folder), &left);
		const char *slash = p ? memchr(p, '/', left < 256 ? left : 256) : NULL;

		if (!slash)
			continue;
		index = (size_t)(slash - p) + 1;
		len = crate_at(p + index, left - index);
		n += len && add_library(&out, p + index, len);
	}
	return buf_steal(&out);
}

bool version_at_least(const char *versions, unsigned major, unsigned minor)
{
	const char *p = versions;

	if (!p || !*p)
		return false;
	for (;;) {
		unsigned has_major, has_minor;

		if (sscanf(p, "%u.%u", &has_major, &has_minor) != 2 || has_major < major ||
		    (has_major == major && has_minor < minor))
			return false;
		p = strchr(p, ' ');
		if (!p)
			return true;
		p++;
	}
}
