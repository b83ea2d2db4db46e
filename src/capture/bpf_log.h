/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What libbpf and the kernel's verifier say, in the log. */
#pragma once

/* From now on libbpf writes to the domain `kernel`, and nothing if that is off. */
void bpf_log_begin(void);
