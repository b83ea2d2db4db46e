/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The ELF objects that runtimes were found in. One process may have several: a Python program loads
 * libraries, each with a Tokio of its own. Then what has no name says which of them it is in.
 */
#pragma once

#include "trace/trace.h"

/* The program of a process, with its pid where another of the trace runs the same program, and with how
 * often that pid had executed it before. NULL: out of memory; free() it. */
char *trace_process_label(const struct trace_reader *r, uint32_t process);

/* Whether the runtimes of a process, as far as known, are in more than one object. */
bool trace_has_objects(const struct trace_reader *r, uint32_t process);

/* "_obstore" of "/usr/lib/python3/obstore/_obstore.abi3.so", with its folder ("obstore/_obstore")
 * where other objects of that name have runtimes too. NULL: out of memory; free() it. */
char *trace_object_label(const struct trace_reader *r, const char *path);

/* The path of the object that a kind is in; "" if unknown. */
const char *trace_kind_object(const struct trace_reader *r, const struct trace_kind *k);
