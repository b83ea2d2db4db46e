/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The kernel's system calls by number (x86-64), as its headers had them when pollux was built. */
#pragma once

/* "read", "futex"; NULL: there was none of this number. */
const char *syscall_name(unsigned number);
/* The other way round; -1: there is none of this name. */
int syscall_number(const char *name);
