/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Error values. The text is built from the inside out: error_set() writes the first cause,
 * error_add() pushes one sentence in front of it. Formatting goes through a buffer of its own, so
 * that arguments may point into the text of the same error.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES sizeof(((struct error *)NULL)->text)

/* Appends s to text, as far as there is room. */
static void append(char *text, const char *s)
{
	size_t n = strlen(text);
	size_t len = strnlen(s, TEXT_BYTES - 1 - n);
	memcpy(text + n, s, len);
	text[n + len] = 0;
}

/* `fmt` may show the text that is replaced. `reason`: what follows the sentence, NULL: nothing. */
__attribute__((format(printf, 4, 0))) static void
set(struct error *err, int code, const char *reason, const char *fmt, va_list ap)
{
	char text[TEXT_BYTES];

	vsnprintf(text, sizeof(text), fmt, ap);
	if (reason) {
		append(text, ": ");
		append(text, reason);
	}
	memcpy(err->text, text, sizeof(text));
	err->code = code;
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (err)
		set(err, code, NULL, fmt, ap);
	va_end(ap);
	return code;
}

int error_sys(struct error *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (err)
		set(err, code, strerror(-code), fmt, ap);
	va_end(ap);
	return code;
}

int error_add(struct error *err, const char *fmt, ...)
{
	if (!err)
		return -EIO;

	char text[TEXT_BYTES];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (err->text[0]) {
		append(text, ": ");
		append(text, err->text);
	}

	memcpy(err->text, text, sizeof(text));
	if (!err->code)
		err->code = -EIO;
	return err->code;
}
