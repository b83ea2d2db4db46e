/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The tracing data of a perf.data file: copies of the "format" files of tracefs. Only what is there
 * of events is read; the rest (kallsyms, printk) follows and is not needed.
 *
 *     "\x17\x08\x44tracing" "0.6\0", byte order, size of a long, u32 page size
 *     "header_page\0" u64 size, text; "header_event\0" u64 size, text
 *     u32 number of ftrace's own events, each u64 size, text
 *     u32 number of systems, each: name\0, u32 number of events, each u64 size, text
 *
 * Source: trace-event-info.c of perf, Documentation/trace/events.rst for the texts.
 */
#include "import/perf_format.h"

#include "base/cursor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FORMATS 65536u

static const char MAGIC[] = "\x17\x08\x44tracing";

void perf_formats_done(struct perf_formats *f)
{
	const struct map_entry *e;
	for (size_t pos = 0; (e = map_next(&f->by_id, &pos));) {
		free(((struct perf_format *)e->value)->name);
		free(e->value);
	}
	map_done(&f->by_id);
	f->n = 0;
}

const struct perf_format *perf_formats_find(const struct perf_formats *f, uint64_t id)
{
	return map_get(&f->by_id, id, 0);
}

/* ---- a format's text ---- */

/* The number after `word` in [p, end). */
static bool number_behind(const char *p, const char *end, const char *word, unsigned long *ret)
{
	size_t len = strlen(word);
	const char *at = memmem(p, (size_t)(end - p), word, len);
	unsigned long v = 0;

	if (!at)
		return false;
	for (at += len; at < end && *at == ' '; at++)
		;
	if (at == end || *at < '0' || *at > '9')
		return false;
	for (; at < end && *at >= '0' && *at <= '9' && v < 1ul << 40; at++)
		v = v * 10 + (unsigned long)(*at - '0');
	*ret = v;
	return true;
}

/* "\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;" */
static void field_line(struct perf_format *f, const char *p, const char *end)
{
	unsigned long offset, size, is_signed = 0;
	const char *decl = memmem(p, (size_t)(end - p), "field:", 6);

	if (!decl || f->n_fields == PERF_FORMAT_FIELDS)
		return;
	decl += 6;
	const char *decl_end = memchr(decl, ';', (size_t)(end - decl));
	if (!decl_end || !number_behind(decl_end, end, "offset:", &offset) ||
	    !number_behind(decl_end, end, "size:", &size) || offset > UINT16_MAX ||
	    size > UINT16_MAX)
		return;
	number_behind(decl_end, end, "signed:", &is_signed);
	const char *name_end = decl_end;
	const char *bracket = memchr(decl, '[', (size_t)(decl_end - decl));
	bool dynamic = decl_end - decl > 10 && !memcmp(decl, "__data_loc", 10);
	if (bracket && !dynamic)
		name_end = bracket;
	const char *name = name_end;
	while (name > decl && name[-1] != ' ' && name[-1] != '*')
		name--;
	size_t len = (size_t)(name_end - name);
	struct perf_format_field *field = &f->fields[f->n_fields];
	if (!len || len >= sizeof(field->name) || !memcmp(name, "common_", len < 7 ? len : 7))
		return;
	*field = (struct perf_format_field){.offset = (uint16_t)offset,
					    .size = (uint16_t)size,
					    .is_signed = is_signed != 0,
					    .is_dynamic = dynamic};
	memcpy(field->name, name, len);
	f->n_fields++;
}

static int format_text(struct perf_formats *f, const char *system, const char *text, size_t len)
{
	const char *p = text, *end = text + len;
	const char *name = NULL;
	size_t name_len = 0;
	unsigned long id;

	/* The first of an id counts: it may be in use. */
	if (f->n >= MAX_FORMATS || !number_behind(p, end, "\nID:", &id) ||
	    map_get(&f->by_id, id, 0))
		return 0;
	struct perf_format *new = calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	while (p < end) {
		const char *line_end = memchr(p, '\n', (size_t)(end - p));
		if (!line_end)
			line_end = end;
		if (!name && line_end - p > 6 && !memcmp(p, "name: ", 6)) {
			name = p + 6;
			name_len = (size_t)(line_end - name);
		} else if (line_end - p > 9 && !memcmp(p, "print fmt", 9)) {
			break;
		} else {
			field_line(new, p, line_end);
		}
		p = line_end + 1;
	}
	if (!name || asprintf(&new->name, "%s:%.*s", system, (int)(name_len < 256 ? name_len : 256),
			      name) < 0) {
		new->name = NULL;
		free(new);
		return name ? -ENOMEM : 0;
	}
	int r = map_put(&f->by_id, id, 0, new);
	if (r < 0) {
		free(new->name);
		free(new);
		return r;
	}
	f->n++;
	return 0;
}

/* ---- the section ---- */

static const char *zero_terminated(struct cursor *c)
{
	const uint8_t *end = memchr(c->at, 0, cursor_left(c));
	if (!end) {
		c->failed = true;
		return NULL;
	}
	return cursor_bytes(c, (size_t)(end + 1 - c->at));
}

static const char *sized_text(struct cursor *c, size_t *ret_len)
{
	uint64_t len = cursor_u64(c);
	*ret_len = (size_t)len;
	return len <= cursor_left(c) ? cursor_bytes(c, (size_t)len)
				     : (c->failed = true, (const char *)NULL);
}

static bool head(struct cursor *c)
{
	const uint8_t *magic = cursor_bytes(c, sizeof(MAGIC) - 1);
	size_t len;

	if (!magic || memcmp(magic, MAGIC, sizeof(MAGIC) - 1) != 0 || !zero_terminated(c))
		return false;
	if (cursor_u8(c) == 1) /* the other byte order */
		return false;
	cursor_u8(c);
	cursor_u32(c);
	for (unsigned i = 0; i < 2; i++)
		if (!zero_terminated(c) || !sized_text(c, &len))
			return false;
	return cursor_ok(c);
}

int perf_formats_read(struct perf_formats *f, const uint8_t *data, size_t data_len)
{
	struct cursor c;
	size_t len;

	cursor_init(&c, data, data_len);
	if (!head(&c))
		return -EBADMSG;
	for (uint32_t n = cursor_u32(&c); n && cursor_ok(&c); n--)
		sized_text(&c, &len);
	for (uint32_t systems = cursor_u32(&c); systems && cursor_ok(&c); systems--) {
		const char *system = zero_terminated(&c);
		for (uint32_t n = cursor_u32(&c); n && cursor_ok(&c); n--) {
			const char *text = sized_text(&c, &len);
			int r = text ? format_text(f, system, text, len) : 0;
			if (r < 0)
				return r;
		}
	}
	return cursor_ok(&c) ? 0 : -EBADMSG;
}

/* ---- fields of a sample ---- */

const struct perf_format_field *perf_format_field(const struct perf_format *f, const char *name)
{
	for (uint32_t i = 0; i < f->n_fields; i++)
		if (!strcmp(f->fields[i].name, name))
			return &f->fields[i];
	return NULL;
}

bool perf_field_number(const struct perf_format_field *f, const uint8_t *raw, size_t len,
		       uint64_t *ret)
{
	uint64_t v = 0;

	if (!f || f->is_dynamic || !f->size || (size_t)f->offset + f->size > len)
		return false;
	size_t size = f->size < 8 ? f->size : 8;
	memcpy(&v, raw + f->offset, size);
	if (f->is_signed && size < 8 && v >> (size * 8 - 1))
		v |= ~0ull << (size * 8);
	*ret = v;
	return true;
}

const char *perf_field_string(const struct perf_format_field *f, const uint8_t *raw, size_t len,
			      size_t *ret_len)
{
	uint32_t where;

	if (!f || !f->is_dynamic || f->size != 4 || (size_t)f->offset + 4 > len)
		return NULL;
	memcpy(&where, raw + f->offset, 4);
	size_t at = where & 0xffff, n = where >> 16;
	if (at > len || n > len - at)
		return NULL;
	*ret_len = strnlen((const char *)raw + at, n);
	return (const char *)raw + at;
}
