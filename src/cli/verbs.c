/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The verbs, in the order in which help shows them. */
#include "cli/verbs.h"

const struct cli_verb *const cli_verbs[] = {
	&verb_record, &verb_why,	&verb_tree,   &verb_report, &verb_view,
	&verb_hist,   &verb_print,	&verb_export, &verb_import, &verb_probes,
	&verb_doctor, &verb_completion, NULL,
};
