/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What walk.c wants to know of types; searching in values is in await.h. */
#pragma once

#include "future/await.h"

bool shape_is_closure(const struct dw_type *t);
bool shape_is_dyn_future(const struct dw_type *t);
bool shape_is_slice(const struct dw_type *t);
bool shape_is_unordered(const struct dw_type *t);
bool shape_is_vec(const struct dw_type *t);
bool shape_is_shared(const struct dw_type *t);
