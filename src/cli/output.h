/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Text for people on standard output. */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct buf;
struct cli_args;

/* Options of the verbs that print such text. */
/* clang-format off */
#define OUTPUT_OPTIONS \
	{0, "wide", NULL, "whole names and all columns, however long the lines", false}, \
	{0, "no-pager", NULL, "no pager for what is longer than the screen", false}
/* clang-format on */

bool cli_color(void); /* stdout is a terminal and NO_COLOR is not set */
/* In a locale that is not one of UTF-8 our own signs (bullets, branches of trees) become ASCII. */
void cli_ascii(struct buf *text);
/* How wide lines may be: as the terminal is; elsewhere as COLUMNS says, else `otherwise`, or 120 if
 * that is 0. 0: --wide, no limit. */
unsigned cli_columns(const struct cli_args *args, unsigned otherwise);
/* Writes the text, whatever it is for. A reader that went away is no error. */
int cli_write(struct buf *text, struct error *err);
/* The same of text for people: in the characters of the locale; on a terminal that is too small for
 * it through $PAGER (`less -FRX`), but for --no-pager or NO_PAGER. */
int cli_show(const struct cli_args *args, struct buf *text, struct error *err);
