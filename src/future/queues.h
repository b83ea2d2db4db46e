/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where scheduled tasks are: the run queues of all schedulers. */
#pragma once

#include "future/tasks.h"

/* Finds for each scheduled task the queue that has it. If it is in none, all queues of its
 * scheduler could be read, and no thread can be about to put it into one or to run it, it is
 * in_no_queue. -ENOMEM or 0. */
int queues_find(struct inspect *in, struct inspect_result *r, struct error *err);
void queues_done(struct inspect *in);
