/* The verbs, in the order in which help shows them. */
#include "cli/verbs.h"

const struct cli_verb *const cli_verbs[] = {
#ifdef POLLUX_VERB_RECORD
	&verb_record,
#endif
#ifdef POLLUX_VERB_REPORT
	&verb_report,
#endif
#ifdef POLLUX_VERB_EXPORT
	&verb_export,
#endif
#ifdef POLLUX_VERB_TREE
	&verb_tree,
#endif
#ifdef POLLUX_VERB_DOCTOR
	&verb_doctor,
#endif
	NULL,
};
