/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Text that fits into a number of columns of a terminal. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>

/* Columns that a terminal takes for it: wide characters two, combining ones and colours none. */
size_t text_width(const char *text);
/* The text, with "…" for its end if it is wider than `width` columns. */
void text_cut(struct buf *out, const char *text, size_t width);
/* A name, a path, or a place ("src/main.rs:3 shop::serve"), or several in a row, shortened to at
 * most `width` columns where that leaves most to read: the paths of generic arguments go first,
 * then modules and folders, then generic arguments, then the middle. */
void text_shorten(struct buf *out, const char *text, size_t width);
/* What follows the first `from` bytes of the text, with its end: where it differs from a name that
 * begins alike. */
void text_shorten_from(struct buf *out, const char *text, size_t from, size_t width);
/* Breaks each line that is wider than `width` columns between words, a word that is wider within.
 * A number keeps its unit. What continues a line is indented as that, and so that bullets and the
 * branches of trees stay free. 0: changes nothing. */
void text_wrap(struct buf *text, unsigned width);
