/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The verbs; each is defined in the file of its name. */
#pragma once

#include "cli/cli.h"

extern const struct cli_verb verb_record;
extern const struct cli_verb verb_why;
extern const struct cli_verb verb_report;
extern const struct cli_verb verb_view;
extern const struct cli_verb verb_export;
extern const struct cli_verb verb_hist;
extern const struct cli_verb verb_print;
extern const struct cli_verb verb_import;
extern const struct cli_verb verb_tree;
extern const struct cli_verb verb_probes;
extern const struct cli_verb verb_doctor;
extern const struct cli_verb verb_completion;
