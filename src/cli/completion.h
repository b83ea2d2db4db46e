/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Completion of pollux's words in shells. */
#pragma once

struct buf;

/* Appends what the shell ("bash", "zsh", "fish") reads; -EINVAL if it is none of these. */
int completion_write(struct buf *out, const char *shell);
