/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is known of types that hold a future in order to poll it: who drops it before it is ready.
 */
#pragma once

#include "binary/dwarf/debug.h"

#include <stdbool.h>

/* A future, or a part of one, that is ready only when all that it holds are, and holds each until
 * it is: what it held is either dropped together with it or was ready. */
bool wrapper_holds_until_ready(const struct dw_type *t);
/* The same of one member: it races others, but they are never ready. */
bool wrapper_holds_member_until_ready(struct debug *d, const struct dw_type *t,
				      const struct dw_member *m);
/* It polls what it borrows: what it has a reference to, it has to poll it. */
bool wrapper_polls_by_reference(const struct dw_type *t);
