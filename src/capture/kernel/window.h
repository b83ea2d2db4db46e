/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Records of all threads, put in the order of time (window.c).
 */
#ifndef POLLUX_CAPTURE_KERNEL_WINDOW_H
#define POLLUX_CAPTURE_KERNEL_WINDOW_H

#include <stddef.h>
#include <stdint.h>

struct kernel_window {
	struct kernel_item {
		uint64_t time;
		uint32_t at, len; /* into bytes */
	} * items;
	size_t n, cap;
	uint8_t *bytes;
	size_t n_bytes, cap_bytes;
};
void kernel_window_done(struct kernel_window *w);
int kernel_window_add(struct kernel_window *w, const void *record, size_t len);
/* Gives the records before `before` to take(), oldest first, and forgets them. */
int kernel_window_take(struct kernel_window *w, uint64_t before_ns,
		       int (*take)(void *context, const void *record, size_t len), void *context);

#endif
