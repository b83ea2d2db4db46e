/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* In the place of kernel.c where pollux is built without what its BPF programs need. */
#include "capture/capture.h"

#include <errno.h>

static int kernel_open(struct capture_shared *shared, struct capture **ret_capture,
		       struct error *err)
{
	(void)shared;
	(void)ret_capture;
	return error_set(err, -ENOTSUP,
			 "this pollux was built without clang, bpftool or libbpf, which the kernel "
			 "source needs; --backend agent records without them");
}

const struct capture_ops capture_kernel = {.name = "kernel", .open = kernel_open};
