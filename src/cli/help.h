/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tables of verbs and options look like to people. Private to the command line. */
#pragma once

#include "base/buf.h"
#include "cli/cli.h"

/* `pollux --help`: the verbs and how to begin. */
void help_overview(struct buf *out);
/* `pollux VERB --help`: the first paragraph of the verb's text; help_page() has all of it. */
void help_verb(struct buf *out, const struct cli_verb *verb);
/* `pollux help VERB`: what the man page says, for where there is no man. */
void help_page(struct buf *out, const struct cli_verb *verb);
