/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Widths are counted in columns of a terminal, not in bytes: the names in a program may hold
 * anything. utf8proc knows each character's width, whatever the locale; characters that would change
 * others (joiners, selectors) are not in texts, see text_hidden().
 *
 * A name is shortened by trying forms of it, from the whole one to the shortest, until one fits:
 *
 *   axum::serve::Serve<tokio::net::TcpListener, axum::Router<app::State>>::into_future::{closure}
 *   axum::serve::Serve<TcpListener, Router<State>>::into_future::{closure}
 *   axum::serve::Serve<TcpListener, Router<…>>::into_future::{closure}
 *   axum::serve::Serve<…>::into_future::{closure}
 *   axum::…::into_future::{closure}
 *   …::into_future::{closure}
 */
#include "base/text_fit.h"

#include "base/text.h"

#include <ctype.h>
#include <string.h>
#include <utf8proc.h>

#define ELLIPSIS "…"
#define PART "› "
#define ESCAPE '\x1b'
#define MAX_SEGMENTS 8u	   /* that are kept of a path's end, at most */
#define MAX_INDENT_SHARE 2 /* of a line */
#define LONG_GENERICS 20u
#define MAX_DEPTH 32u /* of generic arguments that are looked into */

/* Columns of the character at s; *ret_len bytes. A colour ("\x1b[1m") is one without a width. */
static size_t char_width(const char *s, size_t *ret_len)
{
	uint32_t point = 0;
	size_t len = text_point(s, strnlen(s, 4), &point);
	int width;

	*ret_len = len ? len : 1;
	if (*s == ESCAPE && s[1] == '[') {
		*ret_len = 2 + strcspn(s + 2, "m");
		*ret_len += s[*ret_len] == 'm';
		return 0;
	}
	if (len <= 1)
		return 1;
	width = utf8proc_charwidth((utf8proc_int32_t)point);
	return width < 0 ? 0 : (size_t)width;
}

size_t text_width(const char *text)
{
	size_t width = 0, len;

	for (; *text; text += len)
		width += char_width(text, &len);
	return width;
}

/* As much of the text's begin as fits; returns its width, and the rest. */
static size_t add_head(struct buf *out, const char **text, size_t width)
{
	size_t used = 0, len;

	for (; **text; *text += len) {
		size_t w = char_width(*text, &len);

		if (used + w > width)
			break;
		used += w;
		buf_add(out, *text, len);
	}
	return used;
}

void text_cut(struct buf *out, const char *text, size_t width)
{
	bool whole = text_width(text) <= width;

	add_head(out, &text, whole || !width ? width : width - 1);
	buf_str(out, whole || !width ? "" : ELLIPSIS);
}

/* The end of a name says more than its begin. */
static void cut_middle(struct buf *out, const char *text, size_t width)
{
	size_t whole = text_width(text), used, len;

	if (whole <= width || !width) {
		text_cut(out, text, width);
		return;
	}
	used = add_head(out, &text, (width - 1) * 2 / 5);
	buf_str(out, ELLIPSIS);
	for (size_t left = whole - used; left > width - 1 - used; text += len)
		left -= char_width(text, &len);
	for (char_width(text, &len); *text && !char_width(text, &len); text += len)
		;
	buf_str(out, text);
}

/* ---- forms of a name ---- */

struct form {
	bool inner_last;    /* of paths in generic arguments their last segment only */
	bool long_generics; /* generic arguments wider than LONG_GENERICS are "…" */
	unsigned generics;  /* those as deep as that are "…"; 0: none are */
	unsigned segments;  /* the number of a path's last parts, and its first; 0: all */
	bool folders;	    /* of a file's path the first folder and its name */
	bool bare;	    /* without the first segment or folder */
};

/* +1 for a bracket that opens, -1 for one that closes. The arrow of `fn() -> X` is none. */
static int bracket(const char *text, size_t i)
{
	if (text[i] == '<')
		return 1;
	return text[i] == '>' && !(i && (text[i - 1] == '-' || text[i - 1] == '=')) ? -1 : 0;
}

static bool is_balanced(const char *text)
{
	int depth = 0;

	for (size_t i = 0; text[i] && depth >= 0; i++)
		depth += bracket(text, i);
	return depth == 0;
}

/* The end of the word at `text`: a path or something else between blanks and brackets. */
static size_t word_length(const char *text, unsigned depth)
{
	size_t i = 0;
	int inner = 0;

	for (; text[i]; i++) {
		int step = bracket(text, i);

		if (inner == 0 && (step < 0 || strchr(depth ? " ,()[]&*;" : " ", text[i])))
			break;
		inner += step;
	}
	return i;
}

/* Where the segments of a path begin: bytes, up to `max` of them, the last ones. "{closure}" alone
 * says nothing: it belongs to the segment before it. */
static size_t split(const char *word, size_t len, const char *separator, size_t *begins, size_t max)
{
	size_t n = 0, step = strlen(separator);
	int depth = 0;

	for (size_t i = 0; i < len; i++) {
		depth += bracket(word, i);
		bool begins_here = i == 0 || (depth == 0 && i >= step &&
					      !strncmp(word + i - step, separator, step) &&
					      word[i] != '{' && word[i] != '<');
		if (!begins_here)
			continue;
		if (n == max) {
			memmove(begins + 1, begins + 2, (max - 2) * sizeof(*begins));
			n--;
		}
		begins[n++] = i;
	}
	return n;
}

static void add_form(struct buf *out, const char *text, size_t len, const struct form *form,
		     unsigned depth);

/* A part of a path: its own generic arguments are in it. */
static void add_segment(struct buf *out, const char *text, size_t len, const struct form *form,
			unsigned depth)
{
	for (size_t i = 0; i < len; i++) {
		size_t from = i + 1;
		int inner = 1;

		if (bracket(text, i) <= 0) {
			buf_char(out, text[i]);
			continue;
		}
		for (i++; i < len && inner; i++)
			inner += bracket(text, i);
		i--;
		_cleanup_buf_ struct buf inside = BUF_INIT;

		if (depth >= MAX_DEPTH || (form->generics && depth + 1 >= form->generics))
			buf_str(&inside, ELLIPSIS);
		else
			add_form(&inside, text + from, i - from, form, depth + 1);
		if (form->long_generics &&
		    text_width(inside.data ? inside.data : "") > LONG_GENERICS)
			buf_str(out, "<" ELLIPSIS ">");
		else
			buf_printf(out, "<%s>", inside.data ? inside.data : "");
	}
}

/* "src/main.rs:3", not "worker/17". */
static bool is_path(const char *word, size_t len)
{
	size_t slash = strcspn(word, "/<");
	const char *last = memrchr(word, '/', len);

	return slash < len && word[slash] == '/' && memchr(last, '.', len - (size_t)(last - word));
}

static void add_word(struct buf *out, const char *word, size_t len, const struct form *form,
		     unsigned depth)
{
	size_t begins[64];
	bool is_file = is_path(word, len);
	const char *separator = is_file ? "/" : "::";
	size_t n = split(word, len, separator, begins, sizeof(begins) / sizeof(begins[0]));
	size_t keep = n;

	if (depth && form->inner_last)
		keep = 1;
	else if (!depth && is_file && form->folders)
		keep = 1;
	else if (!depth && !is_file && form->segments && form->segments < n)
		keep = form->segments;
	if (keep + 1 >= n && !(depth && form->inner_last) && !form->bare)
		keep = n; /* "…" would be no shorter */
	/* "../" and "/" are no folders that say where. */
	if (keep < n && !depth && !form->bare && !(is_file && strchr("./", *word))) {
		add_segment(out, word, begins[1], form, depth);
		buf_str(out, ELLIPSIS);
		buf_str(out, separator);
	} else if (keep < n && !depth) {
		buf_str(out, ELLIPSIS);
		buf_str(out, separator);
	}
	if (keep < n)
		add_segment(out, word + begins[n - keep], len - begins[n - keep], form, depth);
	else
		add_segment(out, word, len, form, depth);
}

static void add_form(struct buf *out, const char *text, size_t len, const struct form *form,
		     unsigned depth)
{
	for (size_t i = 0; i < len;) {
		size_t word = word_length(text + i, depth);

		if (word > len - i)
			word = len - i;
		if (word)
			add_word(out, text + i, word, form, depth);
		else
			buf_char(out, text[i]);
		i += word ? word : 1;
	}
}

/* Without what is between these, and the separator before it. */
static void strip(struct buf *form, const char *before, char open, char close)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	size_t len = strlen(before);

	for (const char *at = form->data ? form->data : ""; *at; at++) {
		const char *end = !strncmp(at, before, len) && at[len] == open
					  ? strchr(at + len, close)
					  : NULL;

		if (end)
			at = end;
		else
			buf_char(&out, *at);
	}
	buf_clear(form);
	buf_add(form, out.data ? out.data : "", out.len);
}

void text_shorten(struct buf *out, const char *text, size_t width)
{
	static const struct form forms[] = {
		{.inner_last = true},
		{.inner_last = true, .generics = 3},
		{.inner_last = true, .generics = 3, .folders = true},
		{.inner_last = true, .generics = 2, .folders = true},
		{.inner_last = true, .generics = 2, .long_generics = true, .folders = true},
		{.inner_last = true,
		 .generics = 2,
		 .long_generics = true,
		 .folders = true,
		 .segments = MAX_SEGMENTS},
		{.inner_last = true, .generics = 1, .folders = true, .segments = 1},
		{.inner_last = true, .generics = 1, .folders = true, .segments = 1, .bare = true},
	};
	_cleanup_buf_ struct buf form = BUF_INIT;
	const char *part = NULL;

	if (text_width(text) <= width || width < 4 || !is_balanced(text)) {
		cut_middle(out, text, width);
		return;
	}
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct form f = forms[i];

		do {
			buf_clear(&form);
			add_form(&form, text, strlen(text), &f, 0);
			if (form.data && text_width(form.data) <= width) {
				buf_str(out, form.data);
				return;
			}
		} while (f.segments > 1 && f.segments--);
	}
	/* Of "axum connection › order" the order. */
	for (const char *at = text; (at = strstr(at, " " PART));)
		part = at += strlen(" " PART);
	if (part && width > text_width(PART) + 1) {
		buf_str(out, PART);
		text_shorten(out, part, width - text_width(PART));
		return;
	}
	if (text_width(form.data ? form.data : "") > width)
		strip(&form, "", '<', '>');
	if (text_width(form.data ? form.data : "") > width)
		strip(&form, "::", '{', '}');
	/* The last segment has more to say than that there are others. */
	const char *last = form.data && *form.data ? form.data : text;
	bool bare = !strncmp(last, ELLIPSIS "::", strlen(ELLIPSIS "::"));

	cut_middle(out, bare && text_width(last) > width ? last + strlen(ELLIPSIS "::") : last,
		   width);
}

void text_shorten_from(struct buf *out, const char *text, size_t from, size_t width)
{
	/* From the begin of the name in which they differ. */
	while (from && (isalnum((unsigned char)text[from - 1]) || text[from - 1] == '_' ||
			(text[from] & 0xc0) == 0x80))
		from--;
	if (from <= 1 || width < 4) {
		cut_middle(out, text, width);
		return;
	}
	buf_str(out, ELLIPSIS);
	text_cut(out, text + from, width - 1);
}

/* ---- lines ---- */

/* The blanks, bullets and branches that a line begins with, as its next line has them. */
static const char *add_prefix(struct buf *out, const char *line, const char *end)
{
	static const char *const signs[][2] = {
		{" ", " "}, {"│", "│"}, {"├", "│"}, {"└", " "}, {"•", " "}};
	bool only_blanks = true;
	size_t i;

	do {
		for (i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
			size_t len = strlen(signs[i][0]);

			if (len <= (size_t)(end - line) && !strncmp(line, signs[i][0], len)) {
				buf_str(out, signs[i][1]);
				line += len;
				only_blanks = only_blanks && i == 0;
				break;
			}
		}
	} while (i < sizeof(signs) / sizeof(signs[0]));
	buf_str(out, only_blanks ? "  " : "");
	return line;
}

/* The next word: with the blanks before it, and with a unit after a number. */
static size_t next_word(const char *text, const char *end)
{
	const char *at = text;

	while (at < end && *at == ' ')
		at++;
	const char *word = at;
	while (at < end && *at != ' ')
		at++;
	if (at < end && at > word && isdigit((unsigned char)word[*word == '('])) {
		const char *unit = at + 1;

		while (unit < end && *unit != ' ')
			unit++;
		if (unit > at + 1 && unit - at < 8)
			at = unit;
	}
	return (size_t)(at - text);
}

static void wrap_line(struct buf *out, const char *line, const char *end, size_t width)
{
	_cleanup_buf_ struct buf prefix = BUF_INIT, word = BUF_INIT;
	const char *at = add_prefix(&prefix, line, end);
	size_t indent = text_width(prefix.data ? prefix.data : "");
	const char *rest;
	size_t column;

	buf_add(&word, line, (size_t)(at - line));
	rest = word.data ? word.data : "";
	column = add_head(out, &rest, width / MAX_INDENT_SHARE);
	if (indent > width / MAX_INDENT_SHARE) {
		indent = width / MAX_INDENT_SHARE;
		buf_clear(&prefix);
		buf_printf(&prefix, "%*s", (int)indent, "");
	}
	for (bool begun = false; at < end; begun = true) {
		size_t len = next_word(at, end);

		buf_clear(&word);
		buf_add(&word, at, len);
		at += len;
		rest = word.data ? word.data : "";
		if (column + text_width(rest) > width && begun) {
			buf_char(out, '\n');
			buf_str(out, prefix.data ? prefix.data : "");
			column = indent;
			rest += strspn(rest, " ");
		}
		/* A word that is wider than a line, in pieces. */
		while (column + text_width(rest) > width && width > column) {
			const char *before = rest;

			add_head(out, &rest, width - column);
			if (rest == before)
				break;
			buf_char(out, '\n');
			buf_str(out, prefix.data ? prefix.data : "");
			column = indent;
		}
		buf_str(out, rest);
		column += text_width(rest);
	}
}

void text_wrap(struct buf *text, unsigned width)
{
	struct buf out = BUF_INIT;

	if (!width || buf_failed(text) || !text->len)
		return;
	for (const char *line = text->data; *line;) {
		const char *end = strchrnul(line, '\n');
		_cleanup_buf_ struct buf one = BUF_INIT;

		buf_add(&one, line, (size_t)(end - line));
		if (one.len && text_width(one.data) > width)
			wrap_line(&out, line, end, width);
		else
			buf_add(&out, line, (size_t)(end - line));
		if (*end)
			buf_char(&out, '\n');
		line = *end ? end + 1 : end;
	}
	buf_done(text);
	*text = out;
}
