/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that a stop by pollux would end with EINTR, and that are made again instead. */
#pragma once

#include <sys/types.h>

/* Of a thread that has just stopped, on its tracer: should its call have been ended by that, it is made
 * again when the thread is resumed. It still returns EINTR where a signal handler runs first. */
void interrupted_again(pid_t tid);
