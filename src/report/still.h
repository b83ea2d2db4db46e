/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tasks that had no event in the whole recording, by what its moments show of them. */
#pragma once

#include "report/data.h"

struct json;

/* 0 or -ENOMEM. */
int still_task(struct report *rep, const struct tl_task *task); /* at its end */
int still_sort(struct report *rep);
void still_done(struct report *rep);
bool still_any(const struct report *rep);
void still_text(const struct report *rep, struct buf *out);
void still_json(const struct report *rep, struct json *j);
