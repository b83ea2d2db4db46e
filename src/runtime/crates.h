/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whose code a function or a file is: a runtime's, a library's, or the program's own. */
#pragma once

#include <stdbool.h>

/* A function of a runtime's, or of what it is made of, by the crate in its demangled name; the
 * standard library's, too. */
bool crates_runtime_function(const char *name);

/* The same by the path of its file, which has the crate and its version where it comes from a
 * registry. */
bool crates_runtime_file(const char *file);
