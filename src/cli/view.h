/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The page of a trace, for the verbs that show one. */
#pragma once

#include "view/view.h"

/* view_serve() with a line of progress; its sentence names the trace. */
int view_show(struct view_options *opt, struct error *err);
