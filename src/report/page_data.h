/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the page (web/) needs of a timeline to draw it without a server: the polls, blocking calls,
 * parks, times off the CPU, samples and tasks of a trace, column by column. web/columns.js reads
 * what this writes.
 *
 * A column is a run of LEB128 numbers, one for each item; those of a table follow each other, and
 * the directory (JSON) says which there are, in their order. A column whose name ends in "~" has the
 * difference to the item before, as zigzag: 0, -1, 1, -2 are 0, 1, 2, 3. Times are ns since the
 * trace's first event.
 *
 * The page must stay small, so each table keeps up to a limit of items, those that last longest;
 * the directory says how many were left out. Then "cells" follow the tables: what all items of each
 * thread and family add up to, in 1,024 cells of the trace. Memory is bounded by the limits.
 */
#pragma once

#include "base/json.h"
#include "timeline/timeline.h"
#include "trace/trace.h"

struct page_data;

/* `base_ns`: the trace's first event, the zero of times; `end_ns`: its last. The reader must outlive
 * it. NULL: out of memory. */
struct page_data *page_data_new(struct trace_reader *r, uint64_t base_ns, uint64_t end_ns);
void page_data_free(struct page_data *d);

/* To be replayed into; its context is the page_data. It uses tasks' `user`. */
extern const struct timeline_sink page_data_sink;

/* Halves what is kept, for page_data_write() to be called again. False: there is hardly anything. */
bool page_data_shrink(struct page_data *d);

/* After the replay. Adds the columns to *columns, and to the JSON object that is open the members
 * "tables", "cells", "places", "resources", "stacks" and "frames". 0 or -ENOMEM. */
int page_data_write(struct page_data *d, struct buf *columns, struct json *j);

/* What the page has of a frame, an object in an array; NULL: it is not known. */
void page_frame_json(const struct trace_frame *f, struct json *j);
