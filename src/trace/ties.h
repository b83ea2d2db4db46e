/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The order of events that many threads stamped with one time. Private to this module.
 */
#pragma once

#include "trace/event.h"

#include <stddef.h>

/* Puts a run of events of one time, in any order of the threads, into the order of their tasks'
 * lives. Each thread's own order stays. */
void ties_order(struct trace_event *run, size_t n);
