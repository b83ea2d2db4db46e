/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What libbpf and the kernel's verifier say, in the log. */
#ifndef POLLUX_CAPTURE_BPF_LOG_H
#define POLLUX_CAPTURE_BPF_LOG_H

/* From now on libbpf writes to the domain `kernel`, and nothing if that is off. */
void bpf_log_begin(void);

#endif
