/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Recordings of machines of the other byte order: what comes in is turned round at once, in place,
 * so that the rest of the reader need not know. Only the raw data of tracepoints stay as they are:
 * their formats say in which order they are. Private to this room.
 */
#ifndef POLLUX_IMPORT_PERF_SWAP_H
#define POLLUX_IMPORT_PERF_SWAP_H

#include "import/perf_data.h"

/* Words of 8 bytes; a rest that is none stays. */
void perf_swap_words(void *bytes, size_t len);
void perf_swap_header(struct perf_file_header *h);
/* A struct perf_event_attr, as much of it as there is. */
void perf_swap_attr(uint8_t *bytes, size_t len);
void perf_swap_feature(unsigned feature, uint8_t *bytes, size_t len);
struct record perf_swap_head(struct record r);
/* A whole record. The attributes say which fields are in a sample, and at the end of others. */
void perf_swap_record(const struct perf_attrs *a, uint8_t *bytes);

#endif
