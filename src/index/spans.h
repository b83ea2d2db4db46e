/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a span has of a slice. Private to this module. */
#pragma once

#include "index/index.h"

void index_span_of_poll(const struct tl_poll *poll, struct index_span *ret);
/* False: its task is in no known state. */
bool index_span_of_wait(const struct tl_wait *wait, struct index_span *ret);
void index_span_of_block(const struct tl_block *block, struct index_span *ret);
void index_span_of_park(const struct tl_park *park, struct index_span *ret);
void index_span_of_off_cpu(const struct tl_off_cpu *off, struct index_span *ret);
void index_span_of_syscall(const struct tl_syscall *call, struct index_span *ret);
/* end_ns of one that lives: UINT64_MAX */
void index_span_of_task(const struct tl_task *task, struct index_span *ret);
