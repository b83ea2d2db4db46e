/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How much memory a task's futures take. */
#pragma once

#include "trace/moment.h"

struct task_size {
	uint64_t future_bytes; /* of its own future; 0: not known */
	uint64_t
		boxed_bytes; /* of futures that its tree reaches in other allocations, Box and the like */
	uint64_t whole_bytes; /* of the task with its header, and what is boxed; 0: not known */
};

struct task_size moment_task_size(const struct moment_task *t);
