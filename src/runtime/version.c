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
#include "binary/names.h"

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

static bool has_crate(const struct buf *list, const char *word, size_t len)
{
	for (const char *p = list->data; p && *p; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, ",") == len && memcmp(p, word, len) == 0)
			return true;
	return false;
}

/* Adds the name as it is in paths, unless it is there. */
static bool add_crate(struct buf *out, const char *name, size_t len)
{
	char word[64];

	if (len > sizeof(word))
		return false;
	for (size_t i = 0; i < len; i++)
		word[i] = name[i] == '-' ? '_' : name[i];
	if (has_crate(out, word, len))
		return false;
	if (out->len)
		buf_char(out, ',');
	buf_add(out, word, len);
	return true;
}

/* ---- whose executable it is ---- */

/* Whether what follows the crate's name, "-VERSION/src/...", is the source of an executable. */
static bool is_program(const char *p, size_t left)
{
	static const char *const roots[] = {"/src/main.rs", "/src/bin/"};
	size_t len = left ? version_at(p + 1, left - 1) + 1 : 0;

	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(roots[i]);

		if (left - len >= n && memcmp(p + len, roots[i], n) == 0)
			return true;
	}
	return false;
}

/* The crate whose main() is the program's: "_ZN4shop4main17h<hash>E", "_RNvCs<hash>_4shop4main". */
static void add_main_crate(struct elf_image *image, struct buf *out)
{
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(image, &symbols);

	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *name = NULL;
		const char *end;

		if (!strstr(symbols[i].name, "4main"))
			continue;
		name = name_demangle(symbols[i].name);
		end = name ? strstr(name, "::main") : NULL;
		if (end && !strcmp(end, "::main") && !strpbrk(name, "<{ ") &&
		    memchr(name, ':', (size_t)(end - name)) == NULL)
			add_crate(out, name, (size_t)(end - name));
	}
}

/* Without the program's own. NULL: out of memory. */
static char *without(const struct buf *libraries, const struct buf *own)
{
	struct buf out = BUF_INIT;

	buf_str(&out, "");
	for (const char *p = libraries->data; p && *p; p += strcspn(p, ","), p += *p == ',')
		if (!has_crate(own, p, strcspn(p, ",")))
			add_crate(&out, p, strcspn(p, ","));
	return buf_steal(&out);
}

char *libraries_find(struct elf_image *image)
{
	static const char folder[] = "/registry/src/";
	_cleanup_buf_ struct buf out = BUF_INIT, own = BUF_INIT;
	unsigned n = 0;

	buf_str(&out, "");
	buf_str(&own, "");
	add_main_crate(image, &own);
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
		n += len && add_crate(&out, p + index, len);
		if (len && is_program(p + index + len, left - index - len))
			add_crate(&own, p + index, len);
	}
	return without(&out, &own);
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
